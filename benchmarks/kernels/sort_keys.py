"""The order of a million rows by (series, ts, sequence) in the shapes in which the engine meets them.

Series are 64-bit hashes unless a line says otherwise; times lie in one hour of microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import Measurement, measure
from tsdb._kernels import sort_keys

ROWS = 1_000_000
RUNS = 10
HOUR_US = 3_600_000_000

Column = npt.NDArray[Any]


def main() -> Iterator[Measurement]:
    random = np.random.default_rng(1)
    for series_count in (1000, 100_000):
        ids = random.integers(0, 2**64, series_count, dtype=np.uint64)
        ranks = random.integers(0, series_count, ROWS)
        yield from sort_shapes(f"{series_count} series", ids[ranks], random.integers(0, HOUR_US, ROWS))
    yield sort("numpy.lexsort instead", ids[ranks], random.integers(0, HOUR_US, ROWS), with_numpy=True)


def sort_shapes(name: str, series: Column, ts: Column) -> Iterator[Measurement]:
    ranks = np.unique(series, return_inverse=True)[1].astype(np.uint32)
    sorted_ts = np.sort(ts)
    in_order = np.lexsort((ts, series))
    mixed, apart = order_of_runs(series, ts), order_of_runs(series, sorted_ts)
    yield sort(f"{name}, in order", series[in_order], ts[in_order])
    yield sort(f"{name}, {RUNS} runs over the same time", series[mixed], ts[mixed])
    yield sort(f"{name}, {RUNS} runs one after the other in time", series[apart], sorted_ts[apart])
    yield sort(f"{name}, in order of time", series, sorted_ts)
    yield sort(f"{name}, in no order", series, ts)
    yield sort(f"{name}, in no order, series as 32-bit ranks", ranks, ts)


def order_of_runs(series: Column, ts: Column) -> Column:
    """Rows in runs, each of them sorted, as in the parts of a memtable."""
    parts = np.array_split(np.arange(ROWS), RUNS)
    return np.concatenate([part[np.lexsort((ts[part], series[part]))] for part in parts])


def sort(what: str, series: Column, ts: Column, *, with_numpy: bool = False) -> Measurement:
    sequence = np.arange(ROWS, dtype=np.uint64)
    if with_numpy:
        return measure(what, lambda: np.lexsort((sequence, ts, series)), amount=ROWS)
    columns = [pa.array(column) for column in (series, ts, sequence)]
    return measure(what, lambda: sort_keys(*columns), amount=ROWS)
