"""`build_info`, `engines`, process lists, flows, refused rows, character sets: the server itself."""

from __future__ import annotations

import json

import pyarrow as pa

from tsdb.model import CATALOG
from tsdb.query.information_schema._build import build_table
from tsdb.query.information_schema._context import InformationContext, RunningStatement
from tsdb.query.information_schema._schemas import information_schema_of
from tsdb.query.information_schema._tables import CHARACTER_SET, COLLATION

_MS_NS = 1_000_000


def build_info_table(context: InformationContext) -> pa.Table:
    node = context.node
    columns = {
        "git_branch": node.branch,
        "git_commit": node.commit,
        "git_commit_short": node.commit[:8],
        "git_clean": "unknown",
        "pkg_version": node.version,
    }
    return build_table(information_schema_of("build_info"), 1, columns)


def engines_table(context: InformationContext) -> pa.Table:
    columns = {
        "engine": ["mito", "metric"],
        "support": ["DEFAULT", "YES"],
        "comment": [
            "Storage engine for time-series data",
            "Storage engine for many small tables that share one physical table",
        ],
        "transactions": "NO",
        "xa": "NO",
        "savepoints": "NO",
    }
    return build_table(information_schema_of("engines"), 2, columns)


def character_sets_table(context: InformationContext) -> pa.Table:
    columns = {
        "character_set_name": CHARACTER_SET,
        "default_collate_name": COLLATION,
        "description": "UTF-8 Unicode",
        "maxlen": 4,
    }
    return build_table(information_schema_of("character_sets"), 1, columns)


def collations_table(context: InformationContext) -> pa.Table:
    columns = {
        "collation_name": COLLATION,
        "character_set_name": CHARACTER_SET,
        "id": 1,
        "is_default": "Yes",
        "is_compiled": "Yes",
        "sortlen": 1,
    }
    return build_table(information_schema_of("collations"), 1, columns)


def collation_applicability_table(context: InformationContext) -> pa.Table:
    columns = {"collation_name": COLLATION, "character_set_name": CHARACTER_SET}
    return build_table(information_schema_of("collation_character_set_applicability"), 1, columns)


def process_list_table(context: InformationContext) -> pa.Table:
    processes = context.processes()
    now_ms = context.clock.now_ns() // _MS_NS
    columns = {
        "id": [process.id for process in processes],
        "catalog": [process.catalog for process in processes],
        "schemas": [process.database for process in processes],
        "query": [process.query for process in processes],
        "client": [process.client for process in processes],
        "frontend": [process.frontend for process in processes],
        "start_timestamp": [process.start_ms for process in processes],
        # A statement in the list has run for a moment at least: zero would read as "not started".
        "elapsed_time": [max(now_ms - process.start_ms, 1) for process in processes],
    }
    return build_table(information_schema_of("process_list"), len(processes), columns)


def sleeping_connections_table(context: InformationContext) -> pa.Table:
    """The clients that are connected and run nothing, in the columns of `process_list`, since their last statement."""
    sleeping = [each for each in context.connections() if each.statement is None]
    now_ms = context.clock.now_ns() // _MS_NS
    columns = {
        "id": [str(each.id) for each in sleeping],
        "catalog": CATALOG,
        "schemas": [each.database for each in sleeping],
        "query": "Sleep",
        "client": [each.client for each in sleeping],
        "frontend": context.node.address,
        "start_timestamp": [each.quiet_since_ms for each in sleeping],
        "elapsed_time": [max(now_ms - each.quiet_since_ms, 0) for each in sleeping],
    }
    return build_table(information_schema_of("process_list"), len(sleeping), columns)


