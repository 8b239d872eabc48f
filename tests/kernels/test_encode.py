"""The encoders of rows against plain Python definitions of a cell."""

from __future__ import annotations

import csv
import io
import json
import math
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import (
    encode_csv_rows,
    encode_json_lines,
    encode_json_objects,
    encode_json_rows,
    encode_table_rows,
    measure_table_cells,
)

JSON_FIELD = {b"tsdb:type": b"json"}
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
STRINGS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view()]
KEYS = INTEGERS


def batch_of(*columns: Any) -> pa.RecordBatch:
    return pa.record_batch(list(columns), [f"c{index}" for index in range(len(columns))])


def json_cells(column: Any) -> str:
    """The text of a batch of one column."""
    text, following = encode_json_rows(batch_of(column))
    assert following == len(column)
    return text.decode()


def csv_text(column: Any) -> str:
    return encode_csv_rows(batch_of(column))[0].decode()


def in_stretches(encode: Callable[..., tuple[bytes, int]], batch: pa.RecordBatch, bytes_max: int) -> Iterator[bytes]:
    row = 0
    while row < batch.num_rows:
        text, following = encode(batch, start=row, bytes_max=bytes_max)
        assert following > row
        yield text
        row = following


# Cells


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integers_of_every_width_are_written_to_their_limits(kind: pa.DataType) -> None:
    limits = np.iinfo(kind.to_pandas_dtype())
    values = [int(limits.min), int(limits.max), 0, 1, 9, 10, 99, 100, None]
    expected = ",".join(f"[{'null' if value is None else value}]" for value in values)
    assert json_cells(pa.array(values, kind)) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_any_integer_is_written_as_python_writes_it(values: list[int]) -> None:
    assert json_cells(pa.array(values, pa.int64())) == ",".join(f"[{value}]" for value in values)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1024.0, "1024.0"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (-12.345, "-12.345"),
        (1.001, "1.001"),
        (0.30000000000000004, "0.30000000000000004"),
        (999999999.999, "999999999.999"),
        (123456789012345.0, "123456789012345.0"),
        (1e16, "1e+16"),
        (1e-7, "1e-7"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (math.nan, "null"),
        (math.inf, "null"),
        (-math.inf, "null"),
    ],
)
def test_a_float_always_looks_like_one(value: float, text: str) -> None:
    assert json_cells(pa.array([value])) == f"[{text}]"


def significant_digits(text: str) -> str:
    return text.lstrip("-").split("e")[0].replace(".", "").strip("0")


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**13), 10**13).map(lambda n: n / 1000))
def test_the_text_of_a_float_is_the_shortest_that_reads_back(value: float) -> None:
    text = json_cells(pa.array([value]))[1:-1]
    assert struct.pack("<d", json.loads(text)) == struct.pack("<d", value)
    assert isinstance(json.loads(text), float)
    assert significant_digits(text) == significant_digits(repr(value))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_narrow_float_has_the_digits_of_its_own_width(value: float) -> None:
    narrow = np.float32(value)
    text = json_cells(pa.array([narrow], pa.float32()))[1:-1]
    assert np.float32(text) == narrow
    assert significant_digits(text) == significant_digits(np.format_float_scientific(narrow))


def test_half_floats_are_written() -> None:
    values = np.array([0.5, np.nan, 65504], np.float16)
    assert json_cells(pa.array(values)) == "[0.5],[null],[65504.0]"


def test_words_and_nulls_are_written() -> None:
    assert json_cells(pa.array([True, False, None])) == "[true],[false],[null]"
    assert json_cells(pa.nulls(2)) == "[null],[null]"


@pytest.mark.parametrize("kind", STRINGS, ids=str)
def test_strings_of_every_layout_are_escaped(kind: pa.DataType) -> None:
    values = ["", "plain", 'a"b\\c', "\x00\x1f\x7f\b\f\n\r\t", "é€𝄞", "a long string beyond the inline view " * 3, None]
    assert [row[0] for row in orjson.loads(f"[{json_cells(pa.array(values, kind))}]")] == values


