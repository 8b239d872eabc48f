"""Merging sources: the newest version of every key, stripe by stripe.

    series blocks ─▶ union (one order for all) ─▶ stripes of series
    stripe ─▶ in order of (series, time, sequence) ─▶ winners by merge mode ─▶ gather the columns asked for

Where the sources' rows of a series follow each other in time, as they mostly do, they are copied one behind the other.

Rows that append mode keeps (`RegionOptions.append_from`) take no part in the choice of winners: they neither hide an
older row nor are hidden, and go back to their places in the order behind it.

A stripe holds all selected rows of some consecutive series, about `STRIPE_ROWS` of them, so that memory is bounded by
the stripe and not by the sources. A series that is longer than that is cut in time; rows of one key are never parted.
Predicates on fields belong after the merge: before it, a filtered row would uncover an older version of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.arrays import as_numpy
from tsdb.engine.rows.series import Positions, conform_series, union_ordered
from tsdb.engine.rows.slices import Slices
from tsdb.engine.rows.source import SourceReader, find_time, read_stored
from tsdb.engine.tuning import MergeTuning
from tsdb.model import Column, ColumnId, MergeMode, OpType, RegionOptions, RegionSchema, SeriesTable, cast_or_null

STRIPE_ROWS = 131_072
_TUNING = MergeTuning()


def _go_on() -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What is wanted of a source: for each series of its block a row range, perhaps an empty one."""

    source: SourceReader
    starts: Positions
    stops: Positions

    @classmethod
    def all_of(cls, source: SourceReader) -> Selection:
        offsets = source.block.offsets
        return cls(source, offsets[:-1], offsets[1:])

    @property
    def rows(self) -> int:
        return int((self.stops - self.starts).sum())


@dataclass(frozen=True, slots=True, eq=False)
class MergeInput:
    """The keys of what is merged into one stripe, source by source; for those who check the merge."""

    pieces: Sequence[_Piece]
    times: Sequence[npt.NDArray[np.int64]]
    sequences: Sequence[npt.NDArray[np.uint64]]
    ops: npt.NDArray[np.uint8] | None
    """Of all sources, one behind the other."""

    @property
    def rows(self) -> int:
        return sum(map(len, self.times))

    @property
    def sequence_min(self) -> int:
        """The least sequence that any source has."""
        return min(piece.source.facts.sequence_min for piece in self.pieces)

    def ranks(self) -> list[npt.NDArray[np.uint32]]:
        """The series of each row, as positions in the union."""
        return [piece.ranks for piece in self.pieces]


@dataclass(frozen=True, slots=True, eq=False)
class Stripe:
    """Merged rows of consecutive series, sorted by series and time."""

    ranks: npt.NDArray[np.uint32]
    """The position of each row's series in the union."""
    times: npt.NDArray[np.int64]
    sequences: npt.NDArray[np.uint64]
    ops: npt.NDArray[np.uint8] | None
    read: Callable[[Column], pa.Array]
    """Gathers a field; columns that are not asked for are never read."""
    is_unique: bool = False
    """Whether it is known that no two rows have one series and time."""

    @property
    def rows(self) -> int:
        return len(self.times)


