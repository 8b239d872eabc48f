"""Merging data files: fewer of them, the same rows, whatever happens meanwhile."""

from __future__ import annotations

import errno
import gc
import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engine import lives
from tests.engine.compaction.flushes import MODES, data_files, deleted, flushed, held, merge, row, values, zero_pages
from tests.engine.harness import (
    DIRECTORY,
    OPTIONS,
    REGION,
    SCHEMA,
    create,
    open_engine,
    put,
    read,
    scan,
)
from tests.engine.lives import DAY_MS
from tests.engine.reads import scan_batches
from tests.faults import FaultyFiles
from tsdb.clock import ManualClock
from tsdb.engine import Engine, StrictWindows
from tsdb.engine.compaction import estimate_task_bytes
from tsdb.engine.errors import FileCorrupted, StorageFull, StorageUnavailable
from tsdb.engine.manifest import Edit
from tsdb.engine.region import compact
from tsdb.engine.sst import estimate_row_bytes
from tsdb.engine.tuning import EngineTuning, MergeTuning
from tsdb.model import AddColumn, Batch, DropColumn, RegionOptions, RetypeColumn, Semantic
from tsdb.store import StoreFull
from tsdb.units import Duration, Size


@pytest.fixture
def tuning() -> MergeTuning:
    return MergeTuning()


@pytest.fixture
def engine(tmp_path: Path, tuning: MergeTuning) -> Iterator[Engine]:
    engine = open_engine(tmp_path, options=replace(OPTIONS, tuning=EngineTuning(merge=tuning)))
    yield engine
    engine.close()


@pytest.mark.parametrize("options", MODES)
def test_many_small_files_become_one_and_nothing_else_is_seen_of_it(tmp_path: Path, options: RegionOptions) -> None:
    engine = open_engine(tmp_path)
    create(engine, options=options)
    for number in range(40):
        flushed(engine, row("a", number % 7, float(number)), row(f"h{number % 3}", number, None, number))
    before, seen = values(engine), sorted(map(str, read(engine)))
    assert len(engine.files(REGION)) == 40
    engine.compact(REGION).result(60)
    (file,) = engine.files(REGION)
    assert file.level == 1
    assert file.index_bytes > 0
    assert (values(engine), sorted(map(str, read(engine)))) == (before, seen)
    lives.settle(engine)
    assert len(data_files(tmp_path)) == 1
    engine.close()
    engine = open_engine(tmp_path)
    assert values(engine) == before
    engine.close()


def test_a_deleted_row_does_not_come_back_when_the_file_between_is_left_out(engine: Engine) -> None:
    create(engine)
    flushed(engine, row("k", 1, 10.0))
    flushed(engine, row("k", 1, 20.0))
    deleted(engine, row("k", 1))
    merge(engine, 0, 2)
    assert values(engine) == []
    merge(engine, 0, 1)
    assert values(engine) == []
    assert not engine.files(REGION)


def test_an_old_value_does_not_win_over_a_delete_that_is_left_out(engine: Engine) -> None:
    create(engine)
    flushed(engine, row("k", 1, 10.0))
    deleted(engine, row("k", 1))
    flushed(engine, row("other", 1, 30.0))
    merge(engine, 0, 2)
    assert values(engine) == [("other", 1, 30.0)]
    engine.compact(REGION).result(60)
    assert values(engine) == [("other", 1, 30.0)]
    (file,) = engine.files(REGION)
    assert file.rows == 1


def test_rows_of_a_partial_merge_keep_their_sequences(engine: Engine) -> None:
    create(engine)
    flushed(engine, row("k", 1, 10.0), row("a", 2, 10.0))
    flushed(engine, row("k", 1, 20.0))
    flushed(engine, row("z", 1, 30.0))
    merge(engine, 0, 2)
    assert values(engine) == [("a", 2, 10.0), ("k", 1, 20.0), ("z", 1, 30.0)]


