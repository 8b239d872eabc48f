"""`SeriesNumbers` against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels

# Few values, and some that share their low bits, so that slots collide and pairs differ in one half only.
HASHES = st.sampled_from([0, 1, 2, 8, 16, 1 << 20, (1 << 20) + 1, 1 << 63, (1 << 64) - 1])
Pairs = list[tuple[int, int]]


def halves(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    return np.array([one for one, _ in pairs], np.uint64), np.array([other for _, other in pairs], np.uint64)


@given(st.lists(st.lists(st.tuples(HASHES, HASHES), max_size=40), max_size=8))
def test_it_agrees_with_a_dictionary(batches: list[Pairs]) -> None:
    numbers, known = _kernels.SeriesNumbers(), dict[tuple[int, int], int]()
    for pairs in batches:
        new = []
        for at, pair in enumerate(pairs):
            if pair not in known:
                known[pair] = len(known)
                new.append(at)
        found, places = numbers.number(*halves(pairs))
        assert pa.array(found).to_pylist() == [known[pair] for pair in pairs]
        assert pa.array(places).to_pylist() == new
    assert len(numbers) == len(known)
    tsid, check = numbers.hashes(np.arange(len(known), dtype=np.uint32))
    assert list(zip(pa.array(tsid).to_pylist(), pa.array(check).to_pylist(), strict=True)) == list(known)


def test_many_series_take_little_more_than_their_hashes() -> None:
    count = 100_000
    ids = np.random.default_rng(1).integers(0, 1 << 63, count, dtype=np.uint64)
    numbers = _kernels.SeriesNumbers()
    found, new = numbers.number(ids, ids)
    assert len(pa.array(new)) == len(np.unique(ids)) == len(numbers)
    again, none = numbers.number(ids[::-1].copy(), ids[::-1].copy())
    assert pa.array(again).to_pylist() == pa.array(found).to_pylist()[::-1]
    assert not len(pa.array(none))
    assert 16 * count <= numbers.nbytes <= 32 * count


def test_what_does_not_fit_is_refused() -> None:
    numbers = _kernels.SeriesNumbers()
    with pytest.raises(ValueError, match="2 of tsid, but 1 of check"):
        numbers.number(np.zeros(2, np.uint64), np.zeros(1, np.uint64))
    with pytest.raises(IndexError, match="no such number"):
        numbers.hashes(np.zeros(1, np.uint32))
