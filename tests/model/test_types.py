"""The types of SQL and how they travel in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tsdb.model import DataType, Kind, type_name, type_of_arrow, type_of_field

TYPES = [
    *(DataType(kind) for kind in Kind if kind not in (Kind.DECIMAL, Kind.VECTOR)),
    DataType(Kind.DECIMAL, precision=10, scale=2),
    DataType(Kind.VECTOR, dimension=3),
]


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_a_type_survives_text_and_arrow(kind: DataType) -> None:
    assert DataType.from_text(kind.to_text()) == kind
    assert type_of_field(kind.field("c")) == kind
    assert type_name(kind.field("c")) == kind.name


@pytest.mark.parametrize(
    ("arrow", "name"),
    [
        (pa.null(), "Null"),
        (pa.time64("ns"), "TimeNanosecond"),
        (pa.duration("ms"), "DurationMillisecond"),
        (pa.month_day_nano_interval(), "IntervalMonthDayNano"),
        (pa.list_(pa.int64()), "List<Int64>"),
        (pa.struct([("a", pa.string())]), "Struct<a: String>"),
        (pa.dictionary(pa.int32(), pa.string()), "String"),
        (pa.string_view(), "String"),
        (pa.timestamp("ns", "UTC"), "TimestampNanosecond"),
    ],
)
def test_types_of_expressions_have_names(arrow: pa.DataType, name: str) -> None:
    assert type_name(pa.field("c", arrow)) == name


def test_a_type_only_expressions_have_is_no_type_of_a_column() -> None:
    assert type_of_arrow(pa.list_(pa.int64())) is None
