"""The record of statements that took long: a row of a system table, or a line in a log of its own, for each.

    statement ends ─▶ longer than the threshold? ─▶ in the sample? ─▶ bounded queue ─▶ thread: row or line

A statement never waits for its record. When the queue is full the record is dropped and counted. The table
`tsdb_private.slow_queries` is created when the first row is due; it is for reading only, and its rows expire.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from tsdb.catalog import TableAlreadyExists
from tsdb.database._services import RecordType, Services, SlowQuerySettings
from tsdb.errors import TsdbError
from tsdb.query import WriteToken
from tsdb.query.promql import QueryTimes
from tsdb.telemetry import counter, get_logger

DATABASE, TABLE = "tsdb_private", "slow_queries"
QUEUED_MAX = 1000
"""How many records wait to be written."""
TEXT_CHARS_MAX = 16_384
"""How much of a statement is kept."""
_STOP_SECONDS = 5.0

_SCHEMA = pa.schema(
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
    ]
)
_RECORDED = counter("tsdb_database_slow_queries_total", "Statements that took longer than slow_query.threshold.")
_DROPPED = counter(
    "tsdb_database_slow_query_records_dropped_total",
    "Records of slow statements that were not written, because too many waited or writing failed.",
)
_log = get_logger("tsdb.slow_query")
"""The writer of the log gives the lines of this name a file of their own."""
_own_log = get_logger("tsdb.database")


@dataclass(frozen=True, slots=True)
class SlowQuery:
    """One record."""

    cost_ms: int
    query: str
    database: str
    is_promql: bool
    timestamp_ns: int
    span: QueryTimes | None = None


class SlowQueries:
    """Records slow statements of one database. To be closed."""

    def __init__(
        self, services: Services, options: SlowQuerySettings, *, draw: Callable[[], float] = random.random
    ) -> None:
        self._services = services
        self._options = options
        self._draw = draw
        self._threshold_seconds = options.threshold.seconds
        self._queue: queue.Queue[SlowQuery | None] = queue.Queue(QUEUED_MAX)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def note(
        self, seconds: float, text: str, database: str, *, is_promql: bool = False, span: QueryTimes | None = None
    ) -> None:
        """Record a statement if it took long."""
        if not self._options.is_enabled or seconds < self._threshold_seconds:
            return
        _RECORDED.inc()
        if self._draw() >= self._options.sample_ratio:
            return
        now_ns = self._services.clock.now_ns()
        found = SlowQuery(round(seconds * 1000), text[:TEXT_CHARS_MAX], database, is_promql, now_ns, span)
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
                is_promql=found.is_promql,
                query=found.query,
            )
            return
        if self._services.catalog.find_table(DATABASE, TABLE) is None:
            self._create()
        self._services.frames.append(DATABASE, TABLE, self._row(found), WriteToken())

    @property
    def _threshold_ms(self) -> int:
        return round(self._threshold_seconds * 1000)

    def _row(self, found: SlowQuery) -> pa.Table:
        span = found.span
        row = {
            "cost": found.cost_ms,
            "threshold": self._threshold_ms,
            "query": found.query,
            "is_promql": found.is_promql,
            "timestamp": found.timestamp_ns,
            "promql_range": None if span is None else max(0, span.end_ms - span.start_ms),
            "promql_step": None if span is None else span.step_ms,
            "promql_start": None if span is None else span.start_ms,
            "promql_end": None if span is None else span.end_ms,
        }
        return pa.table([pa.array([row[field.name]], field.type) for field in _SCHEMA], schema=_SCHEMA)

    def _create(self) -> None:
        # Many statements may end in the same nanosecond: no row replaces another.
        options = {"ttl": self._options.ttl, "append_mode": "true"}
        with suppress(TableAlreadyExists):
            self._services.frames.create_table(DATABASE, TABLE, _SCHEMA, tags=(), time="timestamp", options=options)
