"""Blocks: rows in hand, sorted by series and time, whose columns are read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.rows.merge import Stripe
from tsdb.engine.rows.series import Positions
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import read_field
from tsdb.engine.scan._parts import Part
from tsdb.model import Column, ColumnId, OpType, SeriesTable

# A choice of fewer rows than one in this many is selective.
_SELECTIVE = 4


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Which series rows belong to: `lengths[i]` rows of series `ranks[i]`, run after run."""

    ranks: Positions
    lengths: Positions

    @classmethod
    def of_rows(cls, ranks: npt.NDArray[np.integer]) -> Runs:
        """Find the runs in the ranks of rows, which ascend."""
        starts = np.flatnonzero(np.append(True, ranks[1:] != ranks[:-1])) if len(ranks) else np.empty(0, np.int64)
        return cls(ranks[starts].astype(np.int64), np.diff(np.append(starts, len(ranks))))

    def per_row(self) -> Positions:
        return np.repeat(self.ranks, self.lengths)

    def select(self, chosen: Positions) -> Runs:
        """Return the runs of some of the rows, which ascend."""
        ends = np.searchsorted(chosen, np.cumsum(self.lengths))
        lengths = np.diff(ends, prepend=0)
        filled = lengths > 0
        return Runs(self.ranks[filled], lengths[filled])

    def slice(self, start: int, stop: int) -> Runs:
        """Return the runs of the rows from `start` to before `stop`."""
        ends = np.cumsum(self.lengths)
        low, high = int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(ends, stop)) + 1
        lengths = np.minimum(ends[low:high], stop) - np.maximum(ends[low:high] - self.lengths[low:high], start)
        return Runs(self.ranks[low:high], lengths)


class ColumnsRead:
    """The columns of a block that have been read; those that were read before rows were chosen are taken from there."""

    def __init__(self, read: Callable[[Column], pa.Array]) -> None:
        self._read = read
        self._found: dict[ColumnId, pa.Array] = {}

    def get(self, column: Column) -> pa.Array:
        if column.id not in self._found:
            self._found[column.id] = self._read(column)
        return self._found[column.id]

    def choose(self, chosen: Positions, read: Callable[[Column], pa.Array]) -> ColumnsRead:
        """Return the columns of some of the rows; `read` is for columns that have not been read yet."""

        def read_chosen(column: Column) -> pa.Array:
            before = self._found.get(column.id)
            return read(column) if before is None else before.take(pa.array(chosen))

        return ColumnsRead(read_chosen)


class Block(Protocol):
    """Rows of some series."""

    @property
    def rows(self) -> int: ...

    @property
    def series(self) -> SeriesTable: ...

    @property
    def runs(self) -> Runs:
        """The series of the rows; ranks are positions in `series`."""
        ...

    def times(self) -> npt.NDArray[np.int64]: ...

    def read(self, column: Column) -> pa.Array: ...

    def read_all(self, columns: Sequence[Column]) -> list[pa.Array]:
        """Return fields, which may take less than to read them one by one."""
        ...

    def select(self, chosen: Positions) -> Block:
        """Return some of the rows, which ascend."""
        ...


class Stretches:
    """The rows of a part, counted over all of its stretches."""

    def __init__(self, part: Part) -> None:
        self._starts = part.starts
        self._lengths = part.stops - part.starts
        self._ends = np.cumsum(self._lengths)
        self.rows = int(self._ends[-1]) if len(self._ends) else 0
        self._is_one = self.rows > 0 and int(part.stops[-1] - part.starts[0]) == self.rows

    def slices(self, start: int, stop: int) -> Slices:
        """Return where the rows from `start` to before `stop` are."""
        if self._is_one:
            # Nothing is left out in between: the usual case, in which no array of all series should be touched.
            begin = int(self._starts[0])
            return Slices.one(begin + start, begin + stop)
        low, high, first, last = self._cut(start, stop)
        begins = self._starts[low:high] + (first - (self._ends[low:high] - self._lengths[low:high]))
        return Slices(begins, begins + (last - first)).coalesce()

    def runs(self, start: int, stop: int) -> Runs:
        """Return the series of the rows from `start` to before `stop`."""
        low, _, first, last = self._cut(start, stop)
        lengths = last - first
        filled = np.flatnonzero(lengths)
        return Runs(filled + low, lengths[filled])

    def _cut(self, start: int, stop: int) -> tuple[int, int, Positions, Positions]:
        low = int(np.searchsorted(self._ends, start, side="right"))
        high = int(np.searchsorted(self._ends, stop)) + 1
        ends = self._ends[low:high]
        return low, high, np.maximum(ends - self._lengths[low:high], start), np.minimum(ends, stop)


