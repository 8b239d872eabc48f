"""The series of a table under numbers, and which of them every source has: found once, used by all queries.

    sources ─ once each ─▶ numbers of their series, row ranges ────────┐
    conditions on labels ─▶ numbers of the chosen series ──────────────┴─▶ `Samples`: where their rows lie

A query of whole series spends its time on finding out what a source holds, although sources never change. So that is
kept for as long as the source lives, and a query only names series and a range of time.

- Numbers are given in the order in which series become known and stay as they are; there are only ever more of them.
- What is kept of a source goes with the source: memory that a flush freed is not held here.
- Rows are read as they lie in memory; where sources overlap in time, a kernel merges what they have in turns. Sources
  with tombstones, rows of one key of which it is not known which is newer, and columns that would have to be cast are
  not for this: `read` returns None, and a scan does it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.errors import ScanTooLarge
from tsdb.engine.rows.run import Run
from tsdb.engine.rows.series import SeriesBlock, conform_series
from tsdb.engine.rows.source import Held, Source, SourceReader, finds_series
from tsdb.engine.scan.snapshot.snapshot import Snapshot
from tsdb.engine.scan.snapshot.statistics import ScanStatistics
from tsdb.model import Column, ColumnId, RegionSchema, SeriesTable, TimeRange, group_series

Numbers = npt.NDArray[np.uint32]
Show = Callable[[Source], Source]
"""Returns a source as the table sees it."""

_SAMPLE_BYTES = 16
_ROW_RANGE_BYTES = 28
_SPARE_SERIES = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Registered:
    """The series that are known; number i is row i."""

    series: SeriesTable
    version: int = 0

    def __len__(self) -> int:
        return len(self.series)


@dataclass(slots=True, eq=False)
class _Known:
    """What is kept of a source."""

    source: weakref.ref[Source]
    numbers: Numbers
    row_ranges: _kernels.SeriesStretches
    memory: dict[ColumnId, _kernels.SamplePiece] = field(default_factory=dict)
    """Whole columns of a run, which is in memory anyway."""
    layout: _Layout | None = None
    """Of a source that is read in pieces."""


@dataclass(slots=True, eq=False)
class _Layout:
    """How the pieces of a source lie."""

    time: ColumnId
    begins: npt.NDArray[np.int64]
    begins_array: pa.Array
    types: dict[ColumnId, pa.DataType | None] = field(default_factory=dict)

    @classmethod
    def of(cls, source: SourceReader) -> _Layout:
        begins = source.piece_offsets
        return cls(source.schema.time.id, begins, pa.array(begins))

    def stored_type(self, source: SourceReader, column: ColumnId) -> pa.DataType | None:
        if column not in self.types:
            self.types[column] = source.stored_type(column)
        return self.types[column]


LearnedSource = tuple[Source, _Known]
"""A source, and what is kept of it."""

_numbers = count(1)


class SeriesRegister:
    """The series of one table in one region, under one schema of tags. Safe to use from many threads."""

    def __init__(self, schema: RegionSchema, show: Show) -> None:
        self.number = next(_numbers)
        """Which register of this process it is."""
        self._schema = schema
        self._show = show
        self._lock = threading.Lock()
        self._known: dict[int, _Known] = {}
        self._last: tuple[SeriesTable, Numbers] | None = None
        empty = [pa.nulls(0, tag.type) for tag in schema.tags]
        self.registered = Registered(SeriesTable.of_tags(schema, empty, 0))
        """Replaced as a whole when series come."""
        self.learned = 0
        """How many sources became known so far."""

    @property
    def nbytes(self) -> int:
        """About what it takes, without what sources have anyway."""
        row_ranges = sum(len(known.numbers) for known in list(self._known.values()))
        return self.registered.series.nbytes + row_ranges * _ROW_RANGE_BYTES

    def learn(
        self, snapshot: Snapshot, time_range: TimeRange, *, is_selective: bool = False
    ) -> list[LearnedSource] | None:
        """Return the sources with rows in a range of time and what is known of them; None if a scan has to read them.

        From then on all their series are registered. With `is_selective`, a source whose series an index finds is not
        learned for the sake of a few series; its block is loaded when the index has been used often enough.
        """
        found = []
        for source in snapshot.sources:
            facts = source.facts
            if not facts.rows or not facts.time_range.overlaps(time_range):
                continue
            if facts.has_tombstones or not facts.is_unique:
                return None
            known = self._known.get(id(source))
            if known is None or known.source() is not source:
                snapshot.check()
                if is_selective and _is_left_to_index(source):
                    return None
                known = self._learn(source)
            found.append((source, known))
        return found

    def read(
        self,
        snapshot: Snapshot,
        sources: Sequence[LearnedSource],
        column: Column,
        chosen: Numbers,
        time_range: TimeRange,
        statistics: ScanStatistics | None = None,
    ) -> _kernels.Samples | None:
        """Return the samples of chosen series, in this order, from sources that `learn` gave for this range of time.

        None if a scan has to read them, or ScanTooLarge.
        """
        if column.type != pa.float64():
            return None
        counters = statistics or ScanStatistics()
        wanted = pa.array(chosen)
        sources = sorted(sources, key=lambda each: each[0].facts.sequence_min)
        parts: list[tuple[_kernels.SeriesStretches, _kernels.SamplePiece]] = []
        budget = snapshot.memory_bytes_max // _SAMPLE_BYTES
        for source, known in sources:
            if isinstance(source, Run):
                piece = _whole_column(source, column, known)
                if piece is None:
                    return None
                parts.append((known.row_ranges, piece))
                continue
            snapshot.check()
            pieces = _pieces_of(source.reader(counters), column, known, wanted, time_range, budget)
            if pieces is None:
                return None
            budget -= sum(len(piece) for piece in pieces)
            parts.extend((known.row_ranges, piece) for piece in pieces)
        samples_max = snapshot.memory_bytes_max // (2 * _SAMPLE_BYTES)
        try:
            samples = _kernels.Samples.find(
                parts, wanted, time_range.start, time_range.last, samples_max, last_wins=_are_by_age(snapshot, sources)
            )
        except _kernels.LimitExceeded as error:
            raise ScanTooLarge(rows=error.found, bytes_max=snapshot.memory_bytes_max) from None
        if samples is not None:
            counters.add(segments_direct=len(parts), rows_read=len(samples), rows_returned=len(samples))
        return samples

    def is_wasteful(self, snapshot: Snapshot) -> bool:
        """Tell whether most series are of sources that are gone."""
        count = len(self.registered)
        if count < _SPARE_SERIES:
            return False
        is_used = np.zeros(count, np.bool_)
        for source in snapshot.sources:
            known = self._known.get(id(source))
            if known is not None:
                is_used[known.numbers[known.numbers < count]] = True
        return int(is_used.sum()) * 2 < count

    def _learn(self, source: Source) -> _Known:
        shown = self._show(source)
        block = shown.block
        series = conform_series(block.table, shown.schema, self._schema)
        with self._lock:
            numbers = self._number(series)
            known = _Known(weakref.ref(source, self._forget(id(source))), numbers, _row_ranges(numbers, block))
            self._known[id(source)] = known
            self.learned += 1
        return known

    def _forget(self, key: int) -> Callable[[object], None]:
        owner = weakref.ref(self)

        def forget(gone: object) -> None:
            register = owner()
            if register is not None:
                known = register._known.get(key)
                if known is not None and known.source is gone:
                    del register._known[key]

        return forget

    def _number(self, series: SeriesTable) -> Numbers:
        """Return the numbers of series; new ones get the next."""
        if self._last is not None and _is_same(self._last[0], series):
            return self._last[1]
        mine = self.registered.series
        first, group = group_series(np.append(mine.tsid, series.tsid), np.append(mine.check, series.check))
        numbers = np.ascontiguousarray(group[len(mine) :])
        fresh = first[len(mine) :] - len(mine)
        if len(fresh):
            new = series.take(fresh)
            more_tags = new.read_tags()
            columns = zip(mine.read_tags().columns, more_tags.columns, strict=True)
            tags = (
                pa.RecordBatch.from_arrays(
                    [pa.concat_arrays([_plain(old), _plain(more)]) for old, more in columns],
                    names=more_tags.schema.names,
                )
                if more_tags.num_columns
                else more_tags
            )
            grown = SeriesTable(np.append(mine.tsid, new.tsid), np.append(mine.check, new.check), tags)
            self.registered = Registered(grown, self.registered.version + 1)
        self._last = series, numbers
        return numbers


def _is_left_to_index(source: Source) -> bool:
    if not source.facts.is_indexed:
        return False
    reader = source.reader()
    return finds_series(reader) and not reader.has_block


def _are_by_age(snapshot: Snapshot, sources: Sequence[LearnedSource]) -> bool:
    """Tell whether every row of a source hides rows of the same key in the sources before it."""
    facts = [source.facts for source, _ in sources]
    follow = all(one.sequence_max < other.sequence_min for one, other in pairwise(facts))
    return follow and not snapshot.options.append_mode


def _is_same(one: SeriesTable, other: SeriesTable) -> bool:
    return one is other or (np.array_equal(one.tsid, other.tsid) and np.array_equal(one.check, other.check))


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _row_ranges(numbers: Numbers, block: SeriesBlock) -> _kernels.SeriesStretches:
    return _kernels.SeriesStretches(
        pa.array(numbers), pa.array(block.offsets), pa.array(block.time_min), pa.array(block.time_max)
    )


def _whole_column(run: Run, column: Column, known: _Known) -> _kernels.SamplePiece | None:
    piece = known.memory.get(column.id)
    if piece is None:
        if run.stored_type(column.id) != column.type:
            return None
        (times,), (values,) = run.pieces([0], [run.schema.time.id, column.id])
        piece = _piece(0, times, values)
        if piece is not None:
            known.memory[column.id] = piece
    return piece


def _pieces_of(
    source: SourceReader,
    column: Column,
    known: _Known,
    chosen: pa.Array,
    time_range: TimeRange,
    rows_max: int,
) -> list[_kernels.SamplePiece] | None:
    """Return the pieces of a source that have rows of chosen series; None for a scan, also if they are too large."""
    layout = known.layout
    if layout is None:
        layout = known.layout = _Layout.of(source)
    touched = known.row_ranges.pieces(chosen, time_range.start, time_range.last, layout.begins_array)
    if not touched:
        return []
    begins = layout.begins
    rows = int((begins[1:] - begins[:-1])[touched].sum())
    if layout.stored_type(source, column.id) != column.type or rows > rows_max:
        return None
    times, values = source.pieces_as_held(touched, [layout.time, column.id])
    pieces = [_piece(int(begins[number]), *each) for number, *each in zip(touched, times, values, strict=True)]
    return None if None in pieces else [piece for piece in pieces if piece is not None]


def _piece(begin: int, times: Held, values: Held) -> _kernels.SamplePiece | None:
    has_nulls = isinstance(values, pa.Array) and values.null_count
    return None if has_nulls else _kernels.SamplePiece(begin, times, values)
