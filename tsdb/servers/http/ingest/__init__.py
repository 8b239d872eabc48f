"""The routes that take rows: InfluxDB, OpenTSDB, Prometheus remote write, OTLP."""

from tsdb.servers.http.ingest._influx import influx_routes
from tsdb.servers.http.ingest._opentsdb import opentsdb_routes
from tsdb.servers.http.ingest._otlp import otlp_routes
from tsdb.servers.http.ingest._prometheus import PrometheusRemoteRoutes, prometheus_remote_routes

__all__ = [
    "PrometheusRemoteRoutes",
    "influx_routes",
    "opentsdb_routes",
    "otlp_routes",
    "prometheus_remote_routes",
]
