"""Where the samples come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.promql._ast import Matcher
from tsdb.promql.evaluation._labels import LabelTable

STALE_BITS = 0x7FF0000000000002
"""The bits of the value that says: this series has ended."""


@dataclass(frozen=True, slots=True, eq=False)
class SeriesSet:
    """Series and their samples: those of series i are `offsets[i]` to `offsets[i + 1]`, their times ascend."""

    labels: LabelTable
    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    """In milliseconds."""
    values: npt.NDArray[np.float64]
    """NaN where the sample is a histogram."""
    histograms: pa.Array | None = None
    """For each sample its native histogram in the stored form, null where it is a float; None without any histogram."""

    @classmethod
    def empty(cls) -> SeriesSet:
        return cls(LabelTable.empty(0), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))

    def without_stale(self) -> SeriesSet:
        """Return the samples that are none of the marks of an end."""
        is_stale = self.values.view(np.uint64) == STALE_BITS
        if not is_stale.any():
            return self
        keep = ~is_stale
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])
        histograms = None if self.histograms is None else self.histograms.filter(pa.array(keep))
        return SeriesSet(self.labels, before[self.offsets], self.times[keep], self.values[keep], histograms)


class SeriesSource(Protocol):
    """Finds series."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the series that satisfy all conditions, with their samples from `start_ms` to `end_ms`, both included.

        Series without samples in that time may be left out.
        """
