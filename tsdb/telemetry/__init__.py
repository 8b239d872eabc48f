"""Observability of the server: logs, metrics and traces.

    get_logger(__name__).info("region opened", region=7)     a line in the log
    OPENED = counter("tsdb_region_opened_total", "…")         a family in /metrics
    with span("plan"): …                                      a span at the collector, if the request is traced

Nothing here knows the configuration: the component that starts the process passes plain values.
"""

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
from tsdb.telemetry._spans import (
    AttributeValue,
    SpanKind,
    TraceSpan,
    current_span,
    entered,
    fail_span,
    iterate_within,
    parse_traceparent,
    span,
    traceparent_of_comment,
    using_span,
)
from tsdb.telemetry._traces import Tracing, begin_job, begin_trace, continue_trace, is_tracing, setup_tracing

__all__ = [
    "METRICS_CONTENT_TYPE",
    "REGISTRY",
    "SECONDS_BUCKETS",
    "AttributeValue",
    "CacheCounts",
    "CacheState",
    "CacheStatistics",
    "Family",
    "LogSetup",
    "Logger",
    "SpanKind",
    "TraceSpan",
    "Tracing",
    "app_info",
    "begin_job",
    "begin_trace",
    "collected",
    "continue_trace",
    "counter",
    "current_span",
    "entered",
    "fail_span",
    "families",
    "gauge",
    "get_logger",
    "histogram",
    "is_tracing",
    "iterate_within",
    "parse_traceparent",
    "render",
    "report_cache",
    "reported_caches",
    "setup_logging",
    "setup_tracing",
    "span",
    "traceparent_of_comment",
    "using_span",
]
