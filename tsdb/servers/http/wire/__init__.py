"""HTTP/1.1 itself: sockets and TLS, requests and responses, compression, limits of bodies.

Listener (sockets, TLS) ─▶ HttpConnection ─▶ Request ─▶ the application ─▶ Response ─▶ Reply
"""

from __future__ import annotations

from tsdb.servers.http.wire._bodies import BODIES_BYTES_MAX, BodyMemory
from tsdb.servers.http.wire._byte_sink import ByteSink
from tsdb.servers.http.wire._compression import accepts_gzip
from tsdb.servers.http.wire._listener import Listener
from tsdb.servers.http.wire._messages import (
    JSON,
    TEXT,
    AnyResponse,
    ClientDisconnected,
    Headers,
    Params,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    StreamingResponse,
    find_header,
)
from tsdb.servers.http.wire._meters import CLIENT_GONE, METHODS, OTHER, RouteMeter, count_in_flight, route_meter
from tsdb.servers.http.wire._reply import Reply
from tsdb.servers.http.wire._tuning import TUNING, HttpTuning

__all__ = [
    "BODIES_BYTES_MAX",
    "CLIENT_GONE",
    "JSON",
    "METHODS",
    "OTHER",
    "TEXT",
    "TUNING",
    "AnyResponse",
    "BodyMemory",
    "ByteSink",
    "ClientDisconnected",
    "Headers",
    "HttpTuning",
    "Listener",
    "Params",
    "Receive",
    "Reply",
    "Request",
    "Response",
    "RouteMeter",
    "Scope",
    "Send",
    "StreamingResponse",
    "accepts_gzip",
    "count_in_flight",
    "find_header",
    "route_meter",
]
