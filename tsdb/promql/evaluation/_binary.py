"""Binary operators: arithmetic, comparisons and sets, between numbers and vectors.

Series with equal matching labels form groups, which are found once; the mask of a series says at which steps it takes
part. Every pair of series of a group becomes a row of the result, and rows with the same labels are merged, so that
series that alternate need no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from tsdb.promql._ast import ARITHMETIC, COMPARISONS, SET_OPERATORS, TRIMS, Binary, Matching
from tsdb.promql._errors import PromqlFailure
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._labels import METADATA, NAME, Codes, LabelTable, concat_labels, format_labels
from tsdb.promql.evaluation._native_binary import Operand, with_histograms
from tsdb.promql.evaluation._values import (
    Bools,
    Floats,
    Natives,
    Rows,
    Scalar,
    Value,
    Vector,
    concat_vectors,
    merge_whole,
)

_COMPUTE: dict[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
_COMPARE: dict[str, Callable[[Floats, Floats], Bools]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
}


def binary(context: EvalContext, node: Binary, left: Value, right: Value) -> Value:
    """Return the value of an operator."""
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return Scalar(_of_numbers(node.op, left.values, right.values))
    if isinstance(left, Vector) and isinstance(right, Scalar):
        return _with_number(context, node, left, right, is_swapped=False)
    if isinstance(left, Scalar) and isinstance(right, Vector):
        return _with_number(context, node, right, left, is_swapped=True)
    assert isinstance(left, Vector)
    assert isinstance(right, Vector)
    assert node.matching is not None
    if node.op in SET_OPERATORS:
        return _of_sets(context, node.op, node.matching, left, right)
    return _of_vectors(context, node, node.matching, left, right)


def _of_numbers(op: str, left: Floats, right: Floats) -> Floats:
    if op in _COMPARE:
        return _COMPARE[op](left, right).astype(np.float64)
    return _COMPUTE[op](left, right)


def _remark_trim(context: EvalContext, node: Binary, present: Bools) -> None:
    """Of floats, nothing can be trimmed."""
    if present.any():
        context.annotations.info(
            f'incompatible sample types encountered for binary operator "{node.op}": float {node.op} float', node.span
        )


def _with_number(context: EvalContext, node: Binary, vector: Vector, scalar: Scalar, *, is_swapped: bool) -> Vector:
    number = Operand(np.broadcast_to(scalar.values, vector.values.shape), None)
    own = Operand(vector.values, vector.natives)
    left, right = (number, own) if is_swapped else (own, number)
    values, present, natives = _compute(context, node, left, right, vector.present, kept=vector.values)
    drops = vector.drops_name if node.op in COMPARISONS | TRIMS and not node.is_bool else np.ones(vector.rows, np.bool_)
    return Vector(vector.labels, values, present, drops, natives=natives)


def _compute(
    context: EvalContext, node: Binary, left: Operand, right: Operand, present: Bools, *, kept: Floats
) -> tuple[Floats, Bools, Natives | None]:
    """Return what an operator gives for each cell of two sides; comparisons keep one of them."""
    if left.natives is None and right.natives is None:
        values, mask = _compute_numbers(context, node, left.values, right.values, present, kept=kept)
        return values, mask, None
    values, mask, natives, rest = with_histograms(context, node, left, right, present)
    if rest.any():
        numbers, has = _compute_numbers(context, node, left.values, right.values, rest, kept=kept)
        values, mask = np.where(has, numbers, values), mask | has
    return values, mask, natives


def _compute_numbers(
    context: EvalContext, node: Binary, left: Floats, right: Floats, present: Bools, *, kept: Floats
) -> tuple[Floats, Bools]:
    if node.op in TRIMS:
        _remark_trim(context, node, present)
        return left, np.zeros_like(present)
    if node.op in ARITHMETIC:
        return _COMPUTE[node.op](left, right), present
    holds = _COMPARE[node.op](left, right)
    if node.is_bool:
        return holds.astype(np.float64), present
    return kept, present & holds


# Matching


def _group_both(matching: Matching, left: LabelTable, right: LabelTable) -> tuple[Codes, Codes, int]:
    """Return the groups of both sides' series and how many there are."""
    names: Iterable[str] = matching.labels
    if not matching.is_on:
        names = [each for each in {**left.columns, **right.columns} if each not in (NAME, *matching.labels)]
    groups, first = concat_labels([left, right], names).group()
    return groups[: left.rows], groups[left.rows :], len(first)


