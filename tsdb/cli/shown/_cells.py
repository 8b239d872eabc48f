"""Values as text, column by column.

timestamp     2024-01-30 12:30:00.500          digits of the column's unit, in the zone of the session
… in JSON     2024-01-30T13:30:00.500+01:00    RFC 3339, so that it can be read back
float         0.5, 1024.0, NaN, inf
binary        0x00ff
list, struct  JSON
interval      1 mons 3 days
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb._kernels import encode_csv_rows
from tsdb.model import InvalidTimestamp, local_times

NULL_TEXT = "NULL"
_OUT_OF_RANGE = "<value out of range: "
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class TimeStyle(StrEnum):
    """How timestamps are written."""

    PLAIN = "plain"
    """As clocks in the zone show it, without the zone."""
    RFC3339 = "rfc3339"
    """With the offset from UTC."""


def cell_texts(column: pa.Array, zone: str, style: TimeStyle = TimeStyle.PLAIN) -> pa.Array:
    """Return a column as text; nulls stay null."""
    kind = column.type
    if pt.is_dictionary(kind):
        return cell_texts(column.dictionary_decode(), zone, style)
    if pt.is_string(kind):
        return column
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return column.cast(pa.string())
    if pt.is_timestamp(kind):
        return timestamps_as_text(column, zone, style)
    if pt.is_floating(kind):
        return _float_texts(column)
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind):
        return pa.array([None if each is None else f"0x{each.hex()}" for each in column.to_pylist()], pa.string())
    if pt.is_nested(kind):
        return pa.array([None if each is None else json_text(each) for each in _plain_values(column)], pa.string())
    if pt.is_interval(kind) or pt.is_duration(kind):
        return _kernel_texts(column)
    if pt.is_null(kind):
        return pa.nulls(len(column), pa.string())
    return column.cast(pa.string())


def timestamps_as_text(column: pa.Array, zone: str, style: TimeStyle) -> pa.Array:
    """Return timestamps as text in a zone; one that text cannot represent stays an integer."""
    try:
        local = local_times(column, zone)
    except InvalidTimestamp:
        local, zone = local_times(column, "UTC"), "UTC"
    if style is TimeStyle.RFC3339 and zone != "UTC" and _has_odd_offsets(column, local):
        local, zone = local_times(column, "UTC"), "UTC"
    text = local.cast(pa.string())
    is_far = pc.starts_with(text, _OUT_OF_RANGE)
    if style is TimeStyle.RFC3339:
        text = pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), _offset_texts(column, local, zone), "")
    if pc.any(is_far).as_py():
        numbers = column.cast(pa.int64()).cast(pa.string())
        text = pc.if_else(is_far, numbers, text)
    return text


def _has_odd_offsets(column: pa.Array, local: pa.Array) -> bool:
    """Whether an offset has seconds, as before zones were standardized: RFC 3339 cannot say that."""
    return bool(np.any(_offsets(column, local) % (60 * _PER_SECOND[column.type.unit])))


def _offsets(column: pa.Array, local: pa.Array) -> npt.NDArray[np.int64]:
    utc = local_times(column, "UTC").cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    shown = local.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(shown - utc, dtype=np.int64)


def _offset_texts(column: pa.Array, local: pa.Array, zone: str) -> pa.Array | str:
    """Return the offset from UTC of each time: a zone has two with daylight saving."""
    if zone == "UTC":
        return "Z"
    minutes = _offsets(column, local) // (60 * _PER_SECOND[column.type.unit])
    known, places = np.unique(minutes, return_inverse=True)
    texts = [f"{'-' if each < 0 else '+'}{abs(each) // 60:02d}:{abs(each) % 60:02d}" for each in known.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(places.reshape(-1)))


def _float_texts(column: pa.Array) -> pa.Array:
    text = _kernel_texts(column)
    is_finite = pc.is_finite(column)
    if pc.all(is_finite).as_py() is not False:
        return text
    special = pc.if_else(pc.is_nan(column), "NaN", pc.if_else(pc.greater(column, 0), "inf", "-inf"))
    return pc.if_else(is_finite, text, special)


def _kernel_texts(column: pa.Array) -> pa.Array:
    """Return values whose text never needs quotes as the server writes them."""
    filled = pa.RecordBatch.from_arrays([column, pa.nulls(len(column))], ["value", "end"])
    pieces, row = [], 0
    while row < len(column):
        text, row = encode_csv_rows(filled, start=row)
        pieces.append(text)
    lines = b"".join(pieces).decode().split(",\r\n")[:-1]
    texts = pa.array(lines, pa.string())
    return pc.if_else(pc.is_null(column), pa.scalar(None, pa.string()), texts)


def _plain_values(column: pa.Array) -> list[Any]:
    """Values as Python has them; nanoseconds would be lost on the way, so times inside become text before."""
    found: list[Any] = _timeless(column).to_pylist()
    return found


def _timeless(column: pa.Array) -> pa.Array:
    kind = column.type
    if pt.is_list(kind) or pt.is_large_list(kind):
        inner = _timeless(column.values)
        maker = pa.LargeListArray if pt.is_large_list(kind) else pa.ListArray
        return maker.from_arrays(column.offsets, inner, mask=column.is_null() if column.null_count else None)
    if pt.is_struct(kind):
        fields = [_timeless(field) for field in column.flatten()]
        names = [kind.field(at).name for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, names, mask=column.is_null() if column.null_count else None)
    if pt.is_map(kind) or pt.is_nested(kind):
        return column
    return (
        column if pt.is_primitive(kind) and not pt.is_temporal(kind) else cell_texts(column, "UTC", TimeStyle.RFC3339)
    )


def json_text(value: Any) -> str:
    """A nested value as JSON; a map is an object."""
    return orjson.dumps(_jsonable(value), default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _jsonable(value: Any) -> Any:
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(each, tuple) and len(each) == 2 for each in value)
        return {str(key): _jsonable(item) for key, item in value} if is_map else [_jsonable(each) for each in value]
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    return value