def mysql_processlist_table(context: InformationContext) -> pa.Table:
    """Connections and running statements, as MySQL's tools read them; the numbers are those that KILL takes."""
    now_ms = context.clock.now_ns() // _MS_NS
    connections, busy = context.connections(), {each.connection: each for each in context.processes()}
    known = {each.id for each in connections}
    rows = [(each.id, each.user, each.client, each.database, each.quiet_since_ms) for each in connections]
    rows += [
        (each.connection, each.user, each.client, each.database, each.start_ms)
        for each in busy.values()
        if each.connection not in known
    ]
    found = [busy.get(row[0]) for row in rows]
    since_ms = [row[4] if each is None else each.start_ms for row, each in zip(rows, found, strict=True)]
    columns = {
        "id": [row[0] for row in rows],
        "user": [row[1] for row in rows],
        "host": [row[2] for row in rows],
        "db": [row[3] for row in rows],
        "command": ["Sleep" if each is None else "Query" for each in found],
        "time": [max(now_ms - each, 0) // 1000 for each in since_ms],
        "state": [_state(each) for each in found],
        "info": [None if each is None else each.query for each in found],
    }
    return build_table(information_schema_of("processlist"), len(rows), columns)


def _state(statement: RunningStatement | None) -> str:
    if statement is None:
        return ""
    return "cancelled, finishing" if statement.is_finishing else "executing"


def flows_table(context: InformationContext) -> pa.Table:
    flows = context.flows()
    columns = {
        "flow_name": [flow.name for flow in flows],
        "flow_id": [flow.id for flow in flows],
        "state_size": [flow.state_bytes for flow in flows],
        "table_catalog": CATALOG,
        "flow_definition": [flow.definition for flow in flows],
        "comment": [flow.comment for flow in flows],
        "expire_after": [flow.expire_after_seconds for flow in flows],
        "source_table_ids": [json.dumps(flow.source_table_ids) for flow in flows],
        "sink_table_name": [flow.sink_table for flow in flows],
        "flownode_ids": ["{}" for _ in flows],
        "options": [json.dumps(dict(flow.options), sort_keys=True, separators=(",", ":")) for flow in flows],
        "created_time": [flow.created_ms for flow in flows],
        "updated_time": [flow.updated_ms for flow in flows],
        "last_execution_time": [flow.last_run_ms for flow in flows],
        "source_table_names": [",".join(flow.source_tables) for flow in flows],
    }
    return build_table(information_schema_of("flows"), len(flows), columns)


def flow_statistics_table(context: InformationContext) -> pa.Table:
    flows = context.flows()
    now_ms = context.clock.now_ns() // _MS_NS
    columns = {
        "flow_id": [flow.id for flow in flows],
        "flow_name": [flow.name for flow in flows],
        "start_time": [flow.started_ms for flow in flows],
        "last_execution_time": [flow.last_run_ms for flow in flows],
        "uptime_seconds": [
            None if flow.started_ms is None else max(now_ms - flow.started_ms, 0) // 1000 for flow in flows
        ],
        "state_size": [flow.state_bytes for flow in flows],
    }
    return build_table(information_schema_of("flow_statistics"), len(flows), columns)


def storage_requests_table(context: InformationContext) -> pa.Table:
    """What was asked of object stores since the start, what that costs by the configured prices, and how they are."""
    found = context.regions.storage_requests()
    columns = {
        "store": [each.store for each in found],
        "operation": [each.operation for each in found],
        "purpose": [each.purpose for each in found],
        "requests": [each.requests for each in found],
        "errors": [each.errors for each in found],
        "retries": [each.retries for each in found],
        "bytes": [each.nbytes for each in found],
        "estimated_cost": [each.estimated_cost for each in found],
        "state": [each.state for each in found],
        "reason": [each.reason for each in found],
        # Whose store has always been fine says nothing; this process knows when it began.
        "since": [each.since_ms or (context.node.started_ms if each.node_id is None else None) for each in found],
        "last_error": [each.last_error for each in found],
        "node_id": [context.node.id if each.node_id is None else each.node_id for each in found],
    }
    return build_table(information_schema_of("storage_requests"), len(found), columns)


def ingest_rejections_table(context: InformationContext) -> pa.Table:
    found = context.rejections()
    columns = {
        "timestamp": [each.time_ms for each in found],
        "protocol": [each.protocol for each in found],
        "database": [each.database for each in found],
        "table": [each.table for each in found],
        "rows": [each.rows for each in found],
        "place": [each.place for each in found],
        "column": [each.column for each in found],
        "value": [each.value for each in found],
        "reason": [each.reason for each in found],
    }
    return build_table(information_schema_of("ingest_rejections"), len(found), columns)


def cache_statistics_table(context: InformationContext) -> pa.Table:
    caches = context.caches()
    columns = {
        "name": [each.name for each in caches],
        "capacity": [each.capacity_bytes for each in caches],
        "bytes": [each.bytes for each in caches],
        "entries": [each.entries for each in caches],
        "hits": [each.hits for each in caches],
        "misses": [each.misses for each in caches],
        "evictions": [each.evictions for each in caches],
        "errors": [each.errors for each in caches],
        "state": [each.state.value for each in caches],
        "reason": [each.reason for each in caches],
        "since": [context.node.started_ms if each.since_ms is None else each.since_ms for each in caches],
        "last_error": [each.last_error for each in caches],
    }
    return build_table(information_schema_of("cache_statistics"), len(caches), columns)
