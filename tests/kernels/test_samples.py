"""`Samples` against plain Python: sources as lists of rows, and what chosen series have in a range of time."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels

STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]

Source = dict[int, list[tuple[int, float]]]
"""The samples of each series, by its number."""

_values = st.one_of(st.integers(-9, 9).map(float), st.just(0.5), st.just(STALE))


def make_parts(source: Source, cuts: list[int], *, is_narrow: bool = False) -> list[tuple[Any, Any]]:
    """Make the pieces of a source, cut at some rows; the columns of each as they are, or as narrow as may be."""
    numbers = list(source)
    rows = [sample for number in numbers for sample in source[number]]
    offsets = np.cumsum([0, *(len(source[number]) for number in numbers)])
    spans = [(min(times), max(times)) for times in ([time for time, _ in source[number]] for number in numbers)]
    stretches = _kernels.SeriesStretches(
        pa.array(numbers, pa.uint32()),
        pa.array(offsets, pa.int64()),
        pa.array([low for low, _ in spans], pa.int64()),
        pa.array([high for _, high in spans], pa.int64()),
    )
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = []
    for begin, end in itertools.pairwise(bounds):
        times = pa.array([time for time, _ in rows[begin:end]], pa.timestamp("ms"))
        values = pa.array([value for _, value in rows[begin:end]], pa.float64())
        piece = _narrow_piece(begin, times, values) if is_narrow else _kernels.SamplePiece(begin, times, values)
        parts.append((stretches, piece))
    return parts


def _narrow_piece(begin: int, times: pa.Array, values: pa.Array) -> _kernels.SamplePiece:
    held = _kernels.SteppedTimes.pack(times)
    assert held is not None
    is_whole = all(value.is_integer() for value in values.to_pylist())
    return _kernels.SamplePiece(begin, held, values.cast(pa.int8()) if is_whole else values)


@st.composite
def _sources(draw: st.DrawFn) -> list[Source]:
    sources: list[Source] = []
    for _ in range(draw(st.integers(0, 3))):
        numbers = draw(st.permutations(range(6)))[: draw(st.integers(1, 6))]
        source: Source = {}
        for number in numbers:
            times = sorted(draw(st.sets(st.integers(0, 60), min_size=1, max_size=6)))
            source[number] = [(time, draw(_values)) for time in times]
        sources.append(source)
    return sources


def wanted_samples(sources: list[Source], chosen: list[int], first: int, last: int) -> list[list[tuple[int, float]]]:
    """Of samples of one time, those of the last source."""
    found = []
    for number in chosen:
        samples = {time: value for source in sources for time, value in source.get(number, []) if first <= time <= last}
        found.append(sorted(samples.items()))
    return found


def has_same_times(sources: list[Source], chosen: list[int], first: int, last: int) -> bool:
    for number in chosen:
        times = [time for source in sources for time, _ in source.get(number, []) if first <= time <= last]
        if len(set(times)) < len(times):
            return True
    return False


@given(_sources(), st.permutations(range(7)), st.integers(0, 7), st.integers(-5, 65), st.integers(-5, 65), st.data())
def test_samples_are_those_of_the_chosen_series_in_the_range(
    sources: list[Source], order: list[int], count: int, first: int, last: int, data: st.DataObject
) -> None:
    chosen = order[:count]
    cuts = data.draw(st.lists(st.integers(0, 30), max_size=3))
    last_wins = data.draw(st.booleans())
    parts = [part for source in sources for part in make_parts(source, cuts, is_narrow=data.draw(st.booleans()))]
    samples = _kernels.Samples.find(parts, pa.array(chosen, pa.uint32()), first, last, 1000, last_wins=last_wins)
    if samples is None:
        assert not last_wins
        assert has_same_times(sources, chosen, first, last)
        return
    assert last_wins or not has_same_times(sources, chosen, first, last)
    wanted = wanted_samples(sources, chosen, first, last)
    check_samples(samples, wanted)


def test_long_runs_of_one_source_stay_where_they_are_between_what_is_merged() -> None:
    early = {0: [(time, 1.0) for time in range(0, 600, 2)], 1: [(5, 1.0)]}
    late = {0: [(time, 2.0) for time in (7, *range(300, 320), *range(500, 900))], 1: [(5, 2.0), (6, 2.0)]}
    parts = [*make_parts(early, [100]), *make_parts(late, [50])]
    samples = _kernels.Samples.find(parts, pa.array([1, 0], pa.uint32()), 0, 1000, 1000, last_wins=True)
    assert samples is not None
    check_samples(samples, wanted_samples([early, late], [1, 0], 0, 1000))


def check_samples(samples: _kernels.Samples, wanted: list[list[tuple[int, float]]]) -> None:
    places = [place for place, found in enumerate(wanted) if found]
    assert pa.array(samples.places).to_pylist() == places
    assert (samples.series, len(samples)) == (len(places), sum(map(len, wanted)))
    offsets, times, values = (pa.array(column) for column in samples.columns())
    assert offsets.to_pylist() == np.cumsum([0, *(len(wanted[place]) for place in places)]).tolist()
    flat = [sample for found in wanted for sample in found]
    assert times.to_pylist() == [time for time, _ in flat]
    bits = values.to_numpy().view(np.uint64).tolist()
    assert bits == np.array([value for _, value in flat], np.float64).view(np.uint64).tolist()
    _check_evaluations(samples, offsets, times, values)


def _check_evaluations(samples: _kernels.Samples, offsets: pa.Array, times: pa.Array, values: pa.Array) -> None:
    ats = pa.array([0, 7, 20, 21, 55, 90], pa.int64())
    found = samples.instant(ats, 10, True)
    assert [pa.array(each) for each in found] == [
        pa.array(each) for each in _kernels.prom_instant(offsets, times, values, ats, 10)
    ]
    assert pa.array(samples.instant(ats, 10, False)[0]) == pa.array(found[0])
    kept = values.to_numpy().view(np.uint64) != 0x7FF0000000000002
    before = np.append(0, np.cumsum(kept))
    fresh = pa.array(before[offsets.to_numpy()]), times.filter(pa.array(kept)), values.filter(pa.array(kept))
    nothing = pa.array([0.5] * len(ats))
    for function in ("rate", "increase", "sum_over_time", "avg_over_time", "quantile_over_time", "changes"):
        one = samples.range(function, ats, ats, 30, nothing, nothing)
        other = _kernels.prom_range(function, *fresh, ats, ats, 30, nothing, nothing)
        assert pa.array(one[1]) == pa.array(other[1])
        assert np.array_equal(pa.array(one[0]).to_numpy(), pa.array(other[0]).to_numpy(), equal_nan=True)


@given(_sources(), st.sets(st.integers(0, 6)), st.integers(-5, 65), st.integers(-5, 65), st.integers(1, 9))
def test_only_pieces_are_read_that_have_rows_of_chosen_series(
    sources: list[Source], chosen: set[int], first: int, last: int, size: int
) -> None:
    for source in sources:
        (stretches, _), *_ = make_parts(source, [])
        rows = [(number, time) for number, samples in source.items() for time, _ in samples]
        begins = [*range(0, len(rows), size), len(rows)]
        wanted = pa.array(sorted(chosen), pa.uint32())
        touched = stretches.pieces(wanted, first, last, pa.array(begins, pa.int64()))
        needed = {at // size for at, (number, time) in enumerate(rows) if number in chosen and first <= time <= last}
        allowed = {at // size for at, (number, _) in enumerate(rows) if number in chosen}
        assert needed <= set(touched) <= allowed


def test_more_samples_than_allowed_are_refused_with_their_number() -> None:
    parts = make_parts({0: [(time, 1.0) for time in range(10)]}, [])
    with pytest.raises(_kernels.LimitExceeded, match="more than 9 samples"):
        _kernels.Samples.find(parts, pa.array([0], pa.uint32()), 0, 99, 9)


def test_what_does_not_fit_together_is_refused() -> None:
    one, two = pa.array([0], pa.int64()), pa.array([0, 1], pa.int64())
    with pytest.raises(ValueError, match="stretch"):
        _kernels.SeriesStretches(pa.array([0], pa.uint32()), one, one, one)
    with pytest.raises(ValueError, match="ascend"):
        _kernels.SeriesStretches(pa.array([0], pa.uint32()), pa.array([3, 1], pa.int64()), one, one)
    with pytest.raises(ValueError, match="a time for each value"):
        _kernels.SamplePiece(0, two, pa.array([1.0]))
    with pytest.raises(ValueError, match="null"):
        _kernels.SamplePiece(0, one, pa.array([None], pa.float64()))


_rows = st.lists(
    st.tuples(st.integers(0, 2), st.one_of(st.none(), st.just(float("nan")), st.integers(0, 3).map(float)))
)


@given(_rows, st.integers(-1, 4), st.sampled_from(["topk", "bottomk", "limitk"]))
def test_the_first_of_each_group_are_chosen(rows: list[tuple[int, float | None]], limit: int, op: str) -> None:
    chosen = _kernels.prom_first(
        op,
        pa.array([0.0 if value is None else value for _, value in rows], pa.float64()),
        pa.array([value is not None for _, value in rows]).cast(pa.uint8()),
        pa.array([group for group, _ in rows], pa.int64()),
        3,
        pa.array([limit], pa.int64()),
    )
    wanted = set()
    for group in range(3):
        members = [(at, value) for at, (number, value) in enumerate(rows) if number == group and value is not None]
        if op != "limitk":
            sign = -1 if op == "topk" else 1
            members.sort(key=lambda each: (each[1] != each[1], sign * each[1] if each[1] == each[1] else 0))
        wanted |= {at for at, _ in members[: max(limit, 0)]}
    assert {at for at, has in enumerate(pa.array(chosen).to_pylist()) if has} == wanted
