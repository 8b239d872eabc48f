"""Segments go when nobody needs them, oldest first; who keeps them is named."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.engine.wal.logs import ALL, append, make_entry, open_wal, opened, replayed, segments
from tests.faults import FaultyFiles
from tsdb.engine.errors import StorageUnavailable
from tsdb.engine.log.purge import END_BYTES_MIN, SegmentState, plan_purge


@pytest.mark.parametrize(
    ("contents", "flushed", "threshold", "deletable", "pinning", "should_rotate"),
    [
        ([{}], {}, 0, (), (), False),
        ([{7: 1}, {7: 2}], {7: 1}, 1000, (0,), (), False),
        ([{7: 1}, {7: 2}], {7: 2}, 1000, (0,), (), False),
        ([{7: 1}, {7: 2}], {}, 1000, (), (), False),
        ([{7: 1, 8: 1}, {7: 2}, {7: 3}], {7: 3}, 1000, (), (), False),
        # Over the threshold: as many of the oldest as it takes to get below.
        ([{7: 1, 8: 1}, {7: 2}, {9: 1}, {9: 2}], {7: 1}, 350, (), (8,), False),
        ([{7: 1, 8: 1}, {7: 2}, {9: 1}, {9: 2}], {7: 1}, 250, (), (8, 7), False),
        ([{7: 1, 8: 1}, {7: 2}, {9: 1}, {9: 2}], {7: 1}, 150, (), (8, 7, 9), False),
        ([{7: 1}, {8: 1}, {7: 2}], {7: 1}, 150, (0,), (8,), False),
        # The last segment is never deleted, but ended if it alone is too much.
        ([{7: 1}], {7: 1}, 50, (), (), True),
        ([{7: 1}], {7: 1}, 150, (), (), False),
        ([{7: 1}, {7: 2}], {7: 2}, 50, (0,), (), True),
        ([{7: 1}], {}, 50, (), (7,), False),
        ([{8: 1}, {7: 2}], {7: 2}, 50, (), (8,), False),
    ],
)
def test_plan(
    contents: list[dict[int, int]],
    flushed: dict[int, int],
    threshold: int,
    deletable: tuple[int, ...],
    pinning: tuple[int, ...],
    should_rotate: bool,
) -> None:
    states = [SegmentState(number, 100, entries) for number, entries in enumerate(contents)]
    plan = plan_purge(states, flushed=flushed, threshold_bytes=threshold)
    assert (plan.deletable, plan.pinning, plan.should_rotate) == (deletable, pinning, should_rotate)


def test_plan_keeps_what_is_held_and_does_not_ask_for_what_cannot_be_flushed() -> None:
    states = [SegmentState(number, 100, {7: number + 1, 8: number + 1}) for number in range(4)]
    plan = plan_purge(states, flushed={7: 9, 8: 9}, threshold_bytes=0, held_from=2)
    assert plan.deletable == (0, 1)
    plan = plan_purge(states, flushed={}, threshold_bytes=0, unflushable={8})
    assert plan.pinning == (7,)


def test_a_last_segment_that_nobody_needs_is_ended_once_it_is_worth_it() -> None:
    for size, should_rotate in ((END_BYTES_MIN - 1, False), (END_BYTES_MIN, True)):
        states = [SegmentState(0, size, {7: 1})]
        assert plan_purge(states, flushed={7: 1}, threshold_bytes=1 << 30).should_rotate is should_rotate
        assert not plan_purge(states, flushed={7: 0}, threshold_bytes=1 << 30).should_rotate


def test_purged_segments_are_gone_and_the_rest_is_replayed(tmp_path: Path) -> None:
    with opened(tmp_path, file_size=300) as wal:
        append(wal, *(make_entry(7, number) for number in range(1, 8)), make_entry(8, 1))
        assert wal.purge().deleted == ()
        wal.floor(7, 4)
        wal.floor(7, 2)  # never goes back
        deleted = wal.purge().deleted
        assert deleted
        assert wal.statistics().purged_segments == len(deleted)
        append(wal, make_entry(7, 8))
    assert int(segments(tmp_path)[0].stem, 16) == len(deleted)
    with opened(tmp_path, file_size=300) as wal:
        replay = wal.read({7: 4, 8: 0})
        assert replay.quarantined == {}
        found = [(frame.region_id, frame.entry_id) for batch in replay for frame in batch]
    assert found == [(7, 5), (7, 6), (7, 7), (8, 1), (7, 8)]


def test_an_idle_region_pins_the_log_until_it_is_flushed(tmp_path: Path) -> None:
    with opened(tmp_path, file_size=300, purge_threshold=900) as wal:
        append(wal, make_entry(8, 1), *(make_entry(7, number) for number in range(1, 12)))
        wal.floor(7, 11)
        result = wal.purge()
        assert (result.deleted, result.pinning) == ((), (8,))
        wal.floor(8, 1)
        assert wal.purge().pinning == ()
        assert len(segments(tmp_path)) == 1
        assert wal.statistics().segments == 1


def test_a_dropped_region_pins_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, file_size=300) as wal:
        append(wal, make_entry(8, 1), *(make_entry(7, number) for number in range(1, 12)))
        wal.floor(7, 11)
        wal.drop_region(8).result(10)
        assert wal.purge().deleted
    with opened(tmp_path) as wal:
        assert replayed(wal, {7: 11}) == []


def test_a_flushed_segment_that_alone_is_over_the_threshold_is_ended_and_deleted(tmp_path: Path) -> None:
    with opened(tmp_path, purge_threshold=200) as wal:
        append(wal, *(make_entry(7, number) for number in range(1, 5)))
        wal.floor(7, 4)
        assert wal.purge().deleted == (0,)
        append(wal, make_entry(7, 5))
    with opened(tmp_path) as wal:
        assert replayed(wal, {7: 4}) == [make_entry(7, 5)]


def test_replay_passes_over_segments_that_are_purged_meanwhile(tmp_path: Path) -> None:
    with opened(tmp_path, file_size=300) as wal:
        append(wal, *(make_entry(7, number) for number in range(1, 8)))
    with opened(tmp_path, file_size=300, read_batch_size=1) as wal:
        batches = iter(wal.read(ALL))
        first = next(batches)
        wal.floor(7, 4)
        assert wal.purge().deleted
        rest = [frame.entry_id for batch in batches for frame in batch]
    assert first[0].entry_id == 1
    assert rest[-3:] == [5, 6, 7]


def test_the_kept_tail_of_a_segment_goes_with_it(tmp_path: Path) -> None:
    with opened(tmp_path) as wal:
        append(wal, make_entry(7, 1))
    with segments(tmp_path)[0].open("ab") as segment:
        segment.write(b"torn")
    with opened(tmp_path, file_size=200) as wal:
        assert (tmp_path / f"{0:016x}.torn").exists()
        append(wal, make_entry(7, 2))
        wal.floor(7, 2)
        assert wal.purge().deleted == (0,)
        assert not (tmp_path / f"{0:016x}.torn").exists()


def test_a_segment_that_cannot_be_deleted_is_kept_and_told(tmp_path: Path) -> None:
    files = FaultyFiles()
    with opened(tmp_path, files=files, file_size=300) as wal:
        append(wal, *(make_entry(7, number) for number in range(1, 8)))
        wal.floor(7, 7)
        files.fail("unlink", errno.EIO, nth=2)
        with pytest.raises(StorageUnavailable, match=r"cannot delete .*0\.wal: Input/output error"):
            wal.purge()
        assert not wal.is_broken
        assert wal.purge().deleted


def test_regions_unknown_to_the_catalog_pin_nothing_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path, file_size=300) as wal:
        append(wal, make_entry(8, 1), *(make_entry(7, number) for number in range(1, 8)))
    wal, _ = open_wal(tmp_path, file_size=300)
    assert replayed(wal, {7: 7}) == []
    assert wal.purge().deleted
    wal.seal()