def test_control_characters_have_their_short_escapes() -> None:
    assert json_cells(pa.array(['\x00\x1f\b\f\n\r\t"\\/'])) == r'["\u0000\u001f\b\f\n\r\t\"\\/"]'


@given(st.lists(st.text(), min_size=1))
def test_any_string_reads_back_from_json_and_csv(values: list[str]) -> None:
    column = pa.array(values)
    assert orjson.loads(f"[{json_cells(column)}]") == [[value] for value in values]
    if not any("\r" in value or "\n" in value or "\0" in value for value in values):
        assert list(csv.reader(io.StringIO(csv_text(column), newline=""))) == [[value] for value in values]


@given(st.binary(max_size=40))
def test_bytes_that_are_not_text_become_replacement_characters(value: bytes) -> None:
    offsets = np.array([0, len(value)], np.int32)
    column = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(value)])
    assert orjson.loads(json_cells(column)) == [value.decode("utf-8", "replace")]
    csv_text(column).encode()


@pytest.mark.parametrize("kind", [*BINARIES, pa.binary(2)], ids=str)
def test_binary_is_an_array_of_bytes(kind: pa.DataType) -> None:
    column = pa.array([b"\x00\xff", b"ab", None], kind)
    assert json_cells(column) == "[[0,255]],[[97,98]],[null]"
    assert csv_text(column) == '"[0,255]"\r\n"[97,98]"\r\n""\r\n'


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_integers_in_their_own_unit(unit: str) -> None:
    values = [-1, 1_700_000_000_000, None]
    for kind in (pa.timestamp(unit), pa.timestamp(unit, "Europe/Berlin"), pa.duration(unit)):
        assert json_cells(pa.array(values, kind)) == "[-1],[1700000000000],[null]"


def test_clock_times_and_dates_are_integers() -> None:
    assert json_cells(pa.array([1, 2], pa.time32("s"))) == "[1],[2]"
    assert json_cells(pa.array([1, 2], pa.time64("ns"))) == "[1],[2]"
    assert json_cells(pa.array([-1, 19_000], pa.date32())) == "[-1],[19000]"
    days = pa.Array.from_buffers(pa.date64(), 2, [None, pa.py_buffer(np.array([-86_400_000, 86_400_000]))])
    assert json_cells(days) == "[-1],[1]"


@given(
    st.integers(-(2**63), 2**63 - 1), st.sampled_from(["s", "ms", "us", "ns"]), st.sampled_from(["s", "ms", "us", "ns"])
)
def test_an_epoch_changes_the_unit_of_timestamps_and_rounds_down(value: int, unit: str, epoch: Any) -> None:
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    batch = batch_of(pa.array([value], pa.timestamp(unit)), pa.array([value], pa.duration(unit)))
    text, _ = encode_json_rows(batch, epoch=epoch)
    assert json.loads(text) == [value * ticks[epoch] // ticks[unit], value]


@pytest.mark.parametrize(
    ("months", "days", "nanoseconds", "text"),
    [
        (14, 3, 14_706_000_100_000, "14 mons 3 days 4 hours 5 mins 6.000100000 secs"),
        (-2, 0, 0, "-2 mons"),
        (0, 0, -3_900_000_000_000, "-1 hours -5 mins"),
        (0, 0, -500_000_000, "-0.500000000 secs"),
        (0, 0, 0, "0 secs"),
        (1, -2, 3, "1 mons -2 days 0.000000003 secs"),
    ],
)
def test_intervals_are_words(months: int, days: int, nanoseconds: int, text: str) -> None:
    column = pa.array([pa.MonthDayNano([months, days, nanoseconds]), None])
    assert json_cells(column) == f'["{text}"],[null]'
    assert csv_text(column) == f'{text}\r\n""\r\n'


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals_keep_all_digits_of_their_scale(unscaled: int, scale: int) -> None:
    kind = pa.decimal128(38, scale)
    raw = unscaled.to_bytes(16, "little", signed=True)
    column = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(raw)])
    sign, digits = "-" * (unscaled < 0), str(abs(unscaled)).rjust(scale + 1, "0")
    expected = sign + (digits[:-scale] + "." + digits[-scale:] if scale else digits)
    assert json_cells(column) == f'["{expected}"]'
    assert csv_text(column) == f"{expected}\r\n"


