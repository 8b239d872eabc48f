"""Operators of which a side is a native histogram.

Two histograms can be added, subtracted, and be the same or not; a histogram can be multiplied by a number, divided and
trimmed at one. Everything else gives no result, and an info that says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tsdb import _kernels
from tsdb.promql._ast import Binary
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._native_samples import to_cells
from tsdb.promql.evaluation._values import Bools, Floats, Natives, Vector

_COLLISION, _RECONCILED, _MIXED = 1, 2, 4
_NAMES = {"+": "addition", "-": "subtraction"}


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """One side: numbers, and where it has them histograms."""

    values: Floats
    natives: Natives | None

    def is_histogram(self, present: Bools) -> Bools:
        return np.zeros_like(present) if self.natives is None else present & (self.natives.cells >= 0)


@dataclass(slots=True, eq=False)
class _Results:
    """The results of some of the cells."""

    values: Floats
    present: Bools
    planes: list[tuple[_kernels.Histograms, Bools]]
    """Pools whose histograms belong, one after the other, to the cells of a mask."""

    def natives(self) -> Natives | None:
        if not self.planes:
            return None
        cells = np.full(self.present.shape, -1, np.int32)
        size = 0
        for pool, mask in self.planes:
            cells[mask] = np.arange(size, size + len(pool), dtype=np.int32)
            size += len(pool)
        return Natives.of(_kernels.Histograms.concat([pool for pool, _ in self.planes]), cells)


def with_histograms(
    context: EvalContext, node: Binary, left: Operand, right: Operand, present: Bools
) -> tuple[Floats, Bools, Natives | None, Bools]:
    """Compute the cells of which a side is a histogram.

    Returns values, the cells that have a result, its plane, and where numbers meet numbers, which is left to others.
    """
    is_left, is_right = left.is_histogram(present), right.is_histogram(present)
    results = _Results(np.full(present.shape, np.nan), np.zeros_like(present), [])
    both, only_left, only_right = is_left & is_right, is_left & ~is_right, is_right & ~is_left
    if both.any():
        _of_both(context, node, left, right, both, results)
    if only_left.any():
        _with_number(context, node, left, right.values, only_left, results, is_swapped=False)
    if only_right.any():
        _with_number(context, node, right, left.values, only_right, results, is_swapped=True)
    return results.values, results.present, results.natives(), present & ~is_left & ~is_right


def _of_both(context: EvalContext, node: Binary, left: Operand, right: Operand, mask: Bools, results: _Results) -> None:
    assert left.natives is not None
    assert right.natives is not None
    cells, others = pa.array(left.natives.cells[mask]), pa.array(right.natives.cells[mask])
    if node.op in _NAMES:
        pool, found, flags = left.natives.pool.combine(cells, right.natives.pool, others, node.op == "-")
        has = np.zeros_like(mask)
        has[mask] = to_cells(found) >= 0
        results.present |= has
        results.planes.append((pool, has))
        _remark_combination(context, node, int(np.bitwise_or.reduce(to_cells(flags))))
        return
    if node.op not in ("==", "!="):
        _remark_types(context, node, "histogram", "histogram")
        return
    holds = to_cells(left.natives.pool.equal(cells, right.natives.pool, others)).astype(np.bool_)
    if node.op == "!=":
        holds = ~holds
    if node.is_bool:
        results.values[mask] = holds
        results.present |= mask
        return
    kept = np.zeros_like(mask)
    kept[mask] = holds
    results.present |= kept
    results.planes.append((left.natives.pool.scale(pa.array(left.natives.cells[kept]), _ones(kept), False), kept))


def _ones(mask: Bools) -> pa.Array:
    return pa.array(np.ones(int(mask.sum())))


def _with_number(
    context: EvalContext,
    node: Binary,
    side: Operand,
    numbers: Floats,
    mask: Bools,
    results: _Results,
    *,
    is_swapped: bool,
) -> None:
    assert side.natives is not None
    cells, factors = pa.array(side.natives.cells[mask]), pa.array(numbers[mask])
    if node.op == "*" or (node.op == "/" and not is_swapped):
        pool = side.natives.pool.scale(cells, factors, node.op == "/")
    elif node.op in ("</", ">/") and not is_swapped:
        pool = side.natives.pool.trim(cells, factors, node.op == "</")
    else:
        _remark_types(context, node, *(("float", "histogram") if is_swapped else ("histogram", "float")))
        return
    results.present |= mask
    results.planes.append((pool, mask))


def _remark_types(context: EvalContext, node: Binary, left: str, right: str) -> None:
    context.annotations.info(
        f'incompatible sample types encountered for binary operator "{node.op}": {left} {node.op} {right}', node.span
    )


def _remark_combination(context: EvalContext, node: Binary, flags: int) -> None:
    if flags & _COLLISION:
        context.annotations.warn(f"conflicting counter resets during histogram {_NAMES[node.op]}", node.span)
    if flags & _RECONCILED:
        context.annotations.info(f"mismatched custom buckets were reconciled during {_NAMES[node.op]}", node.span)
    if flags & _MIXED:
        context.annotations.warn(f"incompatible bucket layout encountered for binary operator {node.op}", node.span)


def negated(vector: Vector) -> Vector:
    """Return a vector with the opposite sign."""
    if vector.natives is None:
        return vector.mapped(-vector.values)
    mask = vector.histograms
    pool = vector.natives.pool.scale(
        pa.array(vector.natives.cells[mask]), pa.array(np.full(int(mask.sum()), -1.0)), False
    )
    cells = np.full(mask.shape, -1, np.int32)
    cells[mask] = np.arange(len(pool), dtype=np.int32)
    return replace(vector.mapped(-vector.values, vector.present), natives=Natives.of(pool, cells))