class Merge:
    """The merge of some selections under one schema and merge mode."""

    def __init__(
        self,
        schema: RegionSchema,
        options: RegionOptions,
        selections: Sequence[Selection],
        *,
        keep_tombstones: bool,
        stripe_rows: int = STRIPE_ROWS,
        ahead_rows_min: int = _TUNING.ahead_rows_min,
        union: tuple[SeriesTable, list[Positions]] | None = None,
        check: Callable[[], None] = _go_on,
        audit: Callable[[MergeInput, Stripe], None] | None = None,
    ) -> None:
        """`union` is for callers that know which series there are: the union of those that the selections have
        row ranges for, and for each selection where its ranges are in it. Otherwise the blocks say so. `check` is
        called before each stripe and ends the merge by raising; `audit` sees each stripe and what was merged."""
        self._schema = schema
        self._options = options
        self._selections = list(selections)
        self._keep_tombstones = keep_tombstones
        self._stripe_rows = stripe_rows
        self._ahead_rows_min = ahead_rows_min
        self._check = check
        self._audit = audit
        if union is None:
            tables = [conform_series(each.source.block.table, each.source.schema, schema) for each in selections]
            union = union_ordered(tables)
        self.series: SeriesTable
        """The union of all series; ranks of stripes are positions in it."""
        self.series, self._places = union

    @property
    def sources(self) -> list[SourceReader]:
        """Where merged rows come from."""
        return [selection.source for selection in self._selections]

    @property
    def may_have_tombstones(self) -> bool:
        """Whether a merged row can be a tombstone, as far as is known without reading rows."""
        keeps = self._keep_tombstones or self._keeps_all
        return keeps and any(selection.source.facts.has_tombstones for selection in self._selections)

    @property
    def _keeps_all(self) -> bool:
        """Whether no row hides another."""
        return self._options.append_mode and self._options.keeps_all(self.sequence_range[0])

    @property
    def sequence_range(self) -> tuple[int, int]:
        """The least and the greatest sequence that a merged row can have."""
        facts = [selection.source.facts for selection in self._selections]
        return min(each.sequence_min for each in facts), max(each.sequence_max for each in facts)

    def stripes(self) -> Iterator[Stripe]:
        """Merge stripe after stripe; a stripe with no row left is skipped."""
        # Not a loop with a variable: that would hold on to a stripe, and all it was merged from, for too long.
        return filter(attrgetter("rows"), map(self._merge, self._cuts()))

    def _cuts(self) -> Iterator[list[_Piece]]:
        """Yield what the sources have for each stripe."""
        for first, last, rows in self._bounds():
            if last - first == 1 and rows > self._stripe_rows:
                yield from self._cut_series(first)
                continue
            cuts = (
                _cut(selection, places, first, last)
                for selection, places in zip(self._selections, self._places, strict=True)
            )
            yield [piece for piece in cuts if piece.rows.rows]

    def _cut_series(self, rank: int) -> Iterator[list[_Piece]]:
        """Cut a long series in time."""
        cursors = []
        for selection, places in zip(self._selections, self._places, strict=True):
            at = int(np.searchsorted(places, rank))
            if at < len(places) and places[at] == rank and selection.starts[at] < selection.stops[at]:
                cursors.append(_Cursor(selection.source, int(selection.starts[at]), int(selection.stops[at])))
        while cursors:
            taken = _advance(cursors, self._stripe_rows, self._ahead_rows_min)
            place = np.array([rank], dtype=np.int64)
            yield [_Piece(source, rows, place) for source, rows in taken]
            cursors = [cursor for cursor in cursors if cursor.start < cursor.stop]

    def _bounds(self) -> Iterator[tuple[int, int, int]]:
        """Cut the union where about `stripe_rows` rows are full: yield the first and last series, and their rows."""
        counts = np.zeros(len(self.series), dtype=np.int64)
        for selection, places in zip(self._selections, self._places, strict=True):
            counts[places] += selection.stops - selection.starts
        total = np.cumsum(counts)
        first = 0
        while first < len(counts):
            done = int(total[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(total, done + self._stripe_rows, side="right")))
            if total[last - 1] > done:
                yield first, last, int(total[last - 1]) - done
            first = last

    def _merge(self, pieces: list[_Piece]) -> Stripe:
        self._check()
        keeps_all = self._keeps_all
        is_split = self._options.append_mode and not keeps_all
        if not keeps_all and (is_split or self._options.merge_mode is MergeMode.LAST_NON_NULL):
            return self._merge_by_rows(pieces)
        times = [piece.source.times(piece.rows) for piece in pieces]
        own_sequences = [piece.source.sequences(piece.rows) for piece in pieces]
        ops = [(piece.source.ops(piece.rows), piece.rows.rows) for piece in pieces]
        merged = _kernels.merge_sorted(
            [piece.places for piece in pieces],
            [piece.rows.lengths for piece in pieces],
            times,
            own_sequences,
            [own for own, _ in ops],
            dedup=not keeps_all,
            keep_tombstones=self._keep_tombstones,
        )
        chosen, ranks, merged_times, sequences = (pa.array(column).to_numpy() for column in merged)
        whole = join_ops(ops)
        fields = _FieldReader(pieces, sum(map(len, times)))
        kept = None if whole is None else whole[chosen]
        stripe = Stripe(ranks, merged_times, sequences, kept, fields.gather(chosen), is_unique=not keeps_all)
        if self._audit is not None:
            self._audit(MergeInput(pieces, times, own_sequences, whole), stripe)
        return stripe

    def _merge_by_rows(self, pieces: list[_Piece]) -> Stripe:
        """The same where each field has winners of its own, or some rows are merged and others kept."""
        own_times = [piece.source.times(piece.rows) for piece in pieces]
        own_sequences = [piece.source.sequences(piece.rows) for piece in pieces]
        ops = join_ops([(piece.source.ops(piece.rows), piece.rows.rows) for piece in pieces])
        ranks, times = np.concatenate([piece.ranks for piece in pieces]), np.concatenate(own_times)
        stripe = self._merge_rows(pieces, ranks, times, np.concatenate(own_sequences), ops)
        if self._audit is not None:
            self._audit(MergeInput(pieces, own_times, own_sequences, ops), stripe)
        return stripe

    def _merge_rows(
        self,
        pieces: list[_Piece],
        ranks: npt.NDArray[np.uint32],
        times: npt.NDArray[np.int64],
        sequences: npt.NDArray[np.uint64],
        ops: npt.NDArray[np.uint8] | None,
    ) -> Stripe:
        order = as_numpy(_kernels.sort_keys(pa.array(ranks), pa.array(times), pa.array(sequences)))
        fields = _FieldReader(pieces, len(ranks))
        split = _Split.of(order, sequences, self._options)
        if self._options.merge_mode is MergeMode.LAST_NON_NULL:
            return self._last_non_null(ranks, times, sequences, ops, split, fields)
        winners, _ = _kernels.merge_dedup(
            pa.array(ranks),
            pa.array(times),
            None if ops is None else pa.array(ops),
            pa.array(split.merged),
            mode="last_row",
            keep_tombstones=self._keep_tombstones,
            valid=[],
        )
        chosen = split.with_kept(as_numpy(winners))
        return _stripe(ranks, times, sequences, ops, chosen, fields.gather(chosen))

    def _last_non_null(
        self,
        ranks: npt.NDArray[np.uint32],
        times: npt.NDArray[np.int64],
        sequences: npt.NDArray[np.uint64],
        ops: npt.NDArray[np.uint8] | None,
        split: _Split,
        fields: _FieldReader,
    ) -> Stripe:
        """Each field takes its newest value that is not null, no further back than the last delete of its key."""

        def merge(valid: list[pa.Array]) -> tuple[npt.NDArray[np.uint32], list[pa.Array]]:
            winners, sources = _kernels.merge_dedup(
                pa.array(ranks),
                pa.array(times),
                None if ops is None else pa.array(ops),
                pa.array(split.merged),
                mode="last_non_null",
                keep_tombstones=self._keep_tombstones,
                valid=valid,
            )
            return as_numpy(winners), [pa.array(each) for each in sources or ()]

        def read(column: Column) -> pa.Array:
            # What counts is whether there was a value, not whether it can be cast to the type of today: the choice must
            # not depend on whether it was made by a flush before the type changed or by a read after it.
            winners, sources = merge([fields.validity(column)])
            return fields.whole(column).take(split.with_kept_sources(winners, sources[0]))

        winners, _ = merge([])
        return _stripe(ranks, times, sequences, ops, split.with_kept(winners), read)


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """The rows of a stripe in their order: those among which winners are chosen, and those that are kept anyway."""

    order: npt.NDArray[np.uint32]
    merged: npt.NDArray[np.uint32]
    kept: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, order: npt.NDArray[np.uint32], sequences: npt.NDArray[np.uint64], options: RegionOptions) -> _Split:
        if not options.append_mode:
            return cls(order, order, order[:0])
        is_kept = sequences[order] >= np.uint64(options.append_from)
        return cls(order, order[~is_kept], order[is_kept])

    def with_kept(self, winners: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the winners and the rows that are kept, in order."""
        return np.concatenate([winners, self.kept])[self._places(winners)] if len(self.kept) else winners

    def with_kept_sources(self, winners: npt.NDArray[np.uint32], sources: pa.Array) -> pa.Array:
        """Return from which row each of them takes a field: a row that is kept from itself."""
        if not len(self.kept):
            return sources
        own = pa.array(self.kept.astype(np.int32))
        return pa.concat_arrays([sources, own]).take(pa.array(self._places(winners)))

    def _places(self, winners: npt.NDArray[np.uint32]) -> Positions:
        rank = np.empty(len(self.order), dtype=np.int64)
        rank[self.order] = np.arange(len(self.order))
        return np.argsort(np.concatenate([rank[winners], rank[self.kept]]), kind="stable")


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """The rows of one source that belong to a stripe."""

    source: SourceReader
    rows: Slices
    places: Positions
    """The series of each of its slices, as a position in the union."""

    @property
    def ranks(self) -> npt.NDArray[np.uint32]:
        """The same for each row."""
        return np.repeat(self.places.astype(np.uint32), self.rows.lengths)


def _cut(selection: Selection, places: Positions, first: int, last: int) -> _Piece:
    # Blocks and union are in the same order, so the part of a stripe in one source is one range of its block.
    low, high = np.searchsorted(places, [first, last])
    rows = Slices(selection.starts[low:high], selection.stops[low:high])
    return _Piece(selection.source, rows, places[low:high])


@dataclass(slots=True, eq=False)
class _Cursor:
    """What is left of a long series in one source."""

    source: SourceReader
    start: int
    stop: int

    def ahead(self, rows: int) -> npt.NDArray[np.int64]:
        """Return the times of the next rows."""
        return self.source.times(Slices.one(self.start, min(self.start + rows, self.stop)))


def _advance(cursors: Sequence[_Cursor], rows_max: int, rows_min: int) -> list[tuple[SourceReader, Slices]]:
    """Take the earliest rows of all sources, about as many as a stripe has, and move the cursors behind them.

    Rows up to a time are taken from everywhere, so that the versions of a row stay together.
    """
    firsts = [int(cursor.ahead(1)[0]) for cursor in cursors]
    earliest = cursors[firsts.index(min(firsts))]
    reach = int(earliest.ahead(rows_max)[-1])
    active = [cursor for cursor, first in zip(cursors, firsts, strict=True) if first <= reach]
    quota = max(rows_min, rows_max // len(active))
    ahead = [cursor.ahead(quota) for cursor in active]
    bounds = [first for first in firsts if first > reach]
    bounds += [
        int(times[-1]) for cursor, times in zip(active, ahead, strict=True) if cursor.stop - cursor.start > quota
    ]
    # A time that has more rows than the quota is taken as a whole.
    bound = max(min(bounds), min(firsts) + 1) if bounds else None
    taken = []
    for cursor, times in zip(active, ahead, strict=True):
        stop = cursor.start + (len(times) if bound is None else _count_before(times, bound))
        if stop == cursor.start + len(times) < cursor.stop and bound is not None:
            stop = find_time(cursor.source, bound, stop, cursor.stop)
        if stop > cursor.start:
            taken.append((cursor.source, Slices.one(cursor.start, stop)))
            cursor.start = stop
    return taken


def _count_before(times: npt.NDArray[np.int64], bound: int) -> int:
    """Return how many of some sorted times are before a bound, which may lie behind the last time there is."""
    return int(np.searchsorted(times, bound - 1, side="right"))


class _FieldReader:
    """Reads fields of all pieces of a stripe, each at most once."""

    def __init__(self, pieces: list[_Piece], rows: int) -> None:
        self._pieces = pieces
        self._rows = rows
        self._stored: dict[ColumnId, list[pa.Array]] = {}
        self._whole: dict[ColumnId, pa.Array] = {}

    def whole(self, column: Column) -> pa.Array:
        """Return a field of all pieces laid end to end."""
        if column.id not in self._whole:
            arrays = [cast_or_null(values, column.type) for values in self._read(column)]
            self._whole[column.id] = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
            del self._stored[column.id], arrays  # two copies would be held until the stripe is written
        return self._whole[column.id]

    def validity(self, column: Column) -> pa.Array:
        """Return where a field of all pieces has a stored value."""
        return pa.concat_arrays([values.is_valid() for values in self._read(column)])

    def _read(self, column: Column) -> list[pa.Array]:
        if column.id not in self._stored:
            self._stored[column.id] = [read_stored(piece.source, column, piece.rows) for piece in self._pieces]
        return self._stored[column.id]

    def gather(self, chosen: npt.NDArray[np.uint32]) -> Callable[[Column], pa.Array]:
        """Return a function that reads a field at the chosen rows."""
        is_everything = len(chosen) == self._rows and bool(np.all(chosen[1:] > chosen[:-1]))
        positions = pa.array(chosen)

        def read(column: Column) -> pa.Array:
            values = self.whole(column)
            return values if is_everything else values.take(positions)

        return read


def join_ops(parts: Sequence[tuple[npt.NDArray[np.uint8] | None, int]]) -> npt.NDArray[np.uint8] | None:
    """Lay the operations of rows end to end, None where all are puts; of each part, the number of its rows is given."""
    if all(ops is None for ops, _ in parts):
        return None
    return np.concatenate([np.full(rows, OpType.PUT, dtype=np.uint8) if ops is None else ops for ops, rows in parts])


def _stripe(
    ranks: npt.NDArray[np.uint32],
    times: npt.NDArray[np.int64],
    sequences: npt.NDArray[np.uint64],
    ops: npt.NDArray[np.uint8] | None,
    chosen: npt.NDArray[np.uint32],
    read: Callable[[Column], pa.Array],
) -> Stripe:
    return Stripe(ranks[chosen], times[chosen], sequences[chosen], None if ops is None else ops[chosen], read)
