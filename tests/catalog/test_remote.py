"""The catalog of a frontend: it shows what the catalog that it follows shows, after any changes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.worlds import draft, view, with_column
from tsdb.auth import UserStore, stored_secret
from tsdb.catalog import (
    CHANGE_KINDS,
    Catalog,
    CatalogChange,
    CatalogReader,
    ChangeMade,
    RemoteCatalog,
    TableNotFound,
    apply_change,
)
from tsdb.catalog._keys import table_key
from tsdb.clock import ManualClock
from tsdb.engine.errors import RegionNotFound
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.kv import Compare, MemoryKv, MirrorKv, Operation, PutKey
from tsdb.model import DatabaseInfo, MetricDescription, RegionId, RegionOptions, RegionSchema, SchemaChange, alter


class MemoryRegions:
    """Regions that have a schema and nothing else."""

    def __init__(self) -> None:
        self.schemas: dict[RegionId, RegionSchema] = {}

    def create_region(self, region: RegionId, directory: str, schema: RegionSchema, options: RegionOptions) -> None:
        self.schemas[region] = schema

    def schema(self, region: RegionId) -> RegionSchema:
        return self.schemas[region]

    def alter(self, region: RegionId, changes: list[SchemaChange]) -> Future[None]:
        self.schemas[region] = alter(self.schemas[region], changes)
        return _done()

    def set_options(self, region: RegionId, options: RegionOptions) -> Future[None]:
        return _done()

    def truncate(self, region: RegionId, *, token: str) -> Future[None]:
        return _done()

    def drop(self, region: RegionId) -> Future[None]:
        if self.schemas.pop(region, None) is None:
            raise RegionNotFound(region_id=region)
        return _done()


def _done() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done


class Followed:
    """A catalog, and one that follows it and sends its changes through JSON."""

    def __init__(self) -> None:
        self.kv = MemoryKv()
        self.catalog = Catalog(self.kv, MemoryRegions(), ManualClock(10**18))  # type: ignore[arg-type]
        self.mirror = MirrorKv(self.kv.watch("__"), self.transact)
        self.mirror.start(30)
        self.remote = RemoteCatalog(self.mirror, self.send)
        self.sent: list[str] = []

    def send(self, change: CatalogChange) -> ChangeMade:
        self.sent.append(change.kind)
        try:
            result = apply_change(self.catalog, CatalogChange.from_json(change.to_json()))
        except TsdbError as error:
            return ChangeMade(None, self.kv.snapshot("").revision, error)
        return ChangeMade(result, self.kv.snapshot("").revision)

    def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int | None:
        return self.kv.snapshot("").revision if self.kv.transact(compares, operations) else None

    def catch_up(self) -> None:
        self.mirror.wait_for(self.kv.snapshot("").revision, 30)

    def close(self) -> None:
        self.mirror.close()
        self.kv.close()


def everything(catalog: CatalogReader) -> dict[str, Any]:
    """All that can be read."""
    seen: dict[str, Any] = {"databases": catalog.databases()}
    for info in catalog.databases():
        tables = catalog.tables(info.name)
        seen[info.name] = (tables, catalog.views(info.name), [catalog.effective_options(table) for table in tables])
        for table in tables:
            assert catalog.find_table(info.name, table.name) is catalog.table_by_id(table.id) is table
    seen["hidden"] = [catalog.tables(name) for name in ("a", "b", "c")]
    return seen


_DATABASES, _NAMES = st.sampled_from(["public", "a", "b"]), st.sampled_from(["x", "y", "z"])
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "create_database",
                "alter_database",
                "drop_database",
                "create_table",
                "create_table",
                "create_table",
                "add_column",
                "rename",
                "drop_table",
                "create_view",
                "replace_view",
                "drop_view",
            ]
        ),
        _DATABASES,
        _NAMES,
        _NAMES,
        st.booleans(),
    ),
    max_size=25,
)


def _make(catalog: Any, step: str, database: str, name: str, other: str) -> None:
    match step:
        case "create_database":
            catalog.create_database(DatabaseInfo(database))
        case "alter_database":
            catalog.alter_database(DatabaseInfo(database, {"ttl": "7days" if name == "x" else "9days"}))
        case "drop_database":
            catalog.drop_database(database)
        case "create_table":
            catalog.create_table(draft(name, database))
        case "add_column":
            table = catalog.table(database, name)
            catalog.alter_table(*with_column(table, f"c{table.version}"))
        case "rename":
            table = catalog.table(database, name)
            catalog.alter_table(table, table.changed(name=other))
        case "drop_table":
            catalog.drop_tables([catalog.table(database, name)])
        case "create_view" | "replace_view":
            catalog.create_view(view(name, f"SELECT '{other}'", database), replace=step == "replace_view")
        case "drop_view":
            catalog.drop_view(database, name)


@settings(deadline=None)
@given(_STEPS)
def test_a_remote_catalog_shows_the_same_as_the_one_it_follows(steps: list[tuple[str, str, str, str, bool]]) -> None:
    world = Followed()
    for step, database, name, other, is_remote in steps:
        with suppress(TsdbError):
            _make(world.remote if is_remote else world.catalog, step, database, name, other)
        if not is_remote:
            world.catch_up()
        assert everything(world.remote) == everything(world.catalog)
    late = RemoteCatalog(world.mirror, world.send)
    assert everything(late) == everything(world.catalog)
    world.close()


def test_every_kind_of_change_travels() -> None:
    world = Followed()
    remote = world.remote
    remote.create_database(DatabaseInfo("d"))
    remote.alter_database(DatabaseInfo("d", {"ttl": "7days"}))
    table = remote.create_table(draft("t", "d"))
    altered = remote.alter_table(*with_column(table, "extra"))
    assert remote.create_logical_tables([]) == []
    remote.truncate_table(altered)
    remote.drop_tables([altered])
    remote.create_view(view("v"), replace=True)
    remote.drop_view("public", "v")
    remote.drop_database("d")
    assert sorted(world.sent) == sorted(CHANGE_KINDS)
    assert everything(remote) == everything(world.catalog)
    world.close()


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"kind": "explode"},
        {"kind": "create_table"},
        {"kind": "create_table", "draft": 7},
        {"kind": "create_table", "draft": {"id": 1}},
        {"kind": "alter_table", "old": {}, "new": {}, "changes": []},
        {"kind": "drop_tables", "tables": [None]},
        {"kind": "truncate_table", "table": {"id": 1024}},
    ],
)
def test_what_is_no_change_is_refused_and_changes_nothing(value: Any) -> None:
    world = Followed()
    before = world.kv.scan("")
    with pytest.raises(InvalidArguments):
        apply_change(world.catalog, CatalogChange.from_json(value))
    assert world.kv.scan("") == before
    world.close()


def test_tables_of_a_database_that_is_being_dropped_are_not_shown() -> None:
    world = Followed()
    world.remote.create_database(DatabaseInfo("a"))
    table = world.remote.create_table(draft("t", "a"))
    key, value = table_key(table.id), world.kv.get(table_key(table.id))
    assert value is not None
    world.remote.drop_database("a")
    # As if the transaction that moves this table had not come yet.
    world.kv.transact([], [PutKey(key, value)])
    world.catch_up()
    assert world.remote.tables("a") == []
    assert world.remote.table_by_id(table.id) is None
    with pytest.raises(TableNotFound):
        world.remote.table("a", "t")
    world.close()


def test_a_description_that_cannot_be_read_hides_one_table_only() -> None:
    world = Followed()
    one, two = world.remote.create_table(draft("one")), world.remote.create_table(draft("two"))
    world.kv.transact([], [PutKey(table_key(one.id), b"{")])
    world.catch_up()
    assert world.remote.tables("public") == [two]
    world.close()


def test_users_and_metric_descriptions_follow_the_changes_of_others() -> None:
    world = Followed()
    other_mirror = MirrorKv(world.kv.watch("__"), world.transact)
    other_mirror.start(30)
    other = RemoteCatalog(other_mirror, world.send)
    up = MetricDescription("gauge", "", "Whether the target answers.")
    world.remote.create_database(DatabaseInfo("d"))
    world.remote.metric_descriptions.keep("d", [("up", up)])
    assert world.remote.metric_descriptions.of("d") == {"up": (up,)}
    other_mirror.wait_for(world.kv.snapshot("").revision, 30)
    assert other.metric_descriptions.of("d") == {"up": (up,)}
    other.drop_database("d")
    world.catch_up()
    assert world.remote.metric_descriptions.of("d") == {} == other.metric_descriptions.of("d")
    assert world.kv.scan("__metric_info/") == []

    users, others = UserStore(world.mirror), UserStore(other_mirror)
    users.create("ann", stored_secret("p"))
    assert users.find("ann") is not None
    other_mirror.wait_for(world.kv.snapshot("").revision, 30)
    assert others.table().find("ann") is not None
    others.drop("ann")
    world.catch_up()
    assert users.users() == [] == others.users()
    other_mirror.close()
    world.close()
