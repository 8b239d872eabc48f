"""What the catalog shows and refuses, over a real engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.worlds import World, draft, put, view, with_column
from tests.engine.harness import scan
from tests.engine.reads import count_rows
from tsdb.catalog import (
    Catalog,
    CatalogCorrupted,
    CatalogOutdated,
    DatabaseExists,
    DatabaseNotFound,
    TableAlreadyExists,
    TableNotFound,
)
from tsdb.catalog._intents import TruncateIntent
from tsdb.catalog._truncate import REDO_MS_MAX
from tsdb.clock import ManualClock
from tsdb.errors import InvalidArguments, Status, TsdbError, Unsupported
from tsdb.kv import KvUnavailable, MemoryKv, Operation, PutKey
from tsdb.model import (
    AddColumn,
    ColumnExists,
    DatabaseInfo,
    DropColumn,
    MergeMode,
    RegionId,
    SchemaChange,
    TableInfo,
)
from tsdb.units import Duration, Size


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World.open(tmp_path)
    yield made
    made.close()


def reopen(world: World, root: Path) -> None:
    """Stop, and start again in the same world."""
    world.close()
    opened = World.open(root)
    world.kv, world.store, world.engine, world.catalog = opened.kv, opened.store, opened.engine, opened.catalog


def test_the_built_in_databases_are_always_there(world: World) -> None:
    assert [info.name for info in world.catalog.databases()] == ["public", "tsdb_private"]
    with pytest.raises(Unsupported):
        world.catalog.drop_database("public")
    assert world.catalog.tables("nowhere") == []
    assert world.catalog.find_database("nowhere") is None


def test_errors_say_what_is_missing_or_in_the_way(world: World) -> None:
    catalog = world.catalog
    table = catalog.create_table(draft("t"))
    cases: list[tuple[Any, type[TsdbError], Status, str]] = [
        (lambda: catalog.database("x"), DatabaseNotFound, Status.DATABASE_NOT_FOUND, "Database not found: x"),
        (lambda: catalog.table("public", "x"), TableNotFound, Status.TABLE_NOT_FOUND, "Table not found: tsdb.public.x"),
        (
            lambda: catalog.create_table(draft("t")),
            TableAlreadyExists,
            Status.TABLE_ALREADY_EXISTS,
            "Table already exists: `tsdb.public.t`",
        ),
        (
            lambda: catalog.create_database(DatabaseInfo("public")),
            DatabaseExists,
            Status.INVALID_ARGUMENTS,
            "Schema public already exists",
        ),
        (
            lambda: catalog.create_table(draft("t", "x")),
            DatabaseNotFound,
            Status.DATABASE_NOT_FOUND,
            "Database not found: x",
        ),
        (
            lambda: catalog.drop_view("public", "t"),
            TableNotFound,
            Status.TABLE_NOT_FOUND,
            "Table not found: tsdb.public.t",
        ),
        (
            lambda: catalog.create_view(view("t"), replace=True),
            TableAlreadyExists,
            Status.TABLE_ALREADY_EXISTS,
            "Table already exists: `tsdb.public.t`",
        ),
        (
            lambda: catalog.drop_tables([table, replace(table, id=9, name="x")]),
            TableNotFound,
            Status.TABLE_NOT_FOUND,
            "Table not found: tsdb.public.x",
        ),
    ]
    for act, kind, status, message in cases:
        with pytest.raises(kind) as caught:
            act()
        assert (caught.value.status, caught.value.message) == (status, message)
    assert catalog.table("public", "t") == table
    world.check_tidy()


def test_tables_are_numbered_once_and_survive_a_restart(world: World, tmp_path: Path) -> None:
    first = world.catalog.create_table(draft("b"))
    second = world.catalog.create_table(draft("a"))
    assert (first.id, second.id, first.next_column_id, first.created_ms) == (1024, 1025, 3, 1_700_000_000_000)
    put(world, first, [{"host": "h", "ts": 1, "v": 2.0}])
    world.catalog.drop_tables([second])
    seen = world.see()
    reopen(world, tmp_path)
    assert world.see() == seen
    assert world.catalog.table("public", "b") == first == world.catalog.table_by_id(1024)
    assert world.catalog.create_table(draft("a")).id == 1026
    assert [table.name for table in world.catalog.tables("public")] == ["a", "b"]


def test_a_table_has_one_region_for_each_rule_and_a_file_none(world: World) -> None:
    split = world.catalog.create_table(draft("split", rules=("host < 'm'", "host >= 'm'")))
    assert split.region_numbers == (0, 1)
    assert set(split.region_ids) == set(world.engine.region_ids())
    external = world.catalog.create_table(draft("external", engine="file"))
    assert external.region_ids == ()
    changed = world.catalog.alter_table(external, external.changed(options={"format": "csv"}))
    world.catalog.drop_tables([changed, split])
    assert world.catalog.tables("public") == []
    assert world.engine.region_ids() == ()
    world.check_tidy()


def test_names_with_slashes_do_not_meet(world: World, tmp_path: Path) -> None:
    world.catalog.create_database(DatabaseInfo("a"))
    world.catalog.create_table(draft("b/c", "a", engine="file"))
    world.catalog.create_table(draft("b%2Fc", "a", engine="file"))
    reopen(world, tmp_path)
    assert [table.name for table in world.catalog.tables("a")] == ["b%2Fc", "b/c"]


def test_columns_that_make_no_region_are_refused_and_leave_nothing(world: World) -> None:
    doubled = draft("t")
    doubled = replace(doubled, columns=(*doubled.columns, replace(doubled.columns[2], id=7)))
    with pytest.raises(InvalidArguments, match="invalid table columns"):
        world.catalog.create_table(doubled)
    with pytest.raises(InvalidArguments, match="invalid table columns"):
        world.catalog.create_table(replace(draft("t"), primary_key=("missing",)))
    with pytest.raises(InvalidArguments, match="cannot be stored"):
        world.catalog.create_table(replace(draft("t"), comment="half a pair: \ud800"))
    assert world.catalog.find_table("public", "t") is None
    world.check_tidy()


def test_an_alter_reaches_regions_and_description(world: World, tmp_path: Path) -> None:
    table = world.catalog.create_table(draft("t", rules=("host < 'm'", "host >= 'm'")))
    put(world, table, [{"host": "a", "ts": 1, "v": 1.0}])
    altered = world.catalog.alter_table(*with_column(table, "n"))
    assert (altered.version, altered.schema_version, altered.next_column_id) == (1, 1, 4)
    put(world, altered, [{"host": "z", "ts": 1, "v": 1.0, "n": 5}], number=1)
    world.check_tidy()
    seen = world.see()
    reopen(world, tmp_path)
    assert world.see() == seen
    dropped = altered.changed(columns=tuple(each for each in altered.columns if each.name != "v"))
    world.catalog.alter_table(altered, dropped, [DropColumn("v")])
    world.check_tidy()


def test_an_alter_that_a_region_would_refuse_changes_nothing(world: World) -> None:
    table = world.catalog.create_table(draft("t"))
    old, new, _ = with_column(table, "v2")
    refused: list[tuple[list[SchemaChange], type[TsdbError]]] = [
        ([AddColumn("v", new.columns[-1].type.arrow)], ColumnExists),
        ([DropColumn("host")], InvalidArguments),
        ([AddColumn("other", new.columns[-1].type.arrow)], TsdbError),
    ]
    for changes, kind in refused:
        with pytest.raises(kind):
            world.catalog.alter_table(old, new, changes)
        assert world.catalog.table("public", "t") == table
        world.check_tidy()


def test_an_alter_from_an_old_description_is_refused(world: World) -> None:
    table = world.catalog.create_table(draft("t"))
    world.catalog.alter_table(table, table.changed(comment="new"))
    with pytest.raises(CatalogOutdated) as caught:
        world.catalog.alter_table(table, table.changed(comment="newer"))
    assert caught.value.status is Status.REQUEST_OUTDATED
    assert world.catalog.table("public", "t").comment == "new"
    world.catalog.drop_tables([table])
    with pytest.raises(TableNotFound):
        world.catalog.alter_table(table, table.changed(comment="gone"))


def test_a_rename_moves_the_name_and_refuses_one_that_is_taken(world: World, tmp_path: Path) -> None:
    table = world.catalog.create_table(draft("t"))
    world.catalog.create_view(view("v"), replace=False)
    with pytest.raises(TableAlreadyExists, match=r"Table already exists, table: tsdb\.public\.v"):
        world.catalog.alter_table(table, table.changed(name="v"))
    world.catalog.alter_table(table, table.changed(name="u"))
    assert world.catalog.find_table("public", "t") is None
    world.catalog.create_table(draft("t"))
    reopen(world, tmp_path)
    assert [each.name for each in world.catalog.tables("public")] == ["t", "u"]
    assert world.catalog.table("public", "u").id == table.id


def test_options_of_a_table_reach_its_regions(world: World) -> None:
    options = {
        "append_mode": "true",
        "ttl": "7days",
        "skip_wal": "true",
        "write_buffer_size": "1.0KiB",
        "storage": "s3",
    }
    table = world.catalog.create_table(draft("t", options=options))
    made = world.catalog.region_options(table)
    assert (made.append_mode, made.skip_wal, made.storage) == (True, True, "s3")
    assert (made.ttl, made.write_buffer_size) == (Duration.parse("7d"), Size(1024))
    other = world.catalog.create_table(draft("u", options={"merge_mode": "last_non_null", "ttl": "instant"}))
    assert world.catalog.region_options(other).merge_mode is MergeMode.LAST_NON_NULL
    assert world.catalog.region_options(other).ttl
    world.catalog.alter_table(other, other.changed(options={"merge_mode": "last_non_null", "ttl": "forever"}))
    world.check_tidy()


@pytest.mark.parametrize(
    "options",
    [
        {"ttl": "soon"},
        {"append_mode": "yes"},
        {"merge_mode": "first"},
        {"write_buffer_size": "much"},
        {"append_mode": "true", "merge_mode": "last_non_null"},
    ],
)
def test_options_that_mean_nothing_are_refused(world: World, options: dict[str, str]) -> None:
    with pytest.raises(InvalidArguments):
        world.catalog.create_table(draft("t", options=options))
    table = world.catalog.create_table(draft("t"))
    with pytest.raises(InvalidArguments):
        world.catalog.alter_table(table, table.changed(options=options))
    assert world.catalog.table("public", "t") == table
    world.check_tidy()


def test_append_mode_can_be_entered_with_rows_and_never_left(world: World) -> None:
    table = world.catalog.create_table(draft("t"))
    put(world, table, [{"host": "a", "ts": 1, "v": 1.0}])
    put(world, table, [{"host": "a", "ts": 1, "v": 2.0}])
    appending = world.catalog.alter_table(table, table.changed(options={"append_mode": "true"}))
    put(world, table, [{"host": "a", "ts": 1, "v": 3.0}])
    assert sum(count_rows(world.engine.snapshot(region)) for region in table.region_ids) == 2
    with pytest.raises(InvalidArguments):
        world.catalog.alter_table(appending, appending.changed(options={}))
    world.check_tidy()


def test_a_table_with_a_damaged_region_can_be_dropped(world: World, tmp_path: Path) -> None:
    table = world.catalog.create_table(draft("t"))
    put(world, table, [{"host": "a", "ts": 1, "v": 1.0}])
    for region in table.region_ids:
        world.engine.flush(region).result(10)
    damaged = list(tmp_path.rglob("*.parquet"))
    assert damaged
    for path in damaged:
        path.unlink()
    reopen(world, tmp_path)
    assert all(world.engine.stat(region).quarantined_files for region in table.region_ids)
    world.catalog.drop_tables([world.catalog.table("public", "t")])
    world.check_tidy()
    reopen(world, tmp_path)
    world.check_tidy()
    assert world.catalog.find_table("public", "t") is None


def test_tables_inherit_ttl_and_compaction_as_the_database_has_them_now(world: World, tmp_path: Path) -> None:
    given = {"ttl": "1day", "compaction.type": "twcs", "append_mode": "true"}
    world.catalog.create_database(DatabaseInfo("d", given))
    heir = world.catalog.create_table(draft("heir", "d", options={"comment": "x"}))
    own = world.catalog.create_table(draft("own", "d", options={"ttl": "2days"}))
    assert world.catalog.effective_options(heir) == {"ttl": "1day", "compaction.type": "twcs", "comment": "x"}
    assert world.catalog.effective_options(own)["ttl"] == "2days"

    world.catalog.alter_database(DatabaseInfo("d", {"ttl": "3days"}))
    assert world.catalog.region_options(heir).ttl == Duration.parse("3d")
    world.check_tidy()
    with pytest.raises(InvalidArguments):
        world.catalog.alter_database(DatabaseInfo("d", {"ttl": "soon"}))
    reopen(world, tmp_path)
    assert world.catalog.database("d").options == {"ttl": "3days"}
    assert world.catalog.database("d").created_ms == 1_700_000_000_000
    world.check_tidy()
    with pytest.raises(DatabaseNotFound):
        world.catalog.alter_database(DatabaseInfo("nowhere"))


def test_views_share_the_names_of_tables(world: World, tmp_path: Path) -> None:
    catalog = world.catalog
    first = catalog.create_view(view("v", "SELECT 1"), replace=False)
    with pytest.raises(TableAlreadyExists):
        catalog.create_view(view("v"), replace=False)
    with pytest.raises(TableAlreadyExists):
        catalog.create_table(draft("v"))
    second = catalog.create_view(view("v", "SELECT 2"), replace=True)
    assert second.id > first.id
    reopen(world, tmp_path)
    assert world.catalog.find_view("public", "v") == second
    assert [each.query for each in world.catalog.views("public")] == ["SELECT 2"]
    assert world.catalog.find_table("public", "v") is None
    world.catalog.drop_view("public", "v")
    world.catalog.create_table(draft("v"))
    assert world.catalog.find_view("public", "v") is None


def test_a_dropped_database_takes_everything_along_and_can_be_made_anew(world: World, tmp_path: Path) -> None:
    for _ in range(2):
        world.catalog.create_database(DatabaseInfo("d"))
        assert world.catalog.tables("d") == []
        world.catalog.create_table(draft("t", "d"))
        world.catalog.create_view(view("v", database="d"), replace=False)
        world.catalog.drop_database("d")
        assert world.catalog.find_table("d", "t") is None
        world.check_tidy()
    with pytest.raises(DatabaseNotFound):
        world.catalog.drop_database("d")
    reopen(world, tmp_path)
    assert [info.name for info in world.catalog.databases()] == ["public", "tsdb_private"]


def test_one_of_many_threads_creates_a_table_and_the_others_hear_that_it_exists(world: World) -> None:
    outcomes: list[str] = []

    def create() -> None:
        try:
            world.catalog.create_table(draft("t"))
            outcomes.append("created")
        except TableAlreadyExists:
            outcomes.append("exists")

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["created"] + ["exists"] * 7
    world.check_tidy()


class FailingRegions:
    """The engine, but for one region that fails as often as it is told to."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.failures: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.engine, name)

    def _fail(self, verb: str, region_id: RegionId) -> None:
        if region_id & 1 and self.failures.get(verb, 0):
            self.failures[verb] -= 1
            raise KvUnavailable(f"{verb} fails")

    def create_region(self, region_id: RegionId, *arguments: Any) -> None:
        self._fail("create", region_id)
        self.world.engine.create_region(region_id, *arguments)

    def alter(self, region_id: RegionId, changes: list[SchemaChange]) -> Future[None]:
        self._fail("alter", region_id)
        return self.world.engine.alter(region_id, changes)

    def drop(self, region_id: RegionId) -> Future[None]:
        self._fail("drop", region_id)
        return self.world.engine.drop(region_id)

    def truncate(self, region_id: RegionId, *, token: str) -> Future[None]:
        self._fail("truncate", region_id)
        return self.world.engine.truncate(region_id, token=token)

    def set_options(self, region_id: RegionId, options: Any) -> Future[None]:
        self._fail("options", region_id)
        return self.world.engine.set_options(region_id, options)


