"""`SteppedTimes` against the times themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb._kernels import SteppedTimes

INT64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def _times(draw: st.DrawFn) -> list[int]:
    """Times in steps, or at any distance; in any order."""
    first, step = draw(INT64), draw(st.integers(1, 10**6) | st.sampled_from([10_000, 10**9]))
    counts = draw(st.lists(st.integers(0, 100) | st.integers(0, 2**16) | st.integers(0, 2**33), max_size=50))
    times = [first + step * count for count in counts] if draw(st.booleans()) else draw(st.lists(INT64))
    return [time for time in times if time < 2**63]


def ints(values: list[int]) -> Any:
    return np.array(values, np.int64)


@given(_times(), st.data())
def test_times_in_steps_are_the_times(times: list[int], data: st.DataObject) -> None:
    stepped = SteppedTimes.pack(pa.array(times, pa.timestamp("ms")))
    if stepped is None:
        assert not times or max(times) - min(times) >= 2**32
        return
    assert len(stepped) == len(times)
    assert stepped.nbytes in (2 * len(times), 4 * len(times))
    assert pa.array(stepped).to_pylist() == times
    cuts = sorted(data.draw(st.lists(st.integers(0, len(times)), min_size=4, max_size=4)))
    found = pa.array(stepped.read(ints([cuts[0], cuts[2]]), ints([cuts[1], cuts[3]])))
    assert found.to_pylist() == times[cuts[0] : cuts[1]] + times[cuts[2] : cuts[3]]


@pytest.mark.parametrize(
    ("times", "nbytes"),
    [
        (range(0, 86_400_000, 10_000), 2 * 8640),
        (range(0, 10**15, 10**11), 2 * 10**4),
        ([7 * 10**18, 7 * 10**18 + 65_535], 4),
        ([0, 65_536], 4),
        ([0, 65_536, 65_537], 12),
        ([5], 2),
        ([5, 5], 4),
    ],
)
def test_times_take_two_bytes_or_four(times: Any, nbytes: int) -> None:
    stepped = SteppedTimes.pack(pa.array(times, pa.int64()))
    assert stepped is not None
    assert stepped.nbytes == nbytes


@pytest.mark.parametrize("times", [[], [0, 1, 2**32 + 1], [0, 2**53, 2**54], [-(2**63), 2**63 - 1]])
def test_times_that_would_not_be_shorter_stay_as_they_are(times: list[int]) -> None:
    assert SteppedTimes.pack(pa.array(times, pa.int64())) is None


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (0, 4), (2, 1)])
def test_rows_that_there_are_not_are_refused(start: int, stop: int) -> None:
    stepped = SteppedTimes.pack(pa.array([1, 2, 3]))
    assert stepped is not None
    with pytest.raises(ValueError, match="there are 3 rows"):
        stepped.read(ints([start]), ints([stop]))
