"""Aggregations of vectors in which there are native histograms: `sum` and `avg` of them, and the counting of values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.promql._ast import Aggregation
from tsdb.promql._lexer import go_quote
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._labels import NAME, Codes
from tsdb.promql.evaluation._native_samples import to_cells
from tsdb.promql.evaluation._values import Natives, Vector

_RECONCILED, _COLLISION = 64, 128


def leave_out_histograms(context: EvalContext, node: Aggregation, vector: Vector) -> Vector:
    """Return only the numbers, for an aggregation that has no use for histograms."""
    if vector.histograms.any():
        span = node.span if node.op in ("topk", "bottomk") else node.expr.span
        context.annotations.info(f"ignored histogram in {node.op} aggregation", span)
    return vector.without_histograms()


def add_histograms(context: EvalContext, node: Aggregation, vector: Vector, groups: Codes, numbers: Vector) -> Vector:
    """Add the sums or means of histograms to those of numbers; a group with both has no result."""
    assert vector.natives is not None
    mask = vector.histograms
    cells = np.where(mask, vector.natives.cells, np.int32(-1))
    pool, found, flags, culprits = vector.natives.pool.aggregate(
        node.op, pa.array(cells.reshape(-1)), pa.array(groups), numbers.rows, numbers.steps
    )
    shape = numbers.present.shape
    results = to_cells(found).reshape(shape)
    rows = to_cells(culprits).reshape(shape)
    is_mixed = numbers.present & ((results >= 0) | (rows >= 0))
    _remark(context, node, vector, to_cells(flags).reshape(shape)[~is_mixed], rows[rows >= 0])
    if is_mixed.any():
        context.annotations.warn("encountered a mix of histograms and floats for aggregation", node.expr.span)
    present = (numbers.present | (results >= 0)) & ~is_mixed
    return replace(
        numbers,
        values=np.where(numbers.present, numbers.values, np.nan),
        present=present,
        natives=Natives.of(pool, results),
    )


def _remark(
    context: EvalContext,
    node: Aggregation,
    vector: Vector,
    flags: npt.NDArray[np.int32],
    culprits: npt.NDArray[np.int32],
) -> None:
    annotations, span = context.annotations, node.expr.span
    column = vector.labels.column(NAME)
    for code in np.unique(column.codes[culprits]).tolist():
        annotations.warn(
            "vector contains a mix of histograms with exponential and custom buckets schemas for metric name "
            f"{go_quote(column.values[code])}",
            span,
        )
    if (flags & _COLLISION).any():
        annotations.warn("conflicting counter resets during histogram aggregation", span)
    if (flags & _RECONCILED).any():
        annotations.info("mismatched custom buckets were reconciled during aggregation", span)


def count_texts(vector: Vector) -> dict[str, npt.NDArray[np.bool_]]:
    """Return the texts of the histograms of a vector, each with the cells that have it."""
    mask = vector.histograms
    if vector.natives is None or not mask.any():
        return {}
    places = np.argwhere(mask)
    texts = vector.natives.pool.texts(pa.array(vector.natives.cells[mask]))
    found: dict[str, npt.NDArray[np.bool_]] = {}
    for (row, step), text in zip(places.tolist(), texts, strict=True):
        found.setdefault(text or "", np.zeros(mask.shape, np.bool_))[row, step] = True
    return found
