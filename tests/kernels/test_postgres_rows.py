"""Rows as messages of PostgreSQL, compared with a plain reference."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import encode_postgres_copy, encode_postgres_rows

STYLE = "iso,mdy,postgres,hex"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _cells(array: pa.Array, *, binary: bool = False, style: str = STYLE) -> list[bytes | None]:
    """The cells of one column, taken out of their messages."""
    batch = pa.RecordBatch.from_arrays([array], ["c"])
    raw, following = encode_postgres_rows(batch, binary=[binary], style=style)
    assert following == len(array)
    found: list[bytes | None] = []
    while raw:
        tag, length, columns, size = struct.unpack_from("!cihi", raw)
        assert (tag, columns) == (b"D", 1)
        found.append(None if size == -1 else raw[11 : 11 + size])
        raw = raw[1 + length :]
    return found


def _text(array: pa.Array, style: str = STYLE) -> list[str | None]:
    return [None if cell is None else cell.decode() for cell in _cells(array, style=style)]


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (pa.int8(), "!h"),
        (pa.uint8(), "!h"),
        (pa.int32(), "!i"),
        (pa.uint16(), "!i"),
        (pa.int64(), "!q"),
        (pa.uint32(), "!q"),
    ],
)
def test_integers_have_the_width_of_their_type(kind: pa.DataType, form: str) -> None:
    array = pa.array([0, 1, 127, None], kind)
    assert _text(array) == ["0", "1", "127", None]
    assert _cells(array, binary=True) == [struct.pack(form, 0), struct.pack(form, 1), struct.pack(form, 127), None]


@given(st.lists(st.one_of(st.none(), st.floats()), max_size=8))
def test_floats_read_back_as_the_same_number(numbers: list[float | None]) -> None:
    array = pa.array(numbers, pa.float64())
    for number, text, packed in zip(numbers, _text(array), _cells(array, binary=True), strict=True):
        if number is None:
            assert text is packed is None
            continue
        assert text is not None
        assert struct.pack("!d", number) == packed or number != number
        assert float(text) == number or number != number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-0.5, "-0.5"),
        (1000000000000000.0, "1e+15"),
        (123456789012345.0, "123456789012345"),
        (0.0001, "0.0001"),
        (1e-05, "1e-05"),
        (1.5e300, "1.5e+300"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (0.0, "0"),
        (-0.0, "-0"),
    ],
)
def test_floats_look_as_postgresql_writes_them(number: float, text: str) -> None:
    assert _text(pa.array([number], pa.float64())) == [text]


@given(st.lists(st.decimals(min_value=-(10**17), max_value=10**17, places=5), max_size=6))
def test_decimals_are_the_same_in_both_formats(numbers: list[Decimal]) -> None:
    array = pa.array(numbers, pa.decimal128(30, 5))
    assert [Decimal(text or "") for text in _text(array)] == numbers
    for number, packed in zip(numbers, _cells(array, binary=True), strict=True):
        assert packed is not None
        count, weight, sign, scale = struct.unpack_from("!hhHh", packed)
        words = struct.unpack_from(f"!{count}h", packed, 8)
        value = sum(Decimal(word) * Decimal(10000) ** (weight - at) for at, word in enumerate(words))
        assert (-value if sign else value, scale) == (number, 5)
        assert not words or (words[0] and words[-1])


@given(st.lists(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)), max_size=8))
def test_timestamps_count_from_2000_and_are_written_as_iso(moments: list[datetime]) -> None:
    array = pa.array(moments, pa.timestamp("us"))
    assert _text(array) == [each.isoformat(" ", "microseconds") for each in moments]
    expected = [struct.pack("!q", (each - datetime(2000, 1, 1)) // timedelta(microseconds=1)) for each in moments]
    assert _cells(array, binary=True) == expected


@pytest.mark.parametrize(
    ("style", "stamp", "day"),
    [
        ("iso,mdy,postgres,hex", "2024-01-30 12:30:05.250000", "2024-01-30"),
        ("sql,mdy,postgres,hex", "01/30/2024 12:30:05.250000", "01/30/2024"),
        ("sql,dmy,postgres,hex", "30/01/2024 12:30:05.250000", "30/01/2024"),
        ("german,mdy,postgres,hex", "30.01.2024 12:30:05.250000", "30.01.2024"),
        ("postgres,mdy,postgres,hex", "Tue Jan 30 12:30:05.250000 2024", "01-30-2024"),
        ("postgres,dmy,postgres,hex", "Tue 30 Jan 12:30:05.250000 2024", "30-01-2024"),
    ],
)
def test_dates_look_as_their_style_says(style: str, stamp: str, day: str) -> None:
    moment = datetime(2024, 1, 30, 12, 30, 5, 250000)
    assert _text(pa.array([moment], pa.timestamp("ns")), style) == [stamp]
    assert _text(pa.array([moment.date()], pa.date32()), style) == [day]


def test_times_before_our_era_and_beyond_four_digits_are_written() -> None:
    seconds = pa.array([-62_135_596_801, 253_402_300_800], pa.timestamp("s"))
    assert _text(seconds) == ["0001-12-31 23:59:59.000000 BC", "10000-01-01 00:00:00.000000"]


def test_bytes_are_hex_or_escaped() -> None:
    array = pa.array([b"a\\\x00\xff"], pa.binary())
    assert _text(array) == ["\\x615c00ff"]
    assert _text(array, "iso,mdy,postgres,escape") == ["a\\\\\\000\\377"]
    assert _cells(array, binary=True) == [b"a\\\x00\xff"]


def test_lists_are_arrays_of_their_items() -> None:
    array = pa.array([[1, None, -3], [], None], pa.list_(pa.int64()))
    assert _text(array) == ["{1,NULL,-3}", "{}", None]
    items = struct.pack("!iqiiq", 8, 1, -1, 8, -3)
    head = struct.pack("!iiiii", 1, 1, 20, 3, 1)
    assert _cells(array, binary=True) == [head + items, struct.pack("!iii", 0, 0, 20), None]
    assert _text(pa.array([["a b", "NULL", "", 'q"\\', "x"]])) == ['{"a b","NULL","","q\\"\\\\",x}']


def test_structures_are_json() -> None:
    assert _text(pa.array([{"a": 1, "b": "x"}])) == ['{"a":1,"b":"x"}']
    assert _text(pa.array([[[1], [2]]])) == ["[[1],[2]]"]


def test_rows_come_in_pieces_of_the_wanted_size() -> None:
    batch = pa.record_batch({"a": list(range(1000)), "b": ["text"] * 1000})
    whole, _ = encode_postgres_rows(batch, binary=[False, True], style=STYLE)
    pieces, at = [], 0
    while at < 1000:
        piece, at = encode_postgres_rows(batch, binary=[False, True], style=STYLE, start=at, bytes_max=100)
        pieces.append(piece)
    assert b"".join(pieces) == whole
    assert len(pieces) > 100


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=1, max_size=5))
def test_copy_text_reads_back(texts: list[str]) -> None:
    batch = pa.record_batch({"a": texts})
    raw, _ = encode_postgres_copy(batch, style=STYLE, delimiter=ord("\t"), null=b"\\N")
    lines = []
    while raw:
        length = struct.unpack_from("!i", raw, 1)[0]
        lines.append(raw[5 : 1 + length].decode())
        raw = raw[1 + length :]
    names = {"b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "\\": "\\"}

    def read(line: str) -> str:
        out, signs = "", iter(line[:-1])
        for sign in signs:
            out += names[next(signs)] if sign == "\\" else sign
        return out

    assert [read(line) for line in lines] == texts


@pytest.mark.parametrize("bad", [{"style": "nope,mdy,postgres,hex"}, {"binary": [True]}])
def test_arguments_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    batch = pa.record_batch({"a": [1], "b": [2]})
    with pytest.raises((ValueError, TypeError)):
        encode_postgres_rows(batch, **{"binary": [True, True], "style": STYLE, **bad})
