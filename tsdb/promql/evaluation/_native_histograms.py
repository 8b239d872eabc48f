"""Functions of native histograms."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from tsdb.promql._ast import TextSpan
from tsdb.promql._lexer import go_quote
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._labels import NAME, LabelTable, concat_labels
from tsdb.promql.evaluation._native_samples import to_cells
from tsdb.promql.evaluation._values import Bools, Floats, Vector

_RESULT, _SKEW = 1, 2
_REMARKS = {
    ("quantile", _RESULT): "input to histogram_quantile has NaN observations, result is NaN",
    ("quantile", _SKEW): "input to histogram_quantile has NaN observations, result is skewed higher",
    ("fraction", _SKEW): "input to histogram_fraction has NaN observations, which are excluded from all fractions",
}


def statistic(vector: Vector, name: str) -> Vector:
    """Return count, sum, avg, stddev or stdvar of each histogram."""
    if vector.natives is None:
        return Vector.empty(vector.steps)
    mask = vector.histograms
    values = np.zeros(mask.shape)
    found = vector.natives.pool.statistic(name, pa.array(vector.natives.cells[mask]))
    values[mask] = pa.array(found).to_numpy(zero_copy_only=False)
    return vector.mapped(values, mask)


def of_natives(
    context: EvalContext,
    function: Literal["quantile", "fraction"],
    vector: Vector,
    mask: Bools,
    first: Floats,
    second: Floats,
    span: TextSpan,
) -> Vector:
    """Return quantiles or fractions of the histograms in some cells."""
    assert vector.natives is not None
    cells = pa.array(vector.natives.cells[mask])
    one, other = (pa.array(np.broadcast_to(each, mask.shape)[mask]) for each in (first, second))
    if function == "quantile":
        found, flags = vector.natives.pool.quantile(cells, one)
    else:
        found, flags = vector.natives.pool.fraction(cells, one, other)
    values, marks = np.zeros(mask.shape), np.zeros(mask.shape, np.uint8)
    values[mask], marks[mask] = pa.array(found).to_numpy(zero_copy_only=False), to_cells(flags)
    for flag in (_RESULT, _SKEW):
        rows = np.flatnonzero((marks == flag).any(axis=1))
        for name in dict.fromkeys(vector.labels.take(rows).column(NAME).texts()):
            of_metric = f" for metric name {go_quote(name)}" if name else ""
            context.annotations.info(_REMARKS[function, flag] + of_metric, span)
    return vector.mapped(values, mask)


def find_conflicts(
    context: EvalContext, natives: Vector, mask: Bools, classics: LabelTable, present: Bools, span: TextSpan
) -> tuple[Bools, Bools]:
    """Find the cells where a native histogram and a classic one have the same labels, which then both do not count."""
    both = concat_labels([natives.labels, classics])
    groups, first = both.group()
    of_native, of_classic = groups[: natives.rows], groups[natives.rows :]
    has_native = np.zeros((len(first), natives.steps), np.bool_)
    has_classic = np.zeros((len(first), natives.steps), np.bool_)
    np.logical_or.at(has_native, of_native, mask)
    np.logical_or.at(has_classic, of_classic, present)
    clash = has_native & has_classic
    rows = np.flatnonzero(clash[of_native].any(axis=1))
    for name in dict.fromkeys(natives.labels.take(rows).column(NAME).texts()):
        of_metric = f" for metric name {go_quote(name)}" if name else ""
        context.annotations.warn(f"vector contains a mix of classic and native histograms{of_metric}", span)
    return mask & ~clash[of_native], present & ~clash[of_classic]
