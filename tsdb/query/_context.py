"""A session of DataFusion for one query.

Each query has its own: the tables it sees, the functions of its session and its dialect are nobody else's. What is
shared is the memory that all queries together may take. Making one takes about 0.1 ms.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions

from tsdb.model import CATALOG
from tsdb.query._providers import LazyCatalog, TableSource
from tsdb.query.session import Session
from tsdb.units import Duration, Size

# Queries read: no DDL, no DML, and no `SET` that would reach the settings below.
READ_ONLY = SQLOptions().with_allow_ddl(allow=False).with_allow_dml(allow=False).with_allow_statements(allow=False)

_SETTINGS = {
    # Strings stay strings: views of strings would change types and headers of results.
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    "datafusion.catalog.information_schema": "false",
    "datafusion.catalog.create_default_catalog_and_schema": "false",
    "datafusion.catalog.default_catalog": CATALOG,
}
# Without this rule tables are not asked to filter: for filters that cannot be handed over.
_FILTER_RULE = "push_down_filter"


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What queries may take."""

    memory_bytes: Size = Size(0)
    """All queries together, before they spill to disk; 0 leaves it without a limit."""
    spill_dir: Path | None = None
    """Where they spill; None spills to the system's directory for temporary files."""
    timeout: Duration | None = None
    """How long one may take when its session says nothing."""
    parallelism: int = 0
    """Threads for one query; 0 takes as many as there are processors."""


class Contexts:
    """Makes the sessions of DataFusion."""

    def __init__(self, options: QueryOptions) -> None:
        runtime = RuntimeEnvBuilder()
        if options.memory_bytes:
            runtime = runtime.with_fair_spill_pool(int(options.memory_bytes))
        if options.spill_dir is not None:
            options.spill_dir.mkdir(0o700, parents=True, exist_ok=True)
            runtime = runtime.with_disk_manager_specified(str(options.spill_dir))
        else:
            runtime = runtime.with_disk_manager_os()
        self._runtime = runtime
        self.parallelism = options.parallelism or os.cpu_count() or 1

    def make(
        self,
        session: Session,
        source: TableSource,
        functions: list[Any],
        *,
        is_ordered: bool,
        is_single: bool,
        has_filters: bool = True,
    ) -> SessionContext:
        """Return a session that sees the tables of a source.

        `is_ordered` keeps rows in the order in which they are read; without `has_filters` tables return everything.
        A query that is not single is kept from reading its tables ahead: see `TableDataset`.
        """
        settings = {
            **_SETTINGS,
            "datafusion.catalog.default_schema": session.database,
            "datafusion.sql_parser.dialect": session.dialect.value,
            "datafusion.optimizer.enable_round_robin_repartition": str(is_single).lower(),
            "datafusion.execution.target_partitions": "1" if is_ordered else str(self.parallelism),
        }
        context = SessionContext(SessionConfig(settings), self._runtime)
        context.register_catalog_provider(CATALOG, LazyCatalog(source))
        for function in functions:
            _register(context, function)
        if not has_filters:
            context.remove_optimizer_rule(_FILTER_RULE)
        return context


def _register(context: SessionContext, function: Any) -> None:
    kind = type(function).__name__
    if kind == "AggregateUDF":
        context.register_udaf(function)
    elif kind == "WindowUDF":
        context.register_udwf(function)
    elif kind == "TableFunction":
        context.register_udtf(function)
    else:
        context.register_udf(function)
