"""Rows of `greptime.v1` taken apart by the kernel, against protobuf's own reading of the same bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import parse_greptime_rows
from tsdb.servers.grpc.proto import greptime_pb2 as v1

_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
_KINDS: dict[int, tuple[str, st.SearchStrategy[Any]]] = {
    v1.BOOLEAN: ("bool_value", st.booleans()),
    v1.INT8: ("i8_value", st.integers(-128, 127)),
    v1.INT32: ("i32_value", st.integers(-(1 << 31), (1 << 31) - 1)),
    v1.INT64: ("i64_value", _INT64),
    v1.UINT8: ("u8_value", st.integers(0, 255)),
    v1.UINT64: ("u64_value", st.integers(0, (1 << 64) - 1)),
    v1.FLOAT32: ("f32_value", st.floats(width=32, allow_nan=False)),
    v1.FLOAT64: ("f64_value", st.floats(allow_nan=False)),
    v1.BINARY: ("binary_value", st.binary(max_size=20)),
    v1.STRING: ("string_value", st.text(max_size=20)),
    v1.DATE: ("date_value", st.integers(-(1 << 31), (1 << 31) - 1)),
    v1.DATETIME: ("datetime_value", _INT64),
    v1.TIMESTAMP_SECOND: ("timestamp_second_value", _INT64),
    v1.TIMESTAMP_NANOSECOND: ("timestamp_nanosecond_value", _INT64),
    v1.JSON: ("string_value", st.text(max_size=20)),
    v1.VECTOR: ("binary_value", st.binary(max_size=20)),
    v1.DECIMAL128: ("decimal128_value", st.builds(v1.Decimal128, hi=_INT64, lo=_INT64)),
}


@st.composite
def _requests(draw: st.DrawFn) -> v1.RowInsertRequests:
    tables = []
    for name in draw(st.lists(st.text(max_size=5), max_size=3)):
        kinds = draw(st.lists(st.sampled_from(sorted(_KINDS)), max_size=5))
        schema = [
            v1.ColumnSchema(column_name=f"c{number}", datatype=kind, semantic_type=v1.FIELD)
            for number, kind in enumerate(kinds)
        ]
        rows = []
        for _ in range(draw(st.integers(0, 4))):
            cells = [draw(st.none() | _KINDS[kind][1]) for kind in kinds]
            pairs = zip(kinds, cells, strict=True)
            rows.append(v1.Row(values=[v1.Value() if c is None else v1.Value(**{_KINDS[k][0]: c}) for k, c in pairs]))
        tables.append(v1.RowInsertRequest(table_name=name, rows=v1.Rows(schema=schema, rows=rows)))
    return v1.RowInsertRequests(inserts=tables)


def _reference(value: v1.Value) -> object:
    kind = value.WhichOneof("value_data")
    if kind is None:
        return None
    found = getattr(value, kind)
    if kind == "decimal128_value":
        return (found.hi % (1 << 64) << 64 | found.lo % (1 << 64)).to_bytes(16, "little")
    return found


@given(_requests())
def test_columns_hold_what_protobuf_reads(request: v1.RowInsertRequests) -> None:
    found = parse_greptime_rows(request.SerializeToString())
    assert [each[0] for each in found] == [each.table_name for each in request.inserts]
    for (_, schemas, columns, rows), table in zip(found, request.inserts, strict=True):
        assert [v1.ColumnSchema.FromString(each) for each in schemas] == list(table.rows.schema)
        assert rows == len(table.rows.rows)
        expected = [[_reference(value) for value in row.values] for row in table.rows.rows]
        arrays = [pa.array(column) for column in columns]
        for array in arrays:
            array.validate(full=True)
        assert [[array[at].as_py() for array in arrays] for at in range(rows)] == expected


@given(_requests(), st.data())
def test_bytes_that_are_damaged_are_read_or_refused(request: v1.RowInsertRequests, data: st.DataObject) -> None:
    raw = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = parse_greptime_rows(bytes(raw))
    except ValueError:
        return
    for _, schemas, columns, rows in found:
        assert len(schemas) == len(columns)
        for column in columns:
            array = pa.array(column)
            array.validate(full=True)
            assert len(array) == rows


def test_a_schema_behind_the_rows_is_found() -> None:
    schema = v1.Rows(schema=[v1.ColumnSchema(column_name="a", datatype=v1.INT8)]).SerializeToString()
    rows = v1.Rows(rows=[v1.Row(values=[v1.Value(i8_value=-1)])]).SerializeToString()
    body = rows + schema
    table = bytes([0x12, len(body)]) + body
    ((_, _, (column,), count),) = parse_greptime_rows(bytes([0x0A, len(table)]) + table)
    assert (pa.array(column).to_pylist(), count) == ([-1], 1)


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (v1.TIME_SECOND, v1.Value(time_second_value=1), "table t: column c: type 19 is not one that a table can hold"),
        (v1.INT8, v1.Value(i16_value=1), "table t, row 0: column c: expected the field 1 of a value, received 2"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(schema: int, value: v1.Value, text: str) -> None:
    rows = v1.Rows(
        schema=[v1.ColumnSchema(column_name="c", datatype=schema)],  # type: ignore[arg-type]
        rows=[v1.Row(values=[value])],
    )
    request = v1.RowInsertRequests(inserts=[v1.RowInsertRequest(table_name="t", rows=rows)])
    with pytest.raises(ValueError, match=text):
        parse_greptime_rows(request.SerializeToString())


def test_text_that_is_not_utf_8_is_refused() -> None:
    request = v1.RowInsertRequests(
        inserts=[
            v1.RowInsertRequest(
                table_name="t",
                rows=v1.Rows(
                    schema=[v1.ColumnSchema(column_name="c", datatype=v1.STRING)],
                    rows=[v1.Row(values=[v1.Value(string_value="xyz")])],
                ),
            )
        ]
    )
    raw = request.SerializeToString().replace(b"xyz", b"x\xffz")
    with pytest.raises(ValueError, match="table t, row 0: column c: the value is not UTF-8"):
        parse_greptime_rows(raw)