SMALL_PIECES = MergeTuning(stripe_bytes_max=0, ahead_rows_min=7)
SMALL_STRIPES = MergeTuning(stripe_bytes_max=1 << 20, row_group_bytes_max=1 << 19)


@pytest.mark.parametrize("tuning", [SMALL_PIECES])
def test_a_long_series_is_merged_in_pieces_of_time(engine: Engine) -> None:
    create(engine)
    chance = np.random.default_rng(1)
    expected: dict[tuple[str, int], float] = {}
    for number in range(5):
        times = chance.integers(0, 20_000, 3000).tolist()
        flushed(engine, *(row("one", ts, float(number)) for ts in times), row("two", number, float(number)))
        expected |= {("one", ts): float(number) for ts in times}
        expected["two", number] = float(number)
    engine.compact(REGION).result(60)
    (file,) = engine.files(REGION)
    assert file.series == 2
    assert values(engine) == [(host, ts, a) for (host, ts), a in sorted(expected.items())]
    block = engine._region(REGION).version.files[0].source.block
    assert block.time_min.tolist() == [min(ts for host, ts in expected if host == "one"), 0]
    assert block.time_max.tolist() == [max(ts for host, ts in expected if host == "one"), 4]


@pytest.mark.parametrize("tuning", [SMALL_PIECES])
@pytest.mark.parametrize("options", MODES)
def test_a_long_series_is_the_same_whether_it_is_cut_or_not(engine: Engine, options: RegionOptions) -> None:
    """Duplicates in files that overlap, deletes, and a time that has more rows than a piece."""
    create(engine, options=options)
    chance = np.random.default_rng(2)
    for number in range(4):
        times = [*chance.integers(0, 2000, 1500).tolist(), *([number] * 1200)]
        flushed(engine, *(row("one", ts, float(number) if ts % 3 else None, number) for ts in times))
        if not options.append_mode:
            deleted(engine, *(row("one", ts) for ts in chance.integers(0, 2000, 40).tolist()))
    before = sorted(map(str, scan(engine)))
    engine.compact(REGION).result(60)
    assert len(engine.files(REGION)) == 1
    assert sorted(map(str, scan(engine))) == before


@pytest.mark.parametrize("tuning", [SMALL_STRIPES])
def test_a_large_merge_holds_a_bounded_part_of_its_rows(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    create(engine)
    hosts = np.repeat([f"h{number:03}" for number in range(100)], 1000)
    for number in range(6):
        times = np.tile(np.arange(1000), 100) + number * 1000
        columns = [
            pa.array(hosts),
            pa.array(["x"] * len(hosts)),
            pa.array(times).cast(pa.timestamp("ms")),
            pa.array(np.random.default_rng(number).normal(size=len(hosts))),
            pa.array(times),
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=["host", "dc", "ts", "a", "b"])
        engine.write(REGION, Batch.from_arrow(SCHEMA, batch)).result(60)
        engine.flush(REGION).result(60)
    del batch, columns
    held_bytes: list[int] = []
    original = compact._check

    def check(*arguments: object) -> None:
        held_bytes.append(pa.total_allocated_bytes())
        original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compact, "_check", check)
    gc.collect()
    base = pa.total_allocated_bytes()
    metas = [handle.meta for handle in engine._region(REGION).version.files]
    estimate = estimate_task_bytes(SCHEMA, SMALL_STRIPES, metas)
    engine.compact(REGION).result(60)
    assert sum(file.rows for file in engine.files(REGION)) == 600_000
    assert len(held_bytes) > 20
    whole = 600_000 * estimate_row_bytes(SCHEMA)
    assert max(held_bytes) - base < 2 * estimate < whole


