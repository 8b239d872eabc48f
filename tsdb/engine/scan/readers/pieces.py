"""Runs of whole pieces: columns are aggregated as they lie in memory, many pieces at a time.

    part ─▶ pieces its rows lie in ─▶ their times ─▶ runs ─▶ columns of the pieces that have any ─▶ cells

Pieces whose columns are all decoded already cost no memory and are taken at once. Others are taken in batches, so that
what is decoded at a time stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.arrays import as_numpy
from tsdb.engine.errors import ScanTooLarge
from tsdb.engine.rows.narrow import DOUBLE
from tsdb.engine.rows.series import Positions
from tsdb.engine.rows.source import Held, SourceReader
from tsdb.engine.scan.cells.run_query import Cells, Ends, RunQuery, State, Values
from tsdb.engine.scan.plan.parts import Part
from tsdb.engine.scan.snapshot.statistics import ScanStatistics
from tsdb.model import RegionSchema

RUNS_MAX = 1 << 22
"""More runs, or cells, are not held at a time: each run takes 32 bytes, and a cell a few numbers for each column."""

_BATCH_BYTES_MAX = 64 << 20
_VALUE_BYTES = 8
_RUN_BYTES = 64

ReadChunk = Callable[[int, Sequence[str]], list[pa.Array]]
"""Returns columns of a chunk by the chunk's number and the columns' names."""


@dataclass(slots=True)
class RunStatistics:
    """What an aggregation did, beyond what its scans count."""

    runs: int = 0
    cells: int = 0
    pieces: int = 0
    blocks: int = 0
    series: int = 0
    plan_ns: int = 0
    """To find parts, segments and groups."""
    run_ns: int = 0
    """To read and aggregate."""

    @classmethod
    def total(cls, parts: Iterable[RunStatistics]) -> RunStatistics:
        """Return the sum of several."""
        numbers = [astuple(part) for part in parts]
        return cls(*(sum(column) for column in zip(*numbers, strict=True)))


def too_many_runs() -> ScanTooLarge:
    return ScanTooLarge(rows=RUNS_MAX, bytes_max=RUNS_MAX * _RUN_BYTES)


def can_take_pieces(part: Part, schema: RegionSchema, query: RunQuery) -> bool:
    """Tell whether a part's columns can be used as they lie in memory."""
    source = part.source
    if source.facts.has_tombstones:
        return False
    for name in query.columns:
        column = schema.by_name[name]
        if column is not schema.time and source.stored_type(column.id) != column.type:
            return False
    return True


@dataclass(slots=True, eq=False)
class _Chunks:
    """Pieces of one source, and what was read of them."""

    source: SourceReader
    schema: RegionSchema
    numbers: list[int]
    columns: dict[str, list[Held]] = field(default_factory=dict)

    def read(self, numbers: Sequence[int], names: Sequence[str]) -> list[list[pa.Array]]:
        """Return columns in the types of the table, with one array for each piece."""
        found = [self.schema.by_name[name] for name in names]
        arrays = self.source.pieces(numbers, [column.id for column in found])
        return [
            [values.view(column.type) for values in pieces] if column is self.schema.time else pieces
            for column, pieces in zip(found, arrays, strict=True)
        ]

    def hold(self, names: Sequence[str]) -> None:
        """Keep columns of the pieces, as they are held."""
        found = self.source.pieces_as_held(self.numbers, [self.schema.by_name[name].id for name in names])
        self.columns = dict(zip(names, found, strict=True))


