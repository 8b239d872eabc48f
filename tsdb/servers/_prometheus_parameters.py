"""Parameters of Prometheus' HTTP API as text: shared by HTTP and the PromQL gateway of gRPC."""

from __future__ import annotations

from datetime import datetime

from tsdb.errors import InvalidArguments
from tsdb.promql import parse_duration_ms
from tsdb.query.promql import QueryTimes

POINTS_MAX = 11_000
"""How many steps one query may have."""
_TIME_MAX = 1e13


def check_span(span: QueryTimes) -> QueryTimes:
    """Refuse a range that ends before it starts, and one of too many steps."""
    if span.end_ms < span.start_ms:
        raise InvalidArguments("end timestamp must not be before start time")
    if (span.end_ms - span.start_ms) // span.step_ms + 1 > POINTS_MAX:
        raise InvalidArguments(
            f"exceeded maximum resolution of {POINTS_MAX:,} points per timeseries",
            hint="decrease the resolution of the query (step)",
        )
    return span


def parse_time_ms(name: str, text: str) -> int:
    """Read seconds since 1970 or a date and time."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidArguments(f"the parameter {name} is not a time: {text!r}") from None
        if moment.tzinfo is None:
            raise InvalidArguments(f"the parameter {name} has no time zone: {text!r}") from None
        return round(moment.timestamp() * 1000)
    if not abs(seconds) < _TIME_MAX:
        raise InvalidArguments(f"the parameter {name} is out of range: {text!r}")
    return round(seconds * 1000)


def parse_step_ms(name: str, text: str) -> int:
    """Read seconds or a duration, more than nothing."""
    ms = parse_duration_ms(text)
    if ms is None:
        try:
            seconds = float(text)
        except ValueError:
            raise InvalidArguments(f"the parameter {name} is not a duration: {text!r}") from None
        if not abs(seconds) < _TIME_MAX:
            raise InvalidArguments(f"the parameter {name} is out of range: {text!r}")
        ms = round(seconds * 1000)
    if ms <= 0:
        raise InvalidArguments(f"the parameter {name} must be greater than 0, received {text!r}")
    return ms
