"""The log when nothing goes wrong."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.engine.wal.logs import (
    ALL,
    append,
    data_frames_in,
    make_entry,
    make_frame,
    open_wal,
    opened,
    replay_directory,
    replayed,
    segments,
)
from tests.faults import FaultyFiles
from tsdb.engine.errors import EntryOutOfOrder, StorageUnavailable
from tsdb.engine.log import Frame, FrameKind, encode_frame_payload
from tsdb.engine.wal import EntryRange, Wal, WalSettings
from tsdb.errors import DeadlineExceeded
from tsdb.store import on_crash_point
from tsdb.units import Duration, Size


def wait_until(condition: object, timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_acknowledged_entries_are_replayed_in_order_after_a_restart(tmp_path: Path) -> None:
    entries = [make_entry(region, number) for number in range(1, 6) for region in (7, 8)]
    with opened(tmp_path) as wal:
        append(wal, *entries)
    wal, recovery = open_wal(tmp_path)
    assert recovery.regions == {7: EntryRange(1, 5), 8: EntryRange(1, 5)}
    assert recovery.torn is None
    assert recovery.corruptions == ()
    assert replayed(wal) == entries
    assert replayed(wal, {7: 3, 8: 5}) == [make_entry(7, 4), make_entry(7, 5)]
    wal.seal()


def test_a_replayed_frame_carries_everything_that_was_given(tmp_path: Path) -> None:
    payload = bytes(10_000)
    with opened(tmp_path) as wal:
        frame = Frame(2**63, 1, encode_frame_payload(payload), FrameKind.DELETE, 2**60, 10, 4)
        wal.append([frame]).result(10)
    with opened(tmp_path) as wal:
        [[found]] = wal.read(ALL)
    assert (found.region_id, found.entry_id, found.kind) == (2**63, 1, FrameKind.DELETE)
    assert (found.base_seq, found.rows, found.schema_version) == (2**60, 10, 4)
    assert found.payload.to_pybytes() == payload


def test_replay_hands_over_batches_of_the_configured_size(tmp_path: Path) -> None:
    with opened(tmp_path) as wal:
        append(wal, *(make_entry(7, number) for number in range(1, 8)))
    with opened(tmp_path, read_batch_size=3) as wal:
        assert [len(batch) for batch in wal.read(ALL)] == [3, 3, 1]


def test_a_region_that_does_not_exist_any_more_is_not_replayed(tmp_path: Path) -> None:
    with opened(tmp_path) as wal:
        append(wal, make_entry(7, 1), make_entry(8, 1))
    with opened(tmp_path) as wal:
        assert replayed(wal, {8: 0}) == [make_entry(8, 1)]


def test_appending_goes_on_after_a_restart_in_the_same_segment(tmp_path: Path) -> None:
    for number in range(1, 4):
        with opened(tmp_path) as wal:
            append(wal, make_entry(7, number))
    assert len(segments(tmp_path)) == 1
    assert replay_directory(tmp_path) == [make_entry(7, number) for number in range(1, 4)]


def test_segments_never_exceed_the_file_size_except_for_one_oversize_frame(tmp_path: Path) -> None:
    sizes = [100, 100, 100, 3000, 100, 3000, 3000, 100]
    entries = [make_entry(7, number, size) for number, size in enumerate(sizes, 1)]
    with opened(tmp_path, file_size=650) as wal:
        append(wal, *entries)
        assert wal.statistics().rotations == len(segments(tmp_path)) - 1
    for path in segments(tmp_path):
        assert path.stat().st_size <= 650 or len(data_frames_in(path)) == 1
    assert len(segments(tmp_path)) == 6
    assert replay_directory(tmp_path, file_size=650) == entries


def test_one_append_may_span_segments(tmp_path: Path) -> None:
    entries = [make_entry(region, 1, 100) for region in range(10)]
    with opened(tmp_path, file_size=500) as wal:
        wal.append([make_frame(entry) for entry in entries]).result(10)
    assert len(segments(tmp_path)) > 3
    assert replay_directory(tmp_path) == entries


def test_a_queue_of_appends_is_written_and_synced_at_once(tmp_path: Path) -> None:
    files = FaultyFiles()
    with opened(tmp_path, files=files) as wal:
        gate = files.block("writev")
        futures = [wal.append([make_frame(make_entry(7, 1))])]
        wait_until(lambda: files.calls["writev"] == 1)
        futures += [wal.append([make_frame(make_entry(7, number))]) for number in range(2, 40)]
        assert not any(future.done() for future in futures)
        before = files.calls["fdatasync"]
        gate.set()
        for future in futures:
            future.result(10)
        assert files.calls["writev"] == 2
        assert files.calls["fdatasync"] - before == 2
        assert wal.statistics().commits == 2
        assert wal.statistics().unsynced_bytes == 0


def test_a_group_of_more_parts_than_one_writev_takes_is_written_whole(tmp_path: Path) -> None:
    entries = [make_entry(region, 1, 4097) for region in range(800)]
    with opened(tmp_path) as wal:
        wal.append([make_frame(entry) for entry in entries]).result(10)
    assert replay_directory(tmp_path) == entries


def test_all_waiters_are_completed_once(tmp_path: Path) -> None:
    order: list[int] = []
    with opened(tmp_path) as wal:
        futures = [wal.append([make_frame(make_entry(7, number))]) for number in range(1, 30)]
        for number, future in enumerate(futures, 1):
            future.add_done_callback(lambda _, number=number: order.append(number))
        for future in futures:
            future.result(10)
    assert sorted(order) == list(range(1, 30))


def test_without_sync_write_syncing_happens_in_the_background(tmp_path: Path) -> None:
    files = FaultyFiles()
    with opened(tmp_path, files=files, sync_write=False, sync_interval=Duration.of_seconds(0.02)) as wal:
        gate = files.block("fdatasync")
        before = files.calls["fdatasync"]
        append(wal, make_entry(7, 1))
        assert wal.statistics().unsynced_bytes > 0
        wait_until(lambda: files.calls["fdatasync"] > before)
        append(wal, make_entry(7, 2))  # goes on while the sync is under way
        gate.set()
        wait_until(lambda: wal.statistics().unsynced_bytes == 0)
        synced = files.calls["fdatasync"]
        time.sleep(0.06)
        assert files.calls["fdatasync"] == synced  # nothing new, nothing to sync


def test_an_entry_that_would_leave_a_hole_is_refused_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as wal:
        append(wal, make_entry(7, 1))
        for wrong in (1, 3):
            with pytest.raises(EntryOutOfOrder, match=f"entry {wrong} does not follow entry 1"):
                append(wal, make_entry(7, wrong))
        with pytest.raises(EntryOutOfOrder):
            wal.append([make_frame(make_entry(8, 1)), make_frame(make_entry(7, 5))]).result(10)
        append(wal, make_entry(7, 2), make_entry(8, 1))
    assert replay_directory(tmp_path) == [make_entry(7, 1), make_entry(7, 2), make_entry(8, 1)]


def test_kinds_that_belong_to_the_log_itself_cannot_be_appended(tmp_path: Path) -> None:
    with opened(tmp_path) as wal:
        for kind in (FrameKind.SEAL, FrameKind.FENCE):
            with pytest.raises(ValueError, match="can be appended"):
                wal.append([Frame(7, 1, encode_frame_payload(b""), kind)])


def test_numbering_goes_on_behind_what_was_flushed_elsewhere(tmp_path: Path) -> None:
    with opened(tmp_path) as wal:
        append(wal, make_entry(7, 1))
        wal.floor(7, 10)
        with pytest.raises(EntryOutOfOrder, match="entry 2 does not follow entry 10"):
            append(wal, make_entry(7, 2))
        append(wal, make_entry(7, 11))
    with opened(tmp_path) as wal:
        assert wal.read({7: 10}).quarantined == {}
        assert replayed(wal, {7: 10}) == [make_entry(7, 11)]
        assert "entries 2 to 10 are missing" in wal.read({7: 1}).quarantined[7]


def test_a_caller_waits_for_room_in_the_queue_only_until_its_deadline(tmp_path: Path) -> None:
    files = FaultyFiles()
    with opened(tmp_path, files=files, queue_bytes_max=300) as wal:
        gate = files.block("writev")
        first = wal.append([make_frame(make_entry(7, 1, 1000))])
        with pytest.raises(DeadlineExceeded, match=r"within 0\.01 s"):
            wal.append([make_frame(make_entry(7, 2))], timeout=Duration.of_seconds(0.01))
        waiter = threading.Thread(target=append, args=(wal, make_entry(7, 2)))
        waiter.start()
        gate.set()
        first.result(10)
        waiter.join(10)
        assert not waiter.is_alive()
    assert [entry.entry_id for entry in replay_directory(tmp_path)] == [1, 2]


def test_closing_writes_what_is_queued_and_refuses_what_comes_later(tmp_path: Path) -> None:
    wal, _ = open_wal(tmp_path, sync_write=False)
    future = wal.append([make_frame(make_entry(7, 1))])
    wal.seal()
    assert future.done()
    with pytest.raises(StorageUnavailable, match="is closed"):
        wal.append([make_frame(make_entry(7, 2))])
    assert replay_directory(tmp_path) == [make_entry(7, 1)]


def test_a_clean_shutdown_leaves_a_marker_until_the_next_start(tmp_path: Path) -> None:
    wal, recovery = open_wal(tmp_path)
    assert not recovery.was_clean
    wal.seal()
    assert (tmp_path / "CLEAN").exists()
    wal, recovery = open_wal(tmp_path)
    assert recovery.was_clean
    assert not (tmp_path / "CLEAN").exists()
    wal.seal(clean=False)
    wal, recovery = open_wal(tmp_path)
    assert not recovery.was_clean
    wal.seal()


def test_a_dropped_region_is_void_up_to_its_marker(tmp_path: Path) -> None:
    with opened(tmp_path, file_size=400) as wal:
        append(wal, *(make_entry(7, number) for number in range(1, 10)), make_entry(8, 1))
        wal.drop_region(7).result(10)
        append(wal, make_entry(7, 1, size=50), make_entry(8, 2))
    wal, recovery = open_wal(tmp_path, file_size=400)
    assert recovery.regions == {7: EntryRange(1, 1), 8: EntryRange(1, 2)}
    assert replayed(wal) == [make_entry(8, 1), make_entry(7, 1, size=50), make_entry(8, 2)]
    wal.seal()


def test_statistics_count_what_happened(tmp_path: Path) -> None:
    with opened(tmp_path) as wal:
        append(wal, make_entry(7, 1, 100), make_entry(7, 2, 100))
        found = wal.statistics()
        assert (found.segments, found.appended_frames, found.raw_bytes) == (1, 2, 200)
        assert found.total_bytes == segments(tmp_path)[0].stat().st_size
        assert (found.queued_bytes, found.is_full, found.is_broken) == (0, False, False)


def test_many_threads_append_at_once(tmp_path: Path) -> None:
    wal: Wal
    with opened(tmp_path, file_size=5000, sync_write=False) as wal:
        threads = [
            threading.Thread(target=append, args=(wal, *(make_entry(region, n) for n in range(1, 60))))
            for region in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = replay_directory(tmp_path)
    for region in range(4):
        assert [e for e in found if e.region_id == region] == [make_entry(region, n) for n in range(1, 60)]


def test_a_caller_writes_by_itself_when_nobody_else_does_and_nothing_is_synced(tmp_path: Path) -> None:
    wal, _ = Wal.open(tmp_path, WalSettings(ballast_bytes=Size(0)))
    threads: set[str] = set()
    with on_crash_point(lambda name: threads.add(threading.current_thread().name)):
        for entry in range(1, 4):
            assert wal.append([Frame(7, entry, encode_frame_payload(b"x" * entry), rows=1)]).done()
    assert threads == {threading.current_thread().name}
    assert wal.append([Frame(7, 4, encode_frame_payload(b"last"), rows=1)]).result(timeout=10) is None
    assert wal.statistics().queued_bytes == 0
    wal.seal()
    wal, _ = Wal.open(tmp_path, WalSettings(ballast_bytes=Size(0)))
    frames = [frame for batch in wal.read(ALL) for frame in batch]
    assert [frame.entry_id for frame in frames] == [1, 2, 3, 4]
    with pytest.raises(EntryOutOfOrder):
        wal.append([Frame(7, 9, encode_frame_payload(b""), rows=1)]).result(10)
    wal.seal()


def test_callers_that_write_and_callers_that_queue_share_one_order(tmp_path: Path) -> None:
    wal, _ = Wal.open(tmp_path, WalSettings(ballast_bytes=Size(0), file_size=Size(4096)))

    def write(region: int) -> None:
        for entry in range(1, 201):
            frame = Frame(region, entry, encode_frame_payload(bytes([region]) * 50), rows=1)
            wal.append([frame]).result(timeout=30)

    writers = [threading.Thread(target=write, args=(region,)) for region in range(1, 5)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    wal.seal()
    wal, _ = Wal.open(tmp_path, WalSettings(ballast_bytes=Size(0)))
    seen: dict[int, list[int]] = {}
    for batch in wal.read(ALL):
        for frame in batch:
            seen.setdefault(frame.region_id, []).append(frame.entry_id)
    assert seen == {region: list(range(1, 201)) for region in range(1, 5)}
    wal.seal()