def _count_present(groups: Codes, present: Bools, count: int) -> Codes:
    """Return how many series of each group have a value at each step."""
    out = np.zeros((count, present.shape[1]), np.int64)
    if len(groups) == 0:
        return out
    order = np.argsort(groups, kind="stable")
    ids, starts = np.unique(groups[order], return_index=True)
    if len(ids) == len(groups):
        out[groups] = present
        return out
    out[ids] = np.add.reduceat(present[order].astype(np.int64), starts, axis=0)
    return out


def _of_sets(context: EvalContext, op: str, matching: Matching, left: Vector, right: Vector) -> Vector:
    left_groups, right_groups, count = _group_both(matching, left.labels, right.labels)
    if op == "or":
        context.reserve(left.rows + right.rows, left.steps)
        has_left = _count_present(left_groups, left.present, count) > 0
        rest = right.masked(right.present & ~has_left[right_groups])
        return merge_whole(concat_vectors([left.compact(), rest.compact()]))
    has_right = (_count_present(right_groups, right.present, count) > 0)[left_groups]
    wanted = has_right if op == "and" else ~has_right
    return replace(left, present=left.present & wanted)


def _of_vectors(context: EvalContext, node: Binary, matching: Matching, left: Vector, right: Vector) -> Vector:
    """Compute between two vectors; the right side of what follows is always the side of which there is one."""
    is_swapped = matching.card == "one-to-many"
    many, one = (right, left) if is_swapped else (left, right)
    # As in Prometheus, the fill values follow the sides after they were swapped for `group_right`: `fill_left` always
    # stands in for the side of many, `fill_right` for the side of one.
    fill_many, fill_one = matching.fill_left, matching.fill_right
    if not many.rows and not one.rows:
        return Vector.empty(left.steps)
    many_groups, one_groups, count = _group_both(matching, many.labels, one.labels)
    one_counts = _count_present(one_groups, one.present, count)
    many_counts = _count_present(many_groups, many.present, count)
    takes_part = many.present.any(axis=0) if fill_many is None else np.ones(many.steps, np.bool_)
    if fill_many is not None or fill_one is not None:
        takes_part = np.ones(many.steps, np.bool_)
    _check_one(matching, one, one_groups, (one_counts > 1) & takes_part)
    # Series that take turns on the side of one may all have the same partners.
    context.reserve(int(np.bincount(one_groups, minlength=count)[many_groups].sum()), many.steps)
    pairs_many, pairs_one = _pairs(many_groups, one_groups, count)
    present = many.present[pairs_many] & one.present[pairs_one]
    parts = [_Part(many.take(pairs_many), one.take(pairs_one), present, many_groups[pairs_many])]
    if fill_one is not None:
        parts.append(_fill_one(matching, many, many_groups, fill_one, one_counts))
    if fill_many is not None:
        parts.append(_fill_many(matching, one, one_groups, fill_many, many_counts))
    return _join(context, node, matching, parts, is_swapped=is_swapped)


class _Part:
    """Rows that are computed: a series of each side, the steps at which both take part, and their group."""

    def __init__(self, many: Vector, one: Vector, present: Bools, groups: Codes) -> None:
        self.many = many
        self.one = one
        self.present = present
        self.groups = groups


