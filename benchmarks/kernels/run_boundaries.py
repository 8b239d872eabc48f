"""Where each series starts in a million sorted rows, and the time it covers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks import Measurement, measure
from tsdb._kernels import run_boundaries

ROWS = 1_000_000


def main() -> Iterator[Measurement]:
    ts = pa.array(np.arange(ROWS))
    for series_count in (1000, 100_000, ROWS):
        series = pa.array(np.sort(np.arange(ROWS) % series_count).astype(np.uint64))
        yield measure(f"{series_count} series", partial(run_boundaries, series, ts), amount=ROWS)
