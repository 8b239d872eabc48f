"""What a crash leaves unfinished at the end of the log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.engine.wal.logs import (
    ALL,
    append,
    data_frames_in,
    flip_bit,
    make_entry,
    make_frame,
    open_wal,
    opened,
    replay_directory,
    replayed,
    segments,
)
from tests.faults import FullDisk
from tsdb.engine.wal import TornTail

_ENTRIES = [make_entry(7, 1), make_entry(8, 1), make_entry(7, 2, size=45)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with opened(tmp_path / "log") as wal:
        append(wal, *_ENTRIES)
    return tmp_path / "log"


def test_a_log_cut_at_any_byte_of_its_last_frame_keeps_everything_before(log: Path, tmp_path: Path) -> None:
    segment = segments(log)[0]
    content = segment.read_bytes()
    last = data_frames_in(segment)[-1]
    payload_end = last.offset + 64 + last.header.payload_bytes
    assert payload_end < len(content)  # there is padding to cut, too
    for size in range(last.offset, len(content)):
        copy = tmp_path / f"cut-{size}"
        copy.mkdir()
        (copy / segment.name).write_bytes(content[:size])
        wal, recovery = open_wal(copy)
        assert recovery.corruptions == ()
        expected = _ENTRIES if size >= payload_end else _ENTRIES[:-1]
        if size in (last.offset, *range(payload_end, len(content))):
            assert recovery.torn is None
        else:
            saved_as = copy / segment.with_suffix(".torn").name
            assert recovery.torn == TornTail(0, last.offset, size - last.offset, saved_as)
            assert saved_as.read_bytes() == content[last.offset : size]
        following = make_entry(7, 3 if len(expected) == 3 else 2)
        assert replayed(wal) == expected
        append(wal, following)
        wal.seal(clean=False)
        assert replay_directory(copy) == [*expected, following]
        shutil.rmtree(copy)


def test_garbage_and_zeroes_behind_the_last_frame_are_cut_off(log: Path) -> None:
    segment = segments(log)[0]
    sound = segment.read_bytes()
    for garbage in (bytes(4096), b"\xff" * 7, b"TSF\x01" * 40):
        segment.write_bytes(sound + garbage)
        wal, recovery = open_wal(log)
        assert recovery.torn is not None
        assert (recovery.torn.offset, recovery.torn.length) == (len(sound), len(garbage))
        assert replayed(wal) == _ENTRIES
        wal.seal(clean=False)
        assert segment.read_bytes() == sound


@pytest.mark.parametrize("content", [b"", b"TSDBWAL1", bytes(48), b"\xff" * 200])
def test_a_last_segment_that_was_never_finished_is_made_anew(log: Path, content: bytes) -> None:
    (log / f"{1:016x}.wal").write_bytes(content)
    wal, recovery = open_wal(log)
    assert recovery.corruptions == ()
    assert recovery.torn is not None
    assert (recovery.torn.segment, recovery.torn.offset, recovery.torn.length) == (1, 0, len(content))
    assert replayed(wal) == _ENTRIES
    append(wal, make_entry(8, 2))
    wal.seal(clean=False)
    assert replay_directory(log) == [*_ENTRIES, make_entry(8, 2)]


def test_an_empty_last_segment_is_fine(log: Path) -> None:
    with opened(log, file_size=100) as wal:
        wal.floor(7, 2)
        append(wal, make_entry(8, 2))
    last = segments(log)[-1]
    last.write_bytes(last.read_bytes()[:48])
    wal, recovery = open_wal(log)
    assert recovery.torn is None
    assert recovery.corruptions == ()
    assert replayed(wal) == _ENTRIES
    wal.seal()


def test_frames_that_were_never_synced_may_be_in_any_state(tmp_path: Path) -> None:
    """One append of three frames: a power loss before its sync can keep the last and lose the first."""
    with opened(tmp_path) as wal:
        append(wal, make_entry(7, 1))
        wal.append([make_frame(make_entry(region, 1)) for region in (8, 9, 10)]).result(10)
    frames = data_frames_in(segments(tmp_path)[0])
    flip_bit(segments(tmp_path)[0], frames[1].offset + 70)
    wal, recovery = open_wal(tmp_path)
    assert recovery.corruptions == ()
    assert recovery.torn is not None
    assert recovery.torn.offset == frames[1].offset
    assert replayed(wal) == [make_entry(7, 1)]
    wal.seal()


def test_damage_below_what_was_synced_is_no_torn_tail(log: Path) -> None:
    """The frame behind the damaged one says that the damaged one had been synced."""
    frames = data_frames_in(segments(log)[0])
    flip_bit(segments(log)[0], frames[1].offset + 70)
    before = segments(log)[0].read_bytes()
    wal, recovery = open_wal(log)
    assert recovery.torn is None
    [corruption] = recovery.corruptions
    assert (corruption.segment, corruption.offset) == (0, frames[1].offset)
    wal.seal()
    assert segments(log)[0].read_bytes() == before


def test_after_a_clean_shutdown_there_is_no_torn_tail(tmp_path: Path) -> None:
    """The marker says where the log ended, so a frame that is damaged or gone was durable."""
    for change in ("flip", "cut", "remove"):
        log = tmp_path / change
        wal, _ = open_wal(log, sync_write=False)
        append(wal, *_ENTRIES)
        wal.seal()
        segment = segments(log)[0]
        last = data_frames_in(segment)[-1]
        if change == "flip":
            flip_bit(segment, last.offset + 70)
        elif change == "cut":
            segment.write_bytes(segment.read_bytes()[: last.offset])
        else:
            segment.unlink()
        for _ in range(2):  # restarting does not make it better
            wal, recovery = open_wal(log)
            assert recovery.torn is None
            assert len(recovery.corruptions) == 1
            replay = wal.read(ALL)
            expected = {"flip": {7}, "cut": {7, 8}, "remove": set()}[change]
            assert set(replay.quarantined) == expected
            assert replay.quarantine_reason(7) is not None
            wal.seal(clean=False)


def test_a_full_disk_does_not_keep_a_torn_log_from_opening(log: Path) -> None:
    segment = segments(log)[0]
    sound = segment.read_bytes()
    segment.write_bytes(sound + b"torn")
    files = FullDisk()
    files.budget = 0
    wal, recovery = open_wal(log, files=files)
    assert recovery.torn == TornTail(0, len(sound), 4, None)
    assert replayed(wal) == _ENTRIES
    wal.seal()
