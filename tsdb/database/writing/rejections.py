"""Rejected rows: all are counted, and the last ones are kept.

`information_schema.ingest_rejections` shows them, so that an operator learns which sender sends what cannot be stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future

from tsdb.clock import Clock
from tsdb.ingest import Rejection
from tsdb.query.information_schema import RejectedRows
from tsdb.telemetry import counter

KEPT_MAX = 1_000
"""How many rejections can be read; older ones are forgotten."""

REASON_CHARS_MAX = 1_000
VALUE_CHARS_MAX = 100
"""Texts come from the sender: what is kept of one has a bound."""

_REJECTED = counter("tsdb_ingest_rejected_rows_total", "Rows refused.", labels=("protocol", "reason"))
_ACCEPTED = counter("tsdb_ingest_rows_total", "Rows written.", labels=("protocol",))


class RejectionLog:
    """The last rejections of this process. Safe to use from many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: deque[RejectedRows] = deque(maxlen=KEPT_MAX)

    def add(self, rejections: Iterable[Rejection], *, protocol: str, database: str) -> None:
        """Count refused rows and remember why."""
        now_ms = self._clock.now_ns() // 1_000_000
        for each in rejections:
            _REJECTED.labels(protocol, each.kind).inc(each.rows)
            self._kept.append(
                RejectedRows(
                    time_ms=now_ms,
                    protocol=protocol,
                    database=database,
                    table=each.table,
                    rows=each.rows,
                    place=each.place,
                    column=each.column,
                    value=None if each.value is None else each.value[:VALUE_CHARS_MAX],
                    reason=each.reason[:REASON_CHARS_MAX],
                )
            )

    def all(self) -> list[RejectedRows]:
        """Return what is kept, the oldest first."""
        return list(self._kept)


def count_accepted(protocol: str, rows: int) -> None:
    _ACCEPTED.labels(protocol).inc(rows)


def count_written(protocol: str, written: Future[int]) -> None:
    """Count the rows of a write that has ended, if it ended well."""
    if written.exception() is None:
        count_accepted(protocol, written.result())