@pytest.mark.parametrize("kind", [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(20, 2), pa.decimal256(60, 2)])
def test_decimals_of_every_width_are_written(kind: pa.DataType) -> None:
    column = pa.array([Decimal("-0.05"), Decimal("123.40"), Decimal(0), None], kind)
    assert json_cells(column) == '["-0.05"],["123.40"],["0.00"],[null]'


def test_a_negative_scale_adds_zeros() -> None:
    raw = pa.py_buffer((12).to_bytes(16, "little") + bytes(16))
    assert json_cells(pa.Array.from_buffers(pa.decimal128(5, -3), 2, [None, raw])) == '["12000"],["0"]'


# Columns that hold JSON


def json_column(values: list[str | None], kind: Any = None) -> pa.RecordBatch:
    field = pa.field("j", kind or pa.string(), metadata=JSON_FIELD)
    return pa.record_batch([pa.array(values, field.type)], schema=pa.schema([field]))


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ('{"a": [1, 2.50, -3e+2], "b": {}}', '{"a":[1,2.50,-3e+2],"b":{}}'),
        (" [ ] ", "[]"),
        ("true", "true"),
        ('"a\\u00e9\\n"', '"a\\u00e9\\n"'),
        ('"\\ud834\\udd1e"', '"\\ud834\\udd1e"'),
        ('"\\ud834x"', '"\\ufffdx"'),
        ('"\\udd1e"', '"\\ufffd"'),
        ("", '""'),
        ("{", '"{"'),
        ("01", '"01"'),
        ("1.", '"1."'),
        ("nul", '"nul"'),
        ("[1,]", '"[1,]"'),
        ('{"a" 1}', '"{\\"a\\" 1}"'),
        ("{1:2}", '"{1:2}"'),
        ("1 2", '"1 2"'),
        ('"a\nb"', '"\\"a\\nb\\""'),
        ('"\\x"', '"\\"\\\\x\\""'),
        ('"\\u12', '"\\"\\\\u12"'),
    ],
)
def test_json_is_nested_and_what_is_no_json_is_a_string(text: str, cell: str) -> None:
    assert encode_json_rows(json_column([text]))[0].decode() == f"[{cell}]"


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_any_json_document_is_nested_as_it_is(value: Any, is_ascii: bool, indent: Any) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    cell = encode_json_rows(json_column([text]))[0].decode()
    assert json.loads(cell) == [value]
    if indent is None:
        assert cell == f"[{json.dumps(value, ensure_ascii=is_ascii, separators=(',', ':'))}]"


@given(st.text(alphabet='{}[]",:\\u0123dtrue -.e', max_size=20))
def test_text_that_may_be_json_never_breaks_the_row(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = text
    found = json.loads(encode_json_rows(json_column([text]))[0])
    if "\\u" not in text:
        assert found == [expected]


def test_json_that_is_nested_too_deeply_is_a_string() -> None:
    text = "[" * 5000 + "]" * 5000
    assert orjson.loads(encode_json_rows(json_column([text]))[0]) == [text]


def test_json_in_a_dictionary_is_nested_too() -> None:
    batch = json_column(['{"a":1}', None, '{"a":1}'], pa.dictionary(pa.int8(), pa.string()))
    assert encode_json_rows(batch)[0] == b'[{"a":1}],[null],[{"a":1}]'
    assert encode_csv_rows(batch)[0] == b'"{""a"":1}"\r\n""\r\n"{""a"":1}"\r\n'


# Nested types and dictionaries


NESTED = [[1, None], [], None, [3]]


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_view(pa.int32()), pa.large_list_view(pa.int32())],
    ids=str,
)
def test_lists_of_every_layout_are_arrays(kind: pa.DataType) -> None:
    column = pa.array(NESTED, kind)
    assert json_cells(column) == "[[1,null]],[[]],[null],[[3]]"
    assert json_cells(column.slice(1, 3)) == "[[]],[null],[[3]]"


