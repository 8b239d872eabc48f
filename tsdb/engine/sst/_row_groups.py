"""From merged stripes to row groups: the producing half of a write.

Stripes come as they are merged; row groups have a fixed number of rows and cross the ends of stripes. Tags are never
repeated per row as values: a row group's tags are codes into the distinct values of its own series.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb import _kernels
from tsdb.engine.rows.merge import Merge, Stripe
from tsdb.engine.rows.series import Positions, SeriesBlock
from tsdb.engine.sst._columns import OP_TYPE, SEQUENCE, TSID, FileColumns, is_dictionary_tag
from tsdb.engine.sst._types import storage_type, to_storage
from tsdb.model import Column, RegionSchema, SeriesTable

ROW_GROUP_ROWS = 102_400
_ROW_GROUP_ROWS_MIN = 1024
# Times, series ids and sequences; and what a value takes whose type does not say.
_KEY_BYTES = 24
_VARIABLE_BYTES = 32

T = TypeVar("T")


def estimate_row_bytes(schema: RegionSchema) -> int:
    """Guess what a row takes in memory."""
    return _KEY_BYTES + sum(_width(column) for column in schema.fields)


def _width(column: Column) -> int:
    try:
        return max(1, int(column.type.bit_width) // 8)
    except ValueError:
        return _VARIABLE_BYTES


def plan_row_group_rows(schema: RegionSchema, bytes_max: int) -> int:
    """Return how many rows the row groups of a table have, if one may take `bytes_max` in memory."""
    fitting = bytes_max // estimate_row_bytes(schema)
    return max(_ROW_GROUP_ROWS_MIN, min(fitting, ROW_GROUP_ROWS))


class Tally:
    """What is learned of the rows while they pass."""

    def __init__(self) -> None:
        self.rows = 0
        self.sequence_min = np.iinfo(np.uint64).max
        self.sequence_max = 0
        self.has_tombstones = False
        self.is_unique = True
        self._series: list[Positions] = []
        self._starts: list[Positions] = []
        self._time_min: list[npt.NDArray[np.int64]] = []
        self._time_max: list[npt.NDArray[np.int64]] = []

    def add(self, stripe: Stripe) -> None:
        # Stripes may share a series, the one that the first ends with, but never a time of it: no duplicate crosses
        # their ends.
        starts, time_min, time_max = (
            pa.array(part).to_numpy()
            for part in _kernels.run_boundaries(pa.array(stripe.ranks), pa.array(stripe.times))
        )
        series = stripe.ranks[starts].astype(np.int64)
        goes_on = int(bool(self._series) and self._series[-1][-1] == series[0])
        if goes_on:
            self._time_max[-1] = np.append(self._time_max[-1][:-1], time_max[0])
        if len(series) > goes_on:
            self._series.append(series[goes_on:])
            self._starts.append(starts[goes_on:].astype(np.int64) + self.rows)
            self._time_min.append(time_min[goes_on:])
            self._time_max.append(time_max[goes_on:])
        self.rows += stripe.rows
        self.sequence_min = min(self.sequence_min, int(stripe.sequences.min()))
        self.sequence_max = max(self.sequence_max, int(stripe.sequences.max()))
        self.has_tombstones |= stripe.ops is not None and bool(stripe.ops.any())
        self.is_unique &= stripe.is_unique or not _has_repeated_key(stripe)

    @property
    def series(self) -> int:
        return sum(len(part) for part in self._series)

    def block(self, series: SeriesTable) -> SeriesBlock:
        """The series block of everything that passed; `series` is what the ranks of stripes count in."""
        present = np.concatenate(self._series)
        return SeriesBlock(
            series if len(present) == len(series) else series.take(present),
            np.append(np.concatenate(self._starts), self.rows),
            np.concatenate(self._time_min),
            np.concatenate(self._time_max),
        )


class RowGroups:
    """Cuts the rows of a merge into row groups."""

    def __init__(self, merge: Merge, schema: RegionSchema, columns: FileColumns, *, rows_max: int) -> None:
        self._merge = merge
        self._schema = schema
        self._columns = columns
        self._rows_max = rows_max
        self._tags = [to_storage(column) for column in merge.series.read_tags().columns]
        self._tsid = pa.array(merge.series.tsid)
        self.tally = Tally()

    def portions(self) -> Iterator[list[Portion]]:
        """Yield the row groups that each stripe completes; an iterator that may run on another thread."""
        rest: list[Portion] = []
        for stripe in self._merge.stripes():
            self.tally.add(stripe)
            ready, rest = _cut([*rest, self._portion(stripe)], self._rows_max)
            del stripe  # with all it was merged from
            if ready:
                yield ready
        if rest:
            yield [_join(rest)]

    def table(self, portion: Portion) -> pa.Table:
        """Return a row group as Parquet is to have it, tags included."""
        first, last = int(portion.ranks[0]), int(portion.ranks[-1])
        local = pa.array(portion.ranks - np.uint32(first))
        tags = {
            tag.name: _repeat(values.slice(first, last - first + 1), local, is_dictionary=is_dictionary_tag(tag.type))
            for tag, values in zip(self._schema.tags, self._tags, strict=True)
        }
        whole = {name: portion.columns[name].cast(pa.int64()) for name in self._columns.whole}
        columns = {**portion.columns, **whole, **tags}
        return pa.table([columns[name] for name in self._columns.arrow.names], schema=self._columns.arrow)

    def _portion(self, stripe: Stripe) -> Portion:
        names = self._columns.names
        columns = {column.name: _stored(stripe, column) for column in self._schema.fields}
        columns[self._schema.time.name] = _stored_times(stripe.times, self._schema.time.type)
        # Unlike numpy, Arrow lets other threads work meanwhile.
        columns[names[TSID]] = pc.take(self._tsid, pa.array(stripe.ranks), boundscheck=False)
        if SEQUENCE in names:
            columns[names[SEQUENCE]] = pa.array(stripe.sequences)
        if OP_TYPE in names:
            ops = np.zeros(stripe.rows, dtype=np.uint8) if stripe.ops is None else stripe.ops
            columns[names[OP_TYPE]] = pa.array(ops)
        return Portion(stripe.ranks, {name: pa.chunked_array([values]) for name, values in columns.items()})


class Portion:
    """Some rows on their way into a row group: everything but the tags."""

    def __init__(self, ranks: npt.NDArray[np.uint32], columns: dict[str, pa.ChunkedArray]) -> None:
        self.ranks = ranks
        self.columns = columns

    def slice(self, start: int, stop: int) -> Portion:
        columns = {name: values.slice(start, stop - start) for name, values in self.columns.items()}
        return Portion(self.ranks[start:stop], columns)


def _cut(portions: list[Portion], rows_max: int) -> tuple[list[Portion], list[Portion]]:
    """Return the full row groups and what is left over."""
    rows = sum(len(portion.ranks) for portion in portions)
    if rows < rows_max:
        return [], portions
    whole = _join(portions)
    starts = range(0, rows - rows_max + 1, rows_max)
    ready = [whole.slice(start, start + rows_max) for start in starts]
    left = starts[-1] + rows_max
    return ready, [whole.slice(left, rows)] if left < rows else []


def _join(portions: list[Portion]) -> Portion:
    """Lay portions end to end; the columns are not copied."""
    if len(portions) == 1:
        return portions[0]
    columns = {
        name: pa.chunked_array([chunk for portion in portions for chunk in portion.columns[name].chunks])
        for name in portions[0].columns
    }
    return Portion(np.concatenate([portion.ranks for portion in portions]), columns)


def _repeat(values: pa.Array, positions: pa.Array, *, is_dictionary: bool) -> pa.Array:
    """Return the values of series at every row: as codes where Parquet takes them, else as they are."""
    if not is_dictionary:
        return values.take(positions)
    distinct = values.dictionary_encode()
    return pa.DictionaryArray.from_arrays(distinct.indices.take(positions), distinct.dictionary)


def _stored(stripe: Stripe, column: Column) -> pa.Array:
    return to_storage(stripe.read(column))


def _stored_times(times: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    return pa.array(times).view(storage_type(kind))


def _has_repeated_key(stripe: Stripe) -> bool:
    is_same_series = stripe.ranks[1:] == stripe.ranks[:-1]
    return bool(np.any(is_same_series & (stripe.times[1:] == stripe.times[:-1])))
