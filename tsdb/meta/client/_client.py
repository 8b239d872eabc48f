"""Calls to the metadata servers: to the one that leads, wherever it is, within a deadline.

A server that does not lead names the one that does; one that cannot be reached is skipped. Both go on until the
time of the call is over. What must not be done twice is not sent again after its answer was lost: a change of the
catalog is then `ChangeOutcomeUnknown`, a transaction `KvOutcomeUnknown`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc

from tsdb.catalog import CatalogChange, ChangeMade
from tsdb.error_json import error_from_json
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.kv import Compare, KvClosed, KvOutcomeUnknown, Operation
from tsdb.meta._nodes import NodeDescription
from tsdb.meta._wire import compare_to_json, method_path, operation_to_json, read_body, write_body
from tsdb.meta.client._channels import MetaChannels, MetaClientSettings
from tsdb.meta.client._watch import MetaWatch
from tsdb.meta.errors import ChangeOutcomeUnknown, ChangePending, MetasrvUnreachable
from tsdb.model import Peer, RegionId, RegionOpening
from tsdb.telemetry import SpanKind, get_logger, span
from tsdb.units import Duration

_PAUSE_MIN_SECONDS, _PAUSE_MAX_SECONDS = 0.02, 0.5
_LOG = get_logger(__name__)
_Metadata: TypeAlias = tuple[tuple[str, str], ...] | None


@dataclass(frozen=True, slots=True)
class Registration:
    """A node takes part in the cluster."""

    regions: tuple[RegionOpening, ...]
    """What a datanode has to open. Regions of tables that are being created or dropped may not be there."""
    lease: Duration
    heartbeat: Duration
    lost: tuple[tuple[RegionId, int], ...] = ()
    """Regions, and epochs of their new owners, that may lack rows which this node acknowledged."""


@dataclass(frozen=True, slots=True)
class RegionOwner:
    """The node that a region is on."""

    peer: Peer
    is_moving: bool


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """What the leader says to a heartbeat."""

    is_registered: bool
    """Whether the leader knows the node; if not, it has to register."""
    lease: Duration
    """How long the node may act, from the moment the heartbeat was sent."""
    close: tuple[RegionId, ...]
    """Regions that are not placed on the node."""
    missing: tuple[RegionOpening, ...] = ()
    """Regions that are placed on the node, and that it did not name; only if it asked."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a node says with a heartbeat."""

    values: dict[str, Any] = field(default_factory=dict)
    regions: Sequence[RegionId] = ()
    """Those that it has open."""
    asks_for_missing: bool = False
    """Whether it would open others that are placed on it."""


