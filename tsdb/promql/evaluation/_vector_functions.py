"""Functions of instant vectors and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt

from tsdb.promql._ast import FunctionCall
from tsdb.promql._errors import PromqlFailure
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._histograms import HISTOGRAM_FUNCTIONS, histogram_function
from tsdb.promql.evaluation._label_functions import label_join, label_replace, sort_by_label
from tsdb.promql.evaluation._range_functions import absent
from tsdb.promql.evaluation._values import Floats, Scalar, StringValue, Times, Value, Vector

_MATH: dict[str, Callable[[Floats], Floats]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "deg": lambda values: values * 180 / math.pi,
    "exp": np.exp,
    "floor": np.floor,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "rad": lambda values: values * math.pi / 180,
    "sgn": lambda values: np.where(values > 0, 1.0, np.where(values < 0, -1.0, values)),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
_DATES = frozenset(["day_of_month", "day_of_week", "day_of_year", "days_in_month", "hour", "minute", "month", "year"])
_SORTS = frozenset({"sort", "sort_desc", "sort_by_label", "sort_by_label_desc"})


def call_vector(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    """Evaluate a function that takes no range vector."""
    name = call.name
    if name in _MATH:
        vector = cast(Vector, args[0])
        return vector.mapped(_MATH[name](vector.values))
    if name in _DATES:
        return _date(name, args, times)
    if name in _SORTS:
        return _sort(context, call, args)
    if name in HISTOGRAM_FUNCTIONS:
        return histogram_function(context, call, args)
    return _OTHERS[name](context, call, args, times)


def _number(args: list[Value], position: int) -> Floats:
    return cast(Scalar, args[position]).values


def _time(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    return Scalar(times / 1000)


def _constant(
    compute: Callable[[EvalContext], float],
) -> Callable[[EvalContext, FunctionCall, list[Value], Times], Value]:
    def function(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
        return Scalar(np.full(len(times), compute(context)))

    return function


def _extreme(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    """The larger or the smaller of two numbers: infinity on its side wins, else NaN does."""
    left, right = _number(args, 0), _number(args, 1)
    most, choose = (np.inf, np.maximum) if call.name == "max_of" else (-np.inf, np.minimum)
    return Scalar(np.where((left == most) | (right == most), most, choose(left, right)))


def _vector(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    return Vector.single({}, _number(args, 0))


def _scalar(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    vector = cast(Vector, args[0]).without_histograms()
    counts = vector.present.sum(axis=0)
    sums = np.where(vector.present, vector.values, 0.0).sum(axis=0)
    return Scalar(np.where(counts == 1, sums, np.nan))


def _timestamp(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    vector = cast(Vector, args[0])
    return vector.mapped(np.broadcast_to(times / 1000, vector.values.shape), vector.present)


def _absent(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    has = np.logical_or.reduce(cast(Vector, args[0]).present, axis=0)
    return absent(call, has, times)


def _clamp(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    vector = cast(Vector, args[0])
    low = np.full(len(times), -np.inf) if call.name == "clamp_max" else _number(args, 1)
    high = np.full(len(times), np.inf) if call.name == "clamp_min" else _number(args, -1)
    # An infinity on its own side wins even against NaN.
    values = np.where((high == -np.inf) | (vector.values == -np.inf), -np.inf, np.minimum(high, vector.values))
    values = np.where((low == np.inf) | (values == np.inf), np.inf, np.maximum(low, values))
    return vector.mapped(values, vector.floats & ~(high < low))


def _round(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    vector = cast(Vector, args[0])
    inverse = 1.0 / (_number(args, 1) if len(args) > 1 else np.ones(len(times)))
    return vector.mapped(np.floor(vector.values * inverse + 0.5) / inverse)


def _label_replace(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    target, template, source, pattern = (cast(StringValue, arg).value for arg in args[1:])
    return label_replace(context, cast(Vector, args[0]), target, template, source, pattern)


def _label_join(context: EvalContext, call: FunctionCall, args: list[Value], times: Times) -> Value:
    target, separator, *sources = (cast(StringValue, arg).value for arg in args[1:])
    return label_join(context, cast(Vector, args[0]), target, separator, sources)


_OTHERS: dict[str, Callable[[EvalContext, FunctionCall, list[Value], Times], Value]] = {
    "absent": _absent,
    "clamp": _clamp,
    "clamp_max": _clamp,
    "clamp_min": _clamp,
    "end": _constant(lambda context: context.end_ms / 1000),
    "label_join": _label_join,
    "label_replace": _label_replace,
    "max_of": _extreme,
    "min_of": _extreme,
    "pi": _constant(lambda context: math.pi),
    "range": _constant(lambda context: (context.end_ms - context.start_ms) / 1000),
    "round": _round,
    "scalar": _scalar,
    "start": _constant(lambda context: context.start_ms / 1000),
    "step": _constant(lambda context: context.step_ms / 1000),
    "time": _time,
    "timestamp": _timestamp,
    "vector": _vector,
}


def _sort(context: EvalContext, call: FunctionCall, args: list[Value]) -> Vector:
    vector = cast(Vector, args[0])
    if not call.name.startswith("sort_by_label"):
        vector = vector.without_histograms()
    if context.is_range:
        context.annotations.warn(
            "sort is ineffective for range queries since results are always ordered by labels", call.span
        )
        return vector
    vector = vector.compact()
    if call.name.startswith("sort_by_label"):
        names = [cast(StringValue, arg).value for arg in args[1:]]
        rows = sort_by_label(vector.labels, names, is_descending=call.name.endswith("_desc"))
    else:
        values = vector.values[:, 0]
        keys = -values if call.name == "sort_desc" else values
        rows = np.lexsort((keys, np.isnan(values)))
    return replace(vector.take(rows), is_ordered=True)


# Dates

_SECONDS_MAX = 1e15


def _date(name: str, args: list[Value], times: Times) -> Vector:
    if args:
        vector = cast(Vector, args[0])
    else:
        vector = Vector.single({}, times / 1000)
    is_date = np.isfinite(vector.values) & (np.abs(vector.values) < _SECONDS_MAX)
    stamps = np.trunc(np.where(is_date, vector.values, 0.0)).astype("datetime64[s]")
    return vector.mapped(np.where(is_date, _date_part(name, stamps), np.nan))


def _date_part(name: str, stamps: npt.NDArray[np.datetime64]) -> Floats:
    days, months = stamps.astype("datetime64[D]"), stamps.astype("datetime64[M]")
    seconds = stamps.astype(np.int64)
    if name == "hour":
        part = seconds // 3600 % 24
    elif name == "minute":
        part = seconds // 60 % 60
    elif name == "year":
        part = stamps.astype("datetime64[Y]").astype(np.int64) + 1970
    elif name == "month":
        part = months.astype(np.int64) % 12 + 1
    elif name == "day_of_month":
        part = (days - months.astype("datetime64[D]")).astype(np.int64) + 1
    elif name == "day_of_year":
        part = (days - stamps.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64) + 1
    elif name == "day_of_week":
        part = (days.astype(np.int64) + 4) % 7
    elif name == "days_in_month":
        part = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
    else:
        raise PromqlFailure(f"unknown function {name}")
    return part.astype(np.float64)
