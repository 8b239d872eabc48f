"""Decoded times and whole doubles, held in 64 bits and narrow: a rate of PromQL and a series aggregate over both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import Measurement, measure
from tsdb import _kernels

SERIES, ROWS_PER_SERIES = 400, 8_640
PIECE_ROWS = 102_400
ROWS = SERIES * ROWS_PER_SERIES
STEP_MS, RANGE_MS = 60_000, 3_600_000
STEPS = np.arange(RANGE_MS, ROWS_PER_SERIES * 10_000, STEP_MS)

Pieces = list[tuple[Any, Any]]


def make_columns() -> tuple[list[pa.Array], list[pa.Array]]:
    """Return the times and values of row groups: a percentage of each series every ten seconds for a day."""
    random = np.random.default_rng(1)
    times = np.tile(np.arange(ROWS_PER_SERIES) * 10_000, SERIES)
    values = np.abs(np.cumsum(np.rint(random.normal(0, 1, ROWS))) % 200 - 100)
    cuts = range(0, ROWS, PIECE_ROWS)
    return (
        [pa.array(times[at : at + PIECE_ROWS]) for at in cuts],
        [pa.array(values[at : at + PIECE_ROWS]) for at in cuts],
    )


def narrow(times: list[pa.Array], values: list[pa.Array]) -> Pieces:
    return [
        (_kernels.SteppedTimes.pack(own), pa.array(whole.to_numpy().astype(np.int8)))
        for own, whole in zip(times, values, strict=True)
    ]


def find_samples(pieces: Pieces) -> _kernels.Samples:
    offsets = np.arange(SERIES + 1) * ROWS_PER_SERIES
    last = np.full(SERIES, (ROWS_PER_SERIES - 1) * 10_000)
    numbers = pa.array(np.arange(SERIES, dtype=np.uint32))
    stretches = _kernels.SeriesStretches(numbers, pa.array(offsets), pa.array(np.zeros_like(last)), pa.array(last))
    parts = [(stretches, _kernels.SamplePiece(at * PIECE_ROWS, *piece)) for at, piece in enumerate(pieces)]
    found = _kernels.Samples.find(parts, numbers, 0, int(last[0]), ROWS)
    assert found is not None
    return found


def rate(samples: _kernels.Samples) -> None:
    steps, nothing = pa.array(STEPS), pa.array(np.zeros(len(STEPS)))
    samples.range("rate", steps, steps, RANGE_MS, nothing, nothing)


def average(pieces: Pieces) -> None:
    """Average each series by the hour."""
    runs = _kernels.SeriesRuns(width=RANGE_MS)
    starts = np.arange(SERIES) * ROWS_PER_SERIES
    offsets = np.minimum(np.arange(len(pieces) + 1) * PIECE_ROWS, ROWS)
    times = [own for own, _ in pieces]
    runs.add_chunks(starts, starts + ROWS_PER_SERIES, np.arange(SERIES), offsets, list(range(len(pieces))), times)
    runs.cells()
    runs.aggregate([[values for _, values in pieces]], [["count", "total"]], doubles=[True])


def main() -> Iterator[Measurement]:
    times, values = make_columns()
    forms: dict[str, Pieces] = {"64 bits": list(zip(times, values, strict=True)), "narrow": narrow(times, values)}
    for name, pieces in forms.items():
        nbytes = sum(own.nbytes + whole.nbytes for own, whole in pieces)
        print(f"  {nbytes / ROWS:.1f} bytes a sample: {name}")
        samples = find_samples(pieces)
        yield measure(f"rate over an hour by the minute, {name}", lambda samples=samples: rate(samples), amount=ROWS)  # type: ignore[misc]
        yield measure(f"average by the hour, {name}", lambda pieces=pieces: average(pieces), amount=ROWS)  # type: ignore[misc]
    yield measure("pack the times", lambda: [_kernels.SteppedTimes.pack(own) for own in times], amount=ROWS)
