"""`seal_payload`: what is stored is what was given, compressed when that pays, with the checksum of others."""

from __future__ import annotations

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels


def seal(parts: list[bytes], compress_from: int) -> tuple[bytes, int, bool, int]:
    return _kernels.seal_payload([memoryview(part) for part in parts], compress_from=compress_from)


@given(st.lists(st.binary(max_size=300) | st.binary(max_size=3).map(lambda few: few * 200), max_size=6))
def test_what_is_stored_is_what_was_given(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    stored, crc, is_compressed, size = seal(parts, compress_from=100)
    assert size == len(whole)
    assert crc == google_crc32c.value(stored)
    if is_compressed:
        assert len(stored) < len(whole)
        stored = pa.decompress(stored, len(whole), codec="lz4_raw", asbytes=True)
    assert stored == whole


def test_what_repeats_is_compressed_and_noise_is_not() -> None:
    noise = np.random.default_rng(1).bytes(100_000)
    assert seal([noise], compress_from=100)[2] is False
    assert seal([b"ab" * 50_000], compress_from=100)[2] is True
    assert seal([b"ab" * 50_000], compress_from=100_001)[2] is False


def test_a_large_payload_leaves_nothing_behind_for_a_small_one() -> None:
    seal([bytes(20 << 20)], compress_from=1)
    assert seal([b"small"], compress_from=100) == (b"small", google_crc32c.value(b"small"), False, 5)
    assert seal([], compress_from=0)[0] == b""


def test_parts_with_gaps_are_refused() -> None:
    with pytest.raises((ValueError, BufferError)):
        _kernels.seal_payload([memoryview(b"0123456789")[::2]], compress_from=100)
