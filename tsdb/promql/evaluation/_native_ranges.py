"""Functions of range vectors in which there are native histograms, and smoothed selectors of such."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tsdb import _kernels
from tsdb.promql._ast import FunctionCall, TextSpan
from tsdb.promql._lexer import go_quote
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._labels import NAME
from tsdb.promql.evaluation._native_samples import SampleNatives, to_cells
from tsdb.promql.evaluation._selectors import Windows, steps_at_once, to_floats, to_mask
from tsdb.promql.evaluation._values import Bools, Floats, Natives, Times

_NAMED_WARNINGS = {
    1: "encountered a mix of histograms and floats for metric name",
    2: "vector contains a mix of histograms with exponential and custom buckets schemas for metric name",
    4: "this native histogram metric is not a counter:",
    8: "this native histogram metric is not a gauge:",
}
_INFOS = {
    16: "mismatched custom buckets were reconciled during subtraction",
    32: "mismatched custom buckets were reconciled during addition",
    64: "mismatched custom buckets were reconciled during aggregation",
}
_COLLISION = 128
_IGNORED = 256


def native_range(
    context: EvalContext, call: FunctionCall, windows: Windows, function: str, times: Times, arguments: list[Floats]
) -> tuple[Floats, Bools, Natives | None]:
    """Return what a function gives for each window, where it gives something, and where that is a histogram."""
    natives = windows.natives
    assert natives is not None
    steps = len(times)
    reserve(context, natives, windows.rows, steps)
    values, present = np.empty((windows.rows, steps)), np.empty((windows.rows, steps), np.bool_)
    cells = np.empty((windows.rows, steps), np.int32)
    flags = np.zeros(windows.rows, np.uint32)
    pools: list[_kernels.Histograms] = []
    size, count = 0, steps_at_once(windows, context.limits.visits_max, width=natives.pool.width)
    for start in range(0, steps, count):
        context.check()
        part = slice(start, start + count)
        pool, some, has, numbers, remarks = _range(context, windows, function, part, times, arguments)
        rows, width = windows.rows, len(times[part])
        values[:, part], present[:, part] = to_floats(some, rows, width), to_mask(has, rows, width)
        found = to_cells(numbers).reshape(rows, width)
        cells[:, part] = np.where(found >= 0, found + size, found)
        flags |= pa.array(remarks).to_numpy(zero_copy_only=False)
        pools.append(pool)
        size += len(pool)
    _remark(context, windows, flags, call.args[0].span)
    whole = pools[0] if len(pools) == 1 else _kernels.Histograms.concat(pools)
    return values, present, Natives.of(whole, cells)


def _range(
    context: EvalContext, windows: Windows, function: str, part: slice, times: Times, arguments: list[Floats]
) -> tuple[_kernels.Histograms, Any, Any, Any, Any]:
    """Return the histograms and cells of a range of steps."""
    natives = windows.natives
    assert natives is not None
    nothing = np.zeros(len(times[part]))
    return natives.pool.range(
        function,
        pa.array(windows.series.offsets),
        pa.array(windows.series.times),
        pa.array(windows.series.values),
        pa.array(natives.cells),
        pa.array(windows.ends[part]),
        pa.array(times[part]),
        windows.range_ms,
        pa.array(arguments[0][part] if arguments else nothing),
        pa.array(arguments[1][part] if len(arguments) > 1 else nothing),
        windows.extension,
        context.lookback_ms,
    )


def reserve(context: EvalContext, natives: SampleNatives | Natives, rows: int, steps: int) -> None:
    """Make sure that a matrix of histograms may be made, which takes more room than one of numbers."""
    context.reserve(rows * (1 + natives.pool.width // 2), steps)


def _remark(
    context: EvalContext, windows: Windows, flags: np.ndarray[tuple[int], np.dtype[np.uint32]], span: TextSpan
) -> None:
    annotations = context.annotations
    column = windows.series.labels.column(NAME)
    for flag, text in _NAMED_WARNINGS.items():
        for code in np.unique(column.codes[(flags & flag) != 0]).tolist():
            annotations.warn(f"{text} {go_quote(column.values[code])}", span)
    if (flags & _COLLISION).any():
        annotations.warn("conflicting counter resets during histogram aggregation", span)
    for flag, text in _INFOS.items():
        if (flags & flag).any():
            annotations.info(text, span)
    for code in np.unique(column.codes[(flags & _IGNORED) != 0]).tolist():
        name = go_quote(column.values[code])
        annotations.info(
            f"ignored histograms in a range containing both floats and histograms for metric name {name}", span
        )
