"""The evaluation of PromQL: whole matrices of series and steps, in numpy and kernels."""

from tsdb.promql.evaluation._budget import SAMPLE_BYTES, SHARED_SAMPLES_MAX, PromqlBusy, SampleBudget
from tsdb.promql.evaluation._context import LOOKBACK_MS, SAMPLES_MAX, SERIES_MAX, Limits
from tsdb.promql.evaluation._labels import LabelColumn, LabelTable, concat_labels
from tsdb.promql.evaluation._numbers import format_float
from tsdb.promql.evaluation._run import Answer, EvaluationOptions, run_instant, run_range
from tsdb.promql.evaluation._source import STALE_BITS, SeriesSet
from tsdb.promql.evaluation._values import Natives, Scalar, StringValue, Vector, concat_vectors

__all__ = [
    "LOOKBACK_MS",
    "SAMPLES_MAX",
    "SAMPLE_BYTES",
    "SERIES_MAX",
    "SHARED_SAMPLES_MAX",
    "STALE_BITS",
    "Answer",
    "EvaluationOptions",
    "LabelColumn",
    "LabelTable",
    "Limits",
    "Natives",
    "PromqlBusy",
    "SampleBudget",
    "Scalar",
    "SeriesSet",
    "StringValue",
    "Vector",
    "concat_labels",
    "concat_vectors",
    "format_float",
    "run_instant",
    "run_range",
]
