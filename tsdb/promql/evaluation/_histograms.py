"""Functions of histograms: native ones, and classic ones, whose label `le` is the upper bound of a bucket."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
import pyarrow as pa

from tsdb import _kernels
from tsdb.promql._ast import FunctionCall, TextSpan
from tsdb.promql._lexer import go_quote
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._labels import NAME, Codes, LabelColumn, LabelTable
from tsdb.promql.evaluation._native_histograms import find_conflicts, of_natives, statistic
from tsdb.promql.evaluation._numbers import format_float
from tsdb.promql.evaluation._range_functions import remark_quantiles
from tsdb.promql.evaluation._selectors import to_floats, to_mask
from tsdb.promql.evaluation._values import (
    Bools,
    Floats,
    Scalar,
    StringValue,
    Value,
    Vector,
    concat_vectors,
    merge_same,
    merge_whole,
)

HISTOGRAM_FUNCTIONS = frozenset(
    [
        "histogram_avg",
        "histogram_count",
        "histogram_fraction",
        "histogram_quantile",
        "histogram_quantiles",
        "histogram_stddev",
        "histogram_stdvar",
        "histogram_sum",
    ]
)
_BOUND = "le"


@dataclass(frozen=True, slots=True, eq=False)
class _BucketSeries:
    """The series that are buckets, with their bounds and histograms."""

    vector: Vector
    bounds: Floats
    groups: Codes
    labels: LabelTable
    """Of the histograms."""


@dataclass(frozen=True, slots=True, eq=False)
class _Input:
    """The input of a function: the buckets of classic histograms, and native histograms where the mask says so."""

    buckets: _BucketSeries
    vector: Vector
    mask: Bools
    span: TextSpan


def histogram_function(context: EvalContext, call: FunctionCall, args: list[Value]) -> Vector:
    """Evaluate a function of histograms."""
    if call.name == "histogram_quantile":
        quantiles = cast(Scalar, args[0]).values
        remark_quantiles(context, quantiles, call.args[0].span)
        found = _find(context, cast(Vector, args[1]), call.args[1].span)
        return _of_input(context, "quantile", found, quantiles, np.zeros_like(quantiles), call.args[0].span)
    if call.name == "histogram_quantiles":
        return _quantiles(context, call, args)
    if call.name == "histogram_fraction":
        lower, upper = cast(Scalar, args[0]).values, cast(Scalar, args[1]).values
        found = _find(context, cast(Vector, args[2]), call.args[2].span)
        return _of_input(context, "fraction", found, lower, upper, call.args[0].span)
    return statistic(cast(Vector, args[0]), call.name.removeprefix("histogram_"))


def _quantiles(context: EvalContext, call: FunctionCall, args: list[Value]) -> Vector:
    found = _find(context, cast(Vector, args[0]), call.args[0].span)
    label = cast(StringValue, args[1]).value
    context.reserve(found.vector.rows * (len(args) - 2), found.vector.steps)
    parts = []
    for position, arg in enumerate(args[2:], start=2):
        quantiles = cast(Scalar, arg).values
        remark_quantiles(context, quantiles, call.args[position].span)
        whole = _of_input(context, "quantile", found, quantiles, np.zeros_like(quantiles), call.args[0].span)
        for value in np.unique(quantiles).tolist():
            # The quantile is part of the labels, so steps with different ones are different series.
            steps = np.isnan(quantiles) if np.isnan(value) else quantiles == value
            each = whole.masked(whole.present & steps)
            column = LabelColumn.constant(_open_metrics(float(value)), each.rows)
            parts.append(replace(each, labels=each.labels.with_column(label, column)).compact())
    return merge_same(concat_vectors(parts))


def _find(context: EvalContext, vector: Vector, span: TextSpan) -> _Input:
    mask = vector.histograms
    buckets = _find_buckets(context, vector.without_histograms(), span)
    if vector.natives is not None and buckets.labels.rows and mask.any():
        has = np.zeros((buckets.labels.rows, vector.steps), np.bool_)
        np.logical_or.at(has, buckets.groups, buckets.vector.present)
        mask, kept = find_conflicts(context, vector, mask, buckets.labels, has, span)
        buckets = replace(buckets, vector=buckets.vector.masked(buckets.vector.present & kept[buckets.groups]))
    return _Input(buckets, vector, mask, span)


def _of_input(
    context: EvalContext,
    function: Literal["quantile", "fraction"],
    found: _Input,
    first: Floats,
    second: Floats,
    span: TextSpan,
) -> Vector:
    classic = _of_buckets(context, function, found.buckets, first, second, found.span)
    if found.vector.natives is None or not found.mask.any():
        return classic
    native = of_natives(context, function, found.vector, found.mask, first, second, span).compact()
    classic = classic.compact()
    return merge_whole(concat_vectors([native, classic])) if classic.rows else native


def _open_metrics(value: float) -> str:
    """Return a number as OpenMetrics writes it in labels: with a point, if it is an integer."""
    text = format_float(value)
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def _find_buckets(context: EvalContext, vector: Vector, span: TextSpan) -> _BucketSeries:
    """Keep the series that have a bound; the others get a warning."""
    vector = vector.compact()
    column = vector.labels.column(_BOUND)
    bounds = [_parse_bound(text) for text in column.values]
    is_wrong = np.array([bound is None for bound in bounds], np.bool_)
    wrong = is_wrong[column.codes]
    if wrong.any():
        _remark_bounds(context, vector.take(np.flatnonzero(wrong)), span)
        vector = vector.take(np.flatnonzero(~wrong))
        column = vector.labels.column(_BOUND)
    numbers = np.array([0.0 if bound is None else bound for bound in bounds])
    others = vector.labels.without((_BOUND,))
    groups, first = others.group()
    return _BucketSeries(vector, numbers[column.codes], groups, others.take(first))


def _parse_bound(text: str) -> float | None:
    try:
        return float(text.replace("_", "x"))
    except ValueError:
        return None


def _remark_bounds(context: EvalContext, vector: Vector, span: TextSpan) -> None:
    names, bounds = vector.labels.column(NAME).texts(), vector.labels.column(_BOUND).texts()
    for name, bound in dict.fromkeys(zip(names, bounds, strict=True)):
        context.annotations.warn(
            f'bucket label "le" is missing or has a malformed value of {go_quote(bound)} '
            f"for metric name {go_quote(name)}",
            span,
        )


def _of_buckets(
    context: EvalContext,
    function: Literal["quantile", "fraction"],
    buckets: _BucketSeries,
    first: Floats,
    second: Floats,
    span: TextSpan,
) -> Vector:
    vector, count = buckets.vector, buckets.labels.rows
    if not count:
        return Vector.empty(vector.steps)
    values, present, raised = _kernels.prom_buckets(
        function,
        pa.array(np.ascontiguousarray(vector.values).reshape(-1)),
        pa.array(np.ascontiguousarray(vector.present).reshape(-1).view(np.uint8)),
        pa.array(buckets.groups),
        pa.array(buckets.bounds),
        count,
        pa.array(first),
        pa.array(second),
    )
    if function == "quantile":
        is_raised = to_mask(raised, count, vector.steps).any(axis=1)
        for name in dict.fromkeys(buckets.labels.take(np.flatnonzero(is_raised)).column(NAME).texts()):
            context.annotations.info(
                "input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/"
                f"prometheus/latest/querying/functions/#histogram_quantile) for metric name {go_quote(name)}",
                span,
            )
    drops = np.ones(count, np.bool_)
    return Vector(buckets.labels, to_floats(values, count, vector.steps), to_mask(present, count, vector.steps), drops)
