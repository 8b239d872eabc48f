"""Frames and segment headers as bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.engine.log import Frame, FrameKind, encode_frame_payload
from tsdb.engine.log.frame import (
    COMPRESS_BYTES_MIN,
    FRAME_HEADER_BYTES,
    Codec,
    crc32c,
    decode_payload,
    decode_seal,
    encode_header,
    encode_seal,
    frame_bytes,
    padding,
    parse_header,
)
from tsdb.engine.wal._segment import (
    SEGMENT_HEADER_BYTES,
    encode_segment_header,
    parse_segment_header,
    parse_segment_name,
)

_u64 = st.integers(0, 2**64 - 1)
_u32 = st.integers(0, 2**32 - 1)


@given(
    region_id=_u64,
    entry_id=_u64,
    base_seq=_u64,
    rows=_u32,
    schema_version=_u32,
    kind=st.sampled_from(FrameKind),
    content=st.binary(max_size=100),
    segment=_u64,
    offset=_u64,
    durable_offset=_u64,
)
def test_a_header_comes_back_as_it_was_written(
    region_id: int,
    entry_id: int,
    base_seq: int,
    rows: int,
    schema_version: int,
    kind: FrameKind,
    content: bytes,
    segment: int,
    offset: int,
    durable_offset: int,
) -> None:
    payload = encode_frame_payload(content)
    frame = Frame(region_id, entry_id, payload, kind, base_seq, rows, schema_version)
    encoded = encode_header(frame, segment=segment, offset=offset, durable_offset=durable_offset)
    assert len(encoded) == FRAME_HEADER_BYTES
    header = parse_header(b"junk" + encoded, 4, segment=segment, offset=offset)
    assert header is not None
    assert (header.region_id, header.entry_id, header.kind) == (region_id, entry_id, kind)
    assert (header.base_seq, header.rows, header.schema_version) == (base_seq, rows, schema_version)
    assert (header.payload_bytes, header.payload_crc) == (len(content), crc32c(0, content))
    assert header.durable_offset == durable_offset


def test_numbers_that_do_not_fit_are_refused_where_the_frame_is_made() -> None:
    payload = encode_frame_payload(b"")
    for wrong in ({"region_id": -1}, {"entry_id": 2**64}, {"rows": 2**32}):
        with pytest.raises(ValueError, match="out of range"):
            Frame(**{"region_id": 1, "entry_id": 1, "payload": payload, **wrong})


def test_any_flipped_bit_makes_a_header_invalid() -> None:
    encoded = encode_header(Frame(7, 8, encode_frame_payload(b"payload")), segment=1, offset=64, durable_offset=48)
    for bit in range(len(encoded) * 8):
        broken = bytearray(encoded)
        broken[bit // 8] ^= 1 << bit % 8
        assert parse_header(bytes(broken), 0, segment=1, offset=64) is None


def test_a_header_is_valid_only_in_its_place() -> None:
    encoded = encode_header(Frame(7, 8, encode_frame_payload(b"")), segment=1, offset=64, durable_offset=48)
    assert parse_header(encoded, 0, segment=1, offset=64) is not None
    assert parse_header(encoded, 0, segment=2, offset=64) is None
    assert parse_header(encoded, 0, segment=1, offset=72) is None
    assert parse_header(encoded[:-1], 0, segment=1, offset=64) is None


@given(st.binary(max_size=64), st.integers(1, 400))
def test_a_payload_comes_back_whether_it_was_compressed_or_not(unit: bytes, times: int) -> None:
    raw = unit * times
    encoded = encode_frame_payload(raw)
    stored = pa.py_buffer(bytes(encoded.view))
    assert stored.size == encoded.size_bytes <= len(raw)
    assert decode_payload(stored, codec=encoded.codec, raw_bytes=encoded.raw_bytes).to_pybytes() == raw


def test_small_and_incompressible_payloads_are_stored_as_they_are() -> None:
    assert encode_frame_payload(bytes(COMPRESS_BYTES_MIN - 1)).codec is Codec.NONE
    assert encode_frame_payload(bytes(COMPRESS_BYTES_MIN)).codec is Codec.LZ4
    noise = pa.py_buffer(b"".join(crc32c(0, str(n).encode()).to_bytes(4, "little") for n in range(2000)))
    assert encode_frame_payload(noise).codec is Codec.NONE


@pytest.mark.parametrize("raw", [b"abc", bytearray(b"abc"), memoryview(b"abc"), pa.py_buffer(b"abc"), [b"a", b"bc"]])
def test_payloads_may_come_in_any_kind_of_buffer(raw: bytes) -> None:
    assert bytes(encode_frame_payload(raw).view) == b"abc"


@pytest.mark.parametrize("size", range(20))
def test_frames_are_aligned(size: int) -> None:
    assert frame_bytes(size) == FRAME_HEADER_BYTES + size + len(padding(size))
    assert frame_bytes(size) % 8 == 0


@given(st.dictionaries(_u64, _u64, max_size=400))
def test_a_seal_comes_back_as_it_was_written(last_entries: dict[int, int]) -> None:
    frame = encode_seal(last_entries)
    stored = pa.py_buffer(bytes(frame.payload.view))
    payload = decode_payload(stored, codec=frame.payload.codec, raw_bytes=frame.payload.raw_bytes)
    assert decode_seal(payload) == last_entries


def test_a_segment_header_is_valid_only_for_its_number() -> None:
    encoded = encode_segment_header(number=5, created_ms=123, previous_bytes=4096)
    assert len(encoded) == SEGMENT_HEADER_BYTES
    header = parse_segment_header(encoded, number=5)
    assert header is not None
    assert (header.version, header.number, header.created_ms, header.previous_bytes) == (1, 5, 123, 4096)
    assert parse_segment_header(encoded, number=6) is None
    for bit in range(len(encoded) * 8):
        broken = bytearray(encoded)
        broken[bit // 8] ^= 1 << bit % 8
        assert parse_segment_header(bytes(broken), number=5) is None


def test_only_names_of_segments_are_taken_for_segments() -> None:
    assert parse_segment_name("000000000000001f.wal") == 31
    for name in ("000000000000001F.wal", "1f.wal", "000000000000001f.torn", "000000000000001f.wal.bak", "CLEAN"):
        assert parse_segment_name(name) is None
