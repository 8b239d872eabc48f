"""Lending regions: another process reads the same rows, every source travels once, and nothing stays for long."""

from __future__ import annotations

import gc
import os
import pickle
import random
from collections import UserString
from pathlib import Path

import pyarrow as pa
import pytest

from tests.engine.harness import REGION, SCHEMA, create, delete, open_engine, put, scan
from tests.engine.lives import wait_until
from tests.engine.reads import scan_batches
from tests.store.faulty_store import FaultyStore
from tsdb.clock import ManualClock
from tsdb.engine import lending
from tsdb.engine.engine import Engine
from tsdb.engine.lending import Borrower, Lender, LentRegion, Parcel, SharedRuns
from tsdb.engine.rows.cache import Caches
from tsdb.engine.sst import DataFile
from tsdb.model import MemtableKind, MemtableSettings, MergeMode, RegionOptions
from tsdb.store import CachedStore, FileCache, MemoryStore
from tsdb.units import Duration

CACHE_BYTES = 1 << 20


def ordered(rows: list[dict[str, object]]) -> list[str]:
    """Rows in one order: in append mode, that of equal keys depends on what was merged in the meantime."""
    return sorted(repr(sorted(row.items())) for row in rows)


class Named(UserString):
    """A value that can be gone."""


class Pair:
    """A lender and a borrower; what passes between them is pickled."""

    def __init__(self) -> None:
        self.caches = Caches.of(sst_meta_bytes=CACHE_BYTES, vector_bytes=CACHE_BYTES, page_bytes=0)
        self.lender = Lender(SharedRuns())
        self.borrower = Borrower(self.caches)
        self.sent: list[Parcel] = []

    def pass_on(self) -> None:
        parcel = self.lender.parcel()
        self.sent.append(parcel._replace(pinned=()))
        news, gone = pickle.loads(pickle.dumps((parcel.news, parcel.gone)))
        self.borrower.take(news, gone, [os.dup(each) for each in parcel.descriptors])

    def lend(self, engine: Engine) -> LentRegion | None:
        lent = self.lender.lend(engine.open_reader(REGION))
        self.pass_on()
        return lent

    def read(self, engine: Engine) -> list[dict[str, object]]:
        reader = engine.open_reader(REGION)
        lent = self.lender.lend(reader)
        assert lent is not None
        self.pass_on()
        snapshot = self.borrower.open(pickle.loads(pickle.dumps(lent))).whole
        assert snapshot is not None
        rows = []
        for batch in scan_batches(snapshot, [column.name for column in SCHEMA.columns]):
            rows += batch.set_column(2, "ts", batch["ts"].cast(pa.int64())).to_pylist()
        return rows


@pytest.mark.parametrize(
    "options",
    [
        RegionOptions(),
        RegionOptions(merge_mode=MergeMode.LAST_NON_NULL),
        RegionOptions(append_mode=True),
        RegionOptions(memtable=MemtableSettings(MemtableKind.PARTITION_TREE, shard_keys=2, freeze_rows=20)),
    ],
    ids=["last row", "last non null", "append", "partition tree"],
)
def test_a_borrower_reads_what_the_lender_reads(tmp_path: Path, options: RegionOptions) -> None:
    chance = random.Random(7)
    engine = open_engine(tmp_path)
    create(engine, options=options)
    pair = Pair()
    for turn in range(40):
        rows = [
            {
                "host": chance.choice("abc"),
                "dc": chance.choice(["x", None]),
                "ts": chance.randrange(20),
                "a": chance.choice([None, chance.random()]),
                "b": chance.randrange(-(2**40), 2**40),
            }
            for _ in range(chance.randrange(1, 30))
        ]
        put(engine, rows)
        if not options.append_mode and chance.random() < 0.3:
            delete(engine, [{key: rows[0][key] for key in ("host", "dc", "ts")}])
        if chance.random() < 0.2:
            engine.flush(REGION).result(30)
        if chance.random() < 0.5:
            engine._region(REGION).version.mutable.sort_pending()
        if turn == 30:
            engine.compact(REGION).result(30)
        assert ordered(pair.read(engine)) == ordered(scan(engine))
    engine.close()


def test_a_borrower_does_not_see_rows_that_expire_although_nothing_travels_again(tmp_path: Path) -> None:
    clock = ManualClock(3600 * 10**9)
    engine = open_engine(tmp_path, clock=clock)
    create(engine, options=RegionOptions(ttl=Duration.of_seconds(60)))
    pair = Pair()
    put(engine, [{"host": "a", "ts": (3600 - age) * 1000, "b": age} for age in (61, 60, 30)])
    assert sorted(row["b"] for row in pair.read(engine)) == [30, 60]
    clock.advance(seconds=1)
    assert [row["b"] for row in pair.read(engine)] == [30]
    assert [len(parcel.news) for parcel in pair.sent] == [2, 0]
    engine.close()


