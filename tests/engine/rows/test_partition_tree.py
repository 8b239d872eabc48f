"""Memtables of type `partition_tree`: what they hold in memory, when they compress, and what outlives a flush."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.engine import lives
from tests.engine.harness import OPTIONS, REGION, SCHEMA, Row, create, open_engine, put, read, scan
from tests.engine.reads import scan_batches
from tsdb.clock import ManualClock
from tsdb.engine import Engine, TreeOptions
from tsdb.engine.rows.cache import Caches, MetaKey
from tsdb.engine.rows.compact import CompactRun
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.rows.partition_tree import PartitionTree
from tsdb.engine.rows.slices import Slices
from tsdb.engine.tuning import MemtableTuning
from tsdb.model import Batch, MemtableKind, MemtableSettings, RegionOptions, SeriesTable
from tsdb.units import Size

TREE = replace(OPTIONS, memtable_type=MemtableKind.PARTITION_TREE)
SERIES, ROUNDS, BATCH = 50_000, 10, 5_000
SHARE_MAX = 0.6


def load() -> Iterator[Batch]:
    """Ten rows of each of many series, a row of all of them at a time, in an order of their own."""
    random = np.random.default_rng(1)
    order = random.permutation(SERIES)
    tags = [pa.array([f"host_{number}" for number in order]), pa.array([f"dc_{number % 20}" for number in order])]
    table = SeriesTable.of_tags(SCHEMA, tags, SERIES)
    for step in range(ROUNDS):
        for first in range(0, SERIES, BATCH):
            series = table.take(np.arange(first, first + BATCH))
            fields = {"a": pa.array(random.random(BATCH)), "b": pa.array(random.integers(0, 1000, BATCH))}
            times = np.full(BATCH, step * 10_000)
            yield Batch(series, np.arange(BATCH, dtype=np.uint32), times, fields)


def fill(memtable: Memtable) -> int:
    sequence = 1
    for batch in load():
        nbytes = batch.series.nbytes + batch.times.nbytes * 2 + sum(values.nbytes for values in batch.fields.values())
        memtable.append(batch, sequence, nbytes=nbytes)
        sequence += batch.rows
        if memtable.needs_sorting:
            memtable.sort_pending()
    return memtable.nbytes


def rows_of(memtable: Memtable) -> pa.Table:
    tables = []
    for runs in memtable.runs().values():
        for run in (each.decoded() for each in runs):
            ranks = np.repeat(np.arange(len(run.block)), np.diff(run.block.offsets))
            tags = run.block.table.read_tags().take(pa.array(ranks))
            fields = [run.field(column.id, Slices.one(0, run.facts.rows)) for column in SCHEMA.fields]
            arrays = [*tags.columns, pa.array(run._times), pa.array(run._sequences), *fields]
            tables.append(pa.table(arrays, names=["host", "dc", "ts", "seq", "a", "b"]))
    return pa.concat_tables(tables).sort_by("seq").combine_chunks()


def test_very_many_series_take_little_memory_and_the_rows_are_the_same() -> None:
    charged: list[int] = []
    plain = Memtable(SCHEMA, RegionOptions(), window_ticks=1 << 40, tuning=MemtableTuning())
    tree = PartitionTree(
        SCHEMA,
        RegionOptions(),
        window_ticks=1 << 40,
        tuning=MemtableTuning(),
        tree=TreeOptions(),
        caches=Caches.disabled(),
        on_bytes=charged.append,
    )
    assert fill(tree) <= SHARE_MAX * fill(plain)
    assert sum(charged) == tree.nbytes, "and all of it is charged"
    assert any(isinstance(run, CompactRun) for runs in tree.runs().values() for run in runs)
    assert rows_of(tree).equals(rows_of(plain))


def open_tree(root: Path, **tree: int) -> Engine:
    return open_engine(root, options=replace(TREE, tree=replace(TreeOptions(), **tree)))


def tree_of(engine: Engine) -> PartitionTree:
    memtable = engine._region(REGION).version.mutable
    assert isinstance(memtable, PartitionTree)
    return memtable


def some_rows(count: int, start: int = 0) -> list[Row]:
    return [{"host": f"h{number}", "ts": start, "a": float(number)} for number in range(count)]


@pytest.mark.parametrize(("keys_max", "shards"), [(4, 3), (5, 2), (100, 1)])
def test_a_shard_has_no_more_keys_than_configured(tmp_path: Path, keys_max: int, shards: int) -> None:
    engine = open_tree(tmp_path, shard_keys=keys_max)
    create(engine)
    put(engine, some_rows(10))
    assert tree_of(engine).keys.shards == shards
    assert len(scan(engine)) == 10
    engine.close()


@pytest.mark.parametrize(("threshold", "is_compressed"), [(10, True), (11, False)])
def test_rows_of_a_shard_are_compressed_at_the_threshold(tmp_path: Path, threshold: int, is_compressed: bool) -> None:
    engine = open_tree(tmp_path, freeze_rows=threshold)
    create(engine)
    put(engine, some_rows(5))
    put(engine, some_rows(5, start=1))
    memtable = tree_of(engine)
    memtable.sort_pending()
    (runs,) = memtable.runs().values()
    assert [isinstance(run, CompactRun) for run in runs] == [is_compressed]
    assert len(scan(engine)) == 10
    engine.close()


@pytest.mark.parametrize(("fork_bytes", "kept"), [(Size(1 << 20), 10), (Size(0), 0)])
def test_keys_outlive_a_flush_as_far_as_there_is_room(tmp_path: Path, fork_bytes: Size, kept: int) -> None:
    engine = open_tree(tmp_path, fork_bytes=fork_bytes)
    create(engine)
    put(engine, some_rows(10))
    engine.flush(REGION).result(30)
    memtable, buffer = tree_of(engine), engine.context.buffer
    assert len(memtable.keys) == kept
    assert memtable.nbytes == 0, "a region without rows is not worth a flush"
    assert buffer.used == buffer.kept == memtable.kept_bytes == (memtable.keys.nbytes if kept else 0)
    put(engine, some_rows(10, start=1))
    assert len(memtable.keys) == 10
    assert len(read(engine)) == 20
    engine.drop(REGION).result(30)
    assert (buffer.used, buffer.kept) == (0, 0)
    engine.close()


def test_keys_get_no_more_than_a_quarter_of_the_write_buffer(tmp_path: Path) -> None:
    options = replace(TREE, global_write_buffer_size=Size(4000), global_write_buffer_reject_size=Size(1 << 30))
    engine = open_engine(tmp_path, options=options)
    create(engine)
    put(engine, some_rows(100))
    engine.flush(REGION).result(30)
    assert engine.context.buffer.kept <= 1000
    assert len(read(engine)) == 100
    engine.close()


def test_a_table_can_have_a_type_of_its_own(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    own = MemtableSettings(MemtableKind.PARTITION_TREE, shard_keys=3, freeze_rows=2, fork_bytes=Size(0))
    create(engine, options=RegionOptions(memtable=own))
    put(engine, some_rows(10))
    assert tree_of(engine).keys.shards == 4
    engine.close(flush=False)
    engine = open_engine(tmp_path)
    assert engine._region(REGION).version.options.memtable == own, "after a restart too"
    assert tree_of(engine).keys.shards == 4
    engine.set_options(REGION, RegionOptions()).result(30)
    assert not isinstance(engine._region(REGION).version.mutable, PartitionTree)
    assert len(read(engine)) == 10
    engine.close()


def test_what_is_decompressed_for_queries_is_cached_and_forgotten_with_the_rows(tmp_path: Path) -> None:
    engine = open_tree(tmp_path, freeze_rows=100)
    create(engine)
    put(engine, some_rows(500))
    tree_of(engine).sort_pending()
    ((run,),) = tree_of(engine).runs().values()
    assert isinstance(run, CompactRun)
    vectors, meta = engine.context.caches.vectors, engine.context.caches.sst_meta
    block = MetaKey(run.cache_name, "block")
    assert sum(batch.num_rows for batch in scan_batches(engine.snapshot(REGION), ["host", "a"])) == 500
    misses = vectors.statistics().misses
    assert vectors.statistics().entries
    assert meta.peek(block) is not None
    assert sum(batch.num_rows for batch in scan_batches(engine.snapshot(REGION), ["host", "a"])) == 500
    assert vectors.statistics().misses == misses, "decompressed once"
    engine.flush(REGION).result(30)
    assert not vectors.statistics().entries
    assert meta.peek(block) is None
    engine.close()


def test_keys_of_a_region_that_is_not_written_to_are_dropped(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = open_engine(tmp_path, options=TREE, clock=clock)
    create(engine)
    put(engine, some_rows(10))
    engine.flush(REGION).result(30)
    engine.housekeeping.tick()
    lives.settle(engine)
    assert engine.context.buffer.kept, "it was written to a moment ago"
    clock.advance(seconds=TREE.auto_flush_interval.seconds)
    engine.housekeeping.tick()
    lives.settle(engine)
    assert (engine.context.buffer.used, engine.context.buffer.kept) == (0, 0)
    put(engine, some_rows(10, start=1))
    assert len(read(engine)) == 20
    engine.close()