class MetaClient:
    """A client of all metadata servers of a cluster. Any thread may use it."""

    def __init__(
        self, addresses: Sequence[str], settings: MetaClientSettings | None = None, *, ids: Ids = SYSTEM_IDS
    ) -> None:
        self._settings = settings or MetaClientSettings()
        self._channels = MetaChannels(addresses, self._settings)
        self._ids = ids
        self._watches: list[MetaWatch] = []

    @property
    def leader(self) -> str:
        """The address of the server that is asked first."""
        return self._channels.preferred

    def register(self, node: NodeDescription) -> Registration:
        """Take part in the cluster; NodeIdInUse if another process has the node id."""
        value = self._ask("Register", {"node": node.to_json()})["value"]
        return Registration(
            tuple(RegionOpening.from_json(each) for each in value["regions"]),
            Duration(value["lease_ms"] * 1_000_000),
            Duration(value["heartbeat_ms"] * 1_000_000),
            tuple((RegionId(region), int(epoch)) for region, epoch in value.get("lost", ())),
        )

    def heartbeat(self, node: NodeDescription, report: NodeReport, *, sent_ns: int) -> HeartbeatReply:
        """Say that a node is alive, and which regions it has; NodeSuperseded if another has taken its id over."""
        body = {"node": node.to_json(), "report": report.values, "regions": list(report.regions), "sent_ns": sent_ns}
        body |= {"asks_for_missing": True} if report.asks_for_missing else {}
        value = self._ask("Heartbeat", body)["value"]
        close = tuple(RegionId(each) for each in value["close"])
        missing = tuple(RegionOpening.from_json(each) for each in value.get("missing", ()))
        return HeartbeatReply(value["is_registered"], Duration(value["lease_ms"] * 1_000_000), close, missing)

    def leave(self, node: NodeDescription) -> None:
        """Say that a datanode has stopped: it serves nothing any more, and its regions may go elsewhere."""
        self.command("leave", node_id=node.node_id, start_id=node.start_id)

    def owner_of(self, region_id: RegionId) -> RegionOwner | None:
        """Ask which node a region is on; None if there is no such region."""
        found = self.command("owner", region_id=region_id)
        return None if found is None else RegionOwner(Peer(found["node_id"], found["address"]), found["is_moving"])

    def recovered(self, node_id: int, region_id: RegionId, rows: Mapping[int, int]) -> None:
        """Say how many rows a node has handed in of a region that it lost, by the epochs of takeovers."""
        by_epoch = {str(epoch): count for epoch, count in rows.items()}
        self.command("recovered", node_id=node_id, region_id=region_id, rows=by_epoch)

    def change(self, change: CatalogChange) -> ChangeMade:
        """Have a change of the catalog made; ChangePending if it takes longer than `ddl_timeout`."""
        timeout = self._settings.ddl_timeout
        procedure_id = self._ids.token(16)
        body = {"id": procedure_id, "change": change.to_json(), "wait_ms": timeout // 1_000_000}
        try:
            # The server answers in this time; the rest is for the way.
            answer = self._call("Change", body, timeout.seconds + self._settings.timeout.seconds, is_once=True)
        except _LostAnswer as error:
            raise ChangeOutcomeUnknown(
                f"the answer to a change of the catalog was lost: {error}",
                change=change.kind,
                procedure=procedure_id,
                hint=f"check whether it was made before you send it again: ADMIN procedure_state('{procedure_id}')",
            ) from error
        if "error" in answer:
            return ChangeMade(None, answer.get("revision", 0), error_from_json(answer["error"]))
        if "pending" in answer["value"]:
            raise ChangePending(answer["value"]["pending"], change.kind)
        return ChangeMade(answer["value"]["result"], answer["revision"])

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int | None:
        """Change keys that frontends may change; return the revision that shows it, None if a comparison fails."""
        body = {
            "compares": [compare_to_json(each) for each in compares],
            "operations": [operation_to_json(each) for each in operations],
        }
        try:
            answer = self._checked(self._call("Transact", body, self._settings.timeout.seconds, is_once=True))
        except _LostAnswer as error:
            raise KvOutcomeUnknown(f"the answer to a transaction was lost: {error}") from error
        return answer["revision"] if answer["value"] else None

    def watch(self, *, after_revision: int | None = None) -> MetaWatch:
        """Follow all of the metadata, from any server."""
        watch = MetaWatch(self._channels, after_revision)
        self._watches = [each for each in self._watches if not each.is_closed] + [watch]
        return watch

    def version(self) -> int:
        """The revision of the newest change of the metadata."""
        return int(self._ask("Version", {})["revision"])

    def nodes(self) -> dict[str, Any]:
        """All nodes as the leader sees them, and the metadata servers."""
        found: dict[str, Any] = self._ask("Nodes", {})["value"]
        return found

    def procedure(self, procedure_id: str) -> dict[str, Any]:
        """What became of a change."""
        found: dict[str, Any] = self._ask("Procedure", {"id": procedure_id})["value"]
        return found

    def procedures(self) -> list[dict[str, Any]]:
        """The newest changes, newest first."""
        found: list[dict[str, Any]] = self._ask("Procedure", {})["value"]
        return found

    def command(self, kind: str, **arguments: Any) -> Any:
        """Give the leader a command, such as `maintenance`."""
        return self._ask("Command", {"kind": kind, **arguments})["value"]

    def hold_tables(self, token: str) -> int | None:
        """Let no table change for a while; return the revision of the metadata that is held, None until that is so.

        To be repeated with the same token until it holds.
        """
        revision: int | None = self.command("hold_tables", token=token)["revision"]
        return revision

    def release_tables(self, token: str) -> bool:
        """Let tables change again; return whether none can have changed since they were held."""
        return bool(self.command("release_tables", token=token)["was_held"])

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
        self._channels.close()

    def _ask(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        """Call a method that may be called again."""
        return self._checked(self._call(method, body, self._settings.timeout.seconds))

    def _checked(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "error" in answer:
            raise error_from_json(answer["error"])
        return answer

    def _call(
        self, method: str, body: dict[str, Any], timeout_seconds: float, *, is_once: bool = False
    ) -> dict[str, Any]:
        """Find the leader and ask it. With `is_once`, _LostAnswer if its outcome is unknown."""
        with span(f"metasrv.{method}", SpanKind.CLIENT) as traced:
            metadata = (("traceparent", traced.traceparent),) if traced else None
            return self._find_and_send(method, body, timeout_seconds, is_once, metadata)

    def _find_and_send(
        self, method: str, body: dict[str, Any], timeout_seconds: float, is_once: bool, metadata: _Metadata
    ) -> dict[str, Any]:
        request = write_body(body)
        deadline = time.monotonic() + timeout_seconds
        pause, problem = _PAUSE_MIN_SECONDS, "no server leads"
        while (left := deadline - time.monotonic()) > 0:
            address = self._channels.preferred
            try:
                answer = self._send(address, method, request, left, metadata)
            except grpc.RpcError as error:
                problem = f"{address}: {_reason(error)}"
                self._channels.avoid(address)
                if is_once and not _was_refused(error):
                    raise _LostAnswer(problem) from error
            else:
                if "leader" not in answer:
                    return answer
                leader = answer["leader"]
                problem = f"{address} does not lead"
                if leader and leader != address:
                    self._channels.prefer(leader)
                    if pause <= _PAUSE_MIN_SECONDS:
                        pause *= 2
                        continue
                else:
                    self._channels.avoid(address)
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(_PAUSE_MAX_SECONDS, 2 * pause)
        raise MetasrvUnreachable(
            f"no metadata server answered within {timeout_seconds:g} s: {problem}",
            method=method,
            hint="check the addresses in meta_client.metasrv_addrs, and the servers",
        )

    def _send(
        self, address: str, method: str, request: bytes, timeout_seconds: float, metadata: _Metadata
    ) -> dict[str, Any]:
        try:
            call = self._channels.channel(address).unary_unary(method_path(method))
            return read_body(call(request, timeout=timeout_seconds, metadata=metadata))
        except ValueError as error:
            # The channel was closed under the call.
            raise KvClosed from error


class _LostAnswer(Exception):
    """A request was sent and its answer did not come."""


def _was_refused(error: grpc.RpcError) -> bool:
    """Whether a request that failed was certainly not taken: there was no connection, or no room at the server."""
    text = str(error.details() or "")
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return "Concurrent RPC limit" in text
    return error.code() is grpc.StatusCode.UNAVAILABLE and "failed to connect to all addresses" in text


def _reason(error: grpc.RpcError) -> str:
    return f"{error.code().name}: {error.details()}"
