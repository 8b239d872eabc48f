"""Runs: sorted rows in memory, and how unsorted rows become one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb import _kernels
from tsdb.arrays import array_bytes, as_numpy
from tsdb.engine.rows.narrow import narrowed, widened
from tsdb.engine.rows.series import SeriesBlock, SeriesOrder
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import Counters, Held, Source, SourceFacts, SourceReader
from tsdb.model import ColumnId, OpType, RegionSchema, SeriesTable, TimeRange


class MemorySource(Source, Protocol):
    """Rows of a region in memory."""

    @property
    def nbytes(self) -> int:
        """What the rows take in memory."""
        ...

    @property
    def nbytes_decoded(self) -> int:
        """About what they take when nothing of them is compressed."""
        ...

    def passing_reader(self) -> SourceReader:
        """Return a reader that goes through the rows once and leaves no trace in caches."""
        ...

    def decoded(self) -> Run:
        """Return the rows as a run that needs nothing else to be read."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Unsorted rows on their way into a run: what a batch brought, with sequences."""

    series: SeriesTable | npt.NDArray[np.uint32]
    """The series of the batch, or their numbers among the keys of the memtable."""
    series_index: npt.NDArray[np.uint32]
    times: npt.NDArray[np.int64]
    sequences: npt.NDArray[np.uint64] | int
    """A number is the sequence of the first row, from which those of the others count up."""
    op: OpType
    fields: dict[ColumnId, pa.Array]
    nbytes: int = 0
    """What the write buffer is charged for them."""

    @property
    def table(self) -> SeriesTable:
        """The series, where they are not numbers."""
        assert isinstance(self.series, SeriesTable)
        return self.series

    @property
    def numbers(self) -> npt.NDArray[np.uint32]:
        """The numbers of the series, where they are numbers."""
        assert not isinstance(self.series, SeriesTable)
        return self.series

    @property
    def arrays(self) -> int:
        """In how many arrays they are."""
        return count_arrays(self.series, self.fields)


def count_arrays(series: SeriesTable | npt.NDArray[np.uint32], fields: Sized) -> int:
    """Return in how many arrays rows are: of fields, tags, the numbers of series, times and the places of series."""
    if not isinstance(series, SeriesTable):
        return len(fields) + 3
    tags = len(series.tags_schema) if series.late is None else 1
    return len(fields) + tags + 4


@dataclass(frozen=True, slots=True, eq=False)
class RowPiece:
    """Some rows of a run, in order."""

    times: npt.NDArray[np.int64]
    sequences: npt.NDArray[np.uint64]
    ops: npt.NDArray[np.uint8] | None
    fields: dict[ColumnId, pa.Array]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Run:
    """A source in memory."""

    schema: RegionSchema
    facts: SourceFacts
    block: SeriesBlock
    _times: npt.NDArray[np.int64]
    _sequences: npt.NDArray[np.uint64]
    _ops: npt.NDArray[np.uint8] | None
    _fields: dict[ColumnId, pa.Array]
    """In the types of the schema, integers perhaps in narrower ones."""

    @property
    def identity(self) -> Hashable:
        return self

    def reader(self, counters: Counters | None = None) -> Run:
        return self  # what is in memory costs nothing worth counting

    def passing_reader(self) -> Run:
        return self

    def decoded(self) -> Run:
        table = self.block.table
        if table.late is None:
            return self
        block = replace(self.block, table=SeriesTable(table.tsid, table.check, table.read_tags()))
        return replace(self, block=block)

    def piece(self, start: int, stop: int) -> RowPiece:
        """Return a row range as it is held."""
        ops = None if self._ops is None else self._ops[start:stop]
        fields = {column: values.slice(start, stop - start) for column, values in self._fields.items()}
        return RowPiece(self._times[start:stop], self._sequences[start:stop], ops, fields)

    def times(self, rows: Slices) -> npt.NDArray[np.int64]:
        return rows.take(self._times)  # type: ignore[return-value]

    def sequences(self, rows: Slices) -> npt.NDArray[np.uint64]:
        return rows.take(self._sequences)  # type: ignore[return-value]

    def ops(self, rows: Slices) -> npt.NDArray[np.uint8] | None:
        return None if self._ops is None else rows.take(self._ops)  # type: ignore[return-value]

    def field(self, column: ColumnId, rows: Slices) -> pa.Array | None:
        values = self._fields.get(column)
        if values is not None:
            return self._widened(column, rows.take_arrow(values))
        # A column that was there when the rows were written, and that they do not have, is null in them.
        known = self.schema.by_id.get(column)
        return None if known is None else pa.nulls(rows.rows, known.type)

    @property
    def piece_offsets(self) -> npt.NDArray[np.int64]:
        return np.array([0, len(self._times)], dtype=np.int64)

    @property
    def holds_narrow(self) -> bool:
        return True

    def stored_type(self, column: ColumnId) -> pa.DataType | None:
        values = self._fields.get(column)
        if values is None:
            return None
        known = self.schema.by_id.get(column)
        return values.type if known is None else known.type

    def held_pieces(self, column: ColumnId) -> Iterator[pa.Array]:
        """Yield a field of all rows as it is held; nothing if no row has it."""
        if column in self._fields:
            yield self._fields[column]

    def _widened(self, column: ColumnId, values: pa.Array) -> pa.Array:
        known = self.schema.by_id.get(column)
        return values if known is None else widened(values, known.type)

    def pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[pa.Array]]:
        time = self.schema.time.id
        wanted = zip(columns, self.pieces_as_held(numbers, columns), strict=True)
        return [own if column == time else [self._widened(column, each) for each in own] for column, own in wanted]

    def pieces_as_held(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[Held]]:
        time = self.schema.time.id
        found = [pa.array(self._times) if column == time else self._fields[column] for column in columns]
        return [[values] * len(numbers) for values in found]

    def has_pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> bool:
        return True

    def pieces_at_hand(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[Held]] | None:
        return self.pieces_as_held(numbers, columns)

    @property
    def nbytes(self) -> int:
        fixed = self._times.nbytes + self._sequences.nbytes + (0 if self._ops is None else self._ops.nbytes)
        buffers = sum(map(array_bytes, self._fields.values()))
        return int(self.block.nbytes + fixed + buffers)

    @property
    def nbytes_decoded(self) -> int:
        return self.nbytes


