"""HTTP/1.1 without I/O: parses requests and encodes responses.

    bytes ─▶ parse_head ─▶ Head ─▶ BodyReader.feed: pieces of the body, and what follows it
    status, headers, body ─▶ ResponseEncoder.encode: the bytes before and after a piece of the body

Nothing here waits, reads or writes; `_connection` does that. Kernels parse the bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from tsdb import _kernels

HEAD_BYTES_MAX = 64 << 10

_FRAMING_SHARE_MAX = 16
"""Sizes, extensions and trailers of chunks have so many times the bytes of the body at most, or those of a head."""

BODILESS = frozenset({204, 304})
"""By the standard these carry no body and no length."""

_STATUS_LINES = {each.value: b"HTTP/1.1 %d %s\r\n" % (each.value, each.phrase.encode()) for each in HTTPStatus}


class BadHead(Exception):
    """A head that cannot be read, and the status that says so."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Head(NamedTuple):
    """The head of a request."""

    size: int
    """How many bytes it has."""
    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    length: int | None
    """The bytes of the body, None if it comes in chunks."""
    is_kept: bool
    """Whether the client may send another request on the connection."""
    is_modern: bool
    """Whether the version is HTTP/1.1 and not 1.0."""
    expects: bool
    """Whether it waits for `100 Continue` before it sends the body."""


def parse_head(data: bytes) -> Head | None:
    """Parse the head that bytes begin with, None if it is not complete; BadHead if it cannot be read."""
    try:
        found = _kernels.parse_http_head(data)
    except _kernels.LimitExceeded as error:
        raise BadHead(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, str(error)) from None
    except _kernels.MalformedInput as error:
        raise BadHead(HTTPStatus.BAD_REQUEST, str(error)) from None
    if (len(data) if found is None else found[0]) > HEAD_BYTES_MAX:
        if data.find(b"\n", 0, HEAD_BYTES_MAX) < 0:
            raise BadHead(HTTPStatus.REQUEST_URI_TOO_LONG, f"the request line is over {HEAD_BYTES_MAX} bytes")
        raise BadHead(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head is over {HEAD_BYTES_MAX} bytes")
    return None if found is None else Head(*found)


class BodyReader:
    """Finds the end of a body."""

    __slots__ = ("_chunks", "_framing", "_left", "_size", "is_done")

    def __init__(self, length: int | None) -> None:
        """`length` is None for a body in chunks."""
        self.is_done = length == 0
        """Whether the whole body was read."""
        self._left = length
        self._chunks = _kernels.ChunkedBody() if length is None else None
        self._framing = 0
        """Bytes of sizes, extensions and trailers of chunks."""
        self._size = 0
        """Bytes of the body that came in chunks."""

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the piece of the body that bytes hold, and what follows its end; ValueError if they are malformed."""
        if self._chunks is None:
            return self._feed_plain(data)
        piece, taken = self._chunks.feed(data)
        self._framing += taken - len(piece)
        self._size += len(piece)
        if self._framing > max(HEAD_BYTES_MAX, _FRAMING_SHARE_MAX * self._size):
            raise ValueError("there is too much between its chunks")
        self.is_done = self._chunks.is_done
        return piece, data[taken:] if taken < len(data) else b""

    def _feed_plain(self, data: bytes) -> tuple[bytes, bytes]:
        assert self._left is not None
        piece, rest = (data, b"") if len(data) <= self._left else (data[: self._left], data[self._left :])
        self._left -= len(piece)
        self.is_done = self._left == 0
        return piece, rest


class ResponseEncoder:
    """The bytes of one response."""

    __slots__ = ("_is_chunked", "_is_head", "_is_modern", "is_cut_unnoticed", "is_kept", "is_over")

    def __init__(self, *, is_head: bool, is_modern: bool, is_kept: bool) -> None:
        """`is_head` says that the method is HEAD."""
        self._is_head = is_head
        self._is_modern = is_modern
        self._is_chunked = False
        self.is_kept = is_kept
        """Whether another request may come on this connection."""
        self.is_over = False
        """Whether the whole response was encoded."""
        self.is_cut_unnoticed = False
        """Whether the end of the connection is all that ends a response: then it must not look like one."""

    def head(
        self, status: int, headers: Iterable[tuple[bytes, bytes]], *, is_whole: bool, ends_connection: bool = False
    ) -> bytes:
        """Return the head; `is_whole` says that the whole body comes with it."""
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        has_length = False
        for name, value in headers:
            has_length = has_length or name == b"content-length"
            lines.append(b"%s: %s\r\n" % (name, value))
        if not is_whole and not has_length and status not in BODILESS and not self._is_head:
            if self._is_modern:
                self._is_chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self.is_kept, self.is_cut_unnoticed = False, True
        if ends_connection:
            self.is_kept = False
        if not self.is_kept:
            lines.append(b"connection: close\r\n")
        elif not self._is_modern:
            lines.append(b"connection: keep-alive\r\n")
        lines.append(b"date: %s\r\n" % date())
        head = b"".join(lines)
        if head.count(b"\n") != len(lines):
            # A client that can break a line could write headers, or a whole response, in our name.
            raise ValueError("a header of an answer has a line break")
        return head + b"\r\n"

    def frame(self, size: int, *, is_last: bool) -> tuple[bytes, bytes]:
        """Return what comes before and behind a piece of the body."""
        before = after = b""
        if self._is_chunked:
            if size:
                before, after = b"%x\r\n" % size, b"\r\n"
            if is_last:
                after += b"0\r\n\r\n"
        if is_last:
            self.is_over, self.is_cut_unnoticed = True, False
        return before, after


def encode_refusal(status: HTTPStatus, reason: str) -> bytes:
    """The response to a head that cannot be read, after which the connection is closed."""
    body = f"the request cannot be read: {reason}\n".encode()
    lines = (
        b"date: " + date(),
        b"connection: close",
        b"content-type: text/plain",
        b"content-length: %d" % len(body),
    )
    return _STATUS_LINES[status] + b"\r\n".join(lines) + b"\r\n\r\n" + body


def date() -> bytes:
    """Return the time as HTTP writes it."""
    return _date_of(int(time.time()))


@lru_cache(1)
def _date_of(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
