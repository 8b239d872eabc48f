"""Schemas and their changes."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tsdb.errors import InvalidArguments, Status
from tsdb.model import (
    AddColumn,
    Column,
    ColumnId,
    DropColumn,
    MergeMode,
    PastType,
    RegionOptions,
    RegionSchema,
    RenameColumn,
    RetypeColumn,
    SchemaChange,
    Semantic,
    WidenColumn,
    alter,
    can_widen,
)
from tsdb.units import Duration, Size

SCHEMA = RegionSchema.create(
    [
        ("host", pa.string(), Semantic.TAG),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        ("v", pa.int32(), Semantic.FIELD),
    ]
)


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (pa.bool_(), True),
        (pa.int8(), -1),
        (pa.uint64(), (1 << 64) - 1),
        (pa.float32(), 1.5),
        (pa.float64(), float("inf")),
        (pa.string(), "ä\u0000"),
        (pa.binary(), b"\xff"),
        (pa.date32(), datetime.date(2024, 2, 29)),
        (pa.timestamp("us"), datetime.datetime(2024, 1, 1, 12, 0, 0, 5)),
        (pa.timestamp("ns"), None),
        (pa.decimal128(10, 2), Decimal("12.34")),
        (pa.time64("us"), datetime.time(1, 2, 3)),
        (pa.duration("ms"), datetime.timedelta(seconds=3)),
        (pa.list_(pa.int64()), [1, None]),
    ],
)
def test_schema_survives_json(kind: pa.DataType, default: object) -> None:
    schema = alter(SCHEMA, [AddColumn("c", kind, default=default)])
    assert RegionSchema.from_json(schema.to_json()) == schema


def test_options_survive_json() -> None:
    options = RegionOptions(
        merge_mode=MergeMode.LAST_NON_NULL,
        ttl=Duration.parse("7d"),
        storage="S3",
        skip_wal=True,
        write_buffer_size=Size.parse("8MB"),
    )
    assert RegionOptions.from_json(options.to_json()) == options
    assert RegionOptions().to_json() == {}
    assert RegionOptions.from_json({}) == RegionOptions()


def test_ids_are_never_used_again() -> None:
    schema = alter(SCHEMA, [AddColumn("x", pa.int64())])
    schema = alter(schema, [DropColumn("x")])
    schema = alter(schema, [AddColumn("x", pa.int64())])
    assert schema.by_name["x"].id == 4
    assert schema.version == 3


def test_rename_and_widen_keep_the_id() -> None:
    schema = alter(SCHEMA, [RenameColumn("v", "value"), WidenColumn("value", pa.float64())])
    past = (PastType(0, pa.int32()),)
    assert schema.by_name["value"] == Column(ColumnId(2), "value", pa.float64(), Semantic.FIELD, past=past)
    assert schema.version == 1


def test_defaults_are_widened_too() -> None:
    schema = alter(SCHEMA, [AddColumn("n", pa.int32(), default=7)])
    assert alter(schema, [WidenColumn("n", pa.string())]).by_name["n"].default == "7"


def test_as_of_leaves_out_what_came_later() -> None:
    schema = alter(alter(SCHEMA, [AddColumn("x", pa.int64())]), [AddColumn("y", pa.int64())])
    assert [column.name for column in schema.as_of(1).columns] == ["host", "ts", "v", "x"]
    assert [column.name for column in schema.as_of(0).columns] == ["host", "ts", "v"]
    assert schema.as_of(2) is schema


def test_as_of_has_the_types_of_then() -> None:
    schema = alter(SCHEMA, [AddColumn("n", pa.string(), default="7x")])
    for kind in (pa.int64(), pa.bool_(), pa.string()):
        schema = alter(schema, [RetypeColumn("n", kind)])
    assert [(schema.as_of(at).by_name["n"].type, schema.as_of(at).by_name["n"].default) for at in range(1, 5)] == [
        (pa.string(), "7x"),
        (pa.int64(), None),
        (pa.bool_(), None),
        (pa.string(), "7x"),
    ]
    assert RegionSchema.from_json(schema.to_json()) == schema


def test_a_type_that_no_row_can_have_is_not_remembered() -> None:
    schema = alter(SCHEMA, [AddColumn("n", pa.string(), default="7"), RetypeColumn("n", pa.int64())])
    assert schema.by_name["n"] == Column(ColumnId(3), "n", pa.int64(), Semantic.FIELD, default=7, since=1)
    schema = alter(schema, [RetypeColumn("n", pa.float64()), RetypeColumn("n", pa.bool_())])
    assert schema.by_name["n"].past == (PastType(1, pa.int64(), 7),)
    assert schema.by_name["n"].default is True


@pytest.mark.parametrize(
    ("change", "message", "status"),
    [
        (AddColumn("v", pa.int64()), "exists already", Status.TABLE_COLUMN_EXISTS),
        (AddColumn("t", pa.timestamp("s"), Semantic.TIMESTAMP), "time column", Status.INVALID_ARGUMENTS),
        (AddColumn("n", pa.int64(), nullable=False), "needs a default", Status.INVALID_ARGUMENTS),
        (DropColumn("nope"), "no such column", Status.TABLE_COLUMN_NOT_FOUND),
        (DropColumn("host"), "only fields", Status.INVALID_ARGUMENTS),
        (DropColumn("ts"), "only fields", Status.INVALID_ARGUMENTS),
        (RenameColumn("v", "host"), "exists already", Status.TABLE_COLUMN_EXISTS),
        (RenameColumn("nope", "x"), "no such column", Status.TABLE_COLUMN_NOT_FOUND),
        (WidenColumn("v", pa.int16()), "does not hold every value", Status.INVALID_ARGUMENTS),
        (WidenColumn("ts", pa.timestamp("ns")), "does not hold every value", Status.INVALID_ARGUMENTS),
        (RetypeColumn("nope", pa.int16()), "no such column", Status.TABLE_COLUMN_NOT_FOUND),
        (RetypeColumn("ts", pa.timestamp("ns")), "only fields", Status.INVALID_ARGUMENTS),
        (RetypeColumn("host", pa.int64()), "only fields", Status.INVALID_ARGUMENTS),
        (RetypeColumn("v", pa.list_(pa.int64())), "cannot be cast", Status.INVALID_ARGUMENTS),
    ],
)
def test_impossible_change_is_refused(change: SchemaChange, message: str, status: Status) -> None:
    with pytest.raises(InvalidArguments, match=message) as raised:
        alter(SCHEMA, [change])
    assert raised.value.status == status


def test_a_column_that_may_not_be_null_keeps_its_type() -> None:
    schema = alter(SCHEMA, [AddColumn("n", pa.int64(), nullable=False, default=1)])
    with pytest.raises(InvalidArguments, match="may be null"):
        alter(schema, [RetypeColumn("n", pa.int8())])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (pa.int8(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.uint8(), pa.int16(), True),
        (pa.uint64(), pa.int64(), False),
        (pa.int32(), pa.uint64(), False),
        (pa.int64(), pa.float64(), True),
        (pa.int32(), pa.float32(), False),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False),
        (pa.bool_(), pa.string(), True),
        (pa.binary(), pa.string(), False),
        (pa.string(), pa.int64(), False),
        (pa.timestamp("ms"), pa.timestamp("ns"), False),
    ],
)
def test_widening_is_only_what_loses_nothing(old: pa.DataType, new: pa.DataType, expected: bool) -> None:
    assert can_widen(old, new) is expected


@pytest.mark.parametrize(
    "columns",
    [
        [("a", pa.int64(), Semantic.FIELD)],
        [("t", pa.timestamp("s"), Semantic.TIMESTAMP), ("u", pa.timestamp("s"), Semantic.TIMESTAMP)],
        [("t", pa.int64(), Semantic.TIMESTAMP)],
        [("t", pa.timestamp("s"), Semantic.TIMESTAMP), ("t", pa.int64(), Semantic.FIELD)],
    ],
)
def test_schema_needs_one_time_column_and_unique_names(columns: list[tuple[str, pa.DataType, Semantic]]) -> None:
    with pytest.raises(ValueError, match="column"):
        RegionSchema.create(columns)
