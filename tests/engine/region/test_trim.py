"""Files that leave a region as a whole: those that have expired, and those of ranges of time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine import lives
from tests.engine.harness import DIRECTORY, OPTIONS, REGION, WAL_OPTIONS, create, delete, open_engine, put, read, scan
from tests.engine.lives import DAY_MS
from tests.engine.reads import scan_batches
from tsdb.clock import ManualClock
from tsdb.engine import Engine, Wal
from tsdb.engine.region.housekeeping import EXPIRY_INTERVAL
from tsdb.model import MergeMode, RegionOptions, TimeRange
from tsdb.store import LocalStore
from tsdb.units import Duration

DAY = Duration.of_seconds(86_400)


def row(host: str, ts: int, a: float | None = 1.0) -> dict[str, object]:
    return {"host": host, "dc": "x", "ts": ts, "a": a, "b": 0}


def times(engine: Engine) -> list[int]:
    return sorted(each["ts"] for each in read(engine))


def flushed(engine: Engine, *rows: dict[str, object]) -> None:
    """Write rows and flush them to files of their own."""
    put(engine, rows)
    engine.flush(REGION).result(10)


def spans(engine: Engine) -> list[tuple[int, int]]:
    return [(file.time_range.start, file.time_range.last) for file in engine.files(REGION)]


def data_files(root: Path) -> list[Path]:
    return sorted((root / DIRECTORY).glob("*.parquet"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(10 * DAY)


def test_a_compaction_flushes_and_removes_the_files_whose_rows_have_all_expired(
    tmp_path: Path, clock: ManualClock
) -> None:
    engine = open_engine(tmp_path, clock=clock)
    create(engine, options=RegionOptions(ttl=DAY))
    put(engine, [row("a", 7 * DAY_MS), row("a", 8 * DAY_MS), row("a", 9 * DAY_MS - 1), row("a", 9 * DAY_MS)])
    engine.compact(REGION).result(10)
    assert spans(engine) == [(9 * DAY_MS, 9 * DAY_MS)]
    lives.settle(engine)
    assert len(data_files(tmp_path)) == 1
    assert [each["ts"] for each in scan(engine)] == [9 * DAY_MS]
    engine.close()
    engine = open_engine(tmp_path, clock=clock)
    assert times(engine) == [9 * DAY_MS]
    engine.close()


def test_a_file_with_one_row_that_lives_stays_and_its_other_rows_are_not_read(
    tmp_path: Path, clock: ManualClock
) -> None:
    engine = open_engine(tmp_path, clock=clock)
    create(engine, options=RegionOptions(ttl=DAY))
    clock.advance(seconds=3600)
    flushed(engine, row("a", 9 * DAY_MS), row("a", 9 * DAY_MS + 2 * 3_600_000))
    engine.compact(REGION).result(10)
    assert len(engine.files(REGION)) == 1
    assert [each["ts"] for each in scan(engine)] == [9 * DAY_MS + 2 * 3_600_000]
    clock.advance(seconds=3600)
    engine.compact(REGION).result(10)
    assert len(engine.files(REGION)) == 1
    clock.advance(seconds=0.001)
    engine.compact(REGION).result(10)
    assert not engine.files(REGION)
    engine.close()


def test_without_a_time_to_live_nothing_expires(tmp_path: Path, clock: ManualClock) -> None:
    engine = open_engine(tmp_path, clock=clock)
    create(engine)
    put(engine, [row("a", 0)])
    engine.compact(REGION).result(10)
    assert spans(engine) == [(0, 0)]
    engine.close()


def test_housekeeping_removes_what_has_expired_without_being_asked(tmp_path: Path, clock: ManualClock) -> None:
    engine = open_engine(tmp_path, clock=clock)
    create(engine, options=RegionOptions(ttl=DAY))
    flushed(engine, row("a", 9 * DAY_MS))
    engine.housekeeping.tick()
    clock.advance(seconds=EXPIRY_INTERVAL.seconds - 1)
    engine.housekeeping.tick()
    lives.settle(engine)
    assert len(engine.files(REGION)) == 1
    clock.advance(seconds=1)
    engine.housekeeping.tick()
    lives.settle(engine)
    assert not engine.files(REGION)
    assert not data_files(tmp_path)
    engine.close()


def test_a_shorter_time_to_live_is_in_effect_at_the_next_compaction(tmp_path: Path, clock: ManualClock) -> None:
    engine = open_engine(tmp_path, clock=clock)
    create(engine)
    flushed(engine, row("a", 5 * DAY_MS))
    engine.set_options(REGION, RegionOptions(ttl=DAY)).result(10)
    assert not scan(engine)
    engine.compact(REGION).result(10)
    assert not engine.files(REGION)
    engine.close()


def test_who_reads_an_expired_file_reads_it_to_its_end(tmp_path: Path, clock: ManualClock) -> None:
    engine = open_engine(tmp_path, clock=clock)
    create(engine)
    flushed(engine, row("a", 5 * DAY_MS))
    snapshot = engine.snapshot(REGION)
    engine.set_options(REGION, RegionOptions(ttl=DAY)).result(10)
    engine.compact(REGION).result(10)
    lives.settle(engine)
    assert len(data_files(tmp_path)) == 1
    assert sum(batch.num_rows for batch in scan_batches(snapshot, ["a"])) == 1
    del snapshot
    lives.settle(engine)
    assert not data_files(tmp_path)
    engine.close()


@pytest.mark.parametrize("options", [RegionOptions(), RegionOptions(merge_mode=MergeMode.LAST_NON_NULL)])
def test_an_expired_file_stays_while_it_hides_rows_of_one_that_stays(
    tmp_path: Path, clock: ManualClock, options: RegionOptions
) -> None:
    """Otherwise what was deleted or overwritten would come back when the time to live grows."""
    engine = open_engine(tmp_path, clock=clock)
    create(engine, options=options)
    noon = 9 * DAY_MS
    flushed(engine, row("a", noon, 1.0), row("b", noon, 1.0), row("a", noon + DAY_MS - 1))
    put(engine, [row("a", noon, 2.0)])
    delete(engine, [row("b", noon)])
    engine.flush(REGION).result(10)
    clock.advance(seconds=1)
    for ttl in (DAY, 30 * 86_400_000_000_000):
        changed = RegionOptions(merge_mode=options.merge_mode, ttl=Duration(ttl))
        engine.set_options(REGION, changed).result(10)
        engine.housekeeping.expire()
        lives.settle(engine)
        assert len(engine.files(REGION)) == 2
    assert sorted((each["host"], each["ts"], each["a"]) for each in scan(engine)) == [
        ("a", noon, 2.0),
        ("a", noon + DAY_MS - 1, 1.0),
    ]
    clock.advance(seconds=40 * 86_400)
    engine.compact(REGION).result(10)
    assert not engine.files(REGION)
    engine.close()


def test_in_append_mode_a_file_hides_nothing_and_goes_when_it_has_expired(tmp_path: Path, clock: ManualClock) -> None:
    engine = open_engine(tmp_path, clock=clock)
    create(engine, options=RegionOptions(append_mode=True, ttl=DAY))
    flushed(engine, row("a", 9 * DAY_MS), row("a", 10 * DAY_MS - 1))
    flushed(engine, row("a", 9 * DAY_MS))
    clock.advance(seconds=1)
    engine.housekeeping.expire()
    lives.settle(engine)
    assert spans(engine) == [(9 * DAY_MS, 10 * DAY_MS - 1)]
    engine.close()


@pytest.mark.parametrize(
    ("ranges", "left"),
    [
        ([TimeRange(0, 2 * DAY_MS)], [2 * DAY_MS, 2 * DAY_MS + 5]),
        ([TimeRange(0, 1), TimeRange(2 * DAY_MS, 2 * DAY_MS + 6)], [DAY_MS]),
        ([TimeRange(0, 1)], [DAY_MS, 2 * DAY_MS, 2 * DAY_MS + 5]),
        ([TimeRange(2 * DAY_MS, 2 * DAY_MS + 5)], [0, DAY_MS, 2 * DAY_MS, 2 * DAY_MS + 5]),
        ([TimeRange(1, 2)], [0, DAY_MS, 2 * DAY_MS, 2 * DAY_MS + 5]),
        ([TimeRange.ALL], []),
        ([], [0, DAY_MS, 2 * DAY_MS, 2 * DAY_MS + 5]),
    ],
)
def test_files_that_lie_in_a_range_of_time_are_removed_and_no_others(
    tmp_path: Path, ranges: list[TimeRange], left: list[int]
) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    flushed(engine, row("a", 0), row("a", DAY_MS), row("a", 2 * DAY_MS), row("b", 2 * DAY_MS + 5))
    engine.truncate(REGION, ranges).result(10)
    assert times(engine) == left
    lives.settle(engine)
    assert len(data_files(tmp_path)) == len(engine.files(REGION))
    engine.close(flush=False)
    engine = open_engine(tmp_path)
    assert times(engine) == left
    engine.close()


def test_rows_that_are_not_in_files_yet_stay_in_a_range_that_is_truncated(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    flushed(engine, row("a", 0))
    put(engine, [row("a", 1)])
    engine.truncate(REGION, [TimeRange(0, 10)]).result(10)
    assert times(engine) == [1]
    engine.close(flush=False)
    engine = open_engine(tmp_path)
    assert times(engine) == [1]
    engine.close()


def test_a_file_inside_of_a_range_stays_while_it_hides_rows_of_one_that_reaches_out_of_it(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    flushed(engine, row("a", 0, 1.0), row("b", 0), row("c", 100))
    put(engine, [row("a", 0, 2.0)])
    delete(engine, [row("b", 0)])
    engine.flush(REGION).result(10)
    flushed(engine, row("d", 0))
    engine.truncate(REGION, [TimeRange(0, 50)]).result(10)
    # The third file is newer than the second: it hides nothing that the second or the first shows, but may.
    assert sorted((each["host"], each["ts"], each["a"]) for each in read(engine)) == [
        *(("a", 0, 2.0), ("c", 100, 1.0), ("d", 0, 1.0)),
    ]
    engine.truncate(REGION, [TimeRange(0, 101)]).result(10)
    assert not read(engine)
    engine.close()


def test_a_flush_that_is_under_way_is_not_disturbed_by_files_that_go(tmp_path: Path, clock: ManualClock) -> None:
    engine = open_engine(tmp_path, clock=clock)
    create(engine)
    flushed(engine, row("a", 0))
    put(engine, [row("a", 0, 2.0), row("b", DAY_MS)])
    flush = engine.flush(REGION)
    engine.truncate(REGION, [TimeRange(0, 1)]).result(10)
    flush.result(10)
    assert set(times(engine)) <= {0, DAY_MS}
    assert DAY_MS in times(engine)
    engine.close()


def test_a_compaction_of_an_engine_that_is_closed_says_so(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    engine = Engine.open(store, Wal.open(tmp_path / "wal", WAL_OPTIONS)[0], options=OPTIONS, has_housekeeping=False)
    create(engine)
    engine.close()
    with pytest.raises(Exception, match="closed"):
        engine.compact(REGION).result(10)
