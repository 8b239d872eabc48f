"""HTTP/1.1 itself: sockets and TLS, requests and responses, compression, limits of bodies.

Listener (sockets, TLS) ─▶ HttpConnection ─▶ Request ─▶ the application ─▶ Response ─▶ Reply
"""

from tsdb.servers.http.wire._bodies import BODIES_BYTES_MAX, BodyMemory
from tsdb.servers.http.wire._byte_sink import ByteSink
from tsdb.servers.http.wire._compression import BODY_BYTES_MIN, accepts_gzip, compress
from tsdb.servers.http.wire._connection import HttpConnection
from tsdb.servers.http.wire._listener import Listener
from tsdb.servers.http.wire._messages import (
    BEGUN,
    FORM,
    JSON,
    TEXT,
    AnyResponse,
    ClientDisconnected,
    Headers,
    Message,
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
from tsdb.servers.http.wire._protocol import BadHead, Head, ResponseEncoder, parse_head
from tsdb.servers.http.wire._reply import Reply
from tsdb.servers.http.wire._shortcut import Shortcut, ShortExchange
from tsdb.servers.http.wire._tuning import TUNING, HttpTuning

__all__ = [
    "BEGUN",
    "BODIES_BYTES_MAX",
    "BODY_BYTES_MIN",
    "CLIENT_GONE",
    "FORM",
    "JSON",
    "METHODS",
    "OTHER",
    "TEXT",
    "TUNING",
    "AnyResponse",
    "BadHead",
    "BodyMemory",
    "ByteSink",
    "ClientDisconnected",
    "Head",
    "Headers",
    "HttpConnection",
    "HttpTuning",
    "Listener",
    "Message",
    "Params",
    "Receive",
    "Reply",
    "Request",
    "Response",
    "ResponseEncoder",
    "RouteMeter",
    "Scope",
    "Send",
    "ShortExchange",
    "Shortcut",
    "StreamingResponse",
    "accepts_gzip",
    "compress",
    "count_in_flight",
    "find_header",
    "parse_head",
    "route_meter",
]
