"""Prometheus remote read: the message of a request, what it asks for, and the frame of the answer.

    ReadRequest ─ parse_read_request ─▶ ReadQuery… ─▶ (database: find series) ─ encode_read_response ─▶ ReadResponse

Requests are a few hundred bytes, so plain Python reads them. The results of queries, which are long, come encoded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tsdb.errors import InvalidArguments
from tsdb.ingest.protobuf import encode_varint
from tsdb.model import REGEX_CHARS_MAX, Matcher, MatchOp, anchored

METRIC_LABEL = "__name__"
DATABASE_LABELS = frozenset({"x_tsdb_database", "x_greptime_database", "__database__", "__schema__"})
REQUEST_BYTES_MAX = 1 << 20
"""How large a request to read may be, unpacked."""
QUERIES_MAX = 1000
"""How many queries one request may have."""
_OPS: tuple[MatchOp, ...] = ("=", "!=", "=~", "!~")
"""How matchers compare, in the order of the numbers that the protocol has for it."""

_SAMPLES = 0
"""The type of response that has samples, and not chunks."""

_Field: TypeAlias = tuple[int, int | bytes]


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """The series of one metric, in a range of time that includes both ends."""

    metric: str
    start_ms: int
    end_ms: int
    matchers: tuple[Matcher, ...]
    database: str | None = None
    """What a label chooses."""


def _check_pattern(pattern: str) -> None:
    """Raise InvalidArguments if RE2 cannot read a regular expression."""
    if len(pattern) > REGEX_CHARS_MAX:
        raise InvalidArguments(f"a regular expression of a matcher is longer than {REGEX_CHARS_MAX} characters")
    try:
        anchored(pattern)
    except ValueError as error:
        raise InvalidArguments(f"the regular expression {pattern!r} of a matcher is wrong: {error}") from None


def parse_read_request(message: bytes) -> list[ReadQuery]:
    """Parse the queries of a request; InvalidArguments if they cannot be answered."""
    if len(message) > REQUEST_BYTES_MAX:
        raise InvalidArguments(f"a request to read has at most {REQUEST_BYTES_MAX} bytes")
    queries: list[bytes] = []
    accepted: list[int] = []
    for number, value in _fields(message):
        if number == 1:
            queries.append(_bytes(value))
            if len(queries) > QUERIES_MAX:
                raise InvalidArguments(f"a request to read has at most {QUERIES_MAX} queries")
        elif number == 2:
            accepted += [value] if isinstance(value, int) else _varints(value)
    if accepted and _SAMPLES not in accepted:
        raise InvalidArguments(
            "the client does not accept a response with samples, the only supported type", accepted=accepted
        )
    return [_parse_query(query) for query in queries]


def _parse_query(message: bytes) -> ReadQuery:
    start = end = 0
    matchers: list[Matcher] = []
    for number, value in _fields(message):
        if number == 1:
            start = _signed(value)
        elif number == 2:
            end = _signed(value)
        elif number == 3:
            matchers.append(_parse_matcher(_bytes(value)))
    names = [each for each in matchers if each.name == METRIC_LABEL]
    if len(names) != 1 or names[0].op != "=" or not names[0].value:
        raise InvalidArguments(
            f'a query needs exactly one matcher of the form {METRIC_LABEL}="metric"', received=len(names)
        )
    databases = [each for each in matchers if each.name in DATABASE_LABELS]
    if any(each.op != "=" for each in databases):
        raise InvalidArguments(f"the label {databases[0].name} chooses a database: its matcher must be an equality")
    rest = tuple(each for each in matchers if each.name != METRIC_LABEL and each.name not in DATABASE_LABELS)
    for each in rest:
        if each.op in ("=~", "!~"):
            _check_pattern(each.value)
    database = next((each.value for each in reversed(databases) if each.value), None)
    return ReadQuery(names[0].value, start, end, rest, database)


def _parse_matcher(message: bytes) -> Matcher:
    kind, name, text = 0, "", ""
    for number, value in _fields(message):
        if number == 1:
            kind = _signed(value)
        elif number == 2:
            name = _text(value)
        elif number == 3:
            text = _text(value)
    if kind not in range(len(_OPS)):
        raise InvalidArguments(f"there is no matcher of type {kind}")
    return Matcher(name, _OPS[kind], text)


def encode_read_response(results: Sequence[bytes]) -> bytes:
    """Put encoded results together, one for each query, in their order."""
    parts = []
    for result in results:
        parts += [b"\x0a", encode_varint(len(result)), result]
    return b"".join(parts)


def _fields(message: bytes) -> Iterator[_Field]:
    """Yield the fields of a message; what is neither an integer nor bytes comes as its bytes."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _read_varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _read_varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise InvalidArguments(f"the request cannot be read: a field has the wire type {kind}")
        if length > len(message) - at:
            raise InvalidArguments("the request cannot be read: a field is cut off")
        yield key >> 3, message[at : at + length]
        at += length


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, at
    raise InvalidArguments("the request cannot be read: an integer is cut off or too long")


def _varints(packed: bytes) -> list[int]:
    found, at = [], 0
    while at < len(packed):
        number, at = _read_varint(packed, at)
        found.append(number)
    return found


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise InvalidArguments("the request cannot be read: an integer was expected")
    signed: int = struct.unpack("<q", struct.pack("<Q", value))[0]
    return signed


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise InvalidArguments("the request cannot be read: a message was expected")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise InvalidArguments("the request cannot be read: a text is not UTF-8") from None
