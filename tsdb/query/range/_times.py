"""Slots as integers: which unit a query computes in, and how its times go there and back without overflow.

A query computes in milliseconds, in seconds where everything is whole seconds. The distance of a row from a slot,
`d = (t - origin) mod align + k * align`, is small whatever t is; the slot is `t - d`. Slots before the earliest time of
the column's type do not exist: `t >= low + d` keeps them out, and no sum in between leaves 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from tsdb.query.range._source import TimeSource

_INT64_MIN = -(1 << 63)
_BUCKET_MS_MAX = 1000 * 365 * 86_400_000
_SECONDS_MAX = ((1 << 63) - 1) // 1_000


@dataclass(frozen=True, slots=True)
class Times:
    """Lengths in the unit of the computation, and SQL for a row's time in it."""

    align: int
    spans: tuple[int, ...]
    """One per call."""
    origin: int
    low: int
    """The earliest slot."""
    time: str
    guard: str | None
    """A condition without which `time` could overflow."""
    kind: pa.DataType
    multiple: int = 1
    """A slot times this is a time of the column's unit."""
    divisor: int = 1
    """A slot divided by this, rounded down, is a time of the column's unit."""

    @property
    def widest(self) -> int:
        return max(self.spans)

    @property
    def steps(self) -> int:
        """To how many slots a row belongs, at most."""
        return -(-self.widest // self.align)

    def distance(self, width: int) -> str:
        """SQL for how far a row lies behind the last slot before it, where slots are `width` apart."""
        shift = 2 * width - self.origin % width
        return f"({self.time} % {width} + {shift}) % {width}"

    def bucket(self, column: str, width: int) -> str | None:
        """SQL for the slot of a row as a time of its column, where slots are `width` apart; None if there is none."""
        tick_ms = 1_000 if self.kind.unit == "s" else 1
        if self.divisor != 1 or width * tick_ms > _BUCKET_MS_MAX:
            return None
        origin = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.origin % width * tick_ms)
        start = origin.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        # A unit outside of the string: MySQL's dialect knows no other.
        return f"date_bin(INTERVAL '{width * tick_ms}' MILLISECOND, {column}, TIMESTAMP '{start}Z')"

    def from_column(self, times: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return slots of a column's type as integers: the way back."""
        slots = np.floor_divide(times.cast(pa.int64()).to_numpy(), self.multiple)
        return pa.chunked_array([pa.array(slots, pa.int64())])

    def to_column(self, slots: np.ndarray) -> pa.Array:
        """Return slots as times of the column's type."""
        values = slots * self.multiple if self.divisor == 1 else np.floor_divide(slots, self.divisor)
        return pa.array(values, pa.int64()).cast(pa.timestamp(self.kind.unit)).cast(self.kind)


def plan_times(source: TimeSource, align_ms: int, spans_ms: Sequence[int], origin_ms: int) -> Times:
    """Choose the unit of the computation."""
    raw = f"arrow_cast({source.column}, 'Int64')"
    unit, spans = source.kind.unit, tuple(spans_ms)
    if unit == "ms":
        return Times(align_ms, spans, origin_ms, _INT64_MIN, raw, None, source.kind)
    if unit == "s":
        if any(length % 1_000 for length in (align_ms, origin_ms, *spans)):
            guard = f"{raw} BETWEEN {-_SECONDS_MAX} AND {_SECONDS_MAX}"
            return Times(align_ms, spans, origin_ms, _INT64_MIN, f"({raw} * 1000)", guard, source.kind, divisor=1_000)
        seconds = tuple(span // 1_000 for span in spans)
        return Times(align_ms // 1_000, seconds, origin_ms // 1_000, _INT64_MIN, raw, None, source.kind)
    per_ms = {"us": 1_000, "ns": 1_000_000}[unit]
    time = f"({raw} / {per_ms} - CASE WHEN {raw} % {per_ms} < 0 THEN 1 ELSE 0 END)"
    low = -((1 << 63) // per_ms)
    return Times(align_ms, spans, origin_ms, low, time, None, source.kind, multiple=per_ms)
