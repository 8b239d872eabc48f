"""Which stored histograms mark the end of a series."""

from __future__ import annotations

import struct

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tsdb.promql.evaluation import STALE_BITS
from tsdb.query.promql._histogram_ends import find_ends

STALE = struct.pack("<Q", STALE_BITS)

_BLOBS = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.tuples(st.binary(min_size=16, max_size=16), st.binary(max_size=9)).map(lambda each: each[0] + STALE + each[1]),
)


@given(st.lists(_BLOBS), st.integers(0, 3))
def test_ends_are_found_by_the_bits_of_the_sum(blobs: list[bytes | None], skipped: int) -> None:
    # Of a slice, so that the content does not begin where the buffers do.
    found = find_ends(pa.array([b"x" * skipped] * skipped + blobs, pa.binary()).slice(skipped))
    assert found.tolist() == [blob is not None and blob[16:24] == STALE for blob in blobs]
