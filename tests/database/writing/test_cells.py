"""Cells of INSERT … VALUES: what each type takes, and what it says about the rest."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tsdb.database.writing.cells import canonical_json, convert_cells
from tsdb.errors import TsdbError
from tsdb.model import ColumnId, ColumnInfo, DataType, Kind, Semantic
from tsdb.sql.statements import Literal


def _column(kind: DataType) -> ColumnInfo:
    return ColumnInfo(ColumnId(0), "c", kind, Semantic.FIELD)


def _convert(kind: DataType, cells: list[Any], *, zone: str = "UTC", is_lenient: bool = False) -> list[Any]:
    array = convert_cells(cells, _column(kind), zone=zone, is_lenient=is_lenient)
    assert array.type == kind.arrow
    return list((array.cast("int64") if kind.is_timestamp else array).to_pylist())


MILLIS = DataType(Kind.TIMESTAMP_MILLISECOND)


@pytest.mark.parametrize(
    ("kind", "cells", "values"),
    [
        (DataType(Kind.INT8), [1, -128, None], [1, -128, None]),
        (DataType(Kind.UINT64), [2**64 - 1], [2**64 - 1]),
        (DataType(Kind.FLOAT64), [1, 2.5, None, 2**60], [1.0, 2.5, None, float(2**60)]),
        (DataType(Kind.FLOAT32), [0.5], [0.5]),
        (DataType(Kind.STRING), ["a", "", None], ["a", "", None]),
        (DataType(Kind.BINARY), ["ab", Literal("hex", "00ff")], [b"ab", b"\x00\xff"]),
        (DataType(Kind.BOOLEAN), [True, 0, 1, None], [True, False, True, None]),
        (DataType(Kind.DATE), ["1970-01-02"], [date(1970, 1, 2)]),
        (MILLIS, [5, "1970-01-01 00:00:01", "7", None], [5, 1000, 7, None]),
        (DataType(Kind.JSON), ['{"b": 1, "a": [1, 2]}'], ['{"a":[1,2],"b":1}']),
        (DataType(Kind.VECTOR, dimension=2), ["[1, 2]"], [b"\x00\x00\x80?\x00\x00\x00@"]),
        (
            DataType(Kind.DECIMAL, precision=10, scale=2),
            [1, 2.5, "3.14", Literal("number", "12345678.91")],
            [Decimal("1.00"), Decimal("2.50"), Decimal("3.14"), Decimal("12345678.91")],
        ),
    ],
)
def test_a_type_takes_its_literals(kind: DataType, cells: list[Any], values: list[Any]) -> None:
    assert _convert(kind, cells) == values


def test_text_is_read_in_the_zone_of_the_session() -> None:
    assert _convert(MILLIS, ["1970-01-01 08:00:01", "1970-01-01 00:00:01Z"], zone="+08:00") == [1000, 1000]


@pytest.mark.parametrize(
    ("kind", "cell", "code", "words"),
    [
        (DataType(Kind.INT8), 128, 2000, "128"),
        (DataType(Kind.INT32), 1.5, 2000, "1.5"),
        (DataType(Kind.INT32), "1", 1004, "'1'"),
        (DataType(Kind.INT32), True, 1004, "True"),
        (DataType(Kind.FLOAT64), "x", 1004, "'x'"),
        (DataType(Kind.STRING), 1, 2000, "number 1"),
        (DataType(Kind.STRING), True, 1004, "True"),
        (DataType(Kind.BOOLEAN), 3, 2000, "Fail to parse number 3"),
        (DataType(Kind.BOOLEAN), "true", 1004, "'true'"),
        (MILLIS, "yesterday", 2000, "yesterday"),
        (MILLIS, 2**63, 2000, "c"),
        (DataType(Kind.DATE), 5, 2000, "5"),
        (DataType(Kind.JSON), "{", 1004, "JSON"),
        (DataType(Kind.VECTOR, dimension=2), "[1]", 1004, "2 elements"),
        (DataType(Kind.DECIMAL, precision=4, scale=2), 12345, 2000, "12345"),
    ],
)
def test_what_does_not_fit_is_named(kind: DataType, cell: Any, code: int, words: str) -> None:
    with pytest.raises(TsdbError) as caught:
        _convert(kind, [None, cell])
    assert (caught.value.status.value, words in str(caught.value)) == (code, True), str(caught.value)


def test_mysql_clients_may_quote_numbers() -> None:
    assert _convert(DataType(Kind.INT32), ["1", 2], is_lenient=True) == [1, 2]
    assert _convert(DataType(Kind.BOOLEAN), ["true", "0"], is_lenient=True) == [True, False]
    with pytest.raises(TsdbError, match="Unable to convert"):
        _convert(DataType(Kind.FLOAT64), ["abc"], is_lenient=True)


def test_json_is_kept_compact_and_sorted() -> None:
    assert canonical_json(' { "b" : "ü" , "a" : null } ') == '{"a":null,"b":"ü"}'