RULES = ("host < 'm'", "host >= 'm'")


@pytest.fixture
def failing(world: World) -> FailingRegions:
    regions = FailingRegions(world)
    world.catalog = Catalog(world.kv, regions, ManualClock())
    return regions


def test_a_table_whose_regions_cannot_all_be_made_is_not_there(
    world: World, failing: FailingRegions, tmp_path: Path
) -> None:
    failing.failures["create"] = 1
    with pytest.raises(KvUnavailable):
        world.catalog.create_table(draft("t", rules=RULES))
    assert world.catalog.find_table("public", "t") is None
    assert world.engine.region_ids() == ()
    assert world.catalog.create_table(draft("t", rules=RULES)).id == 1025
    reopen(world, tmp_path)
    world.check_tidy()
    assert world.catalog.table("public", "t").id == 1025


def test_an_alter_that_fails_half_way_is_finished_before_the_next_change(world: World, failing: FailingRegions) -> None:
    table = world.catalog.create_table(draft("t", rules=RULES))
    failing.failures["alter"] = 1
    with pytest.raises(KvUnavailable):
        world.catalog.alter_table(*with_column(table, "n"))
    assert world.catalog.table("public", "t") == table
    world.catalog.create_table(draft("u"))
    assert "n" in world.catalog.table("public", "t").by_name
    world.check_tidy()


