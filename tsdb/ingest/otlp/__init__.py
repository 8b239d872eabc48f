"""OpenTelemetry's export requests, metrics, traces and logs, as rows of tables."""

from tsdb.ingest.otlp._logs import LOG_TABLE, LOG_TABLES, parse_logs
from tsdb.ingest.otlp._metrics import MetricOptions, metric_tables, parse_metrics
from tsdb.ingest.otlp._names import Strategy
from tsdb.ingest.otlp._parsed import OtlpItems
from tsdb.ingest.otlp._traces import CHOICE_TABLES, PARTITIONS, TRACE_TABLE, choice_rows, parse_traces, trace_tables

__all__ = [
    "CHOICE_TABLES",
    "LOG_TABLE",
    "LOG_TABLES",
    "PARTITIONS",
    "TRACE_TABLE",
    "MetricOptions",
    "OtlpItems",
    "Strategy",
    "choice_rows",
    "metric_tables",
    "parse_logs",
    "parse_metrics",
    "parse_traces",
    "trace_tables",
]
