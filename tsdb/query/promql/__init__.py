"""PromQL over tables: where selectors find their samples, and what is known of series without reading them."""

from __future__ import annotations

from tsdb.query.promql._engine import PromqlEngine, Span
from tsdb.query.promql._metadata import Period, find_series, label_names, metric_names
from tsdb.query.promql._records import rows_of
from tsdb.query.promql._source import TableSeries
from tsdb.query.promql._tables import (
    DATABASE_LABELS,
    FIELD_LABEL,
    MetricCatalog,
    is_metric,
    split_matchers,
    value_columns,
)

__all__ = [
    "DATABASE_LABELS",
    "FIELD_LABEL",
    "MetricCatalog",
    "Period",
    "PromqlEngine",
    "Span",
    "TableSeries",
    "find_series",
    "is_metric",
    "label_names",
    "metric_names",
    "rows_of",
    "split_matchers",
    "value_columns",
]