def test_a_start_with_thousands_of_files_opens_none_of_them(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    flushed(engine, row("h", 1))
    region = engine._region(REGION)
    (handle,) = region.version.files
    ids = [uuid.uuid4().hex for _ in range(3000)]
    (path,) = data_files(tmp_path)
    for each in ids:
        os.link(path, path.with_name(f"{each}.parquet"))
    added = tuple(replace(handle.meta, file_id=each, index_size_bytes=0) for each in ids)
    region.worker.call(lambda: region.commit(engine.context, Edit(added=added))).result(60)
    engine.close()
    files = FaultyFiles()
    descriptors = len(os.listdir("/proc/self/fd"))
    engine = open_engine(tmp_path, files=files)
    assert engine.stat(REGION).files == 3001
    assert len(os.listdir("/proc/self/fd")) < descriptors + 20
    assert files.calls["pread"] + files.calls["open"] < 100
    assert [each.entries for each in engine.context.caches.statistics()] == [0, 0, 0]
    engine.close(flush=False)


def test_files_with_columns_of_different_types_are_not_merged(engine: Engine) -> None:
    create(engine)
    for kind in (pa.string(), pa.int64(), pa.string()):
        for number in range(2):
            flushed(engine, {**row("h", number), "b": 7 if kind == pa.string() else "seven"})
        engine.alter(REGION, [RetypeColumn("b", kind)]).result(60)
    engine.alter(REGION, [RetypeColumn("b", pa.int64())]).result(60)
    before = sorted((each["ts"], each["b"]) for each in scan(engine))
    engine.compact(REGION).result(60)
    assert len(engine.files(REGION)) == 2
    assert sorted((each["ts"], each["b"]) for each in scan(engine)) == before
    assert not engine.stat(REGION).compaction_failures


def test_merged_files_have_the_columns_of_now(engine: Engine, tmp_path: Path) -> None:
    create(engine)
    flushed(engine, row("h", 1, 1.0, 5))
    engine.alter(REGION, [AddColumn("c", pa.int32(), default=7), DropColumn("b")]).result(60)
    flushed(engine, {**row("h", 2, 2.0), "c": 8})
    engine.compact(REGION).result(60)
    lives.settle(engine)
    assert sorted((each["ts"], each["a"], each["c"]) for each in scan(engine)) == [(1, 1.0, 7), (2, 2.0, 8)]
    (path,) = data_files(tmp_path)
    assert {"c", "a"} <= set(pq.read_schema(path).names)
    assert "b" not in pq.read_schema(path).names


def test_windows_of_time_stay_apart_and_their_length_is_remembered(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number), row("h", DAY_MS + number), row("h", 3 * DAY_MS + number))
    assert engine.stat(REGION).compaction_window_seconds is None
    engine.compact(REGION).result(60)
    assert [file.time_range.start // DAY_MS for file in engine.files(REGION)] == [0, 1, 3]
    assert engine.stat(REGION).compaction_window_seconds == 86_400
    engine.close()
    engine = open_engine(tmp_path)
    assert engine.stat(REGION).compaction_window_seconds == 86_400
    longer = RegionOptions(compaction_window=Duration.of_seconds(10 * 86_400))
    engine.set_options(REGION, longer).result(60)
    engine.compact(REGION).result(60)
    assert len(engine.files(REGION)) == 1
    # Rows that come later are flushed in the same windows.
    flushed(engine, row("h", 5 * DAY_MS), row("h", 6 * DAY_MS))
    assert len(engine.files(REGION)) == 2
    engine.close()


def test_files_are_cut_at_windows_on_demand(engine: Engine) -> None:
    create(engine)
    hour = 3_600_000
    flushed(engine, *(row("h", ts * hour // 2) for ts in range(10)), row("g", 0))
    flushed(engine, row("h", 1), row("h", 9 * hour // 2, 2.0))
    before = values(engine)
    engine.compact(REGION, StrictWindows(Duration.of_seconds(3600))).result(60)
    files = engine.files(REGION)
    assert [file.time_range.start // hour for file in files] == [0, 1, 2, 3, 4]
    assert all(file.time_range.start // hour == file.time_range.last // hour for file in files)
    assert values(engine) == before
    assert engine.stat(REGION).compaction_window_seconds == 3600


def test_rows_that_have_expired_are_left_out_unless_they_hide_others(tmp_path: Path) -> None:
    clock = ManualClock(10 * 86_400_000_000_000)
    engine = open_engine(tmp_path, clock=clock)
    create(engine, options=RegionOptions(ttl=Duration.of_seconds(86_400)))
    noon = 9 * DAY_MS + DAY_MS // 2
    flushed(engine, row("a", noon), row("a", noon + 1000))
    flushed(engine, row("b", noon, 2.0), row("a", noon, 3.0))
    clock.advance(seconds=86_400 / 2 + 0.5)
    engine.compact(REGION).result(60)
    (file,) = engine.files(REGION)
    assert file.rows == 1
    flushed(engine, row("b", noon + 1000))
    flushed(engine, row("a", noon + 1000, 4.0))
    clock.advance(seconds=1)
    # The newest file alone hides a row of the oldest, so its rows stay although they have expired.
    merge(engine, 1, 2)
    assert sum(file.rows for file in engine.files(REGION)) == 3
    engine.close()


def test_files_that_a_query_reads_are_deleted_when_it_is_done(engine: Engine, tmp_path: Path) -> None:
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number))
    snapshot = engine.snapshot(REGION)
    engine.compact(REGION).result(60)
    lives.settle(engine)
    assert len(data_files(tmp_path)) == 5
    batches = scan_batches(snapshot, ["ts"])
    assert sum(batch.num_rows for batch in batches) == 4
    del batches
    snapshot.release()
    del snapshot
    gc.collect()
    lives.settle(engine)
    assert len(data_files(tmp_path)) == 1
    flushed(engine, row("h", 9))
    assert not engine._region(REGION).manifest.state.removed_files


def test_what_is_flushed_while_files_are_merged_stays_and_wins(engine: Engine) -> None:
    create(engine)
    for number in range(4):
        flushed(engine, row("h", 1, float(number)))
    with held("compact.after_files") as came:
        flushed(engine, row("g", 1))
        done = engine.compact(REGION)
        assert came.wait(60)
        flushed(engine, row("h", 1, 9.0))
        deleted(engine, row("g", 1))
    done.result(60)
    assert values(engine) == [("h", 1, 9.0)]
    assert len(engine.files(REGION)) == 1


def test_the_schema_changes_while_files_are_merged_and_no_value_is_lost(engine: Engine) -> None:
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number, float(number), number))
    with held("compact.after_files") as came:
        done = engine.compact(REGION)
        assert came.wait(60)
        changes = [
            AddColumn("c", pa.int32(), default=7),
            AddColumn("rack", pa.string(), Semantic.TAG, default="r"),
            RetypeColumn("b", pa.string()),
            DropColumn("a"),
        ]
        engine.alter(REGION, changes).result(60)
        put(engine, [{"host": "h", "dc": "x", "rack": "r", "ts": 1, "b": "new", "c": 1}])
    done.result(60)
    expected = [(0, "0", 7), (1, "new", 1), (2, "2", 7), (3, "3", 7)]
    assert sorted((each["ts"], each["b"], each["c"]) for each in scan(engine)) == expected
    engine.compact(REGION).result(60)
    assert sorted((each["ts"], each["b"], each["c"]) for each in scan(engine)) == expected
    engine.alter(REGION, [RetypeColumn("b", pa.int64())]).result(60)
    assert sorted((each["ts"], each["b"]) for each in scan(engine)) == [(0, 0), (1, None), (2, 2), (3, 3)]


@pytest.mark.parametrize("change", ["truncate", "drop", "expire"])
def test_a_merge_of_files_that_go_meanwhile_is_given_up_and_leaves_nothing(tmp_path: Path, change: str) -> None:
    clock = ManualClock(1_000_000_000)
    engine = open_engine(tmp_path, clock=clock)
    create(engine, options=RegionOptions(ttl=Duration.of_seconds(3600)))
    for number in range(4):
        flushed(engine, row("h", number))
    with held("compact.after_files") as came:
        done = engine.compact(REGION)
        assert came.wait(60)
        if change == "truncate":
            engine.truncate(REGION).result(60)
        elif change == "drop":
            engine.drop(REGION).result(60)
            engine.housekeeping.tick()
            assert (tmp_path / DIRECTORY).exists()
        else:
            clock.advance(seconds=7200)
            engine.housekeeping.expire()
            lives.settle_workers(engine)
    error = done.exception(60)
    assert (error is not None) is (change == "drop")
    lives.settle(engine)
    if change == "drop":
        gc.collect()
        engine.housekeeping.tick()
        lives.settle(engine)
        assert not (tmp_path / DIRECTORY).exists()
    else:
        assert not engine.files(REGION)
        assert not data_files(tmp_path)
        flushed(engine, row("h", 5 + 7_200_000))
        assert len(scan(engine)) == 1
    engine.close()


def test_closing_does_not_wait_for_a_long_merge(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number))
    before = values(engine)
    with held("compact.before_files") as came:
        done = engine.compact(REGION)
        assert came.wait(60)
        later = engine.compact(REGION)
        closing = threading.Thread(target=engine.close)
        closing.start()
        lives.wait_until(lambda: engine.context.background.is_stopping)
    closing.join(60)
    assert not closing.is_alive()
    for each in (done, later):
        assert isinstance(each.exception(60), StorageUnavailable)
    engine = open_engine(tmp_path)
    lives.settle(engine)
    assert values(engine) == before
    assert len(data_files(tmp_path)) == 4
    engine.close()


@pytest.mark.parametrize(("operation", "name"), [("write", ".parquet"), ("fsync", ".parquet"), ("rename", ".parquet")])
def test_a_merge_that_fails_leaves_everything_as_it_was_and_succeeds_later(
    tmp_path: Path, operation: str, name: str
) -> None:
    files = FaultyFiles()
    engine = open_engine(tmp_path, files=files)
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number))
    before, there = values(engine), data_files(tmp_path)
    files.fail(operation, errno.ENOSPC, name=name, times=1)
    with pytest.raises(StoreFull):
        engine.compact(REGION).result(60)
    assert engine.stat(REGION).compaction_failures == 1
    assert (values(engine), data_files(tmp_path)) == (before, there)
    engine.compact(REGION).result(60)
    assert engine.stat(REGION).compaction_failures == 0
    assert len(engine.files(REGION)) == 1
    assert values(engine) == before
    engine.close()


def test_files_are_not_merged_on_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    files = FaultyFiles()
    engine = open_engine(tmp_path, files=files)
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number))
    files.free = 1 << 20
    with pytest.raises(StorageFull, match="no space"):
        engine.compact(REGION).result(60)
    files.free = None
    engine.compact(REGION).result(60)
    assert len(engine.files(REGION)) == 1
    engine.close()


