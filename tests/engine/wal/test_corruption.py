"""Damage in the log quarantines the regions that may have lost entries by it, and no others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.engine.wal.logs import (
    ALL,
    Entry,
    append,
    data_frames_in,
    flip_bit,
    frames_in,
    make_entry,
    make_frame,
    open_wal,
    opened,
    replay_directory,
    replayed,
    segments,
)
from tsdb.engine.errors import WalCorrupted
from tsdb.engine.wal import _segment
from tsdb.errors import StartError

# One segment each. Region 7 is everywhere, 8 ends before the middle, 9 exists only there, 10 begins behind it.
_FIRST = [make_entry(7, 1), make_entry(8, 1)]
_MIDDLE = [make_entry(7, 2, 45), make_entry(9, 1, 45), make_entry(7, 3, 45)]
_LAST = [make_entry(7, 4), make_entry(10, 1)]
_ALL = [*_FIRST, *_MIDDLE, *_LAST]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three segments, each ended by a rotation in the right place."""
    directory = tmp_path / "log"
    for entries in (_FIRST, _MIDDLE, _LAST):
        with opened(directory, file_size=1 << 20) as wal:
            append(wal, *entries)
        if entries is not _LAST:
            with opened(directory, file_size=1 << 20) as wal:
                wal._committer.submit_rotation().result(10)
    assert [len(data_frames_in(path)) for path in segments(directory)] == [2, 3, 2]
    return directory


def without(*regions: int) -> list[Entry]:
    return [entry for entry in _ALL if entry.region_id not in regions]


def test_a_flipped_bit_anywhere_in_a_frame_of_a_middle_segment(log: Path, tmp_path: Path) -> None:
    segment = segments(log)[1]
    frame = data_frames_in(segment)[1]
    assert frame.header.region_id == 9
    payload_end = frame.offset + 64 + frame.header.payload_bytes
    for offset in range(frame.offset, frame.end):
        copy = tmp_path / f"flip-{offset}"
        shutil.copytree(log, copy)
        flip_bit(copy / segment.name, offset, bit=offset % 8)
        wal, recovery = open_wal(copy)
        assert recovery.torn is None
        replay = wal.read(ALL)
        if offset >= payload_end:
            assert recovery.corruptions == ()
            assert replay.quarantined == {}
        else:
            [corruption] = recovery.corruptions
            assert (corruption.segment, corruption.offset) == (1, frame.offset)
            assert corruption.length == frame.header.frame_bytes
            assert corruption.regions == (9,)
            assert set(replay.quarantined) == {9}
            assert f"{frame.offset} to {frame.end}" in replay.quarantined[9]
        expected = _ALL if offset >= payload_end else without(9)
        assert replayed(wal) == expected
        wal.seal(clean=False)
        shutil.rmtree(copy)


def test_damage_in_the_last_segment_leaves_idle_regions_unproved_unless_the_header_is_sound(log: Path) -> None:
    """Regions 8 and 9 have nothing behind the damage that would show that they lost nothing in it."""
    segment = segments(log)[2]
    frame = data_frames_in(segment)[0]
    sound = segment.read_bytes()

    flip_bit(segment, frame.offset + 70)  # the payload of 7/4
    with opened(log) as wal:
        replay = wal.read(ALL)
        assert set(replay.quarantined) == {7}
        assert replay.quarantine_reason(99) is None
        assert replayed(wal) == without(7)
    for extra in segments(log)[3:]:
        extra.unlink()

    segment.write_bytes(sound)
    flip_bit(segment, frame.offset + 30)  # its header
    for _ in range(3):  # restarts do not launder it
        with opened(log) as wal:
            replay = wal.read(ALL)
            assert set(replay.quarantined) == {7, 8, 9}
            assert "nothing proves" in replay.quarantined[8]
            assert replay.quarantine_reason(99) is not None
            assert replay.quarantine_reason(10) is None
            assert replayed(wal) == [make_entry(10, 1)]
            with pytest.raises(WalCorrupted, match="accepts no more"):
                append(wal, make_entry(8, 2))


def test_a_region_that_goes_on_behind_the_damage_is_intact(log: Path) -> None:
    segment = segments(log)[2]
    flip_bit(segment, data_frames_in(segment)[1].offset + 30)  # the header of 10/1
    with segment.open("ab"):
        pass
    wal, recovery = open_wal(log)
    # Nothing behind it says that it had been synced: a torn tail.
    assert recovery.torn is not None
    append(wal, make_entry(8, 2), make_entry(7, 5))
    wal.seal(clean=False)
    flip_bit(segment, data_frames_in(segment)[1].offset + 30)  # the header of 8/2
    with opened(log) as wal:
        replay = wal.read(ALL)
        assert set(replay.quarantined) == {8, 9}
        assert [entry.entry_id for entry in replayed(wal)] == [1, 2, 3, 4, 5]


