"""Cells of INSERT … VALUES into Arrow: what a literal may become, by the type of its column.

Whole columns are converted at once. Only what does not convert is looked at cell by cell, to say which one it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from tsdb.errors import InvalidArguments, InvalidSyntax
from tsdb.model import ColumnInfo, DataType, Kind, check_range, parse_date, parse_timestamps
from tsdb.sql.statements import Literal


class CellMismatch(InvalidArguments):
    """A literal of a kind that its column does not take."""


class CellInvalid(InvalidSyntax):
    """A literal that does not fit its column."""


def convert_cells(cells: Sequence[Any], column: ColumnInfo, *, zone: str, is_lenient: bool) -> pa.Array:
    """Return one column of cells as Arrow; `is_lenient` reads numbers and booleans out of strings, as MySQL does."""
    kinds = set(map(type, cells))
    kinds.discard(type(None))
    if Literal in kinds:
        cells, kinds = _resolve_literals(cells, column.type)
    if is_lenient and str in kinds:
        cells = _read_strings(cells, column)
        kinds = set(map(type, cells)) - {type(None)}
    try:
        return _CONVERTERS[column.type.kind](cells, kinds, column, zone)
    except (CellMismatch, CellInvalid):
        raise
    except InvalidArguments as error:
        raise CellInvalid(f"column {column.name}: {error}") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError) as error:
        # A number out of range is named in words of C.
        is_of_range = isinstance(error, OverflowError) or (
            column.type.is_integer and isinstance(error, pa.ArrowInvalid)
        )
        reason = f"it is out of the range of {column.type.name}" if is_of_range else str(error)
        raise CellInvalid(f"{_first_bad(cells, column)} does not fit column {column.name}: {reason}") from error


def _resolve_literals(cells: Sequence[Any], kind: DataType) -> tuple[list[Any], set[type]]:
    def resolve(cell: Any) -> Any:
        if not isinstance(cell, Literal):
            return cell
        if cell.kind == "hex":
            return bytes.fromhex(cell.text)
        if cell.kind == "number":
            if kind.kind is Kind.DECIMAL:
                return Decimal(cell.text)
            return int(cell.text) if cell.text.lstrip("+-").isdigit() else float(cell.text)
        return cell.text

    resolved = [resolve(cell) for cell in cells]
    return resolved, set(map(type, resolved)) - {type(None)}


def _read_strings(cells: Sequence[Any], column: ColumnInfo) -> Sequence[Any]:
    """What MySQL clients send in quotes although the column is a number."""
    read: Callable[[str], Any]
    if column.type.is_integer:
        read = int
    elif column.type.is_float:
        read = float
    elif column.type.kind is Kind.BOOLEAN:
        read = _read_boolean
    else:
        return cells
    try:
        return [read(cell) if isinstance(cell, str) else cell for cell in cells]
    except ValueError as error:
        raise CellMismatch(f"Unable to convert {_first_bad(cells, column)} to {column.type.name}") from error


def _read_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "0", "1"):
        raise ValueError(text)
    return text.lower() in ("true", "1")


def _first_bad(cells: Sequence[Any], column: ColumnInfo) -> str:
    for cell in cells:
        try:
            if cell is not None:
                _CONVERTERS[column.type.kind]([cell], {type(cell)}, column, "UTC")
        except (InvalidArguments, pa.ArrowException, OverflowError, ValueError, TypeError):
            return repr(cell)
    return "a value"


def _mismatch(cells: Sequence[Any], kinds: set[type], allowed: set[type], column: ColumnInfo) -> CellMismatch:
    cell = next(cell for cell in cells if cell is not None and type(cell) not in allowed)
    return CellMismatch(
        f"column {column.name} has type {column.type.name} and does not take {_describe(cell)}", column=column.name
    )


def _describe(cell: Any) -> str:
    word = {str: "the string", bool: "the boolean", bytes: "the bytes"}.get(type(cell), "the number")
    return f"{word} {cell!r}"


def _require(cells: Sequence[Any], kinds: set[type], allowed: set[type], column: ColumnInfo) -> None:
    if kinds - allowed:
        raise _mismatch(cells, kinds, allowed, column)


def _integers(cells: Sequence[Any], kinds: set[type], column: ColumnInfo, zone: str) -> pa.Array:
    if float in kinds:
        number = next(cell for cell in cells if isinstance(cell, float))
        raise CellInvalid(f"Fail to parse number {number}, invalid column type: {column.type.name}")
    _require(cells, kinds, {int}, column)
    return pa.array(cells, column.type.arrow)


def _floats(cells: Sequence[Any], kinds: set[type], column: ColumnInfo, zone: str) -> pa.Array:
    _require(cells, kinds, {int, float}, column)
    if int in kinds:
        cells = [None if cell is None else float(cell) for cell in cells]
    return pa.array(cells, column.type.arrow)


def _decimals(cells: Sequence[Any], kinds: set[type], column: ColumnInfo, zone: str) -> pa.Array:
    _require(cells, kinds, {int, float, str, Decimal}, column)
    quantum = Decimal(1).scaleb(-column.type.scale)
    try:
        values = [None if cell is None else Decimal(str(cell)).quantize(quantum, context=_WIDE) for cell in cells]
    except InvalidOperation as error:
        raise ValueError("not a decimal number of that size") from error
    return pa.array(values, column.type.arrow)


def _timestamps(cells: Sequence[Any], kinds: set[type], column: ColumnInfo, zone: str) -> pa.Array:
    kind, unit = column.type.arrow, column.type.arrow.unit
    if float in kinds:
        number = next(cell for cell in cells if isinstance(cell, float))
        raise CellInvalid(f"Fail to parse number {number}, invalid column type: {column.type.name}")
    _require(cells, kinds, {int, str}, column)
    if str not in kinds:
        counts = pa.array(cells, pa.int64())
        for value in (v for v in cells if v is not None and not -_SAFE_COUNT < v < _SAFE_COUNT):
            check_range(value, unit)
        return counts.cast(kind)
    texts = [str(cell) if isinstance(cell, int) else cell for cell in cells]
    return parse_timestamps(pa.array(texts, pa.string()), unit, zone)


# Below, no unit is out of the calendar.
_SAFE_COUNT = 8_000_000_000_000


def _dates(cells: Sequence[Any], kinds: set[type], column: ColumnInfo, zone: str) -> pa.Array:
    if kinds & {int, float}:
        number = next(cell for cell in cells if isinstance(cell, int | float))
        raise CellInvalid(f"Fail to parse number {number}, invalid column type: {column.type.name}")
    _require(cells, kinds, {str}, column)
    encoded = pa.array(cells, pa.string()).dictionary_encode()
    days = pa.array([parse_date(text) for text in encoded.dictionary.to_pylist()], pa.int32())
    return days.take(encoded.indices).cast(pa.date32())


def _booleans(cells: Sequence[Any], kinds: set[type], column: ColumnInfo, zone: str) -> pa.Array:
    if kinds & {int, float}:
        number = next(
            (cell for cell in cells if type(cell) in (int, float) and (type(cell) is float or cell not in (0, 1))), None
        )
        if number is not None:
            raise CellInvalid(f"Fail to parse number {number}, invalid column type: {column.type.name}")
        cells = [None if cell is None else bool(cell) for cell in cells]
        kinds = set(map(type, cells)) - {type(None)}
    _require(cells, kinds, {bool}, column)
    return pa.array(cells, pa.bool_())


def _strings(cells: Sequence[Any], kinds: set[type], column: ColumnInfo, zone: str) -> pa.Array:
    if kinds & {int, float}:
        number = next(cell for cell in cells if type(cell) in (int, float))
        raise CellInvalid(f"Fail to parse number {number}, invalid column type: {column.type.name}")
    _require(cells, kinds, {str}, column)
    return pa.array(cells, pa.string())


def _binaries(cells: Sequence[Any], kinds: set[type], column: ColumnInfo, zone: str) -> pa.Array:
    _require(cells, kinds, {str, bytes}, column)
    if str in kinds:
        cells = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
    return pa.array(cells, pa.binary())


def _jsons(cells: Sequence[Any], kinds: set[type], column: ColumnInfo, zone: str) -> pa.Array:
    _require(cells, kinds, {str}, column)
    return pa.array([None if cell is None else canonical_json(cell) for cell in cells], pa.string())


def canonical_json(text: str) -> str:
    """Return JSON text in the form in which it is stored: compact, keys sorted; InvalidArguments if it is not JSON."""
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        raise CellMismatch(f"{text[:200]!r} is not valid JSON: {error}") from error


def _vectors(cells: Sequence[Any], kinds: set[type], column: ColumnInfo, zone: str) -> pa.Array:
    _require(cells, kinds, {str, bytes}, column)
    return pa.array(
        [None if cell is None else vector_bytes(cell, column.type.dimension) for cell in cells], pa.binary()
    )


def vector_bytes(cell: str | bytes, dimension: int) -> bytes:
    """Return a vector's bytes from `[1, 2, 3]` or from bytes; CellMismatch for another number of elements."""
    if isinstance(cell, bytes):
        values: Any = np.frombuffer(cell, "<f4") if len(cell) % 4 == 0 else []
    else:
        try:
            values = np.asarray(json.loads(cell), "<f4")
        except (ValueError, TypeError) as error:
            raise CellMismatch(f"{cell!r} is not a vector", hint="write it like '[1.0, 2.0]'") from error
    if np.ndim(values) != 1 or len(values) != dimension:
        raise CellMismatch(f"the vector {cell!r} does not have {dimension} elements")
    return bytes(np.asarray(values, "<f4").tobytes())


_WIDE = Context(prec=76)

_CONVERTERS: dict[Kind, Callable[[Sequence[Any], set[type], ColumnInfo, str], pa.Array]] = {
    Kind.STRING: _strings,
    Kind.BINARY: _binaries,
    Kind.BOOLEAN: _booleans,
    **dict.fromkeys((Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64), _integers),
    **dict.fromkeys((Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64), _integers),
    **dict.fromkeys((Kind.FLOAT32, Kind.FLOAT64), _floats),
    Kind.DECIMAL: _decimals,
    Kind.DATE: _dates,
    Kind.TIMESTAMP_SECOND: _timestamps,
    Kind.TIMESTAMP_MILLISECOND: _timestamps,
    Kind.TIMESTAMP_MICROSECOND: _timestamps,
    Kind.TIMESTAMP_NANOSECOND: _timestamps,
    Kind.JSON: _jsons,
    Kind.VECTOR: _vectors,
}