def test_an_alter_that_cannot_be_finished_blocks_the_next_one_but_not_a_drop(
    world: World, failing: FailingRegions
) -> None:
    table = world.catalog.create_table(draft("t", rules=RULES))
    failing.failures["alter"] = 100
    for _ in range(2):
        with pytest.raises(KvUnavailable):
            world.catalog.alter_table(*with_column(table, "n"))
    world.catalog.create_table(draft("u"))
    world.catalog.drop_tables([world.catalog.table("public", "t")])
    world.check_tidy()


def test_a_region_that_cannot_be_dropped_now_is_dropped_by_a_later_start(
    world: World, failing: FailingRegions, tmp_path: Path
) -> None:
    table = world.catalog.create_table(draft("t", rules=RULES))
    failing.failures["drop"] = 1
    world.catalog.drop_tables([table])
    assert world.catalog.find_table("public", "t") is None
    assert len(world.engine.region_ids()) == 1
    world.catalog.create_table(draft("t"))
    reopen(world, tmp_path)
    world.check_tidy()


def test_options_of_a_database_that_do_not_reach_a_region_reach_it_at_a_later_start(
    world: World, failing: FailingRegions, tmp_path: Path
) -> None:
    world.catalog.create_database(DatabaseInfo("d"))
    world.catalog.create_table(draft("t", "d", rules=RULES))
    failing.failures["options"] = 1
    world.catalog.alter_database(DatabaseInfo("d", {"ttl": "1day"}))
    assert world.catalog.effective_options(world.catalog.table("d", "t")) == {"ttl": "1day"}
    reopen(world, tmp_path)
    world.check_tidy()


