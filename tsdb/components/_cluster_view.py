"""The cluster as a frontend knows it: what information_schema shows of it, and what ADMIN functions ask of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tsdb.clock import Clock
from tsdb.errors import TsdbError
from tsdb.kv import KvStore
from tsdb.meta import read_failovers
from tsdb.meta.client import LogKind, MetaClient, MirrorRoutes
from tsdb.model import NodeRole, Peer, RegionId
from tsdb.query.information_schema import FailoverRow, NodeRow, PeerRow, ProcedureRow

_FRESH_SECONDS = 1.0
"""So long an answer of the leader is used again: the dashboard asks for several tables at a time."""

_TOLD = ("regions", "state", "log_lag_seconds", "log_unshipped_bytes")
"""What of a node's own report is its status."""


class MetaCluster:
    """Implements `ClusterView` and `ClusterCommands`, by the leading metadata server and the copy of the metadata."""

    def __init__(self, meta: MetaClient, mirror: KvStore, routes: MirrorRoutes, clock: Clock) -> None:
        self._meta = meta
        self._mirror = mirror
        self._routes = routes
        self._clock = clock
        self._asked = float("-inf")
        self._found: dict[str, Any] = {"nodes": [], "metasrvs": [], "leader": None}

    def nodes(self) -> list[NodeRow]:
        """All nodes; an error if no metadata server answers: who else could know."""
        found = self._ask()
        servers = [_metasrv_row(address, is_leader=address == found["leader"]) for address in found["metasrvs"]]
        return [*(_node_row(each) for each in found["nodes"]), *servers]

    def peers_of(self, region_ids: Sequence[RegionId]) -> list[PeerRow | None]:
        """The nodes of regions; whether they are alive only a metadata server knows, if one answers."""
        try:
            found = self._ask()["nodes"] if region_ids else []
        except TsdbError:
            return [self._peer_of(region_id, None) for region_id in region_ids]
        nodes = {each["node_id"]: each for each in found if each["role"] == NodeRole.DATANODE.value}
        return [self._peer_of(region_id, nodes) for region_id in region_ids]

    def _peer_of(self, region_id: RegionId, nodes: Mapping[int, dict[str, Any]] | None) -> PeerRow | None:
        try:
            peer = self._routes.peer_of(region_id)
        except TsdbError:
            return None
        if nodes is None:
            return PeerRow(peer.node_id, peer.address)
        node = nodes.get(peer.node_id)
        if node is None:
            return PeerRow(peer.node_id, peer.address, is_alive=False, reason="the datanode is not known")
        if node["is_alive"]:
            return PeerRow(peer.node_id, peer.address, is_moving=self._routes.is_moving(region_id))
        return PeerRow(peer.node_id, peer.address, False, int(node["silent_seconds"]), reason=_why_down(node))

    def node_of(self, region_id: RegionId) -> int | None:
        try:
            return self._routes.peer_of(region_id).node_id
        except TsdbError:
            return None

    def live_datanodes(self) -> list[Peer]:
        """The datanodes with a valid lease, by id."""
        live = [each for each in self._meta.nodes()["nodes"] if _is_live_datanode(each)]
        return sorted((Peer(each["node_id"], each["address"]) for each in live), key=lambda peer: peer.node_id)

    def procedures(self) -> list[ProcedureRow]:
        return [
            ProcedureRow(
                id=each["id"],
                kind=each["kind"],
                status=each["state"],
                started_ms=each["began_ms"] or each["asked_ms"],
                ended_ms=each["ended_ms"] or None,
                locks=each["subject"],
                attempts=each.get("attempts") or None,
                since_ms=each.get("since_ms") or None,
                last_error=each["error"],
            )
            for each in self._meta.procedures()
        ]

    def failovers(self) -> list[FailoverRow]:
        return [
            FailoverRow(
                id=record.id,
                region_id=move.region_id,
                from_node=record.from_node,
                to_node=move.to_node,
                state=move.state.value,
                reason=record.reason,
                started_ms=record.started_ms,
                ended_ms=move.ended_ms,
                lost_from_entry=move.lost_from_entry,
                lost_to_entry=move.lost_to_entry,
                recovered_rows=move.recovered_rows,
                last_error=move.error,
            )
            for record in read_failovers(self._mirror)
            for move in record.regions
        ]

    def migrate_region(self, region_id: RegionId, from_node: int, to_node: int) -> str:
        begun = self._meta.command("migrate_region", region_id=region_id, from_node=from_node, to_node=to_node)
        return str(begun["procedure"])

    def procedure_state(self, procedure_id: str) -> tuple[str, str | None]:
        found = self._meta.procedure(procedure_id)
        return found["state"], found["error"]

    def balance(self) -> list[str]:
        return [str(each) for each in self._meta.command("balance_regions")["procedures"]]

    def retry_procedures(self) -> int:
        return int(self._meta.command("retry_procedures")["left"])

    def _ask(self) -> dict[str, Any]:
        if time.monotonic() - self._asked > _FRESH_SECONDS:
            self._found = self._meta.nodes()
            self._asked = time.monotonic()
        return self._found


def _why_down(node: dict[str, Any]) -> str:
    silent = f"datanode {node['node_id']} has not been heard of for {int(node['silent_seconds'])} s"
    if node.get("log") == LogKind.NONE:
        return f"{silent}; rows are only on its own disk, so the region is down until it is back"
    return silent


def _is_live_datanode(node: dict[str, Any]) -> bool:
    return node["role"] == NodeRole.DATANODE.value and bool(node["is_alive"])


def _node_row(node: dict[str, Any]) -> NodeRow:
    report = node["report"]
    status = {"is_alive": node["is_alive"], **{key: report[key] for key in _TOLD if key in report}}
    return NodeRow(
        id=node["node_id"] if node["role"] == NodeRole.DATANODE.value else -1,
        kind=node["role"],
        address=node["address"],
        hostname=node["hostname"],
        version=node["version"],
        commit=node["commit"],
        started_ms=node["started_ms"],
        cpu_millicores=report.get("total_cpu_millicores", 0),
        memory_bytes=report.get("total_memory_bytes", 0),
        cpu_usage_millicores=report.get("cpu_usage_millicores", 0),
        memory_usage_bytes=report.get("memory_usage_bytes", 0),
        quiet_ms=int(node["silent_seconds"] * 1000),
        status=json.dumps(status),
    )


def _metasrv_row(address: str, *, is_leader: bool) -> NodeRow:
    return NodeRow(
        id=-1,
        kind=NodeRole.METASRV.value,
        address=address,
        hostname="",
        version="",
        commit="",
        started_ms=None,
        status=json.dumps({"is_leader": is_leader}),
    )
