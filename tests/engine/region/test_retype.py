"""Columns whose type changes: values stay as they were written and are shown in the type of now."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.engine.harness import DIRECTORY, REGION, batch_of, create, delete, open_engine, put, read, scan
from tests.engine.reads import scan_batches
from tsdb.engine.engine import Engine
from tsdb.engine.errors import SchemaOutdated
from tsdb.engine.region.change import alter_schema
from tsdb.errors import InvalidArguments, Status, Unsupported
from tsdb.model import AddColumn, MergeMode, RegionOptions, RegionSchema, RetypeColumn, Semantic

TEXT_SCHEMA = RegionSchema.create(
    [
        ("host", pa.string(), Semantic.TAG),
        ("ts", pa.timestamp("ms"), Semantic.TIMESTAMP),
        ("v", pa.string(), Semantic.FIELD),
    ]
)


def begin(root: Path, options: RegionOptions | None = None) -> Engine:
    engine = open_engine(root)
    create(engine, TEXT_SCHEMA, options)
    return engine


def retype(engine: Engine, kind: pa.DataType, name: str = "v") -> None:
    engine.alter(REGION, [RetypeColumn(name, kind)]).result(30)


def shown(engine: Engine) -> dict[int, object]:
    """The field of every row by its time, as the merge and as a query see it."""
    found = {row["ts"]: row["v"] for row in read(engine)}
    assert {row["ts"]: row["v"] for row in scan(engine)} == found
    return found


def reopen(root: Path) -> Callable[[Engine], Engine]:
    def again(engine: Engine) -> Engine:
        engine.close(flush=False)
        return open_engine(root)

    return again


def flushed(engine: Engine) -> Engine:
    engine.flush(REGION).result(30)
    return engine


@pytest.mark.parametrize("between", ["nothing", "flush", "restart", "restart and flush"])
def test_going_back_to_the_old_type_shows_the_original_values(tmp_path: Path, between: str) -> None:
    engine = begin(tmp_path)
    put(engine, [{"host": "a", "ts": 0, "v": "7"}, {"host": "a", "ts": 1, "v": "seven"}])

    def pass_time(engine: Engine) -> Engine:
        engine = reopen(tmp_path)(engine) if "restart" in between else engine
        return flushed(engine) if "flush" in between else engine

    retype(engine, pa.int32())
    engine = pass_time(engine)
    assert shown(engine) == {0: 7, 1: None}
    put(engine, [{"host": "a", "ts": 2, "v": 2_000_000}])
    retype(engine, pa.bool_())
    engine = pass_time(engine)
    assert shown(engine) == {0: None, 1: None, 2: True}
    retype(engine, pa.string())
    engine = pass_time(engine)
    assert shown(engine) == {0: "7", 1: "seven", 2: "2000000"}
    engine.close()


def test_rows_of_several_types_are_flushed_together_and_keep_them(tmp_path: Path) -> None:
    engine = begin(tmp_path)
    for at, (kind, value) in enumerate([(pa.string(), "x1"), (pa.int64(), 1), (pa.float64(), 2.5), (pa.int64(), 3)]):
        retype(engine, kind)
        put(engine, [{"host": "a", "ts": at, "v": value}, {"host": "a", "ts": 100, "v": value}])
    flushed(engine)
    assert engine.stat(REGION).files == 4
    retype(engine, pa.string())
    assert shown(engine) == {0: "x1", 1: "1", 2: "2.5", 3: "3", 100: "3"}
    engine.close()


def test_a_delete_hides_what_was_written_under_another_type(tmp_path: Path) -> None:
    engine = begin(tmp_path)
    put(engine, [{"host": "a", "ts": 0, "v": "7"}, {"host": "a", "ts": 1, "v": "8"}])
    retype(engine, pa.int32())
    delete(engine, [{"host": "a", "ts": 0}])
    put(engine, [{"host": "a", "ts": 2, "v": 9}])
    assert shown(engine) == {1: 8, 2: 9}
    flushed(engine)
    assert shown(engine) == {1: 8, 2: 9}
    engine.close()


@pytest.mark.parametrize("is_flushed", [False, True])
def test_with_last_non_null_a_value_that_cannot_be_cast_still_hides_older_ones(
    tmp_path: Path, is_flushed: bool
) -> None:
    engine = begin(tmp_path, RegionOptions(merge_mode=MergeMode.LAST_NON_NULL))
    put(engine, [{"host": "a", "ts": 0, "v": "7"}])
    put(engine, [{"host": "a", "ts": 0, "v": "seven"}])
    put(engine, [{"host": "a", "ts": 0, "v": None}])
    if is_flushed:
        flushed(engine)
    retype(engine, pa.int32())
    assert shown(engine) == {0: None}
    retype(engine, pa.string())
    assert shown(engine) == {0: "seven"}
    engine.close()


@pytest.mark.parametrize("is_flushed", [False, True])
def test_the_default_of_older_rows_comes_back_with_its_type(tmp_path: Path, is_flushed: bool) -> None:
    engine = begin(tmp_path)
    put(engine, [{"host": "a", "ts": 0}])
    engine.alter(REGION, [AddColumn("w", pa.string(), default="x")]).result(30)
    retype(engine, pa.int64(), "w")
    if is_flushed:
        flushed(engine)
    assert [row["w"] for row in scan(engine)] == [None]
    retype(engine, pa.string(), "w")
    assert [row["w"] for row in scan(engine)] == ["x"]
    engine.close()


def test_a_column_that_a_write_leaves_out_is_null_and_not_the_default_of_older_rows(tmp_path: Path) -> None:
    engine = begin(tmp_path)
    put(engine, [{"host": "a", "ts": 0}])
    engine.alter(REGION, [AddColumn("w", pa.string(), default="x")]).result(30)
    batch = batch_of(engine.schema(REGION), [{"host": "a", "ts": 1, "v": "y"}])
    del batch.fields["w"]
    engine.write(REGION, batch).result(30)
    for _ in range(2):
        assert {row["ts"]: row["w"] for row in scan(engine)} == {0: "x", 1: None}
        flushed(engine)
    engine.close()


def test_a_filter_is_about_the_values_that_are_shown(tmp_path: Path) -> None:
    engine = begin(tmp_path)
    put(engine, [{"host": "a", "ts": at, "v": text} for at, text in enumerate(["10", "9", "x"])])
    flushed(engine)
    retype(engine, pa.int32())
    put(engine, [{"host": "a", "ts": 3, "v": 11}])
    batches = scan_batches(engine.snapshot(REGION), ["ts", "v"], pc.field("v") > pa.scalar(9, pa.int32()))
    assert sorted(value for batch in batches for value in batch.column("v").to_pylist()) == [10, 11]
    engine.close()


def test_a_write_for_another_version_of_the_schema_is_refused_and_can_be_repeated(tmp_path: Path) -> None:
    engine = begin(tmp_path)
    old = engine.schema(REGION)
    retype(engine, pa.int32())
    rows = [{"host": "a", "ts": 0, "v": "1"}]
    with pytest.raises(SchemaOutdated, match="version 0") as caught:
        engine.write(REGION, batch_of(old, rows), schema_version=old.version)
    assert caught.value.status is Status.REQUEST_OUTDATED
    current = engine.schema(REGION)
    batch = batch_of(current, [{"host": "a", "ts": 0, "v": 1}])
    assert engine.write(REGION, batch, schema_version=current.version).result(30) == 1
    assert shown(engine) == {0: 1}
    engine.close()


@pytest.mark.parametrize("is_pinned", [False, True])
@pytest.mark.parametrize("change", [RetypeColumn("v", pa.int32()), AddColumn("w", pa.int32())], ids=str)
def test_a_write_that_waits_while_the_schema_changes_is_refused_if_it_says_so_or_would_lose_values(
    tmp_path: Path, change: RetypeColumn | AddColumn, is_pinned: bool
) -> None:
    engine = begin(tmp_path)
    region, schema = engine._region(REGION), engine.schema(REGION)
    batch = batch_of(schema, [{"host": "a", "ts": 0, "v": "x"}])

    def queue_and_alter() -> Future[int]:
        # On the worker, so that the write has to wait until the alter is done.
        write = engine.write(REGION, batch, schema_version=schema.version if is_pinned else None)
        alter_schema(engine.context, region, [change])
        return write

    write = region.worker.call(queue_and_alter).result(30)
    if is_pinned or isinstance(change, RetypeColumn):
        with pytest.raises(SchemaOutdated):
            write.result(30)
        assert shown(engine) == {}
    else:
        assert write.result(30) == 1
        assert shown(engine) == {0: "x"}
    engine.close()


def test_a_type_that_files_cannot_store_is_refused_when_a_region_gets_it(tmp_path: Path) -> None:
    engine = begin(tmp_path)
    view = pa.list_view(pa.int64())
    with pytest.raises(InvalidArguments, match="cannot be stored") as caught:
        engine.alter(REGION, [AddColumn("w", view)]).result(30)
    assert caught.value.fields["column"] == "w"
    assert engine.schema(REGION).version == 0
    engine.drop(REGION).result(30)
    other = RegionSchema.create([("ts", pa.timestamp("ms"), Semantic.TIMESTAMP), ("v", view, Semantic.FIELD)])
    with pytest.raises(InvalidArguments, match="cannot be stored"):
        engine.create_region(REGION, DIRECTORY, other)
    assert not isinstance(caught.value, Unsupported)
    engine.close()
