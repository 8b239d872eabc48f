"""HTTP: requests and answers, the application that every request passes through, and the server that listens.

    HttpServer ─▶ Listener (sockets, TLS) ─▶ Connection (HTTP/1.1) ─▶ HttpApp (route, limits, errors, metrics, span)
    ─▶ handler(Request) -> Response

A handler is an async function. It raises errors of `tsdb.errors` and never chooses HTTP codes for them.
"""

from __future__ import annotations

from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._compat_paths import COMPAT_PATHS
from tsdb.servers.http._errors import ErrorBody, full_error_body, short_error_body
from tsdb.servers.http._influx import InfluxRoutes, influx_routes
from tsdb.servers.http._messages import (
    AnyResponse,
    ClientDisconnected,
    Headers,
    Params,
    Request,
    Response,
    StreamingResponse,
)
from tsdb.servers.http._opentsdb import OpentsdbRoutes, opentsdb_routes
from tsdb.servers.http._operational import operational_routes
from tsdb.servers.http._otlp import OtlpRoutes, otlp_routes
from tsdb.servers.http._prometheus_api import PrometheusApiRoutes, prometheus_api_routes
from tsdb.servers.http._prometheus_remote import (
    PrometheusRemoteRoutes,
    prometheus_remote_routes,
)
from tsdb.servers.http._prometheus_status import ServerFacts
from tsdb.servers.http._router import Handler
from tsdb.servers.http._server import HttpServer
from tsdb.servers.http._sql import SqlRoutes, sql_routes

__all__ = [
    "COMPAT_PATHS",
    "AnyResponse",
    "ClientDisconnected",
    "ErrorBody",
    "Handler",
    "Headers",
    "HttpApp",
    "HttpServer",
    "InfluxRoutes",
    "OpentsdbRoutes",
    "OtlpRoutes",
    "Params",
    "PrometheusApiRoutes",
    "PrometheusRemoteRoutes",
    "Request",
    "Response",
    "ServerFacts",
    "SqlRoutes",
    "StreamingResponse",
    "full_error_body",
    "influx_routes",
    "opentsdb_routes",
    "operational_routes",
    "otlp_routes",
    "prometheus_api_routes",
    "prometheus_remote_routes",
    "short_error_body",
    "sql_routes",
]