def rows_in(world: World, table: TableInfo) -> list[int]:
    """How many rows the regions of a table have."""
    return [len(scan(world.engine, region_id)) for region_id in table.region_ids]


def fill(world: World, table: TableInfo, at: int = 1) -> None:
    for number in range(len(table.region_ids)):
        put(world, table, [{"host": "a", "ts": at, "v": 1.0}], number)


def test_a_table_is_truncated_and_can_be_again(world: World, tmp_path: Path) -> None:
    table = world.catalog.create_table(draft("t", rules=RULES))
    for _ in range(2):
        fill(world, table)
        world.catalog.truncate_table(table)
        assert not any(rows_in(world, table))
    reopen(world, tmp_path)
    world.check_tidy()
    assert not any(rows_in(world, table))
    world.catalog.drop_tables([table])
    with pytest.raises(TableNotFound):
        world.catalog.truncate_table(table)


def test_a_truncation_that_fails_half_way_removes_no_rows_that_come_later(
    world: World, failing: FailingRegions, tmp_path: Path
) -> None:
    table = world.catalog.create_table(draft("t", rules=RULES))
    fill(world, table)
    failing.failures["truncate"] = 1
    with pytest.raises(KvUnavailable):
        world.catalog.truncate_table(table)
    assert sorted(set(rows_in(world, table))) == [0, 1]
    fill(world, table, at=2)
    before = rows_in(world, table)
    world.catalog.create_table(draft("u"))
    reopen(world, tmp_path)
    world.check_tidy()
    assert rows_in(world, table) == before


