"""information_schema: tables that describe the database, made from the catalog whenever they are read.

`information_table` builds one of them whole; the query engine filters it like any other table. Names follow MySQL and
the SQL standard where those know a table, so that their tools find what they look for.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tsdb.query.information_schema import _cluster, _files, _keys, _memory, _node, _regions, _tables
from tsdb.query.information_schema._build import build_table
from tsdb.query.information_schema._cluster_view import (
    ClusterView,
    FailoverRow,
    NodeRow,
    PeerRow,
    ProcedureRow,
)
from tsdb.query.information_schema._context import (
    FlowRow,
    InformationContext,
    NodeFacts,
    OpenConnection,
    RejectedRows,
    RunningStatement,
)
from tsdb.query.information_schema._keys import statistics_of
from tsdb.query.information_schema._node import sleeping_connections_table
from tsdb.query.information_schema._schemas import INFORMATION_TABLES, information_schema_of, parse_schema
from tsdb.query.information_schema._system import (
    INFORMATION_SCHEMA,
    NUMBERS,
    PG_CATALOG,
    information_table_infos,
    table_of_schema,
)
from tsdb.query.information_schema._tables import (
    DescribedView,
    column_default,
    columns_of,
    database_options,
    described,
    format_database_options,
    has_unique_key,
    is_system_table,
    table_size,
    table_type,
    tables_of,
)

_BUILDERS: dict[str, Callable[[InformationContext], pa.Table]] = {
    "build_info": _node.build_info_table,
    "cache_statistics": _node.cache_statistics_table,
    "character_sets": _node.character_sets_table,
    "cluster_info": _cluster.cluster_info_table,
    "collation_character_set_applicability": _node.collation_applicability_table,
    "collations": _node.collations_table,
    "columns": _tables.columns_table,
    "compaction_history": _regions.compaction_history_table,
    "engines": _node.engines_table,
    "flow_statistics": _node.flow_statistics_table,
    "flows": _node.flows_table,
    "ingest_rejections": _node.ingest_rejections_table,
    "key_column_usage": _keys.key_column_usage_table,
    "memory_usage": _memory.memory_usage_table,
    "partitions": _regions.partitions_table,
    "procedure_info": _cluster.procedure_info_table,
    "process_list": _node.process_list_table,
    "processlist": _node.mysql_processlist_table,
    "region_failovers": _cluster.region_failovers_table,
    "region_info": _regions.region_info_table,
    "region_peers": _cluster.region_peers_table,
    "region_statistics": _regions.region_statistics_table,
    "schemata": _tables.schemata_table,
    "ssts_index_meta": _files.ssts_index_meta_table,
    "ssts_manifest": _files.ssts_manifest_table,
    "ssts_storage": _files.ssts_storage_table,
    "statistics": _keys.statistics_table,
    "storage_requests": _node.storage_requests_table,
    "table_constraints": _keys.table_constraints_table,
    "table_semantics": _tables.table_semantics_table,
    "tables": _tables.tables_table,
    "views": _tables.views_table,
    "wal_segments": _regions.wal_segments_table,
}


def information_table(name: str, context: InformationContext) -> pa.Table | None:
    """Return a table of information_schema as it is now, None when there is none of that name.

    Tables without a builder are those that MySQL has and this server has nothing for: they are empty.
    """
    if name not in INFORMATION_TABLES:
        return None
    builder = _BUILDERS.get(name)
    return information_schema_of(name).empty_table() if builder is None else builder(context)


__all__ = [
    "INFORMATION_SCHEMA",
    "INFORMATION_TABLES",
    "NUMBERS",
    "PG_CATALOG",
    "ClusterView",
    "DescribedView",
    "FailoverRow",
    "FlowRow",
    "InformationContext",
    "NodeFacts",
    "NodeRow",
    "OpenConnection",
    "PeerRow",
    "ProcedureRow",
    "RejectedRows",
    "RunningStatement",
    "build_table",
    "column_default",
    "columns_of",
    "database_options",
    "described",
    "format_database_options",
    "has_unique_key",
    "information_schema_of",
    "information_table",
    "information_table_infos",
    "is_system_table",
    "parse_schema",
    "sleeping_connections_table",
    "statistics_of",
    "table_of_schema",
    "table_size",
    "table_type",
    "tables_of",
]
