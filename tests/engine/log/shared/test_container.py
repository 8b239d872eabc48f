"""Objects of the shared log: what is written is read, and no changed byte passes for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsdb.engine.log import Frame, FrameKind, encode_frame_payload
from tsdb.engine.log.shared.container import (
    EncodedObject,
    ObjectDamaged,
    ObjectIdentity,
    ObjectKind,
    StoredFrame,
    Trailer,
    as_frame,
    encode_entries,
    encode_fence,
    frames_of,
    parse_trailer,
    read_fence,
)

IDENTITY = ObjectIdentity(3, 7, 11, bytes(range(16)))
STEPS = st.lists(
    st.tuples(st.sampled_from([1, 2, 1 << 40]), st.booleans(), st.binary(max_size=9000), st.integers(0, 5)), max_size=12
)
"""Region, whether it is dropped first, payload, rows."""


def make_frames(steps: list[tuple[int, bool, bytes, int]]) -> list[Frame]:
    last: dict[int, int] = {}
    frames = []
    for region, is_dropped, payload, rows in steps:
        if is_dropped:
            last[region] = 0
            frames.append(Frame(region, 0, encode_frame_payload(b""), kind=FrameKind.DROP_REGION))
        last[region] = last.get(region, 4) + 1
        sequence = 10 * last[region]
        frames.append(Frame(region, last[region], encode_frame_payload(payload), base_seq=sequence, rows=rows))
    return frames


def encode(frames: list[Frame]) -> EncodedObject:
    return encode_entries(IDENTITY, frames, acknowledged=9, previous_crc=5, created_ms=1)


def read_all(content: bytes, trailer: Trailer) -> list[StoredFrame]:
    return [found for row in trailer.regions for found in frames_of(content, trailer, row)]


@settings(max_examples=50)
@given(steps=STEPS)
def test_what_is_written_is_read(steps: list[tuple[int, bool, bytes, int]]) -> None:
    frames = make_frames(steps)
    encoded = encode(frames)
    content = b"".join(encoded.parts)
    assert len(content) == encoded.size_bytes
    trailer = parse_trailer(content, len(content))
    assert (trailer.kind, trailer.identity) == (ObjectKind.ENTRIES, IDENTITY)
    assert (trailer.acknowledged, trailer.previous_crc, trailer.crc) == (9, 5, encoded.crc)
    expected: dict[int, list[Frame]] = {}
    for frame in frames:
        kept = expected.setdefault(frame.region_id, [])
        if frame.kind is FrameKind.DROP_REGION:
            kept.clear()
        else:
            kept.append(frame)
    assert [as_frame(each) for each in read_all(content, trailer)] == [
        each for kept in expected.values() for each in kept
    ]
    for row in trailer.regions:
        kept = expected[row.region_id]
        assert (row.first_entry, row.last_entry, row.entries) == (kept[0].entry_id, kept[-1].entry_id, len(kept))


@settings(max_examples=50)
@given(steps=STEPS.filter(bool), data=st.data())
def test_a_changed_byte_is_noticed(steps: list[tuple[int, bool, bytes, int]], data: st.DataObject) -> None:
    content = b"".join(encode(make_frames(steps)).parts)
    whole = parse_trailer(content, len(content))
    at = data.draw(st.integers(16, len(content) - 1))
    changed = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    try:
        found = read_all(changed, parse_trailer(changed, len(changed)))
    except (ObjectDamaged, ValueError):
        return
    # Padding and reserved bytes hold nothing.
    assert [as_frame(each) for each in found] == [as_frame(each) for each in read_all(content, whole)]


@given(length=st.integers(0, 400))
def test_an_object_that_was_cut_off_is_noticed(length: int) -> None:
    content = b"".join(encode(make_frames([(1, False, b"x" * 200, 1)])).parts)
    with pytest.raises(ObjectDamaged):
        parse_trailer(content[:length], length)


def test_the_end_is_enough_to_know_what_it_holds() -> None:
    content = b"".join(encode(make_frames([(region, False, b"x" * 5000, 1) for region in range(1, 40)])).parts)
    with pytest.raises(ValueError, match=r"^2904$"):
        parse_trailer(content[-200:], len(content))
    assert parse_trailer(content[-2904:], len(content)) == parse_trailer(content, len(content))


def test_a_fence_says_who_and_why() -> None:
    content = b"".join(encode_fence(IDENTITY, by="host, process 7", reason="a server was started", created_ms=1).parts)
    trailer = parse_trailer(content, len(content))
    assert trailer.kind is ObjectKind.FENCE
    assert not trailer.regions
    assert read_fence(content) == "host, process 7: a server was started"
