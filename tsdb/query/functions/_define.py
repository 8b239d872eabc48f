"""How a function of the dialect is written: vectorised Python under a name, with one list of argument types.

The query engine hands a function arrays of equal length, constants included, and coerces arguments to the declared
types: everything becomes a string, every number a double. So a declaration takes the widest type that still tells what
the function needs.

    texts      string     also numbers, booleans, dates and timestamps, as they print
    numbers    double     integers of every width, decimals; exact up to 2**53
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import ScalarUDF, udf

from tsdb.errors import Reason, Status, TsdbError
from tsdb.model import TYPE_KEY

STRING = pa.string()
NUMBER = pa.float64()
JSON = pa.field("json", pa.string(), True, {TYPE_KEY: b"json"})
"""The result is a JSON value, not just text."""

_OPENING, _MIDDLE, _CLOSING = "FunctionError⟦", "⟦", "⟧"


class FunctionError(TsdbError):
    """A function cannot work with what it was given.

    The query engine passes it on as text only, wrapped in its own; `function_error` finds message and reason again.
    """

    status = Status.ENGINE_EXECUTE_QUERY

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        reason: Reason = Reason.INVALID_PARAMETER,
        **fields: object,
    ) -> None:
        super().__init__(message, hint=hint, **fields)
        self.sql_reason = reason

    def __repr__(self) -> str:
        reason = (self.sql_reason or Reason.INVALID_PARAMETER).name
        return f"{_OPENING}{reason}{_MIDDLE}{self}{_CLOSING}"


def function_error(text: str) -> tuple[str, Reason] | None:
    """Return message and reason of the FunctionError inside a text of the query engine, None if there is none."""
    begin = text.find(_OPENING)
    middle = text.find(_MIDDLE, begin + len(_OPENING))
    end = text.find(_CLOSING, middle)
    if not 0 <= begin < middle < end:
        return None
    return text[middle + len(_MIDDLE) : end], Reason[text[begin + len(_OPENING) : middle]]


@dataclass(frozen=True, slots=True)
class Function:
    """A function as it is declared; `make` gives the object the query engine takes."""

    name: str
    arguments: tuple[pa.DataType, ...]
    result: pa.DataType | pa.Field
    body: Callable[..., pa.Array]
    volatility: str = "immutable"

    def make(self) -> ScalarUDF:
        return udf(self.body, list(self.arguments), self.result, self.volatility, self.name)


def function(
    name: str, arguments: Sequence[pa.DataType], result: pa.DataType | pa.Field
) -> Callable[[Callable[..., pa.Array]], Function]:
    """Declare the function below under this name."""
    return lambda body: Function(name, tuple(arguments), result, body)


def by_distinct(
    values: pa.Array, keys: pa.Array, kind: pa.DataType, apply: Callable[[pa.Array, Any], pa.Array]
) -> pa.Array:
    """Run `apply(part of values, key)` once for each distinct key; a null key gives null.

    Keys are what users write as constants: patterns, paths, formats. With a single key nothing is copied.
    """
    encoded = keys.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    if len(distinct) == 1 and not encoded.indices.null_count:
        return apply(values, distinct[0])
    codes = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(distinct) + 1))
    parts = [
        apply(values.take(pa.array(order[begin:end])), key)
        for key, begin, end in zip(distinct, bounds, bounds[1:], strict=False)
    ]
    nulls = len(codes) - int(bounds[-1])
    joined = pa.concat_arrays([*parts, pa.nulls(nulls, kind)])
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return joined.take(pa.array(places))


def map_distinct(texts: pa.Array, kind: pa.DataType, convert: Callable[[Any], Any]) -> pa.Array:
    """Convert every distinct value once, in Python; null stays null."""
    return map_list(texts, kind, lambda values: [None if each is None else convert(each) for each in values])


def map_list(texts: pa.Array, kind: pa.DataType, convert: Callable[[list[Any]], list[Any]]) -> pa.Array:
    """Convert the list of distinct values, in Python; `convert` leaves None as it is."""
    if not _repeats(texts):
        return pa.array(convert(texts.to_pylist()), kind)
    encoded = texts.dictionary_encode()
    return pa.array(convert(encoded.dictionary.to_pylist()), kind).take(encoded.indices)


_SAMPLE_ROWS = 512


def _repeats(*arguments: pa.Array) -> bool:
    """Whether it pays to look for distinct values: a sample from the middle has at least one value twice."""
    rows = len(arguments[0])
    if rows <= _SAMPLE_ROWS:
        return rows > 1
    sample = zip(*(each.slice(rows // 2, _SAMPLE_ROWS).to_pylist() for each in arguments), strict=True)
    return len(set(sample)) < min(_SAMPLE_ROWS, rows - rows // 2)


def map_rows(
    kind: pa.DataType, convert: Callable[..., Any], *arguments: pa.Array, is_null_passed: bool = False
) -> pa.Array:
    """Convert every distinct combination of arguments once, in Python; null in any of them gives null, unless passed.

    For functions of several columns without a kernel of their own. Rows that repeat cost a look-up only.
    """

    def convert_all(columns: list[list[Any]]) -> pa.Array:
        rows = zip(*columns, strict=True)
        return pa.array([None if None in row and not is_null_passed else convert(*row) for row in rows], kind)

    if not _repeats(*arguments):
        return convert_all([each.to_pylist() for each in arguments])
    codes = np.zeros(len(arguments[0]), np.int64)
    columns = [each.dictionary_encode() for each in arguments]
    for column in columns:
        indices = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        # Renumbered after every column, so that the product of the sizes never overflows.
        _, codes = np.unique(codes * (len(column.dictionary) + 1) + indices, return_inverse=True)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return convert_all([each.take(pa.array(first)).to_pylist() for each in arguments]).take(pa.array(inverse))


def to_integers(numbers: pa.Array) -> pa.Array:
    """Doubles as integers, cut towards zero; what does not fit becomes null."""
    whole = pc.trunc(numbers)
    fits = pc.and_(pc.less(whole, 2.0**63), pc.greater_equal(whole, -(2.0**63)))
    return pc.if_else(fits, whole, None).cast(pa.int64())
