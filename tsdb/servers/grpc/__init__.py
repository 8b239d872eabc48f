"""The gRPC server: services of `greptime.v1`, PromQL, Arrow Flight, OpenTelemetry, health and reflection on one port.

GrpcServer ── GrpcContext (database, sessions, threads) ──▶ services: lists of methods ──▶ handlers of grpc.aio
"""

import os

# The library's own log is about what clients do wrong, line by line on standard error; it is read when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from tsdb.servers.grpc._context import MakeServices
from tsdb.servers.grpc._database import database_services
from tsdb.servers.grpc._otlp import otlp_services
from tsdb.servers.grpc._promql import promql_services
from tsdb.servers.grpc._server import GrpcLimits, GrpcServer
from tsdb.servers.grpc.flight import flight_services

__all__ = [
    "GrpcLimits",
    "GrpcServer",
    "MakeServices",
    "database_services",
    "flight_services",
    "otlp_services",
    "promql_services",
]
