"""Compact runs: sorted rows of a memtable, compressed in pieces, decompressed by those who read them.

    series   numbers of keys in the order of their tags, rows and span of time of each
    piece    up to `PIECE_ROWS` rows: times, sequences, operations, fields, each packed for itself

Tags are those of the memtable's keys, which all its runs share. What is decompressed for queries is kept in the caches
of data files, within their limits; flushes and merges go through the pieces once and leave the caches alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.rows.cache import Caches, ColumnKey, MetaKey
from tsdb.engine.rows.keys import Numbers, SeriesKeys
from tsdb.engine.rows.narrow import concat_held, widened
from tsdb.engine.rows.packed import Packed, PackedNumbers, pack_column, pack_numbers
from tsdb.engine.rows.run import RowPiece, Run
from tsdb.engine.rows.series import SeriesBlock
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import Counters, Held, SourceFacts
from tsdb.engine.rows.vectors import CarryOver, Vectors, as_arrow, split_by_row_group, weigh
from tsdb.model import ColumnId, RegionSchema, SeriesTable, TimeRange

PIECE_ROWS = 32_768
"""What is decompressed at a time."""

_SEQUENCE = ColumnId((1 << 31) - 2)
_OP_TYPE = ColumnId((1 << 31) - 3)
_FIXED_BYTES, _SERIES_BYTES = 17, 64
"""About what the time, the sequence and the operation of a row, and a series, take when they are decompressed."""
_ids = itertools.count()


@dataclass(frozen=True, slots=True, eq=False)
class _PackedPiece:
    rows: int
    sequence_min: int
    sequence_max: int
    columns: dict[ColumnId, PackedNumbers | Packed]

    @classmethod
    def of(cls, piece: RowPiece, time: ColumnId) -> _PackedPiece:
        columns: dict[ColumnId, PackedNumbers | Packed] = {
            time: pack_numbers(piece.times),
            _SEQUENCE: pack_numbers(piece.sequences),
        }
        if piece.ops is not None and piece.ops.any():
            columns[_OP_TYPE] = pack_numbers(piece.ops)
        columns |= {column: pack_column(values) for column, values in piece.fields.items()}
        return cls(len(piece.times), int(piece.sequences.min()), int(piece.sequences.max()), columns)

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns.values())


@dataclass(frozen=True, slots=True, eq=False)
class SeriesSpans:
    """The series of sorted rows: how many rows each has, and from when to when."""

    ranks: npt.NDArray[Any]
    """Places in an order of series, ascending."""
    counts: npt.NDArray[np.int64]
    time_min: npt.NDArray[np.int64]
    time_max: npt.NDArray[np.int64]

    @classmethod
    def join(cls, parts: Sequence[SeriesSpans]) -> SeriesSpans:
        """Lay rows end to end; the last series of one part may be the first of the next."""
        ranks = np.concatenate([part.ranks for part in parts])
        starts = np.flatnonzero(np.append(True, ranks[1:] != ranks[:-1]))
        ends = np.append(starts[1:], len(ranks)) - 1
        return cls(
            ranks[starts],
            np.add.reduceat(np.concatenate([part.counts for part in parts]), starts),
            np.concatenate([part.time_min for part in parts])[starts],
            np.concatenate([part.time_max for part in parts])[ends],
        )


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class CompactRun:
    """A source in memory that is decompressed as far as it is read."""

    schema: RegionSchema
    facts: SourceFacts
    keys: SeriesKeys
    piece_offsets: npt.NDArray[np.int64]
    _numbers: PackedNumbers
    _counts: PackedNumbers
    _time_min: PackedNumbers
    _time_max: PackedNumbers
    _pieces: tuple[_PackedPiece, ...]
    _caches: Caches
    _name: str = field(default_factory=lambda: f"memtable run {next(_ids)}")
    """Under which the caches know what is decompressed."""

    @classmethod
    def of_run(cls, run: Run, numbers: Numbers, keys: SeriesKeys, caches: Caches) -> CompactRun:
        """Compress a run whose series are keys with some numbers."""
        block, rows = run.block, run.facts.rows
        spans = SeriesSpans(np.arange(len(block)), np.diff(block.offsets), block.time_min, block.time_max)
        pieces = (run.piece(start, min(start + PIECE_ROWS, rows)) for start in range(0, rows, PIECE_ROWS))
        packed = [_PackedPiece.of(piece, run.schema.time.id) for piece in pieces]
        return cls._of(run.schema, packed, spans, numbers, keys, caches, is_unique=run.facts.is_unique)

    @classmethod
    def of_pieces(
        cls,
        schema: RegionSchema,
        pieces: Iterable[tuple[RowPiece, SeriesSpans]],
        numbers: Numbers,
        keys: SeriesKeys,
        caches: Caches,
        *,
        is_unique: Callable[[], bool],
    ) -> CompactRun:
        """Compress rows that come in order, piece after piece; ranks are places in `numbers`.

        `is_unique` tells, when all have come, whether their keys are unique.
        """
        packed, spans = [], []
        for piece, own in pieces:
            packed.append(_PackedPiece.of(piece, schema.time.id))
            spans.append(own)
        joined = SeriesSpans.join(spans)
        return cls._of(schema, packed, joined, numbers[joined.ranks], keys, caches, is_unique=is_unique())

    @classmethod
    def _of(
        cls,
        schema: RegionSchema,
        pieces: Sequence[_PackedPiece],
        spans: SeriesSpans,
        numbers: Numbers,
        keys: SeriesKeys,
        caches: Caches,
        *,
        is_unique: bool,
    ) -> CompactRun:
        offsets = np.cumsum([0, *(piece.rows for piece in pieces)], dtype=np.int64)
        facts = SourceFacts(
            rows=int(offsets[-1]),
            time_range=TimeRange(int(spans.time_min.min()), int(spans.time_max.max()) + 1),
            sequence_min=min(piece.sequence_min for piece in pieces),
            sequence_max=max(piece.sequence_max for piece in pieces),
            has_tombstones=any(_OP_TYPE in piece.columns for piece in pieces),
            is_unique=is_unique,
        )
        return cls(
            schema,
            facts,
            keys,
            offsets,
            pack_numbers(numbers),
            pack_numbers(spans.counts),
            pack_numbers(spans.time_min),
            pack_numbers(spans.time_max),
            tuple(pieces),
            caches,
        )

    @property
    def nbytes(self) -> int:
        series = (self._numbers, self._counts, self._time_min, self._time_max)
        pieces = sum(piece.nbytes for piece in self._pieces)
        return sum(each.nbytes for each in series) + pieces + self.piece_offsets.nbytes

    @property
    def nbytes_decoded(self) -> int:
        """About what the rows take when they are decompressed."""
        widths = [_FIXED_BYTES, *(_width(self.schema, column) for column in self.columns)]
        return self.facts.rows * sum(widths) + self._counts.rows * _SERIES_BYTES

    @property
    def columns(self) -> Iterable[ColumnId]:
        """The fields that the rows have."""
        known, time = self.schema.by_id, self.schema.time.id
        return [column for column in self._pieces[0].columns if column in known and column != time]

    def numbers(self) -> Numbers:
        """Return the keys, in the order of their tags."""
        numbers: Numbers = self._numbers.unpack()
        return numbers

    @property
    def block(self) -> SeriesBlock:
        key = MetaKey(self._name, "block")
        block: SeriesBlock = self._caches.sst_meta.get_or_load(key, self._load_block, lambda each: int(each.nbytes))
        return block

    def _load_block(self) -> SeriesBlock:
        block = self.late_block()
        table = block.table
        read = SeriesTable(table.tsid, table.check, table.read_tags())
        return SeriesBlock(read, block.offsets, block.time_min, block.time_max)

    def late_block(self) -> SeriesBlock:
        """Return the series block without tags: these are read when they are needed."""
        offsets = np.append(0, np.cumsum(self._counts.unpack()))
        table = self.keys.table(self.numbers())
        return SeriesBlock(table, offsets, self._time_min.unpack(), self._time_max.unpack())

    def reader(self, counters: Counters | None = None) -> CompactReader:
        return CompactReader(self, self._caches.vectors, lambda: self.block, counters)

    def passing_reader(self) -> CompactReader:
        """Return a reader that goes through the rows once and leaves no trace in the caches."""
        return CompactReader(self, CarryOver(), self.late_block, None)

    def forget(self) -> None:
        """Take what was decompressed out of the caches."""
        self._caches.evict_file(self._name)

    def decoded(self) -> Run:
        """Return all rows decompressed, tags included."""
        time = self.schema.time.id
        ops = self._unpack_all(_OP_TYPE) if self.facts.has_tombstones else None
        fields = {
            column: concat_held([self.unpack(number, column) for number in range(len(self._pieces))])
            for column in self.columns
        }
        times, sequences = self._unpack_all(time), self._unpack_all(_SEQUENCE)
        return Run(self.schema, self.facts, self._load_block(), times, sequences, ops, fields)

    def _unpack_all(self, column: ColumnId) -> npt.NDArray[Any]:
        return np.concatenate([self.unpack(number, column) for number in range(len(self._pieces))])

    def unpack(self, number: int, column: ColumnId) -> Any:
        """Decompress a column of a piece: times, sequences and operations as numpy, fields as Arrow."""
        piece = self._pieces[number]
        if column == _OP_TYPE and column not in piece.columns:
            return np.zeros(piece.rows, np.uint8)
        return piece.columns[column].unpack()

    def packed_bytes(self, number: int, column: ColumnId) -> int:
        packed = self._pieces[number].columns.get(column)
        return 0 if packed is None else packed.nbytes

    @property
    def cache_name(self) -> str:
        return self._name


class CompactReader:
    """A `SourceReader` over a compact run, for one scan. Safe for the threads of that scan."""

    def __init__(
        self, run: CompactRun, vectors: Vectors, load_block: Callable[[], SeriesBlock], counters: Counters | None
    ) -> None:
        self.schema = run.schema
        self.facts = run.facts
        self.piece_offsets = run.piece_offsets
        self.holds_narrow = True
        self.identity = run
        self._run = run
        self._columns = frozenset(run.columns)
        self._vectors = vectors
        self._load_block = load_block
        self._counters = counters
        self._block: SeriesBlock | None = None

    @property
    def block(self) -> SeriesBlock:
        block = self._block
        if block is None:
            block = self._block = self._load_block()
        return block

    def times(self, rows: Slices) -> npt.NDArray[np.int64]:
        return self._read_numpy(self.schema.time.id, rows, np.int64)

    def sequences(self, rows: Slices) -> npt.NDArray[np.uint64]:
        return self._read_numpy(_SEQUENCE, rows, np.uint64)

    def ops(self, rows: Slices) -> npt.NDArray[np.uint8] | None:
        return self._read_numpy(_OP_TYPE, rows, np.uint8) if self.facts.has_tombstones else None

    def field(self, column: ColumnId, rows: Slices) -> pa.Array | None:
        known = self.schema.by_id.get(column)
        if known is None:
            return None
        if column not in self._columns:
            # A column that was there when the rows were written, and that they do not have, is null in them.
            return pa.nulls(rows.rows, known.type)
        pieces = [widened(part.take_arrow(vector), known.type) for vector, part in self._along(column, rows)]
        if not pieces:
            return pa.nulls(0, known.type)
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)

    def stored_type(self, column: ColumnId) -> pa.DataType | None:
        return self.schema.by_id[column].type if column in self._columns else None

    def held_pieces(self, column: ColumnId) -> Iterator[pa.Array]:
        """Yield a field piece by piece, as it is held; nothing if no row has it."""
        if column in self._columns:
            for number in range(len(self.piece_offsets) - 1):
                yield self._vector(number, column)

    def pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[pa.Array]]:
        kinds, time = self.schema.by_id, self.schema.time.id
        return [
            own if column == time else [widened(values, kinds[column].type) for values in own]
            for column, own in zip(columns, self.pieces_as_held(numbers, columns), strict=True)
        ]

    def pieces_as_held(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[Held]]:
        return [[as_arrow(self._vector(number, column)) for number in numbers] for column in columns]

    def has_pieces(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> bool:
        return self._vectors.has_all(self._keys(numbers, columns))

    def pieces_at_hand(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[list[Held]] | None:
        vectors = self._vectors.get_many(self._keys(numbers, columns))
        if any(vector is None for vector in vectors):
            return None
        return [vectors[at : at + len(numbers)] for at in range(0, len(vectors), len(numbers) or 1)]

    def _keys(self, numbers: Sequence[int], columns: Sequence[ColumnId]) -> list[ColumnKey]:
        name = self._run.cache_name
        return [ColumnKey(name, column, number) for column in columns for number in numbers]

    def _vector(self, number: int, column: ColumnId) -> Any:
        is_loaded = False

        def load() -> Any:
            nonlocal is_loaded
            is_loaded = True
            return self._run.unpack(number, column)

        vector = self._vectors.get_or_load(ColumnKey(self._run.cache_name, column, number), load, weigh)
        if self._counters is not None:
            if is_loaded:
                self._counters.add(vector_misses=1, bytes_read=self._run.packed_bytes(number, column))
            else:
                self._counters.add(vector_hits=1)
        return vector

    def _along(self, column: ColumnId, rows: Slices) -> Iterator[tuple[Any, Slices]]:
        for number, part in split_by_row_group(rows, self.piece_offsets):
            yield self._vector(number, column), part

    def _read_numpy(self, column: ColumnId, rows: Slices, kind: type[np.generic]) -> npt.NDArray[Any]:
        pieces = [part.take(vector) for vector, part in self._along(column, rows)]
        if not pieces:
            return np.empty(0, dtype=kind)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _width(schema: RegionSchema, column: ColumnId) -> int:
    kind = schema.by_id[column].type
    return kind.bit_width // 8 + 1 if pa.types.is_primitive(kind) else 16
