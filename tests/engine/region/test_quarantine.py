"""Damaged data files: kept apart, named by those who need them, looked at again, given up; and how they are found."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.engine import lives
from tests.engine.compaction.flushes import MODES, data_files, deleted, flushed, row, values, zero_pages
from tests.engine.harness import DIRECTORY, OPTIONS, REGION, create, open_engine
from tests.engine.lives import DAY_MS
from tests.faults import FaultyFiles
from tsdb.engine import Engine
from tsdb.engine.errors import FileCorrupted
from tsdb.engine.manifest import FileMeta
from tsdb.engine.reading import SeriesRequest
from tsdb.engine.region.stat import FileFacts
from tsdb.engine.rows.cache import Caches
from tsdb.engine.sst import DataFile
from tsdb.errors import InvalidArguments
from tsdb.model import RegionOptions, TimeRange
from tsdb.store import LocalStore
from tsdb.units import Size

UNCACHED = replace(OPTIONS, sst_meta_cache_size=Size(0), vector_cache_size=Size(0), page_cache_size=Size(0))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(tmp_path, options=UNCACHED)
    create(engine)
    for day in range(3):
        flushed(engine, row("h", day * DAY_MS, float(day)), row("h", day * DAY_MS + 1, float(day)))
    yield engine
    engine.close(flush=False)


def file_of_day(engine: Engine, day: int) -> FileFacts:
    (found,) = (file for file in engine.files(REGION) if file.time_range.start // DAY_MS == day)
    return found


def path_of_day(engine: Engine, root: Path, day: int) -> Path:
    return root / file_of_day(engine, day).path


def read_day(engine: Engine, day: int) -> int:
    """Read the rows of a day; return how many there are."""
    reader = engine.open_reader(REGION)
    try:
        span = TimeRange(day * DAY_MS, (day + 1) * DAY_MS)
        return len(reader.series(SeriesRequest(None, span, ["a"])).times)
    finally:
        reader.release()


def test_a_query_that_needs_a_damaged_file_names_it_and_others_are_answered(engine: Engine, tmp_path: Path) -> None:
    victim = path_of_day(engine, tmp_path, 1)
    zero_pages(victim)
    with pytest.raises(FileCorrupted, match=victim.name):
        read_day(engine, 1)
    assert [read_day(engine, 0), read_day(engine, 2)] == [2, 2]
    lives.settle(engine)
    states = [file.state for file in engine.files(REGION)]
    assert states == ["ok", "quarantined", "ok"]
    assert engine.stat(REGION).quarantined_files == 1
    # It goes on being named, and never taken for empty.
    with pytest.raises(FileCorrupted, match=victim.name):
        values(engine)


@pytest.mark.parametrize("damage", [zero_pages, Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-9])])
def test_a_quarantine_is_remembered_and_ends_when_the_file_is_whole_again(
    tmp_path: Path, engine: Engine, damage: Callable[[Path], object]
) -> None:
    victim = path_of_day(engine, tmp_path, 1)
    content = victim.read_bytes()
    damage(victim)
    found = engine.verify(REGION).result(60)
    assert (found.files, found.rows, len(found.damaged)) == (3, 4, 1)
    before = file_of_day(engine, 1)
    assert before.state == "quarantined"
    engine.close()

    again = open_engine(tmp_path, options=UNCACHED)
    lives.settle(again)
    assert file_of_day(again, 1).state == "quarantined"
    assert file_of_day(again, 1).since_ms == before.since_ms
    assert again.verify(REGION, is_quarantined=True).result(60).released == 0
    victim.write_bytes(content)
    found = again.verify(REGION, is_quarantined=True).result(60)
    assert (found.files, found.rows, found.damaged, found.released) == (1, 2, (), 1)
    assert {file.state for file in again.files(REGION)} == {"ok"}
    assert len(values(again)) == 6
    again.close()


def test_bytes_of_a_damaged_file_do_not_stay_in_the_caches(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    create(engine)
    flushed(engine, row("h", 1))
    engine.context.caches.evict_file(engine.files(REGION)[0].file_id)
    (victim,) = data_files(tmp_path)
    content = victim.read_bytes()
    zero_pages(victim)
    with pytest.raises(FileCorrupted):
        values(engine)
    victim.write_bytes(content)
    assert engine.verify(REGION).result(60).released == 1
    assert len(values(engine)) == 1
    engine.close()


def test_a_file_that_the_disk_cannot_read_is_quarantined_too(tmp_path: Path) -> None:
    files = FaultyFiles()
    engine = open_engine(tmp_path, options=UNCACHED, files=files)
    create(engine)
    for number in range(4):
        flushed(engine, row("h", number))
    victim = data_files(tmp_path)[0]
    files.fail("open", errno.EIO, name=victim.name, times=-1)
    found = engine.verify(REGION).result(60)
    assert [path.rsplit("/", 1)[-1] for path, _ in found.damaged] == [victim.name]
    engine.compact(REGION).result(60)
    assert sorted(file.state for file in engine.files(REGION)) == ["ok", "quarantined"]
    engine.close(flush=False)


def test_a_file_is_given_up_only_if_it_is_quarantined(engine: Engine, tmp_path: Path) -> None:
    whole, damaged = file_of_day(engine, 0), file_of_day(engine, 1)
    with pytest.raises(InvalidArguments, match="not quarantined"):
        engine.give_up_file(REGION, whole.file_id).result(60)
    with pytest.raises(InvalidArguments, match="no data file"):
        engine.give_up_file(REGION, "0" * 32).result(60)
    assert len(engine.files(REGION)) == 3
    zero_pages(tmp_path / damaged.path)
    engine.verify(REGION).result(60)
    assert engine.give_up_file(REGION, damaged.file_id).result(60) == 2
    assert len(values(engine)) == 4
    lives.settle(engine)
    assert not (tmp_path / damaged.path).exists()
    engine.close()
    again = open_engine(tmp_path, options=UNCACHED)
    assert len(values(again)) == 4
    assert again.stat(REGION).quarantined_files == 0
    again.close()


def test_a_quarantine_that_cannot_be_recorded_holds_in_memory_and_is_recorded_later(tmp_path: Path) -> None:
    files = FaultyFiles()
    engine = open_engine(tmp_path, options=UNCACHED, files=files)
    create(engine)
    flushed(engine, row("h", 1))
    (victim,) = data_files(tmp_path)
    zero_pages(victim)
    region = engine._region(REGION)
    files.fail("open", errno.ENOSPC, name="/manifest/", times=-1)
    assert len(engine.verify(REGION).result(60).damaged) == 1
    lives.settle(engine)
    assert (len(region.quarantined), len(region.manifest.state.quarantined)) == (1, 0)
    files.heal()
    engine.housekeeping.expire()
    lives.settle(engine)
    assert len(region.manifest.state.quarantined) == 1
    engine.close(flush=False)


def test_a_truncated_or_expired_file_is_quarantined_no_more(engine: Engine, tmp_path: Path) -> None:
    zero_pages(path_of_day(engine, tmp_path, 1))
    engine.verify(REGION).result(60)
    engine.truncate(REGION, [TimeRange(DAY_MS, 2 * DAY_MS)]).result(60)
    region = engine._region(REGION)
    assert not region.quarantined
    assert not region.manifest.state.quarantined
    assert engine.verify(REGION).result(60).damaged == ()


def test_tombstones_stay_while_a_quarantined_file_may_have_what_they_hide(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, options=UNCACHED)
    create(engine)
    flushed(engine, row("k", 1, 10.0))
    (oldest,) = data_files(tmp_path)
    content = oldest.read_bytes()
    flushed(engine, row("k", 1, 20.0), row("other", 1))
    deleted(engine, row("k", 1))
    zero_pages(oldest)
    engine.verify(REGION).result(60)
    engine.compact(REGION).result(60)
    assert len(engine.files(REGION)) == 2
    oldest.write_bytes(content)
    engine.verify(REGION).result(60)
    assert values(engine) == [("other", 1, 1.0)]
    engine.compact(REGION).result(60)
    assert values(engine) == [("other", 1, 1.0)]
    engine.close()


@pytest.mark.parametrize("options", MODES)
def test_whole_files_of_every_kind_are_found_to_be_whole(tmp_path: Path, options: RegionOptions) -> None:
    engine = open_engine(tmp_path)
    create(engine, options=options)
    for number in range(3):
        flushed(engine, *(row(f"h{at % 5}", at + number, None if at % 7 else 1.5) for at in range(300)))
    if not options.append_mode:
        deleted(engine, row("h1", 1))
    verified = engine.verify(REGION).result(60)
    assert verified.damaged == verified.index_damaged == ()
    assert verified.rows == sum(file.rows for file in engine.files(REGION))
    engine.compact(REGION).result(60)
    assert engine.verify(REGION).result(60).damaged == ()
    engine.close()


def stored(tmp_path: Path) -> FileMeta:
    """A data file of two series with versions and a tombstone; return what the manifest knows of it."""
    engine = open_engine(tmp_path)
    create(engine, options=RegionOptions(append_mode=False))
    flushed(engine, row("a", 1), row("b", 5))
    deleted(engine, row("a", 1))
    flushed(engine, row("a", 2))
    region = engine._region(REGION)
    engine.compact(REGION).result(60)
    meta = region.version.files[0].meta
    engine.close()
    return meta


def verify(tmp_path: Path, meta: FileMeta) -> str | None:
    file = DataFile(meta, store=LocalStore(tmp_path), directory=DIRECTORY, caches=Caches.disabled())
    return file.verify(lambda: None)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 7}, "rows"),
        ({"row_groups": 2}, "row groups"),
        ({"series": 5}, "series"),
        ({"time_range": TimeRange(0, 6)}, "range of time"),
        ({"sequence_max": 99}, "sequence"),
        ({"has_tombstones": True}, "tombstones"),
        ({"size_bytes": 10}, "footer"),
        ({"size_bytes": 10, "footer_checksum": None}, "Parquet"),
    ],
)
def test_a_file_that_is_not_what_the_manifest_says_is_damaged(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    meta = stored(tmp_path)
    assert verify(tmp_path, meta) is None
    with pytest.raises(FileCorrupted, match=reason):
        verify(tmp_path, replace(meta, **change))  # type: ignore[arg-type]


def test_a_flipped_bit_is_found_or_changes_no_value(tmp_path: Path) -> None:
    meta = stored(tmp_path)
    (path,) = data_files(tmp_path)
    content, rows = path.read_bytes(), pq.read_table(path)
    pages = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    found = 0
    places = range(4, pages, 7)
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :])
        try:
            verify(tmp_path, meta)
        except FileCorrupted:
            found += 1
        else:
            # Statistics in front of a page and the index behind all pages, which nothing reads here.
            assert pq.read_table(path).equals(rows)
    assert found > len(places) // 2
    path.write_bytes(content)
    assert verify(tmp_path, meta) is None


def test_a_damaged_index_is_told_and_costs_no_file_its_place(tmp_path: Path, engine: Engine) -> None:
    for path in (tmp_path / DIRECTORY).glob("index/*.idx"):
        path.write_bytes(bytes(path.stat().st_size))
    verified = engine.verify(REGION).result(60)
    assert (verified.damaged, len(verified.index_damaged)) == ((), 3)
    assert {file.state for file in engine.files(REGION)} == {"ok"}
    assert len(values(engine)) == 6