def test_a_missing_middle_segment_costs_those_that_had_entries_in_it(log: Path) -> None:
    segments(log)[1].unlink()
    wal, recovery = open_wal(log)
    [corruption] = recovery.corruptions
    assert str(corruption) == "segment 0000000000000001: the segment is missing"
    assert corruption.regions == (7, 9)
    replay = wal.read(ALL)
    assert replay.quarantined == {
        7: "entries 2 to 3 are lost in segment 0000000000000001: the segment is missing",
        9: "entry 1 is lost in segment 0000000000000001: the segment is missing",
    }
    assert replayed(wal) == [make_entry(8, 1), make_entry(10, 1)]
    wal.seal()


def test_missing_oldest_segments_are_noticed_by_the_floors(log: Path) -> None:
    segments(log)[0].unlink()
    wal, recovery = open_wal(log)
    assert recovery.corruptions == ()  # they may have been purged
    assert set(wal.read(ALL).quarantined) == {7, 8}
    floors = {7: 1, 8: 1, 9: 0, 10: 0}
    assert replayed(wal, floors) == [*_MIDDLE, *_LAST]
    wal.seal()


def test_a_segment_that_lost_its_end_is_noticed_although_its_frames_are_sound(log: Path) -> None:
    segment = segments(log)[1]
    frames = data_frames_in(segment)
    segment.write_bytes(segment.read_bytes()[: frames[1].offset])
    wal, recovery = open_wal(log)
    [corruption] = recovery.corruptions
    assert (corruption.segment, corruption.offset) == (1, frames[1].offset)
    assert "shorter than it was" in corruption.reason
    assert set(wal.read(ALL).quarantined) == {7, 9}
    wal.seal()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_segment_header_is_reported_and_costs_nothing(log: Path, number: int) -> None:
    flip_bit(segments(log)[number], 20)
    wal, recovery = open_wal(log)
    [corruption] = recovery.corruptions
    assert (corruption.segment, corruption.offset, corruption.length) == (number, 0, 48)
    assert corruption.regions == ()
    assert wal.read(ALL).quarantined == {}
    assert replayed(wal) == _ALL
    wal.seal()


def test_restarts_do_not_pile_up_segments_behind_damage(log: Path) -> None:
    segment = segments(log)[1]
    segment.write_bytes(segment.read_bytes()[:-16])
    flip_bit(segments(log)[0], 20)
    for _ in range(3):
        with opened(log):
            assert len(segments(log)) == 3
    flip_bit(segments(log)[2], data_frames_in(segments(log)[2])[0].offset + 70)
    for _ in range(3):
        with opened(log):
            assert len(segments(log)) == 4


def test_two_segments_that_changed_places_are_damage(log: Path) -> None:
    first, second = segments(log)[:2]
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    wal, recovery = open_wal(log)
    assert recovery.corruptions
    assert set(wal.read(ALL).quarantined) == {7, 8, 9}
    assert replayed(wal) == [make_entry(10, 1)]
    wal.seal()


def test_a_damaged_seal_only_takes_a_proof_away(log: Path) -> None:
    flip_bit(segments(log)[2], frames_in(segments(log)[2])[0].offset + 70)
    flip_bit(segments(log)[1], data_frames_in(segments(log)[1])[1].offset + 30)
    with opened(log) as wal:
        # Without the seal, nothing is known of 8 behind the damage, and 9 was never heard of at all.
        replay = wal.read(ALL)
        assert set(replay.quarantined) == {8}
        assert replay.quarantine_reason(9) is not None
        assert replay.quarantine_reason(10) is None


def test_doubt_outlives_the_damage_until_it_is_repaired(log: Path) -> None:
    """Somebody deletes the damaged files by hand: that proves nothing about the regions in them."""
    flip_bit(segments(log)[2], data_frames_in(segments(log)[2])[0].offset + 30)
    with opened(log):
        pass
    for path in segments(log)[:3]:
        path.unlink()
    for _ in range(2):
        with opened(log) as wal:
            assert wal.read(ALL).quarantine_reason(8) is not None
    with opened(log, skip_corrupt=True) as wal:
        assert wal.read(ALL).quarantine_reason(8) is None
    with opened(log) as wal:
        assert wal.read(ALL).quarantine_reason(8) is None


