"""The kernels of PromQL against plain Python."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb import _kernels

_values = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3))
_series = st.lists(st.lists(st.tuples(st.integers(1, 50), _values), max_size=12), min_size=1, max_size=4)


def _lay_out(
    series: list[list[tuple[int, float]]],
) -> tuple[pa.Array, pa.Array, pa.Array, list[list[tuple[int, float]]]]:
    """Return offsets, times and values, and the samples with their times; gaps become times."""
    placed = []
    for samples in series:
        times = np.cumsum([gap for gap, _ in samples]).tolist()
        placed.append([(int(time), value) for time, (_, value) in zip(times, samples, strict=True)])
    offsets = np.cumsum([0, *(len(each) for each in placed)]).astype(np.int64)
    times_all = [time for each in placed for time, _ in each]
    values_all = [value for each in placed for _, value in each]
    return pa.array(offsets), pa.array(times_all, pa.int64()), pa.array(values_all, pa.float64()), placed


def _rate(window: list[tuple[int, float]], start: int, end: int) -> float | None:
    if len(window) < 2:
        return None
    values = [value for _, value in window]
    result = values[-1] - values[0] + sum(a for a, b in pairwise(values) if b < a)
    sampled = (window[-1][0] - window[0][0]) / 1000
    spacing = sampled / (len(window) - 1)
    to_start, to_end = (window[0][0] - start) / 1000, (end - window[-1][0]) / 1000
    if to_start >= spacing * 1.1:
        to_start = spacing / 2
    if result > 0 and values[0] >= 0:
        to_start = min(to_start, sampled * values[0] / result)
    if to_end >= spacing * 1.1:
        to_end = spacing / 2
    return result * (sampled + to_start + to_end) / sampled / ((end - start) / 1000)


_FUNCTIONS: dict[str, Callable[[list[tuple[int, float]], int, int], float | None]] = {
    "rate": _rate,
    "sum_over_time": lambda window, *_: math.fsum(value for _, value in window),
    "avg_over_time": lambda window, *_: math.fsum(value for _, value in window) / len(window),
    "min_over_time": lambda window, *_: min(value for _, value in window),
    "max_over_time": lambda window, *_: max(value for _, value in window),
    "count_over_time": lambda window, *_: float(len(window)),
    "last_over_time": lambda window, *_: window[-1][1],
    "changes": lambda window, *_: float(sum(a[1] != b[1] for a, b in pairwise(window))),
    "resets": lambda window, *_: float(sum(b[1] < a[1] for a, b in pairwise(window))),
    "idelta": lambda window, *_: window[-1][1] - window[-2][1] if len(window) > 1 else None,
    "stdvar_over_time": lambda window, *_: float(np.var([value for _, value in window])),
}


@pytest.mark.parametrize("function", sorted(_FUNCTIONS))
@given(_series, st.integers(1, 120), st.integers(1, 60))
def test_functions_over_windows_agree_with_their_definition(
    function: str, series: list[list[tuple[int, float]]], range_ms: int, step: int
) -> None:
    offsets, times, values, placed = _lay_out(series)
    ends = np.arange(0, 300, step, dtype=np.int64)
    none = pa.array(np.zeros(len(ends)))
    found, present = _kernels.prom_range(
        function, offsets, times, values, pa.array(ends), pa.array(ends), range_ms, none, none
    )
    cells = iter(zip(pa.array(found).to_pylist(), pa.array(present).to_pylist(), strict=True))
    for samples in placed:
        for end in ends.tolist():
            window = [sample for sample in samples if end - range_ms < sample[0] <= end]
            expected = _FUNCTIONS[function](window, end - range_ms, end) if window else None
            value, has = next(cells)
            assert bool(has) == (expected is not None)
            if expected is not None:
                assert value == pytest.approx(expected, rel=1e-6, abs=1e-3)


@given(_series, st.integers(1, 120), st.integers(1, 60))
def test_the_last_sample_is_found_unless_it_is_too_old(
    series: list[list[tuple[int, float]]], lookback: int, step: int
) -> None:
    offsets, times, values, placed = _lay_out(series)
    ats = np.arange(0, 300, step, dtype=np.int64)
    found, seen, present = (
        pa.array(each).to_pylist() for each in _kernels.prom_instant(offsets, times, values, pa.array(ats), lookback)
    )
    cells = iter(zip(found, seen, present, strict=True))
    for samples in placed:
        for at in ats.tolist():
            window = [sample for sample in samples if at - lookback < sample[0] <= at]
            value, time, has = next(cells)
            assert bool(has) == bool(window)
            if window:
                assert (time, value) == window[-1]


_cells = st.one_of(st.none(), _values)


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(_cells, min_size=3, max_size=3)), min_size=1, max_size=8))
def test_aggregates_agree_with_their_definition(rows: list[tuple[int, list[float | None]]]) -> None:
    values = pa.array([0.0 if cell is None else cell for _, row in rows for cell in row])
    present = pa.array([int(cell is not None) for _, row in rows for cell in row], pa.uint8())
    groups = pa.array([group for group, _ in rows], pa.int64())
    definitions: dict[str, Callable[[list[float]], float]] = {
        "sum": math.fsum,
        "avg": lambda each: math.fsum(each) / len(each),
        "min": min,
        "max": max,
        "count": len,
        "stdvar": lambda each: float(np.var(each)),
        "quantile": lambda each: float(np.quantile(each, 0.3)),
    }
    for op, define in definitions.items():
        result, has = _kernels.prom_aggregate(op, values, present, groups, 3, pa.array([0.3] * 3))
        cells = zip(pa.array(result).to_pylist(), pa.array(has).to_pylist(), strict=True)
        for position, (value, is_there) in enumerate(cells):
            group, column = divmod(position, 3)
            members = [row[column] for number, row in rows if number == group and row[column] is not None]
            assert bool(is_there) == bool(members)
            if members:
                assert value == pytest.approx(
                    define([float(each) for each in members if each is not None]), rel=1e-6, abs=1e-3
                )


@given(st.lists(st.lists(st.one_of(st.none(), st.floats()), min_size=2, max_size=2), max_size=5))
def test_matrices_become_json_that_reads_back_the_same(rows: list[list[float | None]]) -> None:
    metrics = pa.array([json.dumps({"n": str(number)}) for number in range(len(rows))], pa.string())
    values = pa.array([0.0 if cell is None else cell for row in rows for cell in row], pa.float64())
    present = pa.array([int(cell is not None) for row in rows for cell in row], pa.uint8())
    text = _kernels.prom_json(metrics, values, present, pa.array([1500, 2000], pa.int64()), False)
    shown: list[Any] = json.loads(b"[" + text + b"]")
    wanted = [(str(number), row) for number, row in enumerate(rows) if any(cell is not None for cell in row)]
    assert len(shown) == len(wanted)
    for each, (name, row) in zip(shown, wanted, strict=True):
        assert each["metric"] == {"n": name}
        pairs = [(time, cell) for time, cell in zip((1.5, 2), row, strict=True) if cell is not None]
        for (time, written), (at, cell) in zip(each["values"], pairs, strict=True):
            assert time == at
            assert float(written) == cell or math.isnan(cell)


def test_wrong_arguments_are_refused() -> None:
    one, floats = pa.array([0], pa.int64()), pa.array([0.0])
    with pytest.raises(ValueError, match="offsets"):
        _kernels.prom_instant(pa.array([0, 5], pa.int64()), one, floats, one, 1)
    with pytest.raises(ValueError, match="not known"):
        _kernels.prom_range("nonsense", one, one, floats, one, one, 1, floats, floats)
    with pytest.raises(ValueError, match="group"):
        _kernels.prom_aggregate("sum", floats, pa.array([1], pa.uint8()), pa.array([7], pa.int64()), 1, floats)


@given(
    st.lists(st.sampled_from([0.0, 1.0, -1.5, math.inf, -math.inf, math.nan]) | _values, min_size=1, max_size=300),
    st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0]),
)
def test_a_quantile_lies_between_the_values_at_its_rank(values: list[float], q: float) -> None:
    times, one = pa.array(range(1, len(values) + 1), pa.int64()), pa.array([len(values)], pa.int64())
    found, _ = _kernels.prom_range(
        "quantile_over_time", pa.array([0, len(values)]), times, pa.array(values, pa.float64()), one, one, 1000,
        pa.array([q]), pa.array([0.0]),
    )  # fmt: skip
    ordered = sorted(values, key=lambda value: (not math.isnan(value), value))
    rank = q * (len(values) - 1)
    low, high = ordered[math.floor(rank)], ordered[min(math.floor(rank) + 1, len(values) - 1)]
    wanted = low * (1 - rank % 1) + high * (rank % 1)
    (got,) = pa.array(found).to_pylist()
    assert got == wanted or (math.isnan(got) and math.isnan(wanted))
