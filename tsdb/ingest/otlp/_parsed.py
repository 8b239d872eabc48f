"""What a parser of OpenTelemetry's messages returns: rows, and the items that cannot become rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from tsdb.errors import InvalidSyntax
from tsdb.ingest.rows import Rejection, TableRows
from tsdb.model import MetricDescription

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The items of a request: data points, spans or log records. Places are their indexes, from 0."""

    rows: list[TableRows]
    items: int
    rejections: list[Rejection]
    descriptions: list[tuple[str, MetricDescription]] = field(default_factory=list)
    """What metrics say about themselves, by the names that they are stored under."""


def parse_message(kind: type[_M], body: bytes) -> _M:
    """Read a protobuf message."""
    try:
        message: _M = kind.FromString(body)
    except DecodeError as error:
        raise InvalidSyntax(f"the body is not a message {kind.DESCRIPTOR.name}: {error}") from None
    return message