def test_fixed_size_lists_structs_and_maps_are_written() -> None:
    fixed = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2))
    assert json_cells(fixed) == "[[1,2]],[null],[[3,4]]"
    assert json_cells(fixed.slice(2)) == "[[3,4]]"
    rows = pa.array([{"a": 1, "b\n": "x"}, None, {"a": None, "b\n": None}])
    assert json_cells(rows) == '[{"a":1,"b\\n":"x"}],[null],[{"a":null,"b\\n":null}]'
    assert json_cells(rows.slice(1)) == '[null],[{"a":null,"b\\n":null}]'
    maps = pa.array([[("k", 1), ("l", None)], [], None], pa.map_(pa.string(), pa.int8()))
    assert json_cells(maps) == '[{"k":1,"l":null}],[{}],[null]'
    assert json_cells(pa.array([[(1, True)]], pa.map_(pa.int8(), pa.bool_()))) == '[{"1":true}]'


def test_lists_of_structs_of_times_keep_the_rules_of_cells() -> None:
    kind = pa.list_(pa.struct([("t", pa.timestamp("ms")), ("f", pa.float64()), ("b", pa.binary())]))
    batch = batch_of(pa.array([[{"t": 1500, "f": math.nan, "b": b"\x01"}]], kind))
    assert encode_json_rows(batch, epoch="s")[0] == b'[[{"t":1,"f":null,"b":[1]}]]'
    assert encode_csv_rows(batch)[0] == b'"[{""t"":1500,""f"":null,""b"":[1]}]"\r\n'


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_dictionaries_are_written_as_their_values(key: pa.DataType) -> None:
    codes = pa.array([1, 0, None, 1, 2], key)
    column = pa.DictionaryArray.from_arrays(codes, pa.array(['a"', "b,", None]))
    assert json_cells(column) == '["b,"],["a\\""],[null],["b,"],[null]'
    assert csv_text(column) == '"b,"\r\n"a"""\r\n""\r\n"b,"\r\n""\r\n'
    assert json_cells(column.slice(3)) == '["b,"],[null]'


def test_a_dictionary_may_have_more_values_than_rows_and_values_of_any_type() -> None:
    numbers = pa.DictionaryArray.from_arrays(pa.array([2, 0]), pa.array([1.5, 2.5, math.nan, 4.0]))
    assert json_cells(numbers) == "[null],[1.5]"
    assert csv_text(numbers) == '""\r\n1.5\r\n'
    bytes_ = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([b"ab"]))
    assert csv_text(bytes_) == '"[97,98]"\r\n' * 2


@pytest.mark.parametrize("rows", [1, 9])
def test_a_key_outside_of_its_dictionary_is_refused(rows: int) -> None:
    codes = pa.array([0] * (rows - 1) + [7], pa.int8())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]), safe=False)
    with pytest.raises(ValueError, match=f"row {rows - 1} points outside of the arrays"):
        encode_json_rows(batch_of(column))


# Rows


TYPES = st.sampled_from(
    [
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.timestamp("ms"),
        pa.date32(),
        pa.list_(pa.string()),
    ]
)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_dictionary(kind):
        return st.none() | st.sampled_from(["a", "b,", 'c"', ""])
    if pa.types.is_list(kind):
        return st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3)
    if pa.types.is_boolean(kind):
        return st.none() | st.booleans()
    if pa.types.is_floating(kind):
        return st.none() | st.floats(allow_nan=False, allow_infinity=False)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return st.none() | st.integers(-(2**31), 2**31 - 1)
    return st.none() | st.text(max_size=20)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.RecordBatch, list[list[Any]]]:
    """A batch, cut out of a larger one, and its rows."""
    kinds = draw(st.lists(TYPES, min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*(values_of(kind) for kind in kinds)), max_size=12))
    columns = [pa.array([row[index] for row in rows], kind) for index, kind in enumerate(kinds)]
    start = draw(st.integers(0, len(rows)))
    stop = draw(st.integers(start, len(rows)))
    return batch_of(*columns).slice(start, stop - start), [list(row) for row in rows[start:stop]]