def test_an_old_file_that_cannot_be_deleted_is_swept_by_the_next_start(tmp_path: Path) -> None:
    files = FaultyFiles()
    engine = open_engine(tmp_path, files=files)
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number))
    before = values(engine)
    files.fail("unlink", errno.EIO, name=".parquet", times=-1)
    engine.compact(REGION).result(60)
    lives.settle(engine)
    assert len(data_files(tmp_path)) == 5
    assert values(engine) == before
    engine.close(flush=False)
    engine = open_engine(tmp_path)
    lives.settle(engine)
    assert len(data_files(tmp_path)) == 1
    assert values(engine) == before
    engine.close()


def test_a_damaged_file_is_quarantined_and_the_others_are_merged(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=replace(OPTIONS, sst_meta_cache_size=Size(0)))
    create(engine)
    for number in range(6):
        flushed(engine, row("h", number))
    victim = data_files(tmp_path)[0]
    zero_pages(victim)
    with pytest.raises(FileCorrupted, match=victim.name):
        engine.compact(REGION).result(60)
    damaged, merged = sorted(engine.files(REGION), key=lambda file: file.rows)
    assert (damaged.state, merged.state, merged.rows) == ("quarantined", "ok", 5)
    engine.compact(REGION).result(60)
    assert len(engine.files(REGION)) == 2
    assert victim.exists()
    engine.close(flush=False)
