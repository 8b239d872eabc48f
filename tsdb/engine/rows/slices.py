"""Row ranges of one source, and reading columns by them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]

# Up to this many ranges are read as slices that share memory; more are gathered row by row, which costs a copy but
# no Python per range.
_SLICES_MAX = 32


@dataclass(frozen=True, eq=False)
class Slices:
    """Rows `starts[i]` to `stops[i]`, in ascending order; empty ranges are allowed.

    What is computed is kept: many columns are read by the same ranges.
    """

    starts: Positions
    stops: Positions

    @classmethod
    def one(cls, start: int, stop: int) -> Slices:
        return cls(np.array([start], dtype=np.int64), np.array([stop], dtype=np.int64))

    @property
    def lengths(self) -> Positions:
        return self.stops - self.starts

    @property
    def rows(self) -> int:
        return int(self.lengths.sum())

    def coalesce(self) -> Slices:
        """Drop empty ranges and join those that touch."""
        return self._joined

    @cached_property
    def _joined(self) -> Slices:
        if len(self.starts) == 1 and self.starts[0] < self.stops[0]:
            return self
        filled = self.stops > self.starts
        starts, stops = self.starts[filled], self.stops[filled]
        if len(starts) < 2:
            return Slices(starts, stops)
        breaks = np.flatnonzero(starts[1:] != stops[:-1])
        return Slices(starts[np.append(0, breaks + 1)], stops[np.append(breaks, len(stops) - 1)])

    def positions(self) -> Positions:
        """Return the position of every row."""
        return self._positions

    @cached_property
    def _positions(self) -> Positions:
        lengths = self.lengths
        ends = np.cumsum(lengths)
        if not len(ends):
            return np.empty(0, dtype=np.int64)
        shift = np.repeat(self.starts - (ends - lengths), lengths)
        return shift + np.arange(ends[-1], dtype=np.int64)

    def take(self, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return the values of these rows; a single range is a view of `values`."""
        joined = self.coalesce()
        if len(joined.starts) == 1:
            return values[joined.starts[0] : joined.stops[0]]
        if len(joined.starts) <= _SLICES_MAX:
            pieces = [values[start:stop] for start, stop in zip(joined.starts, joined.stops, strict=True)]
            return np.concatenate(pieces) if pieces else values[:0]
        return values[joined.positions()]

    def take_arrow(self, values: pa.Array) -> pa.Array:
        """The same for a column of Arrow."""
        joined = self.coalesce()
        if len(joined.starts) == 1:
            return values.slice(int(joined.starts[0]), int(joined.stops[0] - joined.starts[0]))
        if len(joined.starts) <= _SLICES_MAX:
            lengths = joined.lengths
            pieces = [
                values.slice(int(start), int(length)) for start, length in zip(joined.starts, lengths, strict=True)
            ]
            return pa.concat_arrays(pieces) if pieces else values.slice(0, 0)
        return values.take(pa.array(joined.positions()))
