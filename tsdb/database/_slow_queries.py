"""The record of statements that took long: a row of a system table, or a line in a log of its own, for each.

    statement ends ─▶ longer than the threshold? ─▶ in the sample? ─▶ bounded queue ─▶ thread: row or line

A statement never waits for its record. When the queue is full the record is dropped and counted. The table
`tsdb_private.slow_queries` is created when the first row is due, or gets the columns that an earlier version did not
write; it is for reading only, and its rows expire.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from tsdb.catalog import CatalogOutdated, TableAlreadyExists
from tsdb.database._options import check_altered_options
from tsdb.database._services import RecordType, Services, SlowQuerySettings
from tsdb.errors import TsdbError
from tsdb.query import Session, WriteToken
from tsdb.query.promql import QueryTimes
from tsdb.telemetry import TraceSpan, counter, get_logger

DATABASE, TABLE = "tsdb_private", "slow_queries"
QUEUED_MAX = 1000
"""How many records wait to be written."""
TEXT_CHARS_MAX = 16_384
"""How much of a statement is kept."""
_STOP_SECONDS = 5.0

SCHEMA = pa.schema(
    [
        ("cost", pa.uint64()),
        ("threshold", pa.uint64()),
        ("query", pa.string()),
        ("is_promql", pa.bool_()),
        ("timestamp", pa.timestamp("ns")),
        ("promql_range", pa.uint64()),
        ("promql_step", pa.uint64()),
        ("promql_start", pa.timestamp("ms")),
        ("promql_end", pa.timestamp("ms")),
        ("database", pa.string()),
        ("user", pa.string()),
        ("protocol", pa.string()),
        ("trace_id", pa.string()),
    ]
)
_RECORDED = counter("tsdb_database_slow_queries_total", "Statements that took longer than slow_query.threshold.")
_DROPPED = counter(
    "tsdb_database_slow_query_records_dropped_total",
    "Records of slow statements that were dropped because the queue was full or writing failed.",
)
_log = get_logger("tsdb.slow_query")
"""The writer of the log gives the lines of this name a file of their own."""
_own_log = get_logger("tsdb.database")

_draw = random.Random().random
"""Not that of the module, which belongs to the program that embeds the database."""


@dataclass(frozen=True, slots=True)
class SlowQuery:
    """One record."""

    cost_ms: int
    query: str
    is_promql: bool
    timestamp_ns: int
    database: str
    user: str
    protocol: str
    trace_id: str | None = None
    """None if it was not traced."""
    times: QueryTimes | None = None


class SlowQueries:
    """Records slow statements of one database. To be closed."""

    def __init__(self, services: Services, options: SlowQuerySettings, *, draw: Callable[[], float] = _draw) -> None:
        self._services = services
        self._options = options
        self._draw = draw
        self._threshold_seconds = options.threshold.seconds
        self._queue: queue.Queue[SlowQuery | None] = queue.Queue(QUEUED_MAX)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_table_ready = False

    def note(
        self,
        seconds: float,
        text: str,
        session: Session,
        *,
        is_promql: bool = False,
        times: QueryTimes | None = None,
        trace: TraceSpan | None = None,
    ) -> None:
        """Record a statement if it took long."""
        if not self._options.is_enabled or seconds < self._threshold_seconds:
            return
        _RECORDED.inc()
        if self._draw() >= self._options.sample_ratio:
            return
        found = SlowQuery(
            cost_ms=round(seconds * 1000),
            query=text[:TEXT_CHARS_MAX],
            is_promql=is_promql,
            timestamp_ns=self._services.clock.now_ns(),
            database=session.database,
            user=session.user or "",
            protocol=str(session.channel),
            trace_id=None if trace is None else trace.trace_id_text,
            times=times,
        )
        try:
            self._queue.put_nowait(found)
        except queue.Full:
            _DROPPED.inc()
            return
        self._start()

    def close(self) -> None:
        """Write what waits and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(_STOP_SECONDS)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tsdb-slow-query", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (found := self._queue.get()) is not None:
            try:
                self._write(found)
            except TsdbError as error:
                _DROPPED.inc()
                _own_log.warning("a slow statement was not recorded", error=error, statement=found.query[:200])

    def _write(self, found: SlowQuery) -> None:
        if self._options.record_type is RecordType.LOG:
            _log.info(
                "a statement was slow",
                cost_ms=found.cost_ms,
                threshold_ms=self._threshold_ms,
                database=found.database,
                user=found.user,
                protocol=found.protocol,
                is_promql=found.is_promql,
                query=found.query,
                **({} if found.trace_id is None else {"trace_id": found.trace_id}),
            )
            return
        if not self._is_table_ready:
            self._prepare_table()
            self._is_table_ready = True
        self._services.frames.write(DATABASE, TABLE, self._row(found), tags=(), time="timestamp", token=WriteToken())

    @property
    def _threshold_ms(self) -> int:
        return round(self._threshold_seconds * 1000)

    def _row(self, found: SlowQuery) -> pa.Table:
        times = found.times
        row = {
            "cost": found.cost_ms,
            "threshold": self._threshold_ms,
            "query": found.query,
            "is_promql": found.is_promql,
            "timestamp": found.timestamp_ns,
            "promql_range": None if times is None else max(0, times.end_ms - times.start_ms),
            "promql_step": None if times is None else times.step_ms,
            "promql_start": None if times is None else times.start_ms,
            "promql_end": None if times is None else times.end_ms,
            "database": found.database,
            "user": found.user,
            "protocol": found.protocol,
            "trace_id": found.trace_id,
        }
        return pa.table([pa.array([row[field.name]], field.type) for field in SCHEMA], schema=SCHEMA)

    def _prepare_table(self) -> None:
        """Create the table, or have the rows of an existing one expire as the configuration says now."""
        catalog, ttl = self._services.catalog, self._options.ttl
        table = catalog.find_table(DATABASE, TABLE)
        if table is None:
            # Many statements may end in the same nanosecond: no row replaces another.
            options = {"ttl": ttl, "append_mode": "true"}
            with suppress(TableAlreadyExists):
                self._services.frames.create_table(DATABASE, TABLE, SCHEMA, tags=(), time="timestamp", options=options)
            return
        wanted = check_altered_options((("ttl", ttl),))["ttl"]
        if wanted is not None and table.options.get("ttl") != wanted:
            with suppress(CatalogOutdated):  # another frontend has done it
                catalog.alter_table(table, replace(table, options={**table.options, "ttl": wanted}).changed(), [])
