"""Comparisons as SQL has them, on Arrow arrays and scalars.

They agree with what DataFusion computes above the scan, so that a filter means the same wherever it runs:

- A comparison with null is null; so is membership of null, and membership in a list with a null that has no match.
- Floats have a total order: -NaN, -Infinity, …, zero, …, Infinity, NaN. Both zeros are equal.
- Timestamps of different units compare as the instants they are, without rounding.

Arrow's own kernels differ in all three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Value = Any
"""A `pa.Array` or a `pa.Scalar`."""

FLIPPED = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
NEGATED = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INT_OF_BITS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UINT_OF_BITS = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def compare(function: str, left: Value, right: Value) -> Value:
    """Compare two values of one length, or one value with each of the other."""
    if isinstance(left, pa.Scalar) and not isinstance(right, pa.Scalar):
        return compare(FLIPPED[function], right, left)
    if isinstance(right, pa.Scalar):
        if not right.is_valid:
            return pa.nulls(len(left), pa.bool_()) if not isinstance(left, pa.Scalar) else pa.scalar(None, pa.bool_())
        if isinstance(left, pa.Scalar):
            return compare(function, pa.array([left.as_py()], left.type), right)[0]
        return _compare_with_scalar(function, left, align_scalar(right, left.type))
    if pa.types.is_floating(left.type) and left.type == right.type:
        return _call(function, _sortable(left), _sortable(right))
    return _call(function, left, right)


def is_in(values: Value, wanted: pa.Array) -> Value:
    """Tell for each value whether it is one of those wanted."""
    if isinstance(values, pa.Scalar):
        return is_in(pa.array([values.as_py()], values.type), wanted)[0]
    found = _is_in(values, wanted.drop_null())
    known = pc.and_(values.is_valid(), found) if wanted.null_count else values.is_valid()
    return pc.if_else(known, found, pa.scalar(None, pa.bool_()))


def align_scalar(scalar: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    """Return a scalar in the type of the column it is compared with, if that loses nothing."""
    if pa.types.is_dictionary(scalar.type):
        scalar = scalar.value
    if scalar.type == kind or pa.types.is_timestamp(kind):
        return scalar
    try:
        return scalar.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return scalar


def convert_time_bound(function: str, scalar: pa.Scalar, kind: pa.DataType) -> tuple[str, int] | None:
    """Return a comparison of a time column with a timestamp as one with a number of the column's own ticks.

    The number may lie outside of 64 bits. None means that the two cannot be compared: one has a time zone and the
    other has none, or the scalar is not a timestamp.
    """
    if not pa.types.is_timestamp(scalar.type) or (scalar.type.tz is None) != (kind.tz is None):
        return None
    ticks, unit = _TICKS[kind.unit], _TICKS[scalar.type.unit]
    whole, rest = divmod(scalar.value * ticks, unit)
    if not rest:
        return function, whole
    # The instant lies between two ticks: nothing equals it, and what is less than it is at most the tick before.
    if function in ("less", "less_equal"):
        return "less_equal", whole
    if function in ("greater", "greater_equal"):
        return "greater", whole
    return function, 1 << 64


def _call(function: str, left: Value, right: Value) -> Value:
    operator: Callable[[Value, Value], Value] = getattr(pc, function)
    return operator(left, right)


def _compare_with_scalar(function: str, values: pa.Array, scalar: pa.Scalar) -> pa.Array:
    if pa.types.is_timestamp(values.type):
        bound = convert_time_bound(function, scalar, values.type)
        if bound is not None:
            return _compare_ticks(bound[0], values.view(pa.int64()), bound[1])
    if pa.types.is_floating(values.type) and scalar.type == values.type:
        return _compare_floats(function, values, scalar)
    return _call(function, values, scalar)


def _compare_ticks(function: str, ticks: pa.Array, bound: int) -> pa.Array:
    if -(1 << 63) <= bound < (1 << 63):
        return _call(function, ticks, pa.scalar(bound, pa.int64()))
    # Every tick is on the same side of a bound outside of 64 bits.
    answer = function == "not_equal" or (function.startswith("less") if bound > 0 else function.startswith("greater"))
    return pc.if_else(ticks.is_valid(), answer, pa.scalar(None, pa.bool_()))


def _compare_floats(function: str, values: pa.Array, scalar: pa.Scalar) -> pa.Array:
    """Compare with one pass over the values: the bits of floats are ordered as integers are.

    Read as signed integers, positive floats ascend above all negative ones; read as unsigned integers, negative
    floats descend above all positive ones. Which reading serves depends on the sign of the scalar.
    """
    bits = values.type.bit_width
    number = scalar.as_py()
    sign_bit = 1 << (bits - 1)
    if number == 0:
        if function in ("equal", "not_equal"):
            return _call(function, values, scalar)
        if function in ("greater", "less_equal"):
            return _call(function, values.view(_INT_OF_BITS[bits]), pa.scalar(0, _INT_OF_BITS[bits]))
        # Unsigned, minus zero is the smallest of the negative floats' numbers.
        return _call(FLIPPED[function], values.view(_UINT_OF_BITS[bits]), pa.scalar(sign_bit, _UINT_OF_BITS[bits]))
    raw = int(np.frombuffer(pa.array([number], scalar.type).buffers()[1], dtype=f"u{bits // 8}", count=1)[0])
    if raw & sign_bit:
        return _call(FLIPPED[function], values.view(_UINT_OF_BITS[bits]), pa.scalar(raw, _UINT_OF_BITS[bits]))
    return _call(function, values.view(_INT_OF_BITS[bits]), pa.scalar(raw, _INT_OF_BITS[bits]))


def _sortable(values: pa.Array) -> pa.Array:
    """Return integers in the order of the floats, nulls kept."""
    bits = values.type.bit_width
    numbers: npt.NDArray[Any] = pc.fill_null(values, pa.scalar(0.0).cast(values.type)).to_numpy(zero_copy_only=False)
    # Adding zero makes minus zero plus zero and leaves everything else alone.
    raw = (numbers + numbers.dtype.type(0)).view(f"i{bits // 8}")
    keys = raw ^ ((raw >> (bits - 1)) & np.array((1 << (bits - 1)) - 1, dtype=raw.dtype))
    return pa.array(keys, mask=None if not values.null_count else values.is_null().to_numpy(zero_copy_only=False))


def _is_in(values: pa.Array, wanted: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type) and pa.types.is_floating(wanted.type):
        return pc.is_in(_sortable(values), value_set=_sortable(wanted.cast(values.type)))
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(wanted.type):
        bounds = [convert_time_bound("equal", scalar, values.type) for scalar in wanted]
        ticks = [bound[1] for bound in bounds if bound is not None and -(1 << 63) <= bound[1] < (1 << 63)]
        return pc.is_in(values.view(pa.int64()), value_set=pa.array(ticks, pa.int64()))
    try:
        return pc.is_in(values, value_set=wanted.cast(values.type))
    except pa.ArrowInvalid:
        return pc.is_in(values.cast(wanted.type), value_set=wanted)