def sort_rows(
    schema: RegionSchema, pieces: Sequence[Rows], *, drop_overwritten: bool, series_order: SeriesOrder | None = None
) -> Run:
    """Sort rows into a run; `drop_overwritten` keeps only the newest row of each key, tombstones included."""
    table, places = (series_order or SeriesOrder()).rank([piece.table for piece in pieces])
    return sort_ranked(schema, pieces, table, places, drop_overwritten=drop_overwritten)


def sort_ranked(
    schema: RegionSchema,
    pieces: Sequence[Rows],
    table: SeriesTable,
    places: pa.Array | _kernels.ArrowArray,
    *,
    drop_overwritten: bool,
) -> Run:
    """The same for pieces whose series are known to be in `table`, which is in order: `places` tells where, as uint32,
    piece behind piece.
    """
    result = _kernels.sort_pieces(
        places,
        [len(piece.series) for piece in pieces],
        [piece.series_index for piece in pieces],
        [piece.times for piece in pieces],
        [piece.sequences for piece in pieces],
        series=len(table),
        drop_overwritten=drop_overwritten,
    )
    order = pa.array(result.order)
    ops = _concat_ops(pieces)
    if ops is not None:
        ops = ops[order.to_numpy()]
    has_tombstones = ops is not None and bool(ops.any())
    time_min, time_max, sequence_min, sequence_max = result.bounds
    facts = SourceFacts(
        rows=len(order),
        time_range=TimeRange(time_min, time_max + 1),
        sequence_min=sequence_min,
        sequence_max=sequence_max,
        has_tombstones=has_tombstones,
        is_unique=result.is_unique,
    )
    present = as_numpy(result.series)
    block = SeriesBlock(
        table if len(present) == len(table) else table.choose(present),
        as_numpy(result.offsets),
        as_numpy(result.time_min),
        as_numpy(result.time_max),
    )
    # The kernel's row numbers are in bounds: checking them for every column would cost as much as a copy.
    fields = {
        column: pc.take(_held(schema, column, values), order, boundscheck=False)
        for column, values in _concat_fields(schema, pieces).items()
    }
    times, sequences = as_numpy(result.times), as_numpy(result.sequences)
    return Run(schema, facts, block, times, sequences, ops if has_tombstones else None, fields)


def make_run(
    schema: RegionSchema,
    series: SeriesTable,
    ranks: npt.NDArray[np.uint32],
    times: npt.NDArray[np.int64],
    sequences: npt.NDArray[np.uint64],
    ops: npt.NDArray[np.uint8] | None,
    fields: dict[ColumnId, pa.Array],
    *,
    is_unique: bool,
) -> Run:
    """Make a run of rows that are sorted; `ranks` are positions in `series`."""
    block, _ = SeriesBlock.of_sorted(series, ranks, times)
    has_tombstones = ops is not None and bool(ops.any())
    facts = SourceFacts(
        rows=len(times),
        time_range=TimeRange.of(times),
        sequence_min=int(sequences.min()),
        sequence_max=int(sequences.max()),
        has_tombstones=has_tombstones,
        is_unique=is_unique,
    )
    held = {column: _held(schema, column, values) for column, values in fields.items()}
    return Run(schema, facts, block, times, sequences, ops if has_tombstones else None, held)


def _held(schema: RegionSchema, column: ColumnId, values: pa.Array) -> pa.Array:
    """Return a field as a run holds it; where the schema does not know the column, its values tell the type."""
    return narrowed(values) if column in schema.by_id else values


def _concat_ops(pieces: Sequence[Rows]) -> npt.NDArray[np.uint8] | None:
    if all(piece.op is OpType.PUT for piece in pieces):
        return None
    return np.concatenate([np.full(len(piece.times), piece.op, dtype=np.uint8) for piece in pieces])


def _concat_fields(schema: RegionSchema, pieces: Sequence[Rows]) -> dict[ColumnId, pa.Array]:
    """Lay the fields of all pieces end to end; a field that a piece lacks is null there."""
    present = dict.fromkeys(column for piece in pieces for column in piece.fields)
    result = {}
    for column in present:
        kind = schema.by_id[column].type if column in schema.by_id else None
        arrays = []
        for piece in pieces:
            values = piece.fields.get(column)
            wanted = kind or next(each.fields[column].type for each in pieces if column in each.fields)
            if values is None:
                values = pa.nulls(len(piece.times), wanted)
            arrays.append(values if values.type == wanted else values.cast(wanted))
        result[column] = pa.concat_arrays(arrays)
    return result