@given(tables(), st.integers(0, 200))
def test_rows_read_back_whatever_the_size_of_the_stretches(
    table: tuple[pa.RecordBatch, list[list[Any]]], bytes_max: int
) -> None:
    batch, rows = table
    stretches = in_stretches(encode_json_rows, batch, bytes_max)
    assert json.loads(b"[" + b",".join(stretches) + b"]") == rows
    objects = in_stretches(encode_json_objects, batch, bytes_max)
    expected = [dict(zip(batch.schema.names, row, strict=True)) for row in rows]
    assert json.loads(b"[" + b",".join(objects) + b"]") == expected
    lines = b"".join(in_stretches(encode_json_lines, batch, bytes_max))
    assert [json.loads(line) for line in lines.split(b"\n")[:-1]] == expected


def csv_value(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@given(tables(), st.integers(0, 200))
def test_csv_reads_back(table: tuple[pa.RecordBatch, list[list[Any]]], bytes_max: int) -> None:
    batch, rows = table
    text = b"".join(in_stretches(encode_csv_rows, batch, bytes_max)).decode()
    if "\0" in text:
        return
    found = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert len(found) == len(rows)
    for line, row, kinds in zip(found, rows, [batch.schema.types] * len(rows), strict=True):
        for field, value, kind in zip(line, row, kinds, strict=True):
            if pa.types.is_floating(kind):
                assert (float(field) if field else None) == value
            elif not (isinstance(value, list) or (value and isinstance(value, str))):
                assert field == csv_value(value)
            elif isinstance(value, str):
                assert field == value
            else:
                assert json.loads(field) == value


@given(tables())
def test_lines_of_a_table_are_equally_wide(table: tuple[pa.RecordBatch, list[list[Any]]]) -> None:
    batch, rows = table
    widths = measure_table_cells(batch)
    text = encode_table_rows(batch, widths)[0].decode()
    lines = text.split("\n")[:-1]
    assert len(lines) == len(rows)
    assert {len(line) for line in lines} <= {sum(widths) + 3 * len(widths) + 1}


def test_a_stretch_ends_behind_the_row_that_reaches_its_size() -> None:
    batch = batch_of(pa.array(range(10)))
    assert encode_json_rows(batch, bytes_max=8) == (b"[0],[1],[2]", 3)
    assert encode_json_rows(batch, bytes_max=0) == (b"[0]", 1)
    assert encode_json_rows(batch, start=9) == (b"[9]", 10)
    assert encode_json_rows(batch, start=10) == (b"", 10)
    assert encode_json_rows(batch, start=11) == (b"", 11)


def test_a_batch_without_columns_has_empty_rows() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert encode_json_rows(batch) == (b"[],[]", 2)
    assert encode_json_objects(batch) == (b"{},{}", 2)


def test_a_table_is_filled_up_to_its_widths() -> None:
    batch = batch_of(pa.array([1, 100]), pa.array(["é", None]))
    assert measure_table_cells(batch) == [3, 4]
    text = encode_table_rows(batch, [3, 5])[0].decode()
    assert text == '│ 1   │ "é"   │\n│ 100 │ null  │\n'


def test_wrong_arguments_are_refused() -> None:
    batch = batch_of(pa.array([1]))
    with pytest.raises(TypeError, match="expected a record batch, received an array of Int64"):
        encode_json_rows(pa.array([1]))
    with pytest.raises(TypeError, match="expected a record batch"):
        encode_json_objects(pa.array([1]))
    with pytest.raises(ValueError, match='epoch: expected s, ms, us or ns, received "h"'):
        encode_json_rows(batch, epoch="h")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 columns, but 2 widths"):
        encode_table_rows(batch, [1, 2])
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(TypeError, match='column "c0": there is no text for values of Union'):
        encode_json_rows(batch_of(union))
