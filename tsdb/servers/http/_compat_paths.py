"""Paths of other servers, as aliases: for agents whose paths cannot be configured.

Each line maps an alias to one of our paths; one that ends with a slash covers everything below it. `http.compat_paths`
disables all of them. Our own paths take precedence.
"""

from __future__ import annotations

COMPAT_PATHS: tuple[tuple[str, str], ...] = (
    # Prometheus
    ("/api/v1/write", "/v1/prometheus/write"),
    ("/api/v1/read", "/v1/prometheus/read"),
    ("/api/v1/", "/v1/prometheus/api/v1/"),
    ("/federate", "/v1/prometheus/federate"),
    # InfluxDB 1, 2 and 3, QuestDB
    ("/write", "/v1/influxdb/write"),
    ("/api/v2/write", "/v1/influxdb/api/v2/write"),
    ("/api/v3/write_lp", "/v1/influxdb/api/v3/write_lp"),
    ("/ping", "/v1/influxdb/ping"),
    # OpenTSDB
    ("/api/put", "/v1/opentsdb/api/put"),
    ("/api/version", "/v1/opentsdb/api/version"),
    # OpenTelemetry exporters add these to their endpoint
    ("/v1/metrics", "/v1/otlp/v1/metrics"),
    ("/v1/traces", "/v1/otlp/v1/traces"),
    ("/v1/logs", "/v1/otlp/v1/logs"),
)
