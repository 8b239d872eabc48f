"""Packets of rows against a plain reference, for every type, in text and in binary."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsdb._kernels import UnsupportedValue, encode_mysql_rows

PIECE = (1 << 24) - 1
EPOCH = dt.datetime(1970, 1, 1)
WIDTHS = {pa.int8(): "<b", pa.int16(): "<h", pa.int32(): "<i", pa.int64(): "<q", pa.uint8(): "<B"} | {
    pa.uint16(): "<H",
    pa.uint32(): "<I",
    pa.uint64(): "<Q",
    pa.float64(): "<d",
}


def _length(value: int) -> bytes:
    if value < 251:
        return bytes((value,))
    size, mark = (2, b"\xfc") if value < 1 << 16 else (3, b"\xfd") if value < 1 << 24 else (8, b"\xfe")
    return mark + value.to_bytes(size, "little")


def _counted(value: bytes) -> bytes:
    return _length(len(value)) + value


def _packets(payload: bytes, number: int) -> bytes:
    pieces = [payload[at : at + PIECE] for at in range(0, len(payload) + 1, PIECE)]
    return b"".join(
        len(piece).to_bytes(3, "little") + bytes(((number + at) % 256,)) + piece for at, piece in enumerate(pieces)
    )


def _fraction(micros: int) -> str:
    return f".{micros:06}" if micros else ""


def _text(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, bytes):
        return value
    if isinstance(value, dt.datetime):
        return f"{value:%H:%M:%S}".join((f"{value.year:04}-{value:%m-%d} ", _fraction(value.microsecond))).encode()
    if isinstance(value, dt.date):
        return f"{value.year:04}-{value:%m-%d}".encode()
    if isinstance(value, dt.timedelta):
        seconds, micros = divmod(abs(value) // dt.timedelta(microseconds=1), 1_000_000)
        sign = "-" if value < dt.timedelta() else ""
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{sign}{clock}{_fraction(micros)}".encode()
    return str(value).encode()


def _binary(value: Any, kind: pa.DataType) -> bytes:
    if isinstance(value, bool):
        return bytes((value,))
    if kind in WIDTHS:
        return struct.pack(WIDTHS[kind], value)
    if isinstance(value, dt.datetime):
        clock = struct.pack("<BBB", value.hour, value.minute, value.second)
        micros = struct.pack("<I", value.microsecond) if value.microsecond else b""
        body = struct.pack("<HBB", value.year, value.month, value.day) + (
            clock + micros if any(clock + micros) else b""
        )
        return bytes((len(body),)) + body
    if isinstance(value, dt.date):
        return struct.pack("<BHBB", 4, value.year, value.month, value.day)
    if isinstance(value, dt.timedelta):
        seconds, micros = divmod(abs(value) // dt.timedelta(microseconds=1), 1_000_000)
        if not seconds and not micros:
            return b"\x00"
        body = struct.pack("<BI", value < dt.timedelta(), seconds // 86400) + struct.pack(
            "<BBB", seconds // 3600 % 24, seconds // 60 % 60, seconds % 60
        )
        body += struct.pack("<I", micros) if micros else b""
        return bytes((len(body),)) + body
    return _counted(_text(value))


def _reference(rows: list[tuple[Any, ...]], kinds: list[pa.DataType], number: int, is_binary: bool) -> bytes:
    out = b""
    for row in rows:
        if is_binary:
            bits = sum(1 << (at + 2) for at, value in enumerate(row) if value is None)
            payload = b"\x00" + bits.to_bytes((len(row) + 9) // 8, "little")
            payload += b"".join(_binary(v, kind) for v, kind in zip(row, kinds, strict=True) if v is not None)
        else:
            payload = b"".join(b"\xfb" if value is None else _counted(_text(value)) for value in row)
        out += _packets(payload, number)
        number += len(payload) // PIECE + 1
    return out


_WHEN = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint8(), st.integers(0, 255)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=300)),
    (pa.large_string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (pa.string_view(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (pa.binary(), st.binary(max_size=300)),
    (pa.date32(), st.dates()),
    (pa.timestamp("s"), _WHEN.map(lambda when: when.replace(microsecond=0))),
    (pa.timestamp("ms"), _WHEN.map(lambda when: when.replace(microsecond=when.microsecond // 1000 * 1000))),
    (pa.timestamp("us"), _WHEN),
    (pa.timestamp("ns"), st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))),
    (pa.duration("us"), st.timedeltas(dt.timedelta(days=-4000), dt.timedelta(days=4000))),
    (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
]


@settings(deadline=None)
@given(data=st.data(), is_binary=st.booleans(), number=st.integers(0, 255))
def test_packets_are_those_of_the_reference(data: st.DataObject, is_binary: bool, number: int) -> None:
    chosen = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=9))
    count = data.draw(st.integers(0, 5))
    columns = [data.draw(st.lists(st.none() | values, min_size=count, max_size=count)) for _, values in chosen]
    kinds = [kind for kind, _ in chosen]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, [str(at) for at in range(len(arrays))])
    first = data.draw(st.integers(0, count))
    rows = list(zip(*columns, strict=True))[first:]
    packets, end, following = encode_mysql_rows(batch.slice(first), number, is_binary=is_binary)
    assert packets == _reference(rows, kinds, number, is_binary)
    assert (end, following) == (count - first, (number + count - first) % 256)


@given(st.lists(st.floats(width=64), min_size=1, max_size=5))
def test_floats_read_back_as_the_same_numbers(values: list[float]) -> None:
    packets, _, _ = encode_mysql_rows(pa.record_batch({"v": pa.array(values)}), 0)
    texts, at = [], 0
    while at < len(packets):
        size = int.from_bytes(packets[at : at + 3], "little")
        texts.append(packets[at + 5 : at + 4 + size].decode())
        at += 4 + size
    assert [struct.pack("<d", float(text)) for text in texts if text != "nan"] == [
        struct.pack("<d", value) for value in values if value == value
    ]
    assert not any(text.endswith(".0") for text in texts)


def test_a_call_stops_behind_the_row_that_fills_it_and_goes_on_there() -> None:
    batch = pa.record_batch({"s": pa.array(["x" * 100] * 10)})
    whole, _, _ = encode_mysql_rows(batch, 0)
    parts, row, number = b"", 0, 0
    while row < 10:
        part, following, number = encode_mysql_rows(batch, number, start=row, bytes_max=150)
        assert following == min(row + 2, 10)
        parts, row = parts + part, following
    assert parts == whole


@pytest.mark.parametrize("size", [PIECE - 5, PIECE - 4, PIECE - 3, PIECE + 10])
def test_rows_are_cut_at_the_size_of_a_packet(size: int) -> None:
    value = b"z" * size
    packets, _, number = encode_mysql_rows(pa.record_batch({"b": pa.array([value, b"end"])}), 254)
    assert packets == _reference([(value,), (b"end",)], [pa.binary()], 254, False)
    assert number == (254 + 2 + (size + 4) // PIECE) % 256


@pytest.mark.parametrize(("kind", "value"), [(pa.timestamp("s"), 253402300800), (pa.date32(), -800000)])
def test_a_year_without_four_digits_is_refused(kind: pa.DataType, value: int) -> None:
    batch = pa.record_batch({"t": pa.array([value], kind)})
    for is_binary in (False, True):
        with pytest.raises(UnsupportedValue, match="year"):
            encode_mysql_rows(batch, 0, is_binary=is_binary)


def test_what_has_no_form_is_refused_and_what_has_words_is_text() -> None:
    with pytest.raises(TypeError, match="record batch"):
        encode_mysql_rows(pa.array([1]), 0)
    with pytest.raises(TypeError, match="no form"):
        encode_mysql_rows(pa.record_batch({"d": pa.array(["a"]).dictionary_encode()}), 0)
    batch = pa.record_batch(
        {
            "l": pa.array([[1, None]]),
            "i": pa.array([(1, 2, 3_000_000_000)], pa.month_day_nano_interval()),
            "n": pa.array([None]),
            "h": pa.array([Decimal("1.5")], pa.decimal256(50, 1)),
        }
    )
    packets, _, _ = encode_mysql_rows(batch, 0)
    assert packets[4:] == _counted(b"[1,null]") + _counted(b"1 mons 2 days 3.000000000 secs") + b"\xfb" + _counted(
        b"1.5"
    )
