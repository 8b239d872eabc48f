"""Where the buckets of a query lie on the time index of a table.

Runs are cut at buckets of one width. In a zone whose clocks are changed, days are not of one width; but between two
changes they are, and hours are whenever all offsets are whole hours. So a calendar bucket is taken when all offsets
that the zone has within the times of the query put its edges at the same places; else the planner answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tsdb.model import NS_PER_UNIT, InvalidTimestamp, TableInfo, offsets_of, parse_timestamp
from tsdb.query.selection import conjuncts
from tsdb.sql.clauses import Comparison, Condition, Declined
from tsdb.sql.terms import Bucket

_NS = 1_000_000_000
_EVER = range(-(2**62), 2**62)


@dataclass(frozen=True, slots=True)
class PlacedBucket:
    """Buckets in ticks of the time index."""

    width: int
    origin: int
    """From 0 to before the width."""
    is_of_range: bool
    """They lie so for the times in the conditions of this query only."""


def place_bucket(bucket: Bucket, table: TableInfo, zone: str, where: Condition | None) -> PlacedBucket | Declined:
    """Return the buckets of a query; Declined if they do not all have the same width."""
    time = table.time_index
    if bucket.column != time.name:
        return Declined("a bucket uses a column other than the time index")
    origin, is_of_range = bucket.origin_ns or 0, False
    if zone != "UTC" and bucket.is_calendar and bucket.is_utc:
        return Declined("days of one zone are counted from a time of another")
    if zone != "UTC" and bucket.is_calendar:
        shifts, is_of_range = _shifts(bucket, table, zone, where)
        if len(shifts) > 1:
            return Declined(f"intervals of time in {zone} do not all have the same width")
        # A range that ends before it begins has no rows and no offsets.
        origin -= next(iter(shifts), 0)
    elif zone != "UTC" and bucket.origin_ns is not None and not bucket.is_utc:
        seconds, rest = divmod(bucket.origin_ns, _NS)
        origin = int(offsets_of(zone).instants(np.array([seconds]))[0]) * _NS + rest
    origin %= bucket.width_ns
    unit = NS_PER_UNIT[time.type.arrow.unit]
    if bucket.width_ns % unit or origin % unit:
        return Declined("a bucket is narrower than a tick of the time index")
    return PlacedBucket(bucket.width_ns // unit, origin // unit, is_of_range)


def _shifts(bucket: Bucket, table: TableInfo, zone: str, where: Condition | None) -> tuple[set[int], bool]:
    """Return by how much clocks are ahead of UTC, as far as edges of buckets are concerned."""
    offsets = offsets_of(zone)
    shifts = {each * _NS % bucket.width_ns for each in offsets.between(_EVER.start, _EVER.stop)}
    is_of_range = len(shifts) > 1
    if is_of_range:
        start, end = _times(where, table, zone)
        shifts = {each * _NS % bucket.width_ns for each in offsets.between(start, end)}
    return shifts, is_of_range


def _times(where: Condition | None, table: TableInfo, zone: str) -> tuple[int, int]:
    """Return the first and last second that conditions leave, a day more at each end for the edges of buckets."""
    start, end = _EVER.start, _EVER.stop
    unit = NS_PER_UNIT[table.time_index.type.arrow.unit]
    for part in conjuncts(where):
        if not isinstance(part, Comparison) or part.column != table.time_index.name:
            continue
        text = part.literal.text
        try:
            at = (parse_timestamp(text, zone) if part.literal.is_string else int(text) * unit) // _NS
        except (InvalidTimestamp, ValueError):
            continue
        if part.operator in (">", ">=", "="):
            start = max(start, at)
        if part.operator in ("<", "<=", "="):
            end = min(end, at + 1)
    return start, end
