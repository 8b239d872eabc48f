"""Percentiles between two values, exactly: the query engine rounds how far between them to a millionth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._define import NUMBER, STRING, Function, FunctionError


def _percentiles(fractions: pa.Array, orders: pa.Array, groups: pa.Array) -> pa.Array:
    """Return for each list of values the one at a fraction of the way through them in order; null without values."""
    fraction = pc.fill_null(fractions, float("nan")).to_numpy(zero_copy_only=False)
    if not bool(((fraction >= 0) & (fraction <= 1)).all()):
        raise FunctionError("the share of percentile_cont must be between 0.0 and 1.0")
    is_descending = pc.fill_null(pc.starts_with(orders, "DESC"), False).to_numpy(zero_copy_only=False)
    lists = pc.list_parent_indices(groups).to_numpy(zero_copy_only=False)
    values = pc.list_flatten(groups)
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    numbers, lists = values.to_numpy(zero_copy_only=False)[is_valid], lists[is_valid]
    counts = np.bincount(lists, minlength=len(groups))
    if not len(numbers):
        return pa.nulls(len(groups), NUMBER)
    laid = numbers[np.lexsort((numbers, lists))]
    starts = np.cumsum(counts) - counts
    place = np.where(is_descending, 1 - fraction, fraction) * np.maximum(counts - 1, 0)
    low = np.floor(place).astype(np.int64)
    first = np.minimum(starts + low, len(laid) - 1)
    second = np.minimum(first + (place > low), len(laid) - 1)
    with np.errstate(invalid="ignore", over="ignore"):
        between = laid[first] + (laid[second] - laid[first]) * (place - low)
    found = np.where(laid[first] == laid[second], laid[first], between)
    return pa.array(found, NUMBER, mask=counts == 0)


FUNCTIONS = [
    Function(f"{name}__list", (NUMBER, STRING, pa.list_(NUMBER)), NUMBER, _percentiles)
    for name in ("percentile_cont", "quantile_cont")
]
