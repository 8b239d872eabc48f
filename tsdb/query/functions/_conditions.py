"""The conditions of functions that are rewritten to a CASE.

`if`, `clamp`, `clamp_min` and `clamp_max` become CASE expressions (`tsdb.sql.function_names`), because the type of
their result is that of their arguments.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.query.functions._define import STRING, FunctionError, function

_BOOL = pa.bool_()


@function("if__test", [_BOOL], _BOOL)
def if_test(condition: pa.Array) -> pa.Array:
    return condition.fill_null(False)


@function("clamp__test", [STRING, STRING, _BOOL], _BOOL)
def clamp_test(low: pa.Array, high: pa.Array, has_null_constant: pa.Array) -> pa.Array:
    """True where a bound is null; an error where the bounds are the wrong way round."""
    _refuse_null("clamp", has_null_constant)
    wrong = pc.filter(pa.table({"low": low, "high": high}), pc.greater(_numbers(low), _numbers(high)))
    if len(wrong):
        raise FunctionError(f"clamp() got min '{wrong['low'][0]}' > max '{wrong['high'][0]}'")
    return pc.or_(pc.is_null(low), pc.is_null(high))


@function("clamp_min__test", [STRING, _BOOL], _BOOL)
def clamp_min_test(bound: pa.Array, has_null_constant: pa.Array) -> pa.Array:
    _refuse_null("clamp_min", has_null_constant)
    return pc.is_null(bound)


@function("clamp_max__test", [STRING, _BOOL], _BOOL)
def clamp_max_test(bound: pa.Array, has_null_constant: pa.Array) -> pa.Array:
    _refuse_null("clamp_max", has_null_constant)
    return pc.is_null(bound)


def _refuse_null(name: str, has_null_constant: pa.Array) -> None:
    if pc.any(has_null_constant).as_py():
        raise FunctionError(f"{name}() needs a bound that is not NULL")


def _numbers(texts: pa.Array) -> pa.Array:
    """Bounds as numbers, whole ones exactly."""
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        pass
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        raise FunctionError("clamp() needs numbers as bounds") from None


FUNCTIONS = [if_test, clamp_test, clamp_min_test, clamp_max_test]
