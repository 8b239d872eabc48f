"""Metric tables in the catalog: ids, what physical tables show, and what outlives a restart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.catalog.worlds import World
from tests.metric.tables import table_of
from tsdb.catalog import PhysicalTableInUse, TableAlreadyExists, TableNotFound
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.metric import plan_column, plan_metric_table
from tsdb.model import (
    HISTOGRAM_COLUMN,
    AddColumn,
    ColumnId,
    ColumnInfo,
    DataType,
    Kind,
    Semantic,
    TableInfo,
    add_histogram,
)
from tsdb.store import on_crash_point


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    opened = World.open(tmp_path)
    yield opened
    opened.close()


def create_physical(world: World) -> TableInfo:
    return world.catalog.create_table(table_of("phy", (), options={"physical_metric_table": ""}))


def draft_on(physical: TableInfo, name: str, *labels: str) -> TableInfo:
    return plan_metric_table(
        table_of(name, labels, options={"on_physical_table": physical.name}), physical, {"on_physical_table"}
    )


def columns_of(world: World, name: str) -> list[str]:
    return [column.name for column in world.catalog.table("public", name).columns]


def test_many_logical_tables_are_created_at_once_and_survive_a_restart(tmp_path: Path) -> None:
    world = World.open(tmp_path)
    physical = create_physical(world)
    created = world.catalog.create_logical_tables(
        [draft_on(physical, f"m{number:03}", "host", f"label{number:03}") for number in range(100)]
    )
    assert [table.id for table in created] == list(range(physical.id + 1, physical.id + 101))
    before = world.see()
    world.close()
    world = World.open(tmp_path)
    assert world.see() == before
    assert world.catalog.logical_tables(physical) == created
    wanted = ["ts", "val", "__table_id", "__tsid", "host", *(f"label{number:03}" for number in range(100))]
    assert columns_of(world, "phy") == wanted
    assert world.engine.schema(physical.region_ids[0]).version == 0
    world.close()


def test_a_name_given_twice_creates_nothing(world: World) -> None:
    physical = create_physical(world)
    with pytest.raises(TableAlreadyExists):
        world.catalog.create_logical_tables([draft_on(physical, "m"), draft_on(physical, "m")])
    assert world.catalog.logical_tables(physical) == []


def test_a_new_label_is_shown_by_both_tables(world: World) -> None:
    physical = create_physical(world)
    table = world.catalog.create_table(draft_on(physical, "m", "host"))
    label = ColumnInfo(ColumnId(table.next_column_id), "az", table.by_name["host"].type, Semantic.TAG)
    world.catalog.alter_table(table, plan_column(table, label).changed())
    assert columns_of(world, "m") == ["az", "host", "ts", "val"]
    assert columns_of(world, "phy") == ["ts", "val", "__table_id", "__tsid", "host", "az"]


def test_a_logical_table_needs_its_physical_one(world: World) -> None:
    physical = create_physical(world)
    draft = draft_on(physical, "m", "host")
    world.catalog.drop_tables([physical])
    with pytest.raises(TableNotFound):
        world.catalog.create_table(draft)


def test_a_physical_table_stays_while_it_is_used(world: World) -> None:
    physical = create_physical(world)
    logical = world.catalog.create_table(draft_on(physical, "m", "host"))
    physical = world.catalog.table("public", "phy")
    with pytest.raises(PhysicalTableInUse):
        world.catalog.drop_tables([physical])
    world.catalog.drop_tables([physical, logical])
    assert world.catalog.tables("public") == []


def test_the_columns_of_the_region_do_not_change(world: World) -> None:
    physical = create_physical(world)
    with pytest.raises(Unsupported):
        world.catalog.alter_table(
            physical, physical.changed(), [AddColumn("k", physical.fields[0].type.arrow, Semantic.FIELD)]
        )


def with_histogram(draft: TableInfo) -> TableInfo:
    column = ColumnInfo(ColumnId(draft.next_column_id), HISTOGRAM_COLUMN, DataType(Kind.BINARY), Semantic.FIELD)
    return plan_column(draft, column)


def test_the_field_of_histograms_comes_to_the_physical_table_with_the_first_logical_one(tmp_path: Path) -> None:
    world = World.open(tmp_path)
    region = create_physical(world).region_ids[0]
    plain = world.catalog.create_table(draft_on(world.catalog.table("public", "phy"), "m", "host"))
    assert world.engine.schema(region).version == 0
    world.catalog.create_table(with_histogram(draft_on(world.catalog.table("public", "phy"), "h", "host")))
    world.catalog.alter_table(plain, with_histogram(plain).changed())
    # Only the first one changes the region.
    assert world.engine.schema(region).version == world.catalog.table("public", "phy").schema_version == 1
    assert [column.name for column in world.engine.schema(region).fields] == ["val", HISTOGRAM_COLUMN]
    assert columns_of(world, "m") == ["host", "ts", HISTOGRAM_COLUMN, "val"]
    assert columns_of(world, "phy") == ["ts", "val", "__table_id", "__tsid", "host", HISTOGRAM_COLUMN]
    before = world.see()
    world.close()
    world = World.open(tmp_path)
    assert world.see() == before
    world.close()


class Died(BaseException):
    """What a process that is killed does not survive."""


@pytest.mark.parametrize(
    "point",
    [
        "catalog.alter.after_intent",
        "alter.before_manifest",
        "alter.after_manifest",
        "catalog.alter.after_regions",
        "catalog.alter.after_publish",
        "catalog.create.after_publish",
    ],
)
def test_a_process_that_dies_while_the_field_is_added_leaves_what_can_be_gone_on_with(
    tmp_path: Path, point: str
) -> None:
    world = World.open(tmp_path)
    region = create_physical(world).region_ids[0]
    draft = with_histogram(draft_on(world.catalog.table("public", "phy"), "h", "host"))

    def die(name: str) -> None:
        if name == point:
            raise Died

    with on_crash_point(die), pytest.raises(Died):
        world.catalog.create_table(draft)
    world.close()
    world = World.open(tmp_path)
    if world.catalog.find_table("public", "h") is None:
        world.catalog.create_table(draft)
    assert columns_of(world, "h") == ["host", "ts", HISTOGRAM_COLUMN, "val"]
    assert world.engine.schema(region).version == world.catalog.table("public", "phy").schema_version == 1
    assert HISTOGRAM_COLUMN in world.engine.schema(region).by_name
    world.close()


def test_a_physical_table_whose_value_has_the_name_gets_no_histograms(world: World) -> None:
    physical = create_physical(world)
    value = replace(physical.fields[0], name=HISTOGRAM_COLUMN)
    named = replace(physical, columns=(physical.time_index, value))
    with pytest.raises(InvalidArguments, match="its column tsdb_histogram is a field of type Float64"):
        add_histogram(named)


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (ColumnInfo(ColumnId(9), HISTOGRAM_COLUMN, DataType(Kind.STRING), Semantic.FIELD), "Adding field column"),
        (ColumnInfo(ColumnId(9), HISTOGRAM_COLUMN, DataType(Kind.STRING), Semantic.TAG), "a label cannot be called"),
        (ColumnInfo(ColumnId(9), HISTOGRAM_COLUMN, DataType(Kind.BINARY), Semantic.FIELD, nullable=False), "nullable"),
        (ColumnInfo(ColumnId(9), "other", DataType(Kind.BINARY), Semantic.FIELD), "Adding field column"),
    ],
)
def test_nothing_else_becomes_the_field_of_histograms(world: World, column: ColumnInfo, reason: str) -> None:
    table = draft_on(create_physical(world), "m", "host")
    with pytest.raises(InvalidArguments, match=reason):
        plan_column(table, column)
