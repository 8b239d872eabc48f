"""Observability of the server: logs, metrics and traces.

    get_logger(__name__).info("region opened", region=7)     a line in the log
    OPENED = counter("tsdb_region_opened_total", "…")         a family in /metrics
    with tracing.span("flush"): …                             a span at the collector, when tracing is on

Nothing here knows the configuration: the component that starts the process passes plain values.
"""

from __future__ import annotations

from tsdb.telemetry._caches import CacheCounts, CacheState, CacheStatistics, report_cache, reported_caches
from tsdb.telemetry._logger import Logger, get_logger
from tsdb.telemetry._logs import LogSetup, setup_logging
from tsdb.telemetry._metrics import (
    METRICS_CONTENT_TYPE,
    REGISTRY,
    SECONDS_BUCKETS,
    Family,
    app_info,
    collected,
    counter,
    families,
    gauge,
    histogram,
    render,
)
from tsdb.telemetry._traces import TraceSpan, Tracing, setup_tracing

__all__ = [
    "METRICS_CONTENT_TYPE",
    "REGISTRY",
    "SECONDS_BUCKETS",
    "CacheCounts",
    "CacheState",
    "CacheStatistics",
    "Family",
    "LogSetup",
    "Logger",
    "TraceSpan",
    "Tracing",
    "app_info",
    "collected",
    "counter",
    "families",
    "gauge",
    "get_logger",
    "histogram",
    "render",
    "report_cache",
    "reported_caches",
    "setup_logging",
    "setup_tracing",
]
