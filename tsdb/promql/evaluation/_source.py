"""The interface through which samples are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb._kernels import Samples
from tsdb.model import Matcher
from tsdb.promql.evaluation._labels import LabelTable

Offsets = npt.NDArray[np.int64]
Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

STALE_BITS = 0x7FF0000000000002
"""The bits of the value that says: this series has ended."""


class SeriesSet:
    """Series and their samples: those of series i are `offsets[i]` to `offsets[i + 1]`, their times ascend.

    Samples may be left where they lie (`samples`); then columns are made on demand.
    """

    def __init__(
        self, labels: LabelTable, offsets: Offsets, times: Times, values: Values, histograms: pa.Array | None = None
    ) -> None:
        self.labels = labels
        self.histograms = histograms
        """For each sample its native histogram in the stored form, null where it is a float; None without any."""
        self.samples: Samples | None = None
        """All of them, stale ones included; there are no histograms then."""
        self._columns: tuple[Offsets, Times, Values] | None = (offsets, times, values)

    @classmethod
    def empty(cls) -> SeriesSet:
        return cls(LabelTable.empty(0), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))

    @classmethod
    def of_samples(cls, labels: LabelTable, samples: Samples) -> SeriesSet:
        found = cls.__new__(cls)
        found.labels, found.samples, found.histograms, found._columns = labels, samples, None, None
        return found

    @property
    def count(self) -> int:
        """How many samples there are."""
        return len(self.times) if self.samples is None else len(self.samples)

    @property
    def offsets(self) -> Offsets:
        return self._read()[0]

    @property
    def times(self) -> Times:
        """In milliseconds."""
        return self._read()[1]

    @property
    def values(self) -> Values:
        """NaN where the sample is a histogram."""
        return self._read()[2]

    def _read(self) -> tuple[Offsets, Times, Values]:
        if self._columns is None:
            assert self.samples is not None
            offsets, times, values = (pa.array(each).to_numpy() for each in self.samples.columns())
            self._columns = offsets, times, values
        return self._columns

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
