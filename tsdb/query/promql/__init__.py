"""PromQL over tables: where selectors find their samples, and what is known of series without reading them."""

from tsdb.query.promql._engine import PromqlEngine, QueryTimes
from tsdb.query.promql._lent import LendablePromql, LentPromql, PromqlBorrower, SharedTables, make_lendable
from tsdb.query.promql._metadata import Period, find_series, label_names, label_values, metric_names
from tsdb.query.promql._newest import Newest, SeriesCounts, count_series
from tsdb.query.promql._records import rows_of
from tsdb.query.promql._source import TableSeries
from tsdb.query.promql._tables import is_metric

__all__ = [
    "LendablePromql",
    "LentPromql",
    "Newest",
    "Period",
    "PromqlBorrower",
    "PromqlEngine",
    "QueryTimes",
    "SeriesCounts",
    "SharedTables",
    "TableSeries",
    "count_series",
    "find_series",
    "is_metric",
    "label_names",
    "label_values",
    "make_lendable",
    "metric_names",
    "rows_of",
]
