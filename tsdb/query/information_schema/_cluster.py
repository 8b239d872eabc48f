"""`cluster_info`, `region_peers`, `procedure_info` and `region_failovers`: the nodes of a cluster and what they do.

A standalone server is a cluster of one node, which is itself.
"""

from __future__ import annotations

import pyarrow as pa

from tsdb.model import CATALOG
from tsdb.query.information_schema._build import build_table
from tsdb.query.information_schema._cluster_view import PeerRow
from tsdb.query.information_schema._context import InformationContext
from tsdb.query.information_schema._schemas import information_schema_of
from tsdb.query.information_schema._tables import regions_of
from tsdb.units import Duration

_MS_NS = 1_000_000
_SECOND_NS = 1_000_000_000


def cluster_info_table(context: InformationContext) -> pa.Table:
    nodes = context.cluster_view.nodes()
    now_ms = context.clock.now_ns() // _MS_NS
    columns = {
        "peer_id": [node.id for node in nodes],
        "peer_type": [node.kind for node in nodes],
        "peer_addr": [node.address for node in nodes],
        "peer_hostname": [node.hostname for node in nodes],
        "total_cpu_millicores": [node.cpu_millicores for node in nodes],
        "total_memory_bytes": [node.memory_bytes for node in nodes],
        "cpu_usage_millicores": [node.cpu_usage_millicores for node in nodes],
        "memory_usage_bytes": [node.memory_usage_bytes for node in nodes],
        "version": [node.version for node in nodes],
        "git_commit": [node.commit for node in nodes],
        "start_time": [node.started_ms for node in nodes],
        "uptime": [None if node.started_ms is None else _in_seconds(now_ms - node.started_ms) for node in nodes],
        "active_time": [None if node.quiet_ms is None else str(Duration(node.quiet_ms * _MS_NS)) for node in nodes],
        "node_status": [node.status for node in nodes],
    }
    return build_table(information_schema_of("cluster_info"), len(nodes), columns)


def _in_seconds(ms: int) -> str:
    return str(Duration(max(ms, 0) // 1000 * _SECOND_NS))


def region_peers_table(context: InformationContext) -> pa.Table:
    regions = regions_of(context)
    peers = context.cluster_view.peers_of([region_id for _, _, region_id in regions])
    columns = {
        "table_catalog": CATALOG,
        "table_schema": [table.database for table, _, _ in regions],
        "table_name": [table.name for table, _, _ in regions],
        "region_id": [region_id for _, _, region_id in regions],
        "peer_id": [peer and peer.node_id for peer in peers],
        "peer_addr": [peer and peer.address for peer in peers],
        "is_leader": "Yes",
        "status": [_status(peer) for peer in peers],
        "down_seconds": [peer and peer.down_seconds for peer in peers],
        "reason": [peer and peer.reason for peer in peers],
    }
    return build_table(information_schema_of("region_peers"), len(regions), columns)


def _status(peer: PeerRow | None) -> str | None:
    if peer is None:
        return None
    if peer.is_moving:
        return "MOVING"
    return "ALIVE" if peer.is_alive else "DOWN"


def procedure_info_table(context: InformationContext) -> pa.Table:
    rows = context.cluster_view.procedures()
    columns = {
        "procedure_id": [row.id for row in rows],
        "procedure_type": [row.kind for row in rows],
        "start_time": [row.started_ms for row in rows],
        "end_time": [row.ended_ms for row in rows],
        "status": [row.status for row in rows],
        "lock_keys": [row.locks for row in rows],
        "attempts": [row.attempts for row in rows],
        "since": [row.since_ms for row in rows],
        "last_error": [row.last_error for row in rows],
    }
    return build_table(information_schema_of("procedure_info"), len(rows), columns)


def region_failovers_table(context: InformationContext) -> pa.Table:
    rows = context.cluster_view.failovers()
    columns = {
        "failover_id": [row.id for row in rows],
        "region_id": [row.region_id for row in rows],
        "from_peer_id": [row.from_node for row in rows],
        "to_peer_id": [row.to_node for row in rows],
        "state": [row.state for row in rows],
        "reason": [row.reason for row in rows],
        "start_time": [row.started_ms for row in rows],
        "end_time": [row.ended_ms for row in rows],
        "lost_from_entry": [row.lost_from_entry for row in rows],
        "lost_to_entry": [row.lost_to_entry for row in rows],
        "recovered_rows": [row.recovered_rows for row in rows],
        "last_error": [row.last_error for row in rows],
    }
    return build_table(information_schema_of("region_failovers"), len(rows), columns)