class PieceBatch:
    """Pieces that are aggregated together."""

    def __init__(self, query: RunQuery, threads: int, statistics: RunStatistics) -> None:
        self._query = query
        self._threads = threads
        self._statistics = statistics
        self._clear()

    def _clear(self) -> None:
        self._runs = new_runs(self._query)
        self._chunks: list[_Chunks] = []
        self._bytes = 0

    def add_part(
        self,
        part: Part,
        schema: RegionSchema,
        groups: Positions,
        counters: ScanStatistics,
        check: Callable[[], None],
    ) -> Iterator[Cells]:
        """Take the runs of a part; yields cells when enough is held. `check` raises when the query is over."""
        source = part.source
        offsets = source.piece_offsets
        numbers, rows = _kernels.touched_chunks(part.starts, part.stops, offsets)
        counters.add(rows_read=rows)
        check()
        if self._chunks and self._chunks[-1].source.holds_narrow != source.holds_narrow:
            # Columns are aggregated in one type: what is narrow would have to be copied to be as wide as the rest.
            yield from self.finish()
        if self._add_at_hand(part, schema, groups, numbers, offsets):
            return
        step, step_bytes = self._plan_steps(source, schema, numbers, offsets)
        for at in range(0, len(numbers), step):
            check()
            self._add(part, schema, groups, numbers[at : at + step], offsets)
            self._bytes += step_bytes
            if self._bytes >= _BATCH_BYTES_MAX:
                yield from self.finish()

    def _add_at_hand(
        self, part: Part, schema: RegionSchema, groups: Positions, numbers: list[int], offsets: Positions
    ) -> bool:
        """Take runs of pieces whose columns are all decoded; False, and nothing is done, if one is not."""
        source, query = part.source, self._query
        if query.newest is not None or query.oldest is not None:
            return False
        wanted = [schema.by_name[name].id for name in query.states]
        needs_times = query.needs_times or not part.is_inside
        if needs_times:
            wanted.append(schema.time.id)
        found = source.pieces_at_hand(numbers, wanted)
        if found is None:
            return False
        times = found.pop() if needs_times else None
        added = self._add_runs(part, groups, numbers, offsets, times)
        if not all(added):
            kept = [at for at, count in enumerate(added) if count]
            numbers = [numbers[at] for at in kept]
            found = [[pieces[at] for at in kept] for pieces in found]
        if numbers:
            chunks = _Chunks(source, schema, numbers)
            chunks.columns = dict(zip(query.states, found, strict=True))
            self._chunks.append(chunks)
        return True

    def _plan_steps(
        self, source: SourceReader, schema: RegionSchema, numbers: list[int], offsets: npt.NDArray[np.int64]
    ) -> tuple[int, int]:
        """Decide how many pieces are taken at a time, and what decoding them takes."""
        wanted = [schema.time.id, *(schema.by_name[name].id for name in self._query.columns)]
        if source.has_pieces(numbers, wanted):
            return max(1, len(numbers)), 0
        piece_bytes = int(np.diff(offsets).max()) * _VALUE_BYTES * len(wanted)
        step = max(1, min(len(numbers), _BATCH_BYTES_MAX // max(1, piece_bytes)))
        return step, step * piece_bytes

    def _add_runs(
        self, part: Part, groups: Positions, numbers: list[int], offsets: Positions, times: list[Held] | None
    ) -> list[int]:
        """Add the runs of pieces; returns how many each has."""
        within = None if part.is_inside else (part.time_range.start, part.time_range.last)
        try:
            added = self._runs.add_chunks(part.starts, part.stops, groups, offsets, numbers, times, within)
        except _kernels.LimitExceeded as error:
            raise too_many_runs() from error
        self._statistics.runs += sum(added)
        return added

    def _add(self, part: Part, schema: RegionSchema, groups: Positions, numbers: list[int], offsets: Positions) -> None:
        source, query = part.source, self._query
        needs_times = query.needs_times or not part.is_inside
        times = source.pieces_as_held(numbers, [schema.time.id])[0] if needs_times else None
        added = self._add_runs(part, groups, numbers, offsets, times)
        kept = [number for number, count in zip(numbers, added, strict=True) if count]
        if kept:
            chunks = _Chunks(source, schema, kept)
            chunks.hold(list(query.states))
            self._chunks.append(chunks)

    def finish(self) -> Iterator[Cells]:
        """Yield the cells of what is held."""
        if self._chunks:
            held, runs, query = self._chunks, self._runs, self._query
            self._statistics.pieces += sum(len(chunks.numbers) for chunks in held)
            columns = {name: [values for chunks in held for values in chunks.columns[name]] for name in query.states}
            doubles = [held[0].schema.by_name[name].type == DOUBLE for name in query.states]
            yield make_cells(runs, query, columns, _Ends(runs, held), doubles=doubles, threads=self._threads)
        self._clear()


class _Ends:
    """Reads the rows that end cells."""

    def __init__(self, runs: _kernels.SeriesRuns, held: list[_Chunks]) -> None:
        self._runs = runs
        self._held = held
        self._places = [(chunks, number) for chunks in held for number in chunks.numbers]

    def __len__(self) -> int:
        return len(self._places)

    def __call__(self, number: int, names: Sequence[str]) -> list[pa.Array]:
        chunks, piece = self._places[number]
        return [values[0] for values in chunks.read([piece], names)]

    def read_all(self, names: Sequence[str], *, is_newest: bool) -> dict[str, pa.Array]:
        """Return columns of numbers in one go: worth it when every piece has the end of a cell."""
        kinds = {name: self._held[0].schema.by_name[name].type for name in names}
        plain = [name for name, kind in kinds.items() if is_number(kind)]
        parts = [chunks.read(chunks.numbers, plain) for chunks in self._held]
        columns = [[values for part in parts for values in part[at]] for at in range(len(plain))]
        found = self._runs.end_values(columns, newest=is_newest)
        arrays = [pa.array(each) for each in found]
        return {
            name: values if values.type == kinds[name] else values.view(kinds[name])
            for name, values in zip(plain, arrays, strict=True)
        }


def is_number(kind: pa.DataType) -> bool:
    """Tell whether the kernel can hold values of a type."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_timestamp(kind)
    )


def new_runs(query: RunQuery) -> _kernels.SeriesRuns:
    return _kernels.SeriesRuns(width=query.width, origin=query.origin, runs_max=RUNS_MAX)


def add_runs(
    runs: _kernels.SeriesRuns, starts: Positions, stops: Positions, groups: Positions, times: pa.Array | None
) -> int:
    """Add the row ranges of one chunk to runs; ScanTooLarge when there are too many."""
    try:
        return runs.add(starts, stops, groups, times)
    except _kernels.LimitExceeded as error:
        raise too_many_runs() from error


def make_cells(
    runs: _kernels.SeriesRuns,
    query: RunQuery,
    columns: dict[str, list[Held]],
    read: ReadChunk,
    *,
    doubles: list[bool] | None = None,
    threads: int,
) -> Cells:
    """Number the cells of runs and compute their states; `read` is for the ends of cells.

    Chunks of a column that has `doubles` may be held as integers.
    """
    groups, buckets = runs.cells()
    rows = as_numpy(runs.rows())
    found = runs.aggregate([columns[name] for name in query.states], query.asked, doubles=doubles, threads=threads)
    states: dict[State, Values] = {}
    for names, arrays in zip(query.answered, found, strict=True):
        for state, array in zip(names, arrays, strict=True):
            states[state] = rows if array is None else as_numpy(array)
    return Cells(
        as_numpy(groups),
        as_numpy(buckets),
        rows,
        runs.row_count,
        states,
        _read_ends(runs, query.newest, read, is_newest=True),
        _read_ends(runs, query.oldest, read, is_newest=False),
    )


def _read_ends(
    runs: _kernels.SeriesRuns, names: tuple[str, ...] | None, read: ReadChunk, *, is_newest: bool
) -> Ends | None:
    """Read columns in the rows that end cells, and nothing of the chunks that have none of them."""
    if names is None:
        return None
    chunks, rows, times = (as_numpy(each) for each in runs.ends(newest=is_newest))
    order = np.argsort(chunks, kind="stable")
    touched, starts = np.unique(chunks[order], return_index=True)
    values: dict[str, pa.Array] = {}
    if isinstance(read, _Ends) and len(touched) == len(read):
        values = read.read_all(names, is_newest=is_newest)
    rest = [name for name in names if name not in values]
    if rest:
        stops = np.append(starts[1:], len(order))
        # One step for all columns of a chunk: each has a price of its own that is larger than that of a few rows.
        taken = [
            pa.RecordBatch.from_arrays(read(int(chunk), rest), names=rest).take(pa.array(rows[order[start:stop]]))
            for chunk, start, stop in zip(touched, starts, stops, strict=True)
        ]
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        places = pa.array(back)
        for at, name in enumerate(rest):
            values[name] = pa.concat_arrays([batch.column(at) for batch in taken]).take(places)
    return Ends(times, values)
