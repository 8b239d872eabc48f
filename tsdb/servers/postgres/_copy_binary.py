"""Rows of COPY … (FORMAT BINARY) FROM STDIN as columns.

    signature, 11 bytes │ flags, 4 │ length of an extension, 4 │ the extension │ rows │ -1, 2 bytes

A kernel finds the cells of complete rows and places those of a column side by side. If all cells of a column have the
width of its type, the result is already a big-endian array. Only long decimals, which PostgreSQL writes digit by digit,
are decoded one by one.

Errors name the row and the column: a wrong width, a number out of range, text that is not UTF-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb._kernels import parse_postgres_copy
from tsdb.errors import TsdbError
from tsdb.model import ColumnInfo, Kind, canonical_zone, check_range, floor_to_unit, instants_of
from tsdb.servers.postgres._errors import PgError
from tsdb.servers.postgres._numerics import read_numerics
from tsdb.servers.postgres._values import NUMERIC, decode_value

_SIGNATURE = b"PGCOPY\n\xff\r\n\x00"
_HEAD_BYTES = len(_SIGNATURE) + 8
_EXTENSION_BYTES_MAX = 1 << 20
_BAD_FORMAT, _BAD_BINARY, _BAD_TEXT = "22P04", "22P03", "22021"
_NUMBER_RANGE, _TIME_RANGE = "22003", "22008"

_EXACT = Context(prec=100)
"""For more digits than a decimal can have."""

_DAYS_TO_2000 = 10_957
_MICROS_TO_2000 = _DAYS_TO_2000 * 86_400_000_000
_MICROS_PER = {"s": 1_000_000, "ms": 1_000, "us": 1}

_WIRE = {
    Kind.BOOLEAN: ">u1",
    Kind.INT8: ">i2",
    Kind.INT16: ">i2",
    Kind.INT32: ">i4",
    Kind.INT64: ">i8",
    Kind.UINT8: ">i2",
    Kind.UINT16: ">i4",
    Kind.UINT32: ">i8",
    Kind.FLOAT32: ">f4",
    Kind.FLOAT64: ">f8",
    Kind.DATE: ">i4",
    Kind.TIMESTAMP_SECOND: ">i8",
    Kind.TIMESTAMP_MILLISECOND: ">i8",
    Kind.TIMESTAMP_MICROSECOND: ">i8",
    Kind.TIMESTAMP_NANOSECOND: ">i8",
}
"""The encodings of fixed-width types, matching `type_oid`."""

_Numbers = npt.NDArray[np.generic]
_Truths = npt.NDArray[np.bool_]


class BinaryRows:
    """Reads what a client sends, piece by piece."""

    def __init__(self, columns: Sequence[ColumnInfo], zone: str) -> None:
        self._columns, self._zone = columns, zone
        self._has_head = False
        self._is_ended = False

    def read(self, buffer: bytearray, before: int, *, is_last: bool) -> tuple[pa.Table | None, int]:
        """Return the whole rows at the beginning of what has come, and how many bytes they are.

        `before` is how many rows came before them; `is_last` says that nothing more will come.
        """
        begin = self._read_head(buffer, is_last)
        if begin is None:
            return None, 0
        if self._is_ended and len(buffer) > begin:
            raise PgError(_BAD_FORMAT, "received copy data after EOF marker")
        arrays, rows, end, is_ended, problem = parse_postgres_copy(bytes(buffer[begin:]), len(self._columns))
        if problem is not None:
            raise PgError(_BAD_FORMAT, f"COPY, row {before + rows + 1}: {problem}")
        self._is_ended = self._is_ended or is_ended
        if is_ended and begin + end < len(buffer):
            raise PgError(_BAD_FORMAT, "received copy data after EOF marker")
        if is_last and begin + end < len(buffer):
            raise PgError(_BAD_FORMAT, f"COPY, row {before + rows + 1}: unexpected EOF in COPY data")
        if not rows:
            return None, begin + end
        found = {
            column.name: _Cells(pa.array(array), column, before).typed(self._zone)
            for column, array in zip(self._columns, arrays, strict=True)
        }
        return pa.table(found), begin + end

    def _read_head(self, buffer: bytearray, is_last: bool) -> int | None:
        """Look at what stands before the first row; return the place behind it.

        That is 0 if it was seen before; None if it has not come whole.
        """
        if self._has_head:
            return 0
        length = int.from_bytes(buffer[_HEAD_BYTES - 4 : _HEAD_BYTES], "big", signed=True)
        if len(buffer) < _HEAD_BYTES + max(length, 0) and not is_last:
            return None
        if buffer[: len(_SIGNATURE)] != _SIGNATURE:
            raise PgError(_BAD_FORMAT, "COPY file signature not recognized")
        if len(buffer) < _HEAD_BYTES:
            raise PgError(_BAD_FORMAT, "invalid COPY file header (missing length)")
        flags = int.from_bytes(buffer[len(_SIGNATURE) : len(_SIGNATURE) + 4], "big")
        if flags & 1 << 16:
            raise PgError(_BAD_FORMAT, "invalid COPY file header (WITH OIDS)")
        if flags >> 16:
            raise PgError(_BAD_FORMAT, "unrecognized critical flags in COPY file header")
        if not 0 <= length <= min(_EXTENSION_BYTES_MAX, len(buffer) - _HEAD_BYTES):
            raise PgError(_BAD_FORMAT, "invalid COPY file header (wrong length)")
        self._has_head = True
        return _HEAD_BYTES + length


class _Cells:
    """The cells of one column, as bytes."""

    def __init__(self, cells: pa.BinaryArray, column: ColumnInfo, before: int) -> None:
        self._cells, self._column, self._before = cells, column, before
        self._is_there: _Truths = cells.is_valid().to_numpy(zero_copy_only=False)

    def typed(self, zone: str) -> pa.Array:
        """Return them as values of the column's type."""
        kind = self._column.type
        if kind.is_string or kind.kind is Kind.JSON:
            return self._texts()
        if kind.kind in (Kind.BINARY, Kind.VECTOR):
            return self._cells
        if kind.kind in (Kind.DECIMAL, Kind.UINT64):
            return self._decimals()
        values = self._numbers(_WIRE[kind.kind])
        if kind.kind is Kind.BOOLEAN:
            return pa.array(values != 0, mask=~self._is_there)
        if kind.kind is Kind.DATE:
            days = values.astype(np.int64)
            self._refuse(days, -(2**31) + 1, 2**31 - 1 - _DAYS_TO_2000, _TIME_RANGE, "date out of range")
            return pa.array((days + _DAYS_TO_2000).astype(np.int32), mask=~self._is_there).cast(pa.date32())
        if kind.is_timestamp:
            return self._times(values, zone)
        if kind.is_integer:
            held = np.iinfo(kind.arrow.to_pandas_dtype())
            self._refuse(values, held.min, held.max, _NUMBER_RANGE, f"a number out of the range of {kind.name}")
        return pa.array(values.astype(kind.arrow.to_pandas_dtype()), mask=~self._is_there)

    def _numbers(self, wire: str) -> _Numbers:
        """Return cells that are all of one width as numbers; 0 where there is none."""
        form = np.dtype(wire)
        widths = pc.fill_null(pc.binary_length(self._cells), form.itemsize).to_numpy(zero_copy_only=False)
        if (bad := widths != form.itemsize).any():
            row = int(bad.argmax())
            self._fail(row, _BAD_BINARY, f"incorrect binary data format: {widths[row]} bytes, not {form.itemsize}")
        numbers: _Numbers = np.zeros(len(self._cells), form.newbyteorder("="))
        buffer = self._cells.buffers()[2]
        if buffer is not None:
            numbers[self._is_there] = np.frombuffer(buffer, form, int(self._is_there.sum()))
        return numbers

    def _refuse(self, values: _Numbers, least: int, most: int, state: str, what: str) -> None:
        bad = ((values < least) | (values > most)) & self._is_there  # type: ignore[operator]
        if bad.any():
            row = int(bad.argmax())
            self._fail(row, state, f"{what}: {values[row]}")

    def _times(self, sent: _Numbers, zone: str) -> pa.Array:
        """Local times in microseconds since the year 2000, as timestamps of the column's unit."""
        unit = self._column.type.arrow.unit
        most = 2**63 - 1 - _MICROS_TO_2000
        self._refuse(sent, -(2**63) + 1, most, _TIME_RANGE, "timestamp out of range")
        micros = np.where(self._is_there, sent.astype(np.int64) + _MICROS_TO_2000, 0)
        times = pa.array(micros, mask=~self._is_there).cast(pa.timestamp("us"))
        if canonical_zone(zone) != "UTC":
            times = instants_of(times, zone)
            micros = pc.fill_null(times.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        self._check_times(micros, unit)
        return times.cast(pa.timestamp("ns")) if unit == "ns" else floor_to_unit(times, unit)

    def _check_times(self, micros: npt.NDArray[np.int64], unit: str) -> None:
        """Refuse times out of range of the unit; checks the extremes first."""
        for row in (int(micros.argmin()), int(micros.argmax())):
            count = int(micros[row]) * 1_000 if unit == "ns" else int(micros[row]) // _MICROS_PER[unit]
            try:
                check_range(count, unit)
            except TsdbError as error:
                self._fail(row, _TIME_RANGE, error.message)

    def _texts(self) -> pa.Array:
        buffer = self._cells.buffers()[2]
        if buffer is not None and b"\0" in memoryview(buffer).tobytes():
            found = pc.fill_null(pc.match_substring(self._cells, b"\0"), False).to_numpy(zero_copy_only=False)
            self._fail(int(found.argmax()), _BAD_TEXT, "text must not have a zero byte")
        try:
            return self._cells.cast(pa.string())
        except pa.ArrowInvalid:
            row = next(
                row for row, cell in enumerate(self._cells.to_pylist()) if cell is not None and not _is_utf8(cell)
            )
            self._fail(row, _BAD_TEXT, "text that is not UTF-8")

    def _decimals(self) -> pa.Array:
        kind = self._column.type
        is_whole = kind.kind is Kind.UINT64
        numbers, is_read = read_numerics(self._cells, kind.scale)
        is_read &= (numbers >= 0) if is_whole else (np.abs(numbers) < 10 ** min(kind.precision, 18))
        # Of 128 bits the lower half, and the upper one, which repeats the sign.
        halves = np.stack([numbers, numbers >> 63], axis=1)
        for row in np.flatnonzero(~is_read & self._is_there).tolist():
            number = int(self._decimal(row, self._cells[row].as_py()).scaleb(kind.scale, _EXACT))
            halves[row] = np.frombuffer(number.to_bytes(16, "little", signed=True), np.int64)
        if is_whole:
            return pa.array(halves[:, 0].view(np.uint64), mask=~self._is_there)
        mask = pa.array(self._is_there).buffers()[1]
        return pa.Array.from_buffers(kind.arrow, len(numbers), [mask, pa.py_buffer(halves)])

    def _decimal(self, row: int, cell: bytes) -> Decimal:
        kind = self._column.type
        try:
            value = decode_value(cell, NUMERIC, is_binary=True)
        except ValueError as error:
            self._fail(row, _BAD_BINARY, f"incorrect binary data format: {error}")
        is_whole = kind.kind is Kind.UINT64
        limit = Decimal(2**64) if is_whole else Decimal(10) ** (kind.precision - kind.scale)
        rounded = None
        if isinstance(value, Decimal) and abs(value) < limit:
            rounded = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _EXACT)
        if rounded is None or abs(rounded) >= limit or (is_whole and rounded < 0):
            self._fail(row, _NUMBER_RANGE, f"a number out of the range of {kind.name}: {value!s}")
        return rounded

    def _fail(self, row: int, state: str, what: str) -> NoReturn:
        raise PgError(state, f"COPY, row {self._before + row + 1}, column {self._column.name}: {what}")


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
