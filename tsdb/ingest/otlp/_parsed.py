"""What a parser of OpenTelemetry's messages returns: rows, and the items that cannot become rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from tsdb._kernels import count_otlp_messages
from tsdb.errors import InvalidArguments, InvalidSyntax
from tsdb.ingest.rows import Rejection, TableRows
from tsdb.model import MetricDescription

_M = TypeVar("_M", bound=Message)


class TooManyMessages(InvalidArguments):
    """A request has more items than can be processed at once, however small they are."""


@dataclass(frozen=True, slots=True)
class OtlpItems:
    """The items of a request: data points, spans or log records. Places are their indexes, from 0."""

    rows: list[TableRows]
    items: int
    rejections: list[Rejection]
    descriptions: list[tuple[str, MetricDescription]] = field(default_factory=list)
    """What metrics say about themselves, by the names that they are stored under."""


MESSAGES_MAX = 2_000_000
"""How many messages, the smallest included, a request may hold: each is an object of a hundred bytes and more."""

CHECK_STEPS = 1024
"""How many items and attributes are parsed between two checks for cancellation."""

Check: TypeAlias = Callable[[], None]


def unchecked() -> None:
    """The check of callers that never cancel."""


class Pace:
    """Calls `check` at intervals, which raises if the request was cancelled."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._steps = 0

    def spend(self, steps: int) -> None:
        """Count the items and attributes that are being processed."""
        self._steps += steps
        if self._steps >= CHECK_STEPS:
            self._steps = 0
            self._check()


def parse_message(kind: type[_M], body: bytes, signal: str) -> _M:
    """Read an export request of `metrics`, `traces` or `logs`; TooManyMessages before anything is made of it."""
    if count_otlp_messages(body, signal, MESSAGES_MAX) > MESSAGES_MAX:
        raise TooManyMessages(f"the request holds more than {MESSAGES_MAX} messages", hint="send smaller requests")
    try:
        message: _M = kind.FromString(body)
    except DecodeError as error:
        raise InvalidSyntax(f"the body is not a message {kind.DESCRIPTOR.name}: {error}") from None
    return message
