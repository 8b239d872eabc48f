"""Aggregations over groups of series."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tsdb import _kernels
from tsdb.promql._ast import Aggregation
from tsdb.promql._checks import is_utf8
from tsdb.promql._errors import PromqlFailure
from tsdb.promql._lexer import go_quote
from tsdb.promql.evaluation._annotations import go_float
from tsdb.promql.evaluation._context import EvalContext
from tsdb.promql.evaluation._labels import NAME, Codes, LabelColumn, LabelTable, LabelValues
from tsdb.promql.evaluation._native_aggregate import add_histograms, count_texts, leave_out_histograms
from tsdb.promql.evaluation._numbers import format_float
from tsdb.promql.evaluation._range_functions import remark_quantiles
from tsdb.promql.evaluation._selectors import to_floats, to_mask
from tsdb.promql.evaluation._values import Bools, Floats, Scalar, StringValue, Value, Vector

_INT64 = float(1 << 63)
_OF_NUMBERS = frozenset({"bottomk", "max", "min", "quantile", "stddev", "stdvar", "topk"})
"""Aggregations that leave histograms out."""


def aggregate(context: EvalContext, node: Aggregation, vector: Vector, param: Value | None) -> Vector:
    """Return the value of an aggregation."""
    if isinstance(param, Scalar):
        _check_param(node, param.values)
    vector = vector.compact()
    if node.op == "count_values":
        assert isinstance(param, StringValue)
        return _count_values(context, node, vector, param.value)
    if vector.natives is not None and node.op in _OF_NUMBERS:
        vector = leave_out_histograms(context, node, vector).compact()
    if not vector.rows:
        return Vector.empty(vector.steps)
    groups, first = _group(node, vector.labels)
    if node.op in ("topk", "bottomk", "limitk", "limit_ratio"):
        assert isinstance(param, Scalar)
        return _some_of(context, node, vector, groups, param.values)
    if node.op == "quantile":
        assert isinstance(param, Scalar)
        remark_quantiles(context, param.values, node.param.span if node.param is not None else node.span)
    numbers = param.values if isinstance(param, Scalar) else np.zeros(vector.steps)
    has_sums = vector.natives is not None and node.op in ("sum", "avg")
    counted = vector.floats if has_sums else vector.present
    values, present = _kernels.prom_aggregate(
        node.op,
        pa.array(np.ascontiguousarray(vector.values).reshape(-1)),
        pa.array(np.ascontiguousarray(counted).reshape(-1).view(np.uint8)),
        pa.array(groups),
        len(first),
        pa.array(numbers),
    )
    labels = _group_labels(node, vector.labels.take(first))
    drops = _any_of(groups, vector.drops_name, len(first))
    result = Vector(
        labels, to_floats(values, len(first), vector.steps), to_mask(present, len(first), vector.steps), drops
    )
    return add_histograms(context, node, vector, groups, result) if has_sums else result


def _group(node: Aggregation, labels: LabelTable) -> tuple[Codes, Codes]:
    if not node.is_without:
        return labels.group(node.grouping)
    return labels.group([name for name in labels.columns if name != NAME and name not in node.grouping])


def _group_labels(node: Aggregation, labels: LabelTable) -> LabelTable:
    return labels.without((NAME, *node.grouping)) if node.is_without else labels.keep(node.grouping)


def _any_of(groups: Codes, flags: Bools, count: int) -> Bools:
    out = np.zeros(count, np.bool_)
    out[groups[flags]] = True
    return out


def _check_param(node: Aggregation, values: Floats) -> None:
    if node.op in ("topk", "bottomk", "limitk"):
        if np.isnan(values).any():
            raise PromqlFailure("Parameter value is NaN")
        wrong = ~((values > -_INT64) & (values < _INT64))
        if wrong.any():
            raise PromqlFailure(f"Scalar value {go_float(float(values[wrong][0]))} overflows int64")
    elif node.op == "limit_ratio" and np.isnan(values).any():
        raise PromqlFailure("Ratio value is NaN")


def _some_of(context: EvalContext, node: Aggregation, vector: Vector, groups: Codes, param: Floats) -> Vector:
    """Return some series of each group, as they are."""
    if node.op == "limit_ratio":
        return vector.masked(vector.present & _sampled(context, node, vector, param))
    limits = np.trunc(np.clip(param, -1.0, float(vector.rows + 1))).astype(np.int64)
    found = _kernels.prom_first(
        node.op,
        pa.array(np.ascontiguousarray(vector.values).reshape(-1)),
        pa.array(np.ascontiguousarray(vector.present).reshape(-1).view(np.uint8)),
        pa.array(groups),
        int(groups.max()) + 1,
        pa.array(limits),
    )
    chosen = vector.masked(to_mask(found, vector.rows, vector.steps))
    if context.is_range or vector.steps != 1 or node.op == "limitk":
        return chosen
    rows = _ranked(node.op, vector.values[:, 0], groups)
    rows = rows[chosen.present[rows, 0]]
    return replace(chosen.take(rows), is_ordered=True)


def _ranked(op: str, values: Floats, groups: Codes) -> Codes:
    """Return the series group by group, the first of each first; earlier ones among equals, NaN last."""
    return np.lexsort((-values if op == "topk" else values, np.isnan(values), groups)).astype(np.int64)


def _sampled(context: EvalContext, node: Aggregation, vector: Vector, param: Floats) -> Bools:
    """Choose series by the hash of their labels, so that the same ones are chosen every time."""
    ratios = np.clip(param, -1.0, 1.0)
    for value in dict.fromkeys(param[ratios != param].tolist()):
        span = node.param.span if node.param is not None else node.span
        capped = 1 if value > 0 else -1
        context.annotations.warn(
            f"ratio value should be between -1 and 1, got {go_float(value)}, capping to {capped}", span
        )
    names = sorted(vector.labels.columns)
    columns = [pa.array(vector.labels.columns[name].texts(), pa.string()) for name in names]
    hashes = pa.array(_kernels.row_hash(columns, names, rows=vector.rows)).to_numpy(zero_copy_only=False)
    places = (hashes.astype(np.float64) / float(1 << 64))[:, None]
    chosen: Bools = np.where(ratios >= 0, places < ratios, places >= 1.0 + ratios)
    return chosen


def _count_values(context: EvalContext, node: Aggregation, vector: Vector, label: str) -> Vector:
    if not label or not is_utf8(label):
        raise PromqlFailure(f"invalid label name {go_quote(label)}")
    if not vector.rows:
        return Vector.empty(vector.steps)
    names = vector.labels.columns if node.is_without else node.grouping
    gone = {label, NAME, *node.grouping} if node.is_without else {label}
    by = [name for name in names if name not in gone]
    groups, first = vector.labels.group(by)
    rows, steps = np.nonzero(vector.floats)
    # By their bits, because 0 and -0 are two values.
    bits = np.where(np.isnan(vector.values), np.nan, vector.values)[rows, steps].view(np.int64)
    distinct, codes = np.unique(bits, return_inverse=True)
    texts = ["", *map(format_float, distinct.view(np.float64).tolist())]
    codes = codes.reshape(-1) + 1
    for text, mask in count_texts(vector).items():
        found_rows, found_steps = np.nonzero(mask)
        rows, steps = np.concatenate([rows, found_rows]), np.concatenate([steps, found_steps])
        codes = np.concatenate([codes, np.full(len(found_rows), len(texts))])
        texts.append(text)
    if node.is_without and label in node.grouping:
        # The label is gone, although it was to hold the value.
        texts, codes = [""], np.zeros(len(codes), np.int64)
    keys, places = np.unique(groups[rows] * len(texts) + codes, return_inverse=True)
    context.reserve(len(keys), vector.steps)
    cells = places.reshape(-1) * vector.steps + steps
    counts = np.bincount(cells, minlength=len(keys) * vector.steps).reshape(len(keys), vector.steps)
    members = keys // len(texts)
    labels = vector.labels.take(first[members]).keep(by)
    labels = labels.with_column(label, LabelColumn(keys % len(texts), LabelValues(texts)))
    drops = _any_of(groups, vector.drops_name, len(first))[members]
    return Vector(labels, counts.astype(np.float64), counts > 0, drops)