def test_every_source_travels_once(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    pair = Pair()
    put(engine, [{"host": "a", "ts": 1, "b": 1}])
    pair.lend(engine)
    pair.lend(engine)
    assert [len(parcel.news) for parcel in pair.sent] == [2, 0]
    assert [len(parcel.descriptors) for parcel in pair.sent] == [1, 0]
    put(engine, [{"host": "a", "ts": 2, "b": 1}])
    pair.lend(engine)
    assert len(pair.sent[-1].descriptors) == 1, "only the run of the new rows"
    assert len(pair.sent[-1].news) == 2
    engine.close()


def test_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    pair = Pair()
    descriptors = len(os.listdir("/proc/self/fd"))
    for turn in range(6):
        put(engine, [{"host": "a", "ts": turn, "b": turn}])
        assert len(pair.read(engine)) == turn + 1
    engine.flush(REGION).result(30)
    assert len(pair.read(engine)) == 6
    gc.collect()
    pair.lend(engine)
    held = list(pair.borrower._held.values())
    assert [type(each) for each in held if not isinstance(each, tuple)] == [DataFile]
    assert len(held) == 2, "the file and the snapshot"
    assert len(os.listdir("/proc/self/fd")) <= descriptors, "no shared memory is left open"
    old = next(each.meta.file_id for each in held if isinstance(each, DataFile))
    assert pair.caches.sst_meta.statistics().entries
    put(engine, [{"host": "b", "ts": 1, "b": 1}])
    engine.flush(REGION).result(30)
    engine.compact(REGION).result(30)
    assert len(pair.read(engine)) == 7
    gc.collect()
    pair.lend(engine)
    assert old not in {each.meta.file_id for each in pair.borrower._held.values() if isinstance(each, DataFile)}
    engine.close()


def test_numbers_of_other_objects() -> None:
    pair = Pair()
    value = Named("a value")
    numbers = {pair.lender.number_of(value) for _ in range(3)}
    assert len(numbers) == 1
    pair.pass_on()
    (number,) = numbers
    assert pair.borrower.held(number) == value
    del value
    pair.sent.clear()
    gc.collect()
    pair.pass_on()
    with pytest.raises(KeyError):
        pair.borrower.held(number)


def test_large_runs_are_copied_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "SOON_BYTES_MAX", 64)
    engine = open_engine(tmp_path)
    create(engine)
    pair = Pair()
    put(engine, [{"host": "a", "ts": turn, "b": turn} for turn in range(100)])
    wait_until(lambda: pair.lend(engine) is not None)
    assert len(pair.read(engine)) == 100
    engine.close()


def test_what_could_not_be_lent_is_held_until_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    pair = Pair()
    put(engine, [{"host": "a", "ts": 1, "b": 1}])
    engine.open_reader(REGION)
    put(engine, [{"host": "a", "ts": turn, "b": turn} for turn in range(100)])
    monkeypatch.setattr(lending, "SHARED_RUNS_MAX", 1)
    assert pair.lender.lend(engine.open_reader(REGION)) is None
    engine.flush(REGION).result(30)
    gc.collect()
    (descriptor,) = pair.lender._descriptors
    assert os.readlink(f"/proc/self/fd/{descriptor}").startswith("/memfd:tsdb-run")
    assert len(pair.read(engine)) == 100
    engine.close()


def test_too_much_in_memory_is_not_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "SHARED_BYTES_MAX", 64)
    engine = open_engine(tmp_path)
    create(engine)
    pair = Pair()
    put(engine, [{"host": "a", "ts": turn, "b": turn} for turn in range(100)])
    assert pair.lend(engine) is None
    engine.flush(REGION).result(30)
    assert len(pair.read(engine)) == 100, "files are read in place"
    engine.close()


def test_a_file_of_the_file_cache_is_lent_by_its_local_path_and_stays_there(tmp_path: Path) -> None:
    remote = FaultyStore(MemoryStore())
    cache = FileCache(tmp_path / "cache", 1 << 20, free_bytes_min=0)
    store = CachedStore(remote, cache)
    engine = open_engine(tmp_path, store=store)
    create(engine)
    pair = Pair()
    put(engine, [{"host": "a", "ts": at, "b": at} for at in range(50)])
    engine.flush(REGION).result(30)
    remote.read_paths.clear()
    assert ordered(pair.read(engine)) == ordered(scan(engine))
    assert not remote.read_paths
    files = [key for key, _ in cache._entries]
    assert len(files) == 2
    assert all(cache._entries.find(key).is_held for key in files)  # type: ignore[union-attr]
    put(engine, [{"host": "a", "ts": 1, "b": 2}])
    engine.flush(REGION).result(30)
    engine.compact(REGION).result(30)
    assert len(pair.read(engine)) == 50
    gc.collect()
    pair.lend(engine)
    engine.close()
    cache.close()


def test_what_is_only_in_a_remote_store_is_not_lent(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "cache", 1 << 20, free_bytes_min=0)
    store = CachedStore(MemoryStore(), cache)
    engine = open_engine(tmp_path, store=store)
    create(engine)
    pair = Pair()
    put(engine, [{"host": "a", "ts": 1, "b": 1}])
    assert pair.lend(engine) is not None
    engine.flush(REGION).result(30)
    for key, _ in list(cache._entries):
        cache.drop(key)
    store._sizes.clear()
    assert pair.lend(engine) is None
    assert not cache.statistics().entries
    list(store.list("data"))
    assert pair.lend(engine) is None
    wait_until(lambda: store.fills.is_idle)
    assert len(pair.read(engine)) == 1, "it was downloaded meanwhile"
    engine.close()
    cache.close()