class DirectBlock:
    """Rows of one part as they are in its source: those from `start` to before `stop`, or some of them."""

    def __init__(
        self, part: Part, stretches: Stretches, start: int, stop: int, chosen: Positions | None = None
    ) -> None:
        self._part = part
        self.series = part.series
        self._stretches = stretches
        self._bounds = start, stop
        self._chosen = chosen
        self._slices = stretches.slices(start, stop)
        self._columns = ColumnsRead(self._read)
        self.rows = stop - start if chosen is None else len(chosen)

    @cached_property
    def runs(self) -> Runs:
        runs = self._stretches.runs(*self._bounds)
        return runs if self._chosen is None else runs.select(self._chosen)

    def times(self) -> npt.NDArray[np.int64]:
        times = self._part.source.times(self._slices)
        return times if self._chosen is None else times[self._chosen]

    def read(self, column: Column) -> pa.Array:
        return self._columns.get(column)

    def read_all(self, columns: Sequence[Column]) -> list[pa.Array]:
        return [self.read(column) for column in columns]

    def _read(self, column: Column) -> pa.Array:
        chosen = self._chosen
        if chosen is None:
            return read_field(self._part.source, column, self._slices)
        if len(self._slices.starts) > 1 and len(chosen) * _SELECTIVE < self._slices.rows:
            # Reading along many slices is a copy, so only what is left should be copied.
            return read_field(self._part.source, column, self._chosen_slices)
        return read_field(self._part.source, column, self._slices).take(pa.array(chosen))

    @cached_property
    def _chosen_slices(self) -> Slices:
        rows = self._slices.positions()[self._chosen]
        return Slices(rows, rows + 1)

    def select(self, chosen: Positions) -> DirectBlock:
        within = chosen if self._chosen is None else self._chosen[chosen]
        block = DirectBlock(self._part, self._stretches, *self._bounds, within)
        block._columns = self._columns.choose(chosen, block._read)
        return block

    def puts(self) -> DirectBlock:
        """Return the rows that are not tombstones."""
        ops = self._part.source.ops(self._slices)
        return self if ops is None or not ops.any() else self.select(np.flatnonzero(ops == OpType.PUT))


class MergedBlock:
    """Rows of a stripe of a merge, all or some of them."""

    def __init__(self, series: SeriesTable, stripe: Stripe, *, first: int, chosen: Positions | None = None) -> None:
        self.series = series
        self.first = first
        """Where `series` start among all series that are merged."""
        self._stripe = stripe
        self._chosen = chosen
        self._columns = ColumnsRead(self._read)
        self.runs = Runs.of_rows(stripe.ranks if chosen is None else stripe.ranks[chosen])
        self.rows = int(self.runs.lengths.sum())

    def times(self) -> npt.NDArray[np.int64]:
        return self._stripe.times if self._chosen is None else self._stripe.times[self._chosen]

    def read(self, column: Column) -> pa.Array:
        return self._columns.get(column)

    def read_all(self, columns: Sequence[Column]) -> list[pa.Array]:
        return [self.read(column) for column in columns]

    def _read(self, column: Column) -> pa.Array:
        values = self._stripe.read(column)
        return values if self._chosen is None else values.take(pa.array(self._chosen))

    def select(self, chosen: Positions) -> MergedBlock:
        within = chosen if self._chosen is None else self._chosen[chosen]
        block = MergedBlock(self.series, self._stripe, first=self.first, chosen=within)
        block._columns = self._columns.choose(chosen, block._read)
        return block

    def puts(self) -> MergedBlock:
        """Return the rows that are not tombstones."""
        ops = self._stripe.ops
        return self if ops is None or not ops.any() else self.select(np.flatnonzero(ops == OpType.PUT))
