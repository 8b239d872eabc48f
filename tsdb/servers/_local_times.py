"""Timestamps as the clocks of a zone show them."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.errors import InvalidArguments
from tsdb.model import zone_of


def local_times(column: pa.Array, zone: str) -> pa.Array:
    """Return a column of timestamps, each without a zone and as the clocks of `zone` show it."""
    kind = column.type
    plain = column if kind.tz is None else column.cast(pa.timestamp(kind.unit))
    if zone == "UTC":
        return plain
    offset = zone_of(zone).utcoffset(None)
    if offset is not None:
        return _shifted(plain, offset)
    return pc.local_timestamp(plain.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit, zone)))


def _shifted(column: pa.Array, offset: timedelta) -> pa.Array:
    """Add an offset that is the same at all times."""
    kind = column.type
    try:
        return pc.add_checked(column, pa.scalar(offset, pa.duration("s")).cast(pa.duration(kind.unit))).cast(kind)
    except pa.ArrowInvalid as error:
        raise InvalidArguments("a timestamp is out of range in this time zone") from error
