"""Spans and origins in milliseconds: intervals and expressions are evaluated, everything is checked."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.types as pt

from tsdb.model import InvalidTimestamp, parse_timestamp, zone_of
from tsdb.query.range._runner import RangeRunner
from tsdb.sql.range_query import AlignOrigin, RangePlanError, Span, check_span_ms

_NOW = re.compile(r"\b(?:now|current_timestamp|current_date|current_time|today)\b", re.IGNORECASE)
_STRING = re.compile(r"'(?:[^']|'')*'")


def span_ms(span: Span, runner: RangeRunner) -> int:
    """Return the length of a span."""
    if span.ms is not None:
        return span.ms
    if _NOW.search(_STRING.sub("''", span.text)):
        raise RangePlanError(f"the interval {span.text!r} must be constant, it cannot ask for the time")
    ms = _interval_ms(_only_value(f"SELECT {span.text}", runner), span.text)
    check_span_ms(ms, span.text)
    return ms


def span_label(span: Span, runner: RangeRunner) -> str:
    """Return how a span shows in a header."""
    return span.text if span.ms is not None else str(runner.schema(f"SELECT {span.text}").names[0])


def origin_ms(origin: AlignOrigin | None, runner: RangeRunner) -> int:
    """Return the time slots are counted from: without TO, the zone's offset at the epoch."""
    if origin is None:
        offset = zone_of(runner.time_zone).utcoffset(datetime(1970, 1, 1)) or timedelta(0)
        return offset // timedelta(milliseconds=1)
    if origin.is_now:
        return runner.now_ms
    if origin.timestamp is not None:
        return _timestamp_ms(origin.timestamp, runner)
    assert origin.expression is not None
    value = _only_value(f"SELECT {origin.expression}", runner)
    if not value.is_valid:
        raise RangePlanError("the origin after TO is NULL")
    if pt.is_timestamp(value.type):
        per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[value.type.unit]
        return int(value.cast(pa.timestamp(value.type.unit)).value) * 1_000 // per_second
    if pt.is_date(value.type):
        return int(value.cast(pa.timestamp("ms")).value)
    if pt.is_string(value.type) or pt.is_large_string(value.type) or pt.is_string_view(value.type):
        return _timestamp_ms(value.as_py(), runner)
    raise RangePlanError(f"the origin after TO must be a timestamp, {origin.expression!r} is {value.type}")


def _timestamp_ms(text: str, runner: RangeRunner) -> int:
    try:
        return parse_timestamp(text, runner.time_zone) // 1_000_000
    except InvalidTimestamp as error:
        raise RangePlanError(f"the origin after TO must be NOW or a timestamp: {error.message}") from error


def _interval_ms(value: pa.Scalar, text: str) -> int:
    if value.is_valid and pt.is_interval(value.type):
        parts = value.as_py()
        if parts.months:
            raise RangePlanError(f"months and years have no fixed length, the interval {text!r} cannot be used")
        return int((parts.days * 86_400_000_000_000 + parts.nanoseconds) // 1_000_000)
    if value.is_valid and pt.is_duration(value.type):
        per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[value.type.unit]
        return int(value.value) * 1_000 // per_second
    raise RangePlanError(f"expected an interval, {text!r} is {value.type}")


def _only_value(text: str, runner: RangeRunner) -> pa.Scalar:
    table = runner.run(text)
    if table.num_rows != 1 or table.num_columns != 1:
        raise RangePlanError(f"expected a single value from {text!r}")
    return table.column(0)[0]
