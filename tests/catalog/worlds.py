"""A catalog over a real engine and store in a directory, tables for it, and what can be seen of it all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.engine.harness import OPTIONS, WAL_OPTIONS, Row, batch_of, scan
from tsdb.catalog import Catalog, known_regions
from tsdb.clock import ManualClock
from tsdb.engine import Engine, Wal
from tsdb.kv import SqliteKv
from tsdb.model import (
    AddColumn,
    ColumnId,
    ColumnInfo,
    DatabaseInfo,
    DataType,
    Kind,
    RegionId,
    SchemaChange,
    Semantic,
    TableInfo,
    ViewInfo,
)
from tsdb.store import LocalStore

NOW_NS = 1_700_000_000_000_000_000


@dataclass
class World:
    """Everything a server has of its metadata and data."""

    kv: SqliteKv
    store: LocalStore
    engine: Engine
    catalog: Catalog

    @classmethod
    def open(cls, root: Path) -> World:
        clock = ManualClock(NOW_NS)
        kv, store = SqliteKv(root / "metadata.db"), LocalStore(root / "store")
        known = known_regions(kv, store)
        engine = Engine.open(
            store,
            Wal.open(root / "wal", WAL_OPTIONS)[0],
            options=OPTIONS,
            regions=known,
            has_housekeeping=False,
        )
        return cls(kv, store, engine, Catalog(kv, engine, clock))

    def close(self) -> None:
        self.engine.close(flush=False)
        self.kv.close()

    def see(self) -> dict[str, Any]:
        """Everything that a user could see, as the catalog and as the regions have it."""
        seen: dict[str, Any] = {}
        for database in self.catalog.databases():
            seen[database.name] = dict(database.options)
            for table in self.catalog.tables(database.name):
                seen[f"{database.name}.{table.name}"] = (
                    [column.name for column in table.columns],
                    [self.see_region(region_id) for region_id in table.region_ids],
                )
            for view in self.catalog.views(database.name):
                seen[f"{database.name}.{view.name}"] = view.query
        return seen

    def see_region(self, region_id: RegionId) -> Any:
        schema = self.engine.schema(region_id)
        options = self.engine._region(region_id).version.options
        return {column.name for column in schema.columns}, options, scan(self.engine, region_id)

    def check_tidy(self) -> None:
        """Nothing is under way, and every region belongs to a table of the same schema."""
        assert self.kv.scan("__procedure/") == []
        assert self.kv.scan("__tombstone/") == []
        assert not self.engine.quarantined
        tables = [table for info in self.catalog.databases() for table in self.catalog.tables(info.name)]
        assert sorted(self.engine.region_ids()) == sorted(each for table in tables for each in table.region_ids)
        for table in tables:
            assert self.catalog.table_by_id(table.id) is table
            for region_id in table.region_ids:
                schema = self.engine.schema(region_id)
                assert schema.version == table.schema_version
                assert {(column.id, column.name) for column in schema.columns} == {
                    (column.id, column.name) for column in table.columns
                }
                options = self.engine._region(region_id).version.options
                # Only the region knows what came before append mode.
                assert replace(options, append_from=0) == self.catalog.region_options(table)


def draft(
    name: str,
    database: str = "public",
    *,
    options: dict[str, str] | None = None,
    rules: tuple[str, ...] = (),
    engine: str = "mito",
) -> TableInfo:
    """A table `host` tag, `ts` time, `v` field, as the database layer would describe it."""
    columns = (
        ColumnInfo(ColumnId(0), "ts", DataType(Kind.TIMESTAMP_MILLISECOND), Semantic.TIMESTAMP, nullable=False),
        ColumnInfo(ColumnId(1), "host", DataType(Kind.STRING), Semantic.TAG),
        ColumnInfo(ColumnId(2), "v", DataType(Kind.FLOAT64), Semantic.FIELD),
    )
    return TableInfo(
        id=0,
        database=database,
        name=name,
        columns=columns,
        primary_key=("host",),
        engine=engine,
        options=options or {},
        partition_columns=("host",) if rules else (),
        partition_rules=rules,
        region_numbers=() if engine == "file" else (0,),
    )


def with_column(table: TableInfo, column_name: str, **changes: Any) -> tuple[TableInfo, TableInfo, list[SchemaChange]]:
    """What adding a field to a table asks of the catalog."""
    data_type = DataType(Kind.INT64)
    column = ColumnInfo(ColumnId(table.next_column_id), column_name, data_type, Semantic.FIELD)
    new = table.changed(columns=(*table.columns, column), **changes)
    return table, new, [AddColumn(column_name, data_type.arrow)]


def view(name: str, query: str = "SELECT 1", database: str = "public") -> ViewInfo:
    return ViewInfo(id=0, database=database, name=name, definition=f"CREATE VIEW {name} AS {query}", query=query)


def put(world: World, table: TableInfo, rows: list[Row], number: int = 0) -> None:
    region_id = table.region_ids[number]
    world.engine.write(region_id, batch_of(world.engine.schema(region_id), rows)).result(timeout=30)


MANY = 20
"""More tables than one transaction can move away."""


def _create_split(world: World) -> None:
    world.catalog.create_table(draft("t", rules=("host < 'm'", "host >= 'm'")))


def _write(world: World) -> None:
    put(world, world.catalog.table("public", "t"), [{"host": "a", "ts": 1, "v": 1.0}])


def _fill_two_regions(world: World) -> None:
    table = world.catalog.table("d", "split")
    put(world, table, [{"host": "a", "ts": 1, "v": 1.0}])
    put(world, table, [{"host": "z", "ts": 1, "v": 2.0}], 1)


def _add_column_and_rename(world: World) -> None:
    old, new, changes = with_column(world.catalog.table("public", "t"), "extra", name="renamed")
    world.catalog.alter_table(old, new, changes)


def _set_ttl(world: World) -> None:
    old = world.catalog.table("public", "renamed")
    world.catalog.alter_table(old, old.changed(options={"ttl": "90years"}))


def _alter_database(world: World) -> None:
    info = world.catalog.database("d")
    world.catalog.alter_database(DatabaseInfo("d", {**info.options, "ttl": "80years"}))


def _fill(world: World) -> None:
    """One step in the eyes of the test: what of it is there after a crash is a prefix."""
    for number in range(MANY):
        if world.catalog.find_table("d", f"many{number}") is None:
            world.catalog.create_table(draft(f"many{number}", "d", engine="file"))


LIFE: tuple[Callable[[World], object], ...] = (
    lambda world: world.catalog.create_database(DatabaseInfo("d", {"ttl": "70years"})),
    _create_split,
    _write,
    _add_column_and_rename,
    _set_ttl,
    lambda world: world.catalog.create_view(view("v"), replace=False),
    lambda world: world.catalog.create_table(draft("x", "d")),
    lambda world: world.catalog.create_table(draft("own", "d", options={"ttl": "forever"})),
    _alter_database,
    lambda world: world.catalog.create_table(draft("split", "d", rules=("host < 'm'", "host >= 'm'"))),
    _fill_two_regions,
    lambda world: world.catalog.truncate_table(world.catalog.table("d", "split")),
    lambda world: world.catalog.drop_view("public", "v"),
    lambda world: world.catalog.drop_tables([world.catalog.table("public", "renamed")]),
    _fill,
    lambda world: world.catalog.create_view(view("w", database="d"), replace=False),
    lambda world: world.catalog.drop_database("d"),
    _create_split,
)
FILL = LIFE.index(_fill)
