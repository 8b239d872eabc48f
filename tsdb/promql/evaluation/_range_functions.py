"""Functions of range vectors."""

from __future__ import annotations

import numpy as np

from tsdb.promql._ast import FunctionCall, MatrixSelector, TextSpan, VectorSelector, unwrap
from tsdb.promql._errors import PromqlFailure
from tsdb.promql._functions import ANCHORED_FUNCTIONS, SMOOTHED_FUNCTIONS
from tsdb.promql._lexer import go_quote
from tsdb.promql.evaluation._annotations import go_float
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._labels import NAME
from tsdb.promql.evaluation._native_ranges import native_range
from tsdb.promql.evaluation._selectors import Windows, apply_range, range_vector
from tsdb.promql.evaluation._values import Bools, Floats, Scalar, Times, Vector

_KEEPS_NAME = frozenset({"first_over_time", "last_over_time"})
_COUNTER_ENDS = ("_total", "_sum", "_count", "_bucket")
_ALIASES = {"holt_winters": "double_exponential_smoothing"}


def call_range(
    context: EvalContext, call: FunctionCall, windows: Windows, scalars: list[Scalar], times: Times
) -> Vector:
    """Evaluate a function of a range vector and scalars."""
    _check_extension(call, windows)
    function = _ALIASES.get(call.name, call.name)
    if function == "absent_over_time":
        return absent(call, _any_sample(context, windows, times), times)
    _check_arguments(context, call, windows, scalars, function)
    arguments = [scalar.values for scalar in scalars]
    natives = None
    if windows.natives is None:
        values, present = apply_range(
            windows,
            function,
            times,
            context,
            first=arguments[0] if arguments else None,
            second=arguments[1] if len(arguments) > 1 else None,
        )
    else:
        values, present, natives = native_range(context, call, windows, function, times, arguments)
    if function in ("rate", "increase"):
        has_number = present if natives is None else present & (natives.cells < 0)
        _remark_names(context, call, windows, np.logical_or.reduce(has_number, axis=1))
    return range_vector(windows, values, present, keeps_name=function in _KEEPS_NAME, natives=natives)


def _check_extension(call: FunctionCall, windows: Windows) -> None:
    allowed = {"anchored": ANCHORED_FUNCTIONS, "smoothed": SMOOTHED_FUNCTIONS}.get(windows.extension)
    if allowed is not None and call.name not in allowed:
        raise PromqlFailure(
            f"{windows.extension} modifier can only be used with: {', '.join(allowed)} - not with {call.name}"
        )


def _check_arguments(
    context: EvalContext, call: FunctionCall, windows: Windows, scalars: list[Scalar], function: str
) -> None:
    if not windows.rows or (windows.natives is not None and (windows.natives.cells >= 0).all()):
        return
    if function == "quantile_over_time":
        remark_quantiles(context, scalars[0].values, call.args[0].span)
    elif function == "double_exponential_smoothing":
        for scalar, what in zip(scalars, ("smoothing", "trend"), strict=True):
            wrong = ~((scalar.values > 0) & (scalar.values < 1))
            if wrong.any():
                value = float(scalar.values[wrong][0])
                raise PromqlFailure(f"invalid {what} factor. Expected: 0 < {what[0]}f < 1, got: {value:f}")


def remark_quantiles(context: EvalContext, quantiles: Floats, span: TextSpan) -> None:
    """Warn of quantiles that are none."""
    for value in dict.fromkeys(quantiles[~((quantiles >= 0) & (quantiles <= 1))].tolist()):
        context.annotations.warn(f"quantile value should be between 0 and 1, got {go_float(value)}", span)


def _remark_names(context: EvalContext, call: FunctionCall, windows: Windows, has: Bools) -> None:
    """Hint at metrics that do not look like counters; `has` says which series have a value."""
    column = windows.series.labels.column(NAME)
    kinds = windows.series.labels.columns.get("__type__")
    for code in np.unique(column.codes[has]).tolist():
        name = column.values[code]
        if not name or name.endswith(_COUNTER_ENDS):
            continue
        if kinds is not None and {kinds.values[each] for each in kinds.codes[has & (column.codes == code)]} <= {
            "counter",
            "histogram",
        }:
            continue
        context.annotations.info(
            f"metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {go_quote(name)}",
            call.args[0].span,
        )


def _any_sample(context: EvalContext, windows: Windows, times: Times) -> Bools:
    _, present = apply_range(windows, "present_over_time", times, context)
    has: Bools = np.logical_or.reduce(present, axis=0)
    return has


def absent(call: FunctionCall, has: Bools, times: Times) -> Vector:
    """Return 1 at the steps where there is nothing, with the labels of the selector."""
    if has.all():
        return Vector.empty(len(times))
    return Vector.single(_wanted_labels(call), np.ones(len(times)), ~has)


def _wanted_labels(call: FunctionCall) -> dict[str, str]:
    arg = unwrap(call.args[0])
    if isinstance(arg, MatrixSelector):
        arg = arg.selector
    if not isinstance(arg, VectorSelector):
        return {}
    wanted: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in arg.matchers:
        if matcher.name == NAME:
            continue
        if matcher.op == "=" and matcher.name not in seen:
            wanted[matcher.name] = matcher.value
            seen.add(matcher.name)
        else:
            wanted.pop(matcher.name, None)
    return {name: value for name, value in wanted.items() if value}
