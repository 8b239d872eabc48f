"""Errors as HTTP responses.

The status comes from the table in `tsdb.errors`; the code and the message are also sent as headers, for clients that
expect another body. The route chooses the shape of the body:

    full     {"code":4001,"error":"…","execution_time_ms":3}     queries, and the default
    short    {"error":"…"}                                        the ingestion protocols

A route of another product's API may have its own mapping from our status codes to HTTP (`ErrorStatus`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import orjson

from tsdb.errors import BodyTooLarge, Busy, Status, TsdbError, wire, wire_of
from tsdb.servers.http.wire import JSON, Response

HEADER_MESSAGE_CHARS_MAX = 1024
"""Clients and proxies refuse long headers: a longer message is complete in the body only."""

RETRY_AFTER_SECONDS = 1
"""When to try again what cannot be done now, unless the error knows better."""

_UNAVAILABLE = 503

MESSAGE_CHARS_MAX = 16_384
"""A message may repeat what the client sent: no more of it than this."""

INTERNAL_ERROR = "internal error; the log of the server has the details"

ErrorBody: TypeAlias = Callable[[Status, str, int], bytes]
"""Makes the JSON body from the status, the message and the milliseconds the request took."""

ErrorStatus: TypeAlias = Callable[[Status], int]
"""Chooses the HTTP status."""


def wire_status(status: Status) -> int:
    """The HTTP status of the table in `tsdb.errors`."""
    return wire(status).http


def full_error_body(status: Status, message: str, elapsed_ms: int) -> bytes:
    return orjson.dumps({"code": status.value, "error": message, "execution_time_ms": elapsed_ms})


def short_error_body(status: Status, message: str, elapsed_ms: int) -> bytes:
    return orjson.dumps({"error": message})


def error_response(
    error: TsdbError, elapsed_ms: int, make_body: ErrorBody, choose_status: ErrorStatus = wire_status
) -> Response:
    """The answer to a request that failed with one of our errors."""
    if isinstance(error, BodyTooLarge):
        response = _make_response(error.status, 413, str(error), elapsed_ms, make_body)
        # What is left of the body stands between this answer and the next request.
        response.raw_headers.append((b"connection", b"close"))
        return response
    status = _UNAVAILABLE if isinstance(error, Busy) else _status_of(error, choose_status)
    response = _make_response(error.status, status, str(error), elapsed_ms, make_body)
    if response.status == _UNAVAILABLE:
        seconds = getattr(error, "retry_after_seconds", RETRY_AFTER_SECONDS)
        response.raw_headers.append((b"retry-after", str(seconds).encode("ascii")))
    return response


def _status_of(error: TsdbError, choose_status: ErrorStatus) -> int:
    """The status of a foreign API comes from the code of an error; ours also from what exactly is wrong."""
    return wire_of(error).http if choose_status is wire_status else choose_status(error.status)


def plain_error_response(
    http_status: int, status: Status, message: str, make_body: ErrorBody, headers: Iterable[tuple[str, str]] = ()
) -> Response:
    """The answer to a request that reached no handler, or was interrupted: what happened, and what changes it."""
    response = _make_response(status, http_status, message, 0, make_body)
    response.raw_headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return response


def internal_error_response(elapsed_ms: int, make_body: ErrorBody) -> Response:
    """The response to a bug. It has no details; the log does."""
    status = Status.INTERNAL
    return _make_response(status, wire(status).http, INTERNAL_ERROR, elapsed_ms, make_body)


def _make_response(status: Status, http_status: int, message: str, elapsed_ms: int, make_body: ErrorBody) -> Response:
    # A client's own bytes may be part of the message; what UTF-8 cannot carry must not break the answer.
    message = message[:MESSAGE_CHARS_MAX].encode("utf-8", "backslashreplace").decode("utf-8")
    code, text = str(status.value), _header_text(message, elapsed_ms)
    headers = [
        ("x-tsdb-err-code", code),
        ("x-greptime-err-code", code),
        ("x-tsdb-err-msg", text),
        ("x-greptime-err-msg", text),
    ]
    body = make_body(status, message, elapsed_ms)
    return Response(body, status=http_status, content_type=JSON, headers=headers)


def _header_text(message: str, elapsed_ms: int) -> str:
    escaped = message[:HEADER_MESSAGE_CHARS_MAX].encode("unicode_escape").decode("ascii")
    return f"error: {escaped[:HEADER_MESSAGE_CHARS_MAX]}, execution_time_ms: {elapsed_ms}"
