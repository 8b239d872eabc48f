"""Defaults of columns: from what CREATE TABLE says to the value a row gets."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tsdb.database.writing.cells import convert_cells
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import (
    ColumnDefault,
    ColumnId,
    ColumnInfo,
    DataType,
    Kind,
    Semantic,
    cast_or_null,
    parse_timestamp,
    to_unit,
)
from tsdb.sql.statements import DefaultExpression

_NOW_FUNCTIONS = {"now": "now()", "current_timestamp": "current_timestamp()"}


def make_default(name: str, kind: DataType, said: DefaultExpression, zone: str) -> ColumnDefault | None:
    """Return the default of a new column; an error when it is no value of the column's type."""
    if kind.kind is Kind.JSON and said.kind != "null":
        raise Unsupported(f"Unsupported default constraint for column {name}: a JSON column has no default")
    if said.kind == "null":
        return None
    if said.kind == "function":
        function = _NOW_FUNCTIONS.get(said.text.removesuffix("()"))
        if function is None or not kind.is_timestamp:
            raise Unsupported(f"Unsupported default constraint for column {name}: {said.text}")
        return ColumnDefault(function=function)
    default = ColumnDefault(literal=_stored_text(kind, said, zone))
    probe = ColumnInfo(ColumnId(0), name, kind, Semantic.FIELD, default=default)
    try:
        if said.kind == "string" and (kind.is_integer or kind.is_float or kind.kind is Kind.BOOLEAN):
            raise InvalidArguments(f"the string {said.text!r} is not of type {kind.name}")
        default_array(probe, 1, now_ns=0)
    except InvalidArguments as error:
        raise InvalidArguments(f"Invalid default value {said.text!r} for column {name}: {error}") from error
    return default


def retyped_default(column: ColumnInfo, kind: DataType) -> ColumnDefault | None:
    """Return the default of a column for another type; an error when it has no value there."""
    default = column.default
    if default is None or (default.function is not None and kind.is_timestamp):
        return default
    refusal = InvalidArguments(
        f"the default {default.function or default.literal} of column {column.name} cannot be converted to {kind.name}",
        hint="set another default or drop it first",
    )
    old = default_scalar(column, now_ns=0)
    if old is None or default.function is not None:
        raise refusal
    new = cast_or_null(pa.array([old.as_py()], column.type.arrow), kind.arrow)
    text = new[0].as_py() if pa.types.is_string(kind.arrow) else new.cast(pa.string())[0].as_py()
    if text is None:
        raise refusal
    converted = ColumnDefault(literal=f"{text}+0000" if kind.is_timestamp else text)
    try:
        default_array(replace(column, type=kind, default=converted), 1, now_ns=0)
    except InvalidArguments as error:
        raise refusal from error
    return converted


def _stored_text(kind: DataType, said: DefaultExpression, zone: str) -> str:
    """Keep a timestamp as an instant, because later sessions may have another time zone."""
    if not kind.is_timestamp or said.kind != "string":
        return said.text
    count = to_unit(parse_timestamp(said.text, zone), kind.arrow.unit)
    text = str(pa.scalar(count, kind.arrow).cast(pa.string()).as_py())
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    digits = f".{fraction.ljust((len(fraction) + 2) // 3 * 3, '0')}" if fraction else ""
    return f"{whole}{digits}+0000"


def default_array(column: ColumnInfo, rows: int, *, now_ns: int) -> pa.Array:
    """Return what `rows` rows get that say nothing about a column."""
    value = default_scalar(column, now_ns=now_ns)
    return pa.nulls(rows, column.type.arrow) if value is None else pa.repeat(value, rows)


def default_scalar(column: ColumnInfo, *, now_ns: int) -> pa.Scalar | None:
    """Return the default as a value, None when there is none."""
    default = column.default
    if default is None:
        return None
    if default.function is not None:
        return pa.scalar(to_unit(now_ns, column.type.arrow.unit), column.type.arrow)
    cell = _cell(column.type, default.literal or "")
    return convert_cells([cell], column, zone="UTC", is_lenient=False)[0]


def _is_nonzero(text: str) -> bool:
    try:
        return float(text) != 0
    except ValueError:
        return False


def _cell(kind: DataType, text: str) -> Any:
    if kind.kind is Kind.BOOLEAN:
        return text.lower() == "true" or _is_nonzero(text)
    try:
        if kind.is_integer:
            return int(text)
        if kind.is_float:
            return float(text)
        return Decimal(text) if kind.kind is Kind.DECIMAL else text
    except (ValueError, ArithmeticError) as error:
        raise InvalidArguments(f"{text!r} is not of type {kind.name}") from error
