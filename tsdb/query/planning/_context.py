"""A session of DataFusion for one query.

Each query has its own, with its tables, the functions of its session and its dialect. All share one memory pool.
Creating one takes about 0.1 ms.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions

from tsdb.model import CATALOG
from tsdb.processes.fork_server import Forker
from tsdb.query.planning._idle_memory import return_idle_memory
from tsdb.query.session import Session
from tsdb.query.tables import LazyCatalog, TableLookup
from tsdb.sql.statements import Dialect
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
THREADS_MAX = 32
"""Threads of DataFusion: a query that was given up, or waits for a store, occupies one of them until it comes to a
place where it can stop, and must not keep all others from running."""
THREADS_MIN = 4
THREAD_BYTES = 32 << 20
"""A part of the memory of queries for each of them: threads keep memory, so with little of it there are fewer, unless
they may have to wait for other machines."""

# All rules of the optimiser. Without them, to optimise a plan is to check it and to bring its types in line.
_RULE_NAMES = """
rewrite_set_comparison optimize_unions simplify_expressions replace_distinct_aggregate eliminate_join
decorrelate_predicate_subquery scalar_subquery_to_join decorrelate_lateral_join extract_equijoin_predicate
eliminate_duplicated_expr eliminate_filter eliminate_cross_join eliminate_limit propagate_empty_relation
filter_null_join_keys eliminate_outer_join push_down_limit push_down_filter
single_distinct_aggregation_to_group_by eliminate_group_by_constant common_sub_expression_eliminate
extract_leaf_expressions push_down_leaf_projections optimize_projections unions_to_filter
"""
_OPTIMIZER_RULES = _RULE_NAMES.split()
# Without this rule filters are not pushed down: for filters that cannot be converted.
_FILTER_RULE = "push_down_filter"


@dataclass(frozen=True, slots=True)
class QueryEngineOptions:
    """What queries may take."""

    memory_bytes: Size = Size(0)
    """All queries together, before they spill to disk; 0 leaves it without a limit."""
    spill_dir: Path | None = None
    """Where they spill; None spills to the system's directory for temporary files."""
    timeout: Duration | None = None
    """How long one may take when its session says nothing."""
    parallelism: int = 0
    """Threads for one query; 0 takes as many as there are processors."""
    workers: int = 0
    """Worker processes for heavy queries; 0 runs them in this process."""
    forker: Forker | None = None
    """Where they are forked from; None starts a process for that."""
    reads_remotely: bool = False
    """Whether rows may be on other machines, so that queries wait for them."""


class Contexts:
    """Makes the sessions of DataFusion."""

    def __init__(self, options: QueryEngineOptions) -> None:
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
        # Read by DataFusion when its threads are started.
        os.environ.setdefault("TOKIO_WORKER_THREADS", str(_thread_count(options)))
        self._is_used = False
        """Since memory was given back."""

    def make(
        self,
        session: Session,
        source: TableLookup,
        functions: list[Any],
        *,
        is_ordered: bool,
        is_single: bool,
        dialect: Dialect,
        has_filters: bool = True,
    ) -> SessionContext:
        """Return a session that sees the tables of a source.

        `is_ordered` keeps rows in the order in which they are read; without `has_filters` tables return everything.
        A query that is not single is kept from reading its tables ahead: see `TableDataset`.
        """
        settings = {
            **_SETTINGS,
            "datafusion.catalog.default_schema": session.database,
            "datafusion.sql_parser.dialect": dialect.value,
            "datafusion.optimizer.enable_round_robin_repartition": str(is_single).lower(),
            "datafusion.execution.target_partitions": "1" if is_ordered else str(self.parallelism),
        }
        self._is_used = True
        context = SessionContext(SessionConfig(settings), self._runtime)
        context.register_catalog_provider(CATALOG, LazyCatalog(source))
        for function in functions:
            _register(context, function)
        if not has_filters:
            context.remove_optimizer_rule(_FILTER_RULE)
        return context

    def return_free_memory(self) -> None:
        """Return what queries have left to the system, if there was one since the last time."""
        if self._is_used:
            self._is_used = False
            return_idle_memory(self.parallelism)


def _thread_count(options: QueryEngineOptions) -> int:
    affordable = THREADS_MAX
    if options.memory_bytes and not options.reads_remotely:
        affordable = min(affordable, int(options.memory_bytes) // THREAD_BYTES)
    return max(THREADS_MIN, affordable, 2 * (os.cpu_count() or 1))


def coerced_frame(context: SessionContext, frame: DataFrame) -> DataFrame:
    """Return a plan in which both sides of a UNION, and the branches of a CASE, have one type.

    Only `optimized_logical_plan` brings types in line, and it holds the interpreter's lock: the optimiser took seconds
    for a plan of thousands of nodes. Without its rules that step is short. The context optimises nothing after this.
    """
    for rule in _OPTIMIZER_RULES:
        context.remove_optimizer_rule(rule)
    checked = context.create_dataframe_from_logical_plan(frame.logical_plan()).optimized_logical_plan()
    return context.create_dataframe_from_logical_plan(checked)


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
