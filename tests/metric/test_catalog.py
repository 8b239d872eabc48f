"""Metric tables in the catalog: ids, what physical tables show, and what outlives a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.worlds import World
from tests.metric.tables import table_of
from tsdb.catalog import PhysicalTableInUse, TableAlreadyExists, TableNotFound
from tsdb.errors import Unsupported
from tsdb.metric import plan_label, plan_metric_table
from tsdb.model import AddColumn, ColumnId, ColumnInfo, Semantic, TableInfo


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
    world.catalog.alter_table(table, plan_label(table, label).changed())
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
