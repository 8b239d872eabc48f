"""Errors as Prometheus' HTTP API shows them: `errorType` and the HTTP status that belongs to it.

    bad_data     400   the request is wrong: the query cannot be parsed, a parameter is missing
    execution    422   the query is well formed, and its evaluation cannot go on
    timeout      503   it took too long
    canceled     499   it was killed, or the client no longer wants it
    unavailable  503   it cannot be answered now: try again
    internal     500   a fault of the server

What Prometheus has no type for keeps its HTTP status: `unauthorized` (401) and `forbidden` (403).
"""

from __future__ import annotations

import orjson

from tsdb.errors import Status, wire

_TYPES = {
    Status.DEADLINE_EXCEEDED: ("timeout", 503),
    Status.CANCELLED: ("canceled", 499),
    Status.PLAN_QUERY: ("execution", 422),
}
_BY_HTTP = {
    400: ("bad_data", 400),
    401: ("unauthorized", 401),
    403: ("forbidden", 403),
    429: ("unavailable", 503),
    503: ("unavailable", 503),
}
_INTERNAL = ("internal", 500)


def _type_of(status: Status) -> tuple[str, int]:
    return _TYPES.get(status) or _BY_HTTP.get(wire(status).http, _INTERNAL)


def prometheus_error_status(status: Status) -> int:
    """Return the HTTP status of an error."""
    return _type_of(status)[1]


def prometheus_error_body(status: Status, message: str, elapsed_ms: int) -> bytes:
    """Return the JSON of an error."""
    return orjson.dumps({"status": "error", "errorType": _type_of(status)[0], "error": message})
