"""OpenTSDB's two ways to bring points: JSON objects, and lines of `put`.

    {"metric": "sys.cpu", "timestamp": 1667898896, "value": 18, "tags": {"host": "web01"}}
    put sys.cpu 1667898896 18 host=web01

A metric is a table by its own name, dots included. Times of fewer than 13 digits are seconds, others milliseconds.
Each point is validated on its own; the caller decides what happens to the others when one is invalid.
Measured, 50,000 points of 10 metrics with two tags on 2 shared cores: 55,000 to 145,000 points per CPU
second as JSON, 90,000 to 165,000 as lines; the loop over points is most of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from tsdb.errors import InvalidArguments, InvalidSyntax
from tsdb.ingest._builder import VALUE_COLUMN, RowsBuilder
from tsdb.ingest.rows import NewTable, TableRows
from tsdb.model import DataType, Kind

NEW_TABLE = NewTable(time_unit="ms", value_column=VALUE_COLUMN, single_value=True)
"""How tables of new metrics look."""

OBJECTS_MAX = 1_000_000
"""How many objects and arrays a body may hold; a point is two of them. Each takes a hundred times its bytes."""
VALUES_MAX = 10_000_000
"""How many values a body may hold."""
CHECK_POINTS = 1024
"""How many points are parsed between two checks for cancellation."""

_MILLISECOND_DIGITS = 13
_MILLISECONDS_FROM = 10 ** (_MILLISECOND_DIGITS - 1)
_TIME_MAX = 2**63 - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_PUT_TOKENS_MIN = 4
_SHOWN_CHARS_MAX = 100


class InvalidPoint(InvalidArguments):
    """One point, or one line, that cannot be taken."""


class Point(NamedTuple):
    """One value of one series."""

    metric: str
    time_ms: int
    value: float
    tags: tuple[tuple[str, str], ...]


def parse_body(body: bytes) -> list[object]:
    """Read one JSON object, or an array of them; what each is worth `parse_point` tells."""
    if body.count(b"{") + body.count(b"[") > OBJECTS_MAX or body.count(b",") > VALUES_MAX:
        raise InvalidArguments(
            f"the body holds more than {OBJECTS_MAX} objects and arrays, or {VALUES_MAX} values",
            hint="send smaller requests",
        )
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidSyntax(f"the body is not JSON: {error}", hint="send one point or an array of points") from None
    return found if isinstance(found, list) else [found]


def parse_point(found: object) -> Point:
    """Check one JSON object."""
    if not isinstance(found, dict):
        raise InvalidPoint(f"a point must be an object, received {_shown(found)}")
    for key in ("metric", "timestamp", "value", "tags"):
        if key not in found:
            raise InvalidPoint(f"the point has no {key!r}", hint="metric, timestamp, value and tags are required")
    metric, timestamp, value, tags = found["metric"], found["timestamp"], found["value"], found["tags"]
    if not isinstance(metric, str) or not metric:
        raise InvalidPoint(f"metric must be a text that is not empty, received {_shown(metric)}")
    if not isinstance(timestamp, int) or isinstance(timestamp, bool):
        raise InvalidPoint(f"timestamp must be a whole number, received {_shown(timestamp)}")
    # Clients write numbers as texts too.
    if isinstance(value, bool) or not (isinstance(value, int | float) or _is_number_text(value)):
        raise InvalidPoint(f"value must be a number, received {_shown(value)}")
    return Point(metric, _milliseconds(timestamp), float(value), _check_tags(tags))


def _is_number_text(value: object) -> bool:
    return isinstance(value, str) and _NUMBER.fullmatch(value) is not None


def _check_tags(tags: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(tags, dict):
        raise InvalidPoint(f"tags must be an object of texts, received {_shown(tags)}")
    for name, value in tags.items():
        if not name:
            raise InvalidPoint("a tag has no name")
        if not isinstance(value, str):
            raise InvalidPoint(f"the tag {name!r} must be a text, received {_shown(value)}")
    return tuple(tags.items())


def _milliseconds(timestamp: int) -> int:
    time = timestamp if abs(timestamp) >= _MILLISECONDS_FROM else timestamp * 1000
    if abs(time) > _TIME_MAX:
        raise InvalidPoint(f"the timestamp {timestamp} is out of range")
    return time


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"


def parse_put(line: str) -> Point:
    """Read a line of telnet; the texts of its errors are those clients know."""
    tokens = line.split()
    command = tokens[0] if tokens else ""
    if command != "put":
        raise InvalidPoint(f"unknown command {command}.")
    if len(tokens) < _PUT_TOKENS_MIN:
        raise InvalidPoint(f"put: illegal argument: not enough arguments (need least 4, got {len(tokens)})")
    _, metric, timestamp, value, *pairs = tokens
    if _INTEGER.fullmatch(timestamp) is None or abs(int(timestamp)) > _TIME_MAX:
        raise InvalidPoint(f"put: invalid timestamp: {timestamp}")
    if _NUMBER.fullmatch(value) is None:
        raise InvalidPoint(f"put: invalid value: {value}")
    return Point(metric, _milliseconds(int(timestamp)), float(value), _parse_tags(pairs))


def _parse_tags(pairs: Sequence[str]) -> tuple[tuple[str, str], ...]:
    tags: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name or not value or "=" in value:
            raise InvalidPoint(f"put: invalid tag: {pair}")
        if name in tags:
            raise InvalidPoint(f"put: illegal argument: duplicate tag: {name}")
        tags[name] = value
    return tuple(tags.items())


def make_rows(points: Iterable[tuple[int, Point]]) -> list[TableRows]:
    """Make the rows of points, each with its place in the request."""
    builders: dict[str, RowsBuilder] = {}
    for place, point in points:
        builder = builders.get(point.metric)
        if builder is None:
            builder = RowsBuilder(point.metric, "ms", {VALUE_COLUMN: DataType(Kind.FLOAT64)})
            builders[point.metric] = builder
        builder.add(builder.series(point.tags), point.time_ms, {VALUE_COLUMN: point.value}, place=place)
    return [builder.build() for builder in builders.values()]
