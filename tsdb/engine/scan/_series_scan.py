"""Whole series for PromQL: every column one array, series after series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.errors import ScanTooLarge
from tsdb.engine.scan._blocks import Block
from tsdb.engine.scan._filter import make_filter
from tsdb.engine.scan._parts import make_parts
from tsdb.engine.scan._plan import ScanPlan
from tsdb.engine.scan._projection import Projection
from tsdb.engine.scan._segments import cluster_segments
from tsdb.engine.scan._snapshot import Snapshot
from tsdb.engine.scan._statistics import ScanStatistics
from tsdb.engine.series import Positions, union_ordered
from tsdb.model import Column, SeriesTable, TimeRange

_COPIES = 2


@dataclass(frozen=True, slots=True, eq=False)
class SeriesScan:
    """Series that have rows, in order, and their rows in the order of time."""

    series: SeriesTable
    offsets: Positions
    """The rows of series i are `offsets[i]` to `offsets[i + 1]`."""
    times: npt.NDArray[np.int64]
    fields: dict[str, pa.Array]


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """The rows of a block, read."""

    series: SeriesTable
    counts: Positions
    times: npt.NDArray[np.int64]
    fields: list[pa.Array]

    @property
    def nbytes(self) -> int:
        return int(self.counts.nbytes + self.times.nbytes + sum(field.nbytes for field in self.fields))


def scan_series(
    snapshot: Snapshot,
    series_filter: pc.Expression | None,
    time_range: TimeRange,
    fields: Sequence[str],
    *,
    statistics: ScanStatistics | None = None,
) -> SeriesScan:
    """Return the visible rows in a range of time of all series that match, or ScanTooLarge."""
    counters = statistics or ScanStatistics()
    wanted = make_filter(snapshot.schema, series_filter, within=time_range)
    columns = Projection(snapshot.schema, fields, pa.string()).columns
    # Rows of one series must come in the order of time, with append mode too: so clusters there as well.
    segments = cluster_segments(snapshot.options, make_parts(snapshot, wanted, counters))
    plan = ScanPlan(snapshot, wanted, segments, counters)
    snapshot.check()
    pieces = list(_read_all(plan.blocks(columns), columns, bytes_max=snapshot.memory_bytes_max))
    return _assemble(snapshot, pieces, columns)


def _read_all(blocks: Iterator[Block], columns: Sequence[Column], *, bytes_max: int) -> Iterator[_Piece]:
    """Read blocks as long as they fit into memory: the rows are all held, and once more when they are laid out."""
    rows = used = 0
    for block in blocks:
        piece = _read(block, columns)
        rows += block.rows
        used += piece.nbytes
        if used * _COPIES > bytes_max:
            raise ScanTooLarge(rows=rows, bytes_max=bytes_max)
        yield piece


def _read(block: Block, columns: Sequence[Column]) -> _Piece:
    runs = block.runs
    series = block.series if len(runs.ranks) == len(block.series) else block.series.take(runs.ranks)
    return _Piece(series, runs.lengths, block.times(), [block.read(column) for column in columns])


def _assemble(snapshot: Snapshot, pieces: list[_Piece], columns: Sequence[Column]) -> SeriesScan:
    """Lay pieces, which are in the order of time, out series by series."""
    names = [column.name for column in columns]
    if not pieces:
        series = SeriesTable.of_tags(snapshot.schema, [pa.nulls(0, tag.type) for tag in snapshot.schema.tags], 0)
        empty = {column.name: pa.nulls(0, column.type) for column in columns}
        return SeriesScan(series, np.zeros(1, np.int64), np.empty(0, np.int64), empty)
    series, places = union_ordered([piece.series for piece in pieces])
    offsets = np.zeros(len(series) + 1, dtype=np.int64)
    for piece, place in zip(pieces, places, strict=True):
        offsets[place + 1] += piece.counts
    np.cumsum(offsets, out=offsets)
    if len(pieces) == 1:
        return SeriesScan(series, offsets, pieces[0].times, dict(zip(names, pieces[0].fields, strict=True)))
    order = np.empty(int(offsets[-1]), dtype=np.int64)
    for start, stop, target in _targets(pieces, places, offsets):
        order[target] = np.arange(start, stop)
    taken = pa.array(order)
    values = [pa.concat_arrays(arrays).take(taken) for arrays in zip(*(piece.fields for piece in pieces), strict=True)]
    times = np.concatenate([piece.times for piece in pieces])[order]
    return SeriesScan(series, offsets, times, dict(zip(names, values, strict=True)))


def _targets(pieces: list[_Piece], places: list[Positions], offsets: Positions) -> Iterator[tuple[int, int, Positions]]:
    """Yield for each piece its rows, counted over all pieces, and where they go."""
    filled = offsets[:-1].copy()
    start = 0
    for piece, place in zip(pieces, places, strict=True):
        stop = start + len(piece.times)
        before = np.cumsum(piece.counts) - piece.counts
        target = np.repeat(filled[place] - before, piece.counts) + np.arange(stop - start)
        filled[place] += piece.counts
        yield start, stop, target
        start = stop
