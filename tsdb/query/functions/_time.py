"""Functions of time that depend on the zone of the session.

The query engine hands over times as text, because only text takes timestamps of every unit over their whole range,
dates and strings alike. It prints timestamps without a zone, in UTC.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from datafusion import ScalarUDF

from tsdb.query.functions._define import STRING, Function, FunctionError, by_distinct
from tsdb.query.functions._strftime import Moments, format_moments
from tsdb.query.functions._time_texts import read_instants


@lru_cache(maxsize=256)
def time_functions(zone: str) -> list[ScalarUDF]:
    """The functions for sessions in a zone."""

    def date_format(times: pa.Array, form: pa.Array) -> pa.Array:
        return by_distinct(times, form, STRING, lambda part, text: format_times(part, text, zone))

    def to_unixtime_text(texts: pa.Array) -> pa.Array:
        return unix_seconds(texts, zone)

    def to_unixtime_any(kinds: pa.Array, values: pa.Array) -> pa.Array:
        return by_distinct(values, kinds, pa.int64(), lambda part, kind: _unixtime_of(part, kind, zone))

    return [
        Function("date_format", (STRING, STRING), STRING, date_format, "stable").make(),
        Function("to_unixtime__text", (STRING,), pa.int64(), to_unixtime_text, "stable").make(),
        Function("to_unixtime__any", (STRING, STRING), pa.int64(), to_unixtime_any, "stable").make(),
    ]


def format_times(times: pa.Array, form: str, zone: str) -> pa.Array:
    """Return times, given in UTC, as the zone shows them."""
    seconds, nanos, valid = read_instants(times, "UTC")
    if not pc.all(pc.or_(valid, times.is_null())).as_py():
        wrong = times.filter(pc.invert(valid)).drop_null()[0]
        raise FunctionError(f"date_format() needs a timestamp or a date, got '{wrong}'")
    shown = format_moments(Moments(seconds, nanos, zone), form)
    return pc.if_else(valid, shown, pa.scalar(None, STRING))


def unix_seconds(texts: pa.Array, zone: str) -> pa.Array:
    """Return the seconds since 1970 of texts that are read in the zone, null for what is no time."""
    seconds, _, valid = read_instants(pc.utf8_trim_whitespace(texts), zone)
    return pc.if_else(valid, pa.array(seconds), pa.scalar(None, pa.int64()))


def _unixtime_of(values: pa.Array, kind: str, zone: str) -> pa.Array:
    if kind.startswith(("Timestamp", "Date")):
        return unix_seconds(values, "UTC")
    if kind.startswith(("Int", "UInt")):
        return values.cast(pa.int64())
    if "Utf8" in kind or kind == "Null":
        return unix_seconds(values, zone)
    raise FunctionError(f"to_unixtime() takes a timestamp, a date, an integer or text, got {kind}")
