"""Functions of time that depend on the zone of the session.

The query engine hands over times as text, because only text takes timestamps of every unit over their whole range,
dates and strings alike. It prints timestamps without a zone, in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from datafusion import ScalarUDF

from tsdb.model import InvalidTimeZone, canonical_zone, instants_of, local_times
from tsdb.query.functions._define import STRING, Function, FunctionError, by_distinct
from tsdb.query.functions._patterns import check_format, compile_mysql, compile_to_char, read_by_format, read_by_pattern
from tsdb.query.functions._strftime import Moments, Piece, compile_format, format_moments
from tsdb.query.functions._time_texts import read_instants
from tsdb.sql.statements import Dialect

_MICROSECONDS = pa.timestamp("us")


@lru_cache(maxsize=256)
def time_functions(zone: str, dialect: Dialect = Dialect.GENERIC) -> list[ScalarUDF]:
    """The functions for sessions in a zone; clients of MySQL write formats of their own."""

    def compile_date_format(form: str) -> tuple[Piece, ...]:
        check_format(form)
        return compile_mysql(form) if dialect is Dialect.MYSQL else compile_format(form)

    def date_format(times: pa.Array, form: pa.Array) -> pa.Array:
        def show(part: pa.Array, text: str) -> pa.Array:
            return format_times(part, compile_date_format(text), zone, "date_format")

        return by_distinct(times, form, STRING, show)

    def to_char(times: pa.Array, form: pa.Array) -> pa.Array:
        def show(part: pa.Array, text: str) -> pa.Array:
            return format_times(part, compile_to_char(text), zone, "to_char")

        return by_distinct(times, form, STRING, show)

    def str_to_date(texts: pa.Array, form: pa.Array) -> pa.Array:
        return by_distinct(texts, form, pa.timestamp("us"), lambda part, text: read_by_format(part, text, zone))

    def to_timestamp_pattern(texts: pa.Array, form: pa.Array) -> pa.Array:
        return by_distinct(texts, form, _MICROSECONDS, lambda part, text: read_by_pattern(part, text, zone))

    def to_date_pattern(texts: pa.Array, form: pa.Array) -> pa.Array:
        return by_distinct(
            texts, form, pa.date32(), lambda part, text: read_by_pattern(part, text, "UTC").cast("date32")
        )

    def to_unixtime_text(texts: pa.Array) -> pa.Array:
        return unix_seconds(texts, zone)

    def to_unixtime_any(kinds: pa.Array, values: pa.Array) -> pa.Array:
        return by_distinct(values, kinds, pa.int64(), lambda part, kind: _unixtime_of(part, kind, zone))

    def convert_tz(times: pa.Array, before: pa.Array, after: pa.Array) -> pa.Array:
        names = pc.binary_join_element_wise(before, after, "\n")
        return by_distinct(times, names, _MICROSECONDS, lambda part, pair: move_clock(part, pair.split("\n"), zone))

    return [
        Function("convert_tz__zone", (_MICROSECONDS, STRING, STRING), _MICROSECONDS, convert_tz, "stable").make(),
        Function("date_format", (STRING, STRING), STRING, date_format, "stable").make(),
        Function("to_char", (STRING, STRING), STRING, to_char, "stable").make(),
        Function("str_to_date", (STRING, STRING), pa.timestamp("us"), str_to_date, "stable").make(),
        Function("to_timestamp__pattern", (STRING, STRING), _MICROSECONDS, to_timestamp_pattern, "stable").make(),
        Function("to_date__pattern", (STRING, STRING), pa.date32(), to_date_pattern, "stable").make(),
        Function("to_unixtime__text", (STRING,), pa.int64(), to_unixtime_text, "stable").make(),
        Function("to_unixtime__any", (STRING, STRING), pa.int64(), to_unixtime_any, "stable").make(),
    ]


def format_times(times: pa.Array, pieces: tuple[Piece, ...], zone: str, name: str) -> pa.Array:
    """Return times, given in UTC, as the zone shows them."""
    seconds, nanos, valid = read_instants(times, "UTC")
    if not pc.all(pc.or_(valid, times.is_null())).as_py():
        wrong = times.filter(pc.invert(valid)).drop_null()[0]
        raise FunctionError(f"{name}() needs a timestamp or a date, got '{wrong}'")
    shown = format_moments(Moments(seconds, nanos, zone), pieces)
    return pc.if_else(valid, shown, pa.scalar(None, STRING))


def move_clock(times: pa.Array, zones: Sequence[str], zone: str) -> pa.Array:
    """Return what clocks in one zone show when those in another show these times; null if there is no such zone.

    Both are clock times as the session's zone shows them, which is how a client gets and sends them.
    """
    try:
        source, target = (canonical_zone(each) for each in zones)
    except InvalidTimeZone:
        return pa.nulls(len(times), times.type)
    moved = local_times(instants_of(local_times(times, zone), source), target)
    return instants_of(moved, zone)


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