def test_what_is_flushed_cannot_be_lost(log: Path) -> None:
    flip_bit(segments(log)[1], data_frames_in(segments(log)[1])[2].offset + 70)  # the payload of 7/3
    with opened(log) as wal:
        floors = {7: 2, 8: 0, 9: 0, 10: 0}
        assert set(wal.read(floors).quarantined) == {7}
        floors[7] = 3
        assert wal.read(floors).quarantined == {}
        assert [e for e in replayed(wal, floors) if e.region_id == 7] == [make_entry(7, 4)]
        append(wal, make_entry(7, 5))


def test_repair_replays_what_is_left(log: Path) -> None:
    flip_bit(segments(log)[1], data_frames_in(segments(log)[1])[0].offset + 70)  # the payload of 7/2
    flip_bit(segments(log)[2], data_frames_in(segments(log)[2])[0].offset + 30)  # the header of 7/4
    wal, recovery = open_wal(log, skip_corrupt=True)
    assert len(recovery.corruptions) == 2
    replay = wal.read(ALL)
    assert replay.quarantined == {}
    assert set(replay.lost) == {7, 8, 9}
    lost = (make_entry(7, 2, 45), make_entry(7, 4))
    assert replayed(wal) == [entry for entry in _ALL if entry not in lost]
    append(wal, make_entry(7, 4), make_entry(8, 2))
    wal.floor(7, 3)
    wal.seal()
    with opened(log) as wal:
        floors = {7: 3, 8: 0, 9: 0, 10: 0}
        assert wal.read(floors).quarantined == {}
        assert replayed(wal, floors)[-2:] == [make_entry(7, 4), make_entry(8, 2)]


def test_damage_that_quarantines_a_region_is_never_purged(log: Path) -> None:
    flip_bit(segments(log)[1], data_frames_in(segments(log)[1])[1].offset + 30)
    with opened(log) as wal:
        assert set(wal.read(ALL).quarantined) == {9}
        for region, last in ((7, 4), (8, 1), (10, 1)):
            wal.floor(region, last)
        assert wal.purge().deleted == (0,)
    with opened(log) as wal:
        floors = {7: 4, 8: 1, 9: 1, 10: 1}
        assert wal.read(floors).quarantined == {}
        assert wal.purge().deleted == (1,)


def test_a_frame_inside_a_payload_is_not_taken_for_one(tmp_path: Path) -> None:
    """Somebody stores the bytes of a log in the database; then the frame that holds them is damaged."""
    with opened(tmp_path / "inner") as wal:
        append(wal, make_entry(1, 1), make_entry(2, 1))
    inner = segments(tmp_path / "inner")[0].read_bytes()
    outer = tmp_path / "outer"
    with opened(outer) as wal:
        append(wal, Entry(7, 1, inner + bytes(-len(inner) % 8)), make_entry(7, 2))
    segment = segments(outer)[0]
    flip_bit(segment, data_frames_in(segment)[0].offset + 30)
    wal, recovery = open_wal(outer)
    assert set(recovery.regions) == {7}
    wal.seal()


def test_bytes_that_change_between_opening_and_replaying_are_noticed(log: Path) -> None:
    for offset in (30, 70):
        wal, _ = open_wal(log)
        segment = segments(log)[1]
        place = data_frames_in(segment)[0].offset + offset
        flip_bit(segment, place)
        with pytest.raises(WalCorrupted, match="was intact when the log was opened"):
            replayed(wal)
        wal.seal(clean=False)
        flip_bit(segment, place)


def test_a_log_of_a_newer_version_is_refused(log: Path) -> None:
    content = bytearray(segments(log)[0].read_bytes())
    magic, _, *others = _segment._HEADER.unpack_from(content)
    body = _segment._HEADER.pack(magic, 2, *others)
    content[: len(body) + 4] = body + _segment._CRC.pack(_segment.crc32c(0, body))
    segments(log)[0].write_bytes(content)
    with pytest.raises(StartError, match="format version 2, this server reads version 1"):
        open_wal(log)


def test_one_append_across_damage_is_judged_per_region(tmp_path: Path) -> None:
    with opened(tmp_path) as wal:
        for number in range(1, 4):
            wal.append([make_frame(make_entry(region, number)) for region in (1, 2, 3)]).result(10)
        append(wal, make_entry(4, 1))
    segment = segments(tmp_path)[0]
    flip_bit(segment, data_frames_in(segment)[4].offset + 4)  # the header of 2/2
    with opened(tmp_path) as wal:
        assert set(wal.read(ALL).quarantined) == {2}
    assert {entry.region_id for entry in replay_directory(tmp_path)} == {1, 3, 4}
