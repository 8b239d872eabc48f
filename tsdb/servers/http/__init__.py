"""The HTTP server: requests and responses, the application with its routes, and the listener.

    HttpServer ─▶ Listener (sockets, TLS) ─▶ HttpConnection (HTTP/1.1) ─▶ HttpApp (route, limits, errors, metrics, span)
    ─▶ handler(Request) -> Response

A handler is an async function. It raises the errors of `tsdb.errors` and never chooses HTTP status codes for them.
"""

from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._compat_paths import COMPAT_PATHS
from tsdb.servers.http._errors import short_error_body
from tsdb.servers.http._metasrv import metasrv_routes
from tsdb.servers.http._operational import operational_routes
from tsdb.servers.http._server import HttpServer
from tsdb.servers.http.ingest import (
    PrometheusRemoteRoutes,
    influx_routes,
    opentsdb_routes,
    otlp_routes,
    prometheus_remote_routes,
)
from tsdb.servers.http.prometheus import ServerFacts, prometheus_api_routes
from tsdb.servers.http.sql import SqlRoutes, sql_routes
from tsdb.servers.http.wire import (
    BODIES_BYTES_MAX,
    BodyMemory,
    ClientDisconnected,
    Headers,
    Params,
    Request,
    Response,
    StreamingResponse,
)

__all__ = [
    "BODIES_BYTES_MAX",
    "COMPAT_PATHS",
    "BodyMemory",
    "ClientDisconnected",
    "Headers",
    "HttpApp",
    "HttpServer",
    "Params",
    "PrometheusRemoteRoutes",
    "Request",
    "Response",
    "ServerFacts",
    "SqlRoutes",
    "StreamingResponse",
    "influx_routes",
    "metasrv_routes",
    "opentsdb_routes",
    "operational_routes",
    "otlp_routes",
    "prometheus_api_routes",
    "prometheus_remote_routes",
    "short_error_body",
    "sql_routes",
]