def _pairs(many: Codes, one: Codes, count: int) -> tuple[Rows, Rows]:
    """Return every pair of series that are in the same group."""
    order = np.argsort(one, kind="stable")
    starts = np.searchsorted(one[order], np.arange(count + 1))
    sizes = (starts[1:] - starts[:-1])[many]
    pairs_many = np.repeat(np.arange(len(many)), sizes)
    inside = np.arange(len(pairs_many)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    pairs_one = order[np.repeat(starts[:-1][many], sizes) + inside]
    return pairs_many, pairs_one


def _matching_labels(matching: Matching, labels: LabelTable) -> LabelTable:
    return labels.keep(matching.labels) if matching.is_on else labels.without((NAME, *matching.labels))


def _constant(labels: LabelTable, value: float, steps: int) -> Vector:
    shape = (labels.rows, steps)
    return Vector(labels, np.full(shape, value), np.ones(shape, np.bool_), np.zeros(labels.rows, np.bool_))


def _fill_one(matching: Matching, many: Vector, groups: Codes, value: float, counts: Codes) -> _Part:
    one = _constant(_matching_labels(matching, many.labels), value, many.steps)
    return _Part(many, one, many.present & (counts == 0)[groups], groups)


def _fill_many(matching: Matching, one: Vector, groups: Codes, value: float, counts: Codes) -> _Part:
    many = _constant(_matching_labels(matching, one.labels), value, one.steps)
    return _Part(many, one, one.present & (counts == 0)[groups], groups)


def _check_one(matching: Matching, one: Vector, groups: Codes, twice: Bools) -> None:
    """Refuse a group that has two series at once on the side where there must be one."""
    wrong = np.argwhere(twice)
    if not len(wrong):
        return
    group, step = wrong[0]
    rows = np.flatnonzero((groups == group) & one.present[:, step])
    names = sorted(format_labels(one.labels.row(int(row))) for row in rows[:2])
    match = format_labels(_matching_labels(matching, one.labels).row(int(rows[0])))
    side = "left" if matching.card == "one-to-many" else "right"
    raise PromqlFailure(
        f"found duplicate series for the match group {match} on the {side} hand-side of the operation: "
        f"[{', '.join(names)}];many-to-many matching not allowed: matching labels must be unique on one side"
    )


def _join(context: EvalContext, node: Binary, matching: Matching, parts: list[_Part], *, is_swapped: bool) -> Vector:
    many = concat_vectors([part.many for part in parts])
    one = concat_vectors([part.one for part in parts])
    present = np.concatenate([part.present for part in parts])
    groups = np.concatenate([part.groups for part in parts])
    labels = _result_labels(node, matching, many.labels, one.labels)
    _check_many(matching, labels, groups, present)
    sides = Operand(many.values, many.natives), Operand(one.values, one.natives)
    left, right = reversed(sides) if is_swapped else sides
    drops = many.drops_name | node.is_bool
    values, present, natives = _compute(context, node, left, right, present, kept=left.values)
    result = Vector(labels, values, present, drops, natives=natives)
    return merge_whole(result.compact())


def _result_labels(node: Binary, matching: Matching, many: LabelTable, one: LabelTable) -> LabelTable:
    labels = many.without(METADATA) if node.op in ARITHMETIC else many
    if matching.card == "one-to-one":
        labels = labels.keep(matching.labels) if matching.is_on else labels.without(matching.labels)
    for name in matching.include:
        labels = labels.with_column(name, one.column(name))
    return labels


def _check_many(matching: Matching, labels: LabelTable, groups: Codes, present: Bools) -> None:
    """Refuse two results for one place."""
    if not len(groups):
        return
    if matching.card == "one-to-one":
        keys, message = groups, "many-to-one matching must be explicit (group_left/group_right)"
    else:
        same, first = labels.group()
        keys = groups * len(first) + same
        message = "grouping labels must ensure unique matches"
    _, ids = np.unique(keys, return_inverse=True)
    ids = ids.reshape(-1)
    if (_count_present(ids, present, int(ids.max()) + 1) > 1).any():
        raise PromqlFailure(f"multiple matches for labels: {message}")
