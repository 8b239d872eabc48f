"""Rows that are on their way into a table while it is altered: they arrive whole, or the writer hears why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.database.cases import open_case_database, render
from tsdb.components._local import LocalDatabase
from tsdb.database import Affected, Channel, Session, read_all
from tsdb.database.writing.columns import make_rows
from tsdb.engine import SchemaOutdated
from tsdb.errors import InvalidArguments
from tsdb.model import Batch, OpType, RegionId, TableInfo
from tsdb.units import Duration


class Meddling:
    """Regions at which something happens between the look at their schema and the write."""

    def __init__(self, regions: Any, meddle: Callable[[], None]) -> None:
        self._regions = regions
        self._meddle = meddle
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._regions, name)

    def write(self, region: RegionId, batch: Batch, **more: Any) -> Future[int]:
        self.writes += 1
        self._meddle()
        done: Future[int] = self._regions.write(region, batch, **more)
        return done


class World:
    """A database, and writes into it that others disturb."""

    def __init__(self, directory: Path) -> None:
        self.opened: LocalDatabase = open_case_database(directory)
        self.session = Session(channel=Channel.HTTP)

    def sql(self, text: str) -> list[str]:
        lines: list[str] = []
        for output in self.opened.database.execute(text, self.session):
            lines = [f"ok {output.rows}"] if isinstance(output, Affected) else render(read_all(output))
        return lines

    def table(self, name: str = "t") -> TableInfo:
        return self.opened.database.services.catalog.table("public", name)

    def write(
        self,
        table: TableInfo,
        rows: pa.Table,
        *meddling: str,
        op: OpType = OpType.PUT,
        timeout: Duration = Duration.of_seconds(30),
    ) -> int:
        """Write rows made for a description of a table; one of the statements comes before each attempt."""
        left = list(meddling)

        def meddle() -> None:
            if left:
                self.sql(left.pop(0))

        services = self.opened.database.services
        regions: Any = Meddling(services.regions, meddle)
        disturbed = replace(services, regions=regions, options=replace(services.options, write_timeout=timeout))
        return disturbed.writer.put(make_rows(table, rows, op))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.sql("CREATE TABLE t (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v INT, w INT)")
    yield made
    made.opened.close()


def rows_of(table: TableInfo, **columns: list[Any]) -> pa.Table:
    arrays = [pa.array(columns[column.name], column.type.arrow) for column in table.columns]
    return pa.table(arrays, schema=table.arrow)


def some_rows(world: World) -> pa.Table:
    return rows_of(world.table(), k=["a", "b"], ts=[1, 2], v=[1, 2], w=[3, 4])


@pytest.mark.parametrize(
    ("statements", "answer"),
    [
        (["ALTER TABLE t ADD COLUMN x INT DEFAULT 7"], ["v | w | x", "1 | 3 | 7", "2 | 4 | 7"]),
        (["ALTER TABLE t DROP COLUMN w"], ["v", "1", "2"]),
        (["ALTER TABLE t RENAME COLUMN w TO x"], ["v | x", "1 | 3", "2 | 4"]),
        (["ALTER TABLE t MODIFY COLUMN w STRING"], ["v | w", "1 | 3", "2 | 4"]),
        (
            [
                "ALTER TABLE t DROP COLUMN w",
                "ALTER TABLE t ADD COLUMN w INT",
                "ALTER TABLE t ADD COLUMN x STRING DEFAULT 'n'",
            ],
            ["v | w | x", "1 | NULL | n", "2 | NULL | n"],
        ),
    ],
    ids=["add", "drop", "rename", "modify", "several"],
)
def test_rows_follow_a_table_that_is_altered_while_they_are_written(
    world: World, statements: list[str], answer: list[str]
) -> None:
    table = world.table()
    assert world.write(table, some_rows(world), *statements) == 2
    columns = answer[0].replace(" | ", ", ")
    assert world.sql(f"SELECT {columns} FROM t ORDER BY v") == answer


def test_a_default_that_is_the_time_of_writing_is_that_of_the_row(world: World) -> None:
    table = world.table()
    world.write(table, some_rows(world), "ALTER TABLE t ADD COLUMN at TIMESTAMP DEFAULT current_timestamp()")
    assert world.sql("SELECT count(*) AS n FROM t WHERE at > now() - INTERVAL '1 hour'") == ["n", "2"]


def test_keys_to_delete_follow_a_table_that_gets_another_tag(world: World) -> None:
    table = world.table()
    world.write(table, some_rows(world))
    keys = pa.table({"k": ["a"], "ts": pa.array([1], pa.timestamp("ms"))})
    added = "ALTER TABLE t ADD COLUMN dc STRING DEFAULT 'x' PRIMARY KEY"
    assert world.write(table, keys, added, op=OpType.DELETE) == 1
    assert world.sql("SELECT k, dc FROM t") == ["k | dc", "b | x"]


def test_rows_of_several_regions_are_written_once_each(world: World) -> None:
    world.sql(
        "CREATE TABLE parts (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v INT) "
        "PARTITION ON COLUMNS (k) (k < 'm', k >= 'm') WITH (append_mode = 'true')"
    )
    table = world.table("parts")
    rows = rows_of(table, k=["a", "z", "a"], ts=[1, 1, 1], v=[1, 2, 1])
    assert world.write(table, rows, "SELECT 1", "ALTER TABLE parts ADD COLUMN x INT DEFAULT 1") == 3
    assert world.sql("SELECT k, v, x FROM parts ORDER BY k") == ["k | v | x", "a | 1 | 1", "a | 1 | 1", "z | 2 | 1"]


def test_a_table_that_never_stops_changing_refuses_the_rows_when_their_time_is_over(world: World) -> None:
    table, rows = world.table(), some_rows(world)
    changes = [f"ALTER TABLE t ADD COLUMN x{number} INT" for number in range(10)]
    with pytest.raises(SchemaOutdated):
        world.write(table, rows, *changes, timeout=Duration(1))
    assert world.sql("SELECT count(*) AS n FROM t") == ["n", "0"]
    assert world.write(table, rows, *changes[1:]) == 2
    assert len(world.table().columns) == 4 + len(changes)


def test_a_value_that_does_not_fit_the_type_its_column_has_by_now_is_refused(world: World) -> None:
    world.sql("ALTER TABLE t ADD COLUMN s STRING")
    table = world.table()
    rows = rows_of(table, k=["a"], ts=[1], v=[1], w=[1], s=["seven"])
    with pytest.raises(InvalidArguments, match="another type by now"):
        world.write(table, rows, "ALTER TABLE t MODIFY COLUMN s INT")
    assert world.sql("SELECT count(*) AS n FROM t") == ["n", "0"]
