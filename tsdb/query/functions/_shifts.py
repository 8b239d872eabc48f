"""Shifts of integers. The query engine shifts by the low six bits of the amount: `1 << 64` would be 1.

`shift__left` multiplies by a power of two and fails if the product does not fit, `shift__right` divides and rounds
down. MySQL's shifts work on unsigned integers, and bits that leave them are lost.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._define import FunctionError, function

_INT64, _UINT64 = pa.int64(), pa.uint64()
_BITS = 64


def _arrays(numbers: pa.Array, amounts: pa.Array) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Return both operands, 0 where one of them is null, and where both are valid."""
    valid = pc.and_(pc.is_valid(numbers), pc.is_valid(amounts))
    kept = [pc.if_else(valid, each, pa.scalar(0, each.type)) for each in (numbers, amounts)]
    left, right = (each.to_numpy(zero_copy_only=False) for each in kept)
    return left, right, valid


def _result(values: np.ndarray, valid: pa.Array, kind: pa.DataType) -> pa.Array:
    return pc.if_else(valid, pa.array(values, kind), pa.scalar(None, kind))


def _refuse_negative(left: np.ndarray, right: np.ndarray, operator: str) -> None:
    if (negative := np.flatnonzero(right < 0)).size:
        at = negative[0]
        raise FunctionError(f"cannot shift by a negative number: {left[at]} {operator} {right[at]}")


@function("shift__left", (_INT64, _INT64), _INT64)
def _left(numbers: pa.Array, amounts: pa.Array) -> pa.Array:
    left, right, valid = _arrays(numbers, amounts)
    _refuse_negative(left, right, "<<")
    shifted = left << np.minimum(right, _BITS - 1)
    lost = (shifted >> np.minimum(right, _BITS - 1) != left) | ((right >= _BITS) & (left != 0))
    if (places := np.flatnonzero(lost)).size:
        at = places[0]
        raise FunctionError(f"Overflow of a BIGINT: {left[at]} << {right[at]}")
    return _result(shifted, valid, _INT64)


@function("shift__right", (_INT64, _INT64), _INT64)
def _right(numbers: pa.Array, amounts: pa.Array) -> pa.Array:
    left, right, valid = _arrays(numbers, amounts)
    _refuse_negative(left, right, ">>")
    return _result(left >> np.minimum(right, _BITS - 1), valid, _INT64)


@function("mysql_shift__left", (_UINT64, _UINT64), _UINT64)
def _mysql_left(numbers: pa.Array, amounts: pa.Array) -> pa.Array:
    left, right, valid = _arrays(numbers, amounts)
    return _result(np.where(right < _BITS, left << np.minimum(right, _BITS - 1), 0), valid, _UINT64)


@function("mysql_shift__right", (_UINT64, _UINT64), _UINT64)
def _mysql_right(numbers: pa.Array, amounts: pa.Array) -> pa.Array:
    left, right, valid = _arrays(numbers, amounts)
    return _result(np.where(right < _BITS, left >> np.minimum(right, _BITS - 1), 0), valid, _UINT64)


FUNCTIONS = [_left, _right, _mysql_left, _mysql_right]