class NoPlacement:
    """A cluster without nodes."""

    def place(self, table: TableInfo) -> list[Operation]:
        return []

    def forget(self, table_id: int) -> list[Operation]:
        return []


@pytest.mark.parametrize("passed_ms", [REDO_MS_MAX, REDO_MS_MAX + 1])
def test_the_next_leader_finishes_a_truncation_soon_or_never(world: World, passed_ms: int) -> None:
    table = world.catalog.create_table(draft("t", rules=RULES))
    fill(world, table)
    first, *others = table.region_ids
    # An earlier leader was lost behind the first region, which got rows since.
    world.engine.truncate(first, token="one").result(30)
    put(world, table, [{"host": "b", "ts": 2, "v": 1.0}])
    intent = TruncateIntent(table.id, "one", started_ms=1000)
    world.kv.transact([], [intent.put])
    clock = ManualClock((1000 + passed_ms) * 1_000_000)
    world.catalog = Catalog(world.kv, world.engine, clock, placement=NoPlacement())
    assert world.catalog.resume()
    left = 0 if passed_ms == REDO_MS_MAX else 1
    assert rows_in(world, table) == [1, *(left for _ in others)]
    world.check_tidy()


class FailingKv(MemoryKv):
    """Metadata that can be told to fail, before or after it has written."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: str | None = None

    def transact(self, compares: Any, operations: Any) -> bool:
        failing, self.failing = self.failing, None
        if failing == "before":
            raise KvUnavailable("the disk is gone")
        done = super().transact(compares, operations)
        if failing == "after":
            raise KvUnavailable("the answer was lost")
        return done


@pytest.mark.parametrize("moment", ["before", "after"])
def test_after_a_failed_transaction_the_catalog_shows_what_the_store_holds(world: World, moment: str) -> None:
    kv = FailingKv()
    catalog = Catalog(kv, world.engine, ManualClock())
    kv.failing = moment
    with pytest.raises(KvUnavailable):
        catalog.create_database(DatabaseInfo("d"))
    if moment == "before":
        catalog.create_database(DatabaseInfo("d"))
    else:
        with pytest.raises(DatabaseExists):
            catalog.create_database(DatabaseInfo("d"))
    assert catalog.find_database("d") is not None
    table = catalog.create_table(draft("t", "d"))
    kv.failing = moment
    with pytest.raises(KvUnavailable):
        catalog.drop_tables([table])
    catalog.create_database(DatabaseInfo("e"))
    assert (catalog.find_table("d", "t") is None) == (moment == "after")
    assert (world.engine.region_ids() == ()) == (moment == "after")
    assert kv.scan("__tombstone/") == []


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"not json", b'{"id": 1}', b"null"])
def test_metadata_that_cannot_be_understood_is_told_with_its_key(world: World, value: bytes) -> None:
    kv = MemoryKv()
    kv.transact([], [PutKey("__table_info/1024", value)])
    with pytest.raises(CatalogCorrupted, match="__table_info/1024"):
        Catalog(kv, world.engine, ManualClock())
