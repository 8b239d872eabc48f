"""Whole series for PromQL: every column one array, series after series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.errors import ScanTooLarge
from tsdb.engine.rows.series import Positions, conform_series, union_ordered
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import read_field
from tsdb.engine.scan.filters.filter import RowFilter, ScanFilter, SeriesCheck, SeriesFrame, make_filter, match_series
from tsdb.engine.scan.plan.disjoint import Disjoint, find_disjoint
from tsdb.engine.scan.plan.indexed import find_indexed
from tsdb.engine.scan.plan.parts import make_parts
from tsdb.engine.scan.plan.plan import plan_in_order
from tsdb.engine.scan.queries.layout import Layout, Placed
from tsdb.engine.scan.queries.rows import all_blocks
from tsdb.engine.scan.readers.block import Block
from tsdb.engine.scan.readers.projection import Projection
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.engine.scan.snapshot.statistics import ScanStatistics
from tsdb.model import Column, SeriesTable, TimeRange, take_tags

_COPIES = 2
_VARIABLE_BYTES = 64
"""What a value of no fixed size is taken for before it is read."""


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
    filter: RowFilter,
    time_range: TimeRange,
    fields: Sequence[str],
    *,
    statistics: ScanStatistics | None = None,
    also: tuple[SeriesCheck, ...] = (),
) -> SeriesScan:
    """Return the visible rows in a range of time of all series that match, or ScanTooLarge."""
    counters = statistics or ScanStatistics()
    wanted = make_filter(snapshot.schema, filter, within=time_range, also=also)
    columns = Projection(snapshot, fields).columns
    parts = make_parts(snapshot, wanted, counters)
    snapshot.check()
    disjoint = find_disjoint(parts)
    if disjoint is not None:
        return _read_disjoint(snapshot, disjoint, columns, counters)
    plan = plan_in_order(snapshot, wanted, parts, counters)
    pieces = list(_read_all(all_blocks(plan, columns), columns, bytes_max=snapshot.memory_bytes_max))
    return _assemble(snapshot, pieces, columns)


def _read_disjoint(
    snapshot: Snapshot, disjoint: Disjoint, columns: Sequence[Column], counters: ScanStatistics
) -> SeriesScan:
    """Read parts that need no merge, each as a whole."""
    rows = disjoint.rows
    _check_size(rows, rows * (8 + sum(_bytes_of(column) for column in columns)), snapshot.memory_bytes_max)
    placed, times, fields = [], [], []
    for part, place in zip(disjoint.parts, disjoint.places, strict=True):
        counts = part.stops - part.starts
        filled = np.flatnonzero(counts)
        if not len(filled):
            continue
        snapshot.check()
        slices = Slices(part.starts, part.stops).coalesce()
        placed.append(Placed(place[filled], counts[filled]))
        times.append(part.source.times(slices))
        fields.append([read_field(part.source, column, slices) for column in columns])
    counters.add(segments_direct=len(placed), rows_read=rows, rows_returned=rows)
    if not placed:
        return _empty(snapshot, columns)
    layout = Layout(placed, len(disjoint.series))
    values = {column.name: layout.column([piece[at] for piece in fields]) for at, column in enumerate(columns)}
    return _with_rows(SeriesScan(disjoint.series, layout.offsets, layout.numbers(times), values))


def list_series(snapshot: Snapshot, wanted: ScanFilter) -> list[pa.RecordBatch]:
    """Return the tags of the series of each source that match and may have rows in the range of time."""
    span = wanted.time_range
    found = []
    for source in snapshot.sources:
        if span.is_empty or not source.facts.time_range.overlaps(span):
            continue
        reader = source.reader()
        indexed = find_indexed(reader, snapshot.schema, wanted)
        block = reader.block if indexed is None else indexed.found
        tags = conform_series(block.table, reader.schema, snapshot.schema).read_tags()
        mask = match_series(wanted, SeriesFrame(tags, wanted.tags))
        mask &= (block.time_max >= span.start) & (block.time_min <= span.last)
        if mask.any():
            found.append(take_tags(tags, np.flatnonzero(mask)))
    return found


def _with_rows(scan: SeriesScan) -> SeriesScan:
    """Leave out series that have no rows."""
    filled = np.diff(scan.offsets) > 0
    if filled.all():
        return scan
    offsets = np.append(0, scan.offsets[1:][filled])
    return replace(scan, series=scan.series.take(np.flatnonzero(filled)), offsets=offsets)


def _bytes_of(column: Column) -> int:
    try:
        return int(column.type.bit_width) // 8
    except ValueError:
        return _VARIABLE_BYTES


def _check_size(rows: int, nbytes: int, bytes_max: int) -> None:
    """Rows are all held, and once more when they are laid out."""
    if nbytes * _COPIES > bytes_max:
        raise ScanTooLarge(rows=rows, bytes_max=bytes_max)


def _read_all(blocks: Iterator[Block], columns: Sequence[Column], *, bytes_max: int) -> Iterator[_Piece]:
    """Read blocks as long as they fit into memory."""
    rows = used = 0
    for block in blocks:
        piece = _read(block, columns)
        rows += block.rows
        used += piece.nbytes
        _check_size(rows, used, bytes_max)
        yield piece


def _read(block: Block, columns: Sequence[Column]) -> _Piece:
    runs = block.runs
    series = block.series if len(runs.ranks) == len(block.series) else block.series.take(runs.ranks)
    return _Piece(series, runs.lengths, block.times(), [block.read(column) for column in columns])


def _assemble(snapshot: Snapshot, pieces: list[_Piece], columns: Sequence[Column]) -> SeriesScan:
    """Lay pieces out series by series, each in the order of time."""
    if not pieces:
        return _empty(snapshot, columns)
    series, places = union_ordered([piece.series for piece in pieces])
    placed = [Placed(place, piece.counts) for piece, place in zip(pieces, places, strict=True)]
    layout = Layout(placed, len(series))
    values = {column.name: layout.column([piece.fields[at] for piece in pieces]) for at, column in enumerate(columns)}
    times = layout.numbers([piece.times for piece in pieces])
    return _in_order(SeriesScan(series, layout.offsets, times, values))


def _in_order(scan: SeriesScan) -> SeriesScan:
    """Sort the rows of each series by time, if they are not yet: pieces that were cut apart come in any order."""
    is_back = scan.times[1:] < scan.times[:-1]
    is_back[scan.offsets[1:-1] - 1] = False
    if not is_back.any():
        return scan
    ranks = np.repeat(np.arange(len(scan.series)), np.diff(scan.offsets))
    order = np.lexsort((scan.times, ranks))
    places = pa.array(order)
    fields = {name: values.take(places) for name, values in scan.fields.items()}
    return replace(scan, times=scan.times[order], fields=fields)


def _empty(snapshot: Snapshot, columns: Sequence[Column]) -> SeriesScan:
    series = SeriesTable.of_tags(snapshot.schema, [pa.nulls(0, tag.type) for tag in snapshot.schema.tags], 0)
    fields = {column.name: pa.nulls(0, column.type) for column in columns}
    return SeriesScan(series, np.zeros(1, np.int64), np.empty(0, np.int64), fields)
