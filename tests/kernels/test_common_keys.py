"""`common_keys` against sets: keys that two sources have and the times around them, whatever pieces times lie in."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels

Source = dict[int, list[int]]
"""The times of each series, in order."""

LEAST, GREATEST = -(2**63), 2**63 - 1
TIMES = st.sets(st.integers(0, 40) | st.sampled_from([LEAST, GREATEST]), max_size=8).map(sorted)
SOURCES = st.lists(st.dictionaries(st.integers(0, 5), TIMES, max_size=6), max_size=4)


def make_part(source: Source, cuts: list[int]) -> tuple[Any, ...]:
    """Lay the times of a source end to end, in chunks."""
    times = [time for own in source.values() for time in own]
    ends = np.cumsum([0, *(len(own) for own in source.values())])
    bounds = np.array(sorted({0, len(times), *(cut for cut in cuts if cut < len(times))}), np.int64)
    wide = [pa.array(times[begin:end], pa.int64()) for begin, end in itertools.pairwise(bounds)]
    # Every other chunk is held in steps.
    chunks = [_kernels.SteppedTimes.pack(own) or own if at % 2 else own for at, own in enumerate(wide)]
    return np.array(list(source), np.int64), ends[:-1], ends[1:], bounds, list(range(len(chunks))), chunks


def common(sources: list[Source], cuts: list[int], keys_max: int = 1000) -> set[tuple[int, int]] | None:
    found = _kernels.common_keys([make_part(source, cuts) for source in sources], keys_max)
    if found is None:
        return None
    pairs = list(zip(*(pa.array(each).to_pylist() for each in found), strict=True))
    rows = [[(series, time) for series, times in source.items() for time in times] for source in sources]
    for series, time, *sides in pairs:
        assert sides[0] != sides[4]
        for source, row, *around in (sides[:4], sides[4:]):
            assert rows[source][row] == (series, time)
            own = [LEAST, *sources[source][series], GREATEST]
            at = own.index(time, 1)
            assert around == [own[at - 1], own[at + 1]]
    return {(series, time) for series, time, *_ in pairs}


@given(SOURCES, st.lists(st.integers(1, 30), max_size=3))
def test_keys_of_two_or_more_sources_are_found(sources: list[Source], cuts: list[int]) -> None:
    counts = Counter((series, time) for source in sources for series, times in source.items() for time in times)
    assert common(sources, cuts) == {key for key, count in counts.items() if count > 1}


def test_more_keys_than_wanted_are_none() -> None:
    assert common([{0: [1, 2, 3]}, {0: [1, 2, 3]}], [], keys_max=2) is None
    assert common([{0: [1, 2, 3]}, {0: [1, 2, 4]}], [], keys_max=2) == {(0, 1), (0, 2)}


def test_rows_that_no_chunk_has_are_refused() -> None:
    series, starts, stops, offsets, numbers, chunks = make_part({0: [1, 2, 3]}, [2])
    for wrong in (
        (series, starts, stops + 1, offsets, numbers, chunks),
        (series, starts, stops, offsets, numbers[:1], chunks[:1]),
        (series, starts, stops, offsets, numbers[::-1], chunks[::-1]),
        (series, starts, stops, offsets, [0, 7], chunks),
        (series, starts[:0], stops, offsets, numbers, chunks),
    ):
        with pytest.raises(ValueError, match=r"chunk|equally"):
            _kernels.common_keys([wrong], 10)
