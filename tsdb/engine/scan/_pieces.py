"""Runs of whole pieces: columns are aggregated as they lie in memory, many pieces at a time.

    part ─▶ pieces its rows lie in ─▶ their times ─▶ runs ─▶ columns of the pieces that have any ─▶ cells

Pieces whose columns are all decoded already cost no memory and are taken at once. Others are taken in batches, so that
what is decoded at a time stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.errors import ScanTooLarge
from tsdb.engine.scan._parts import Part
from tsdb.engine.scan._run_query import Cells, Ends, RunQuery, State, Values
from tsdb.engine.series import Positions
from tsdb.engine.source import PiecedSource, is_pieced
from tsdb.model import RegionSchema

RUNS_MAX = 1 << 22
"""More runs, or cells, are not held at a time: each run takes 32 bytes, and a cell a few numbers for each column."""

_BATCH_BYTES_MAX = 64 << 20
_VALUE_BYTES = 8
_RUN_BYTES = 64

Stretches = tuple[pa.Array, pa.Array, pa.Array]
"""Starts, stops and groups."""

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


def too_many_runs() -> ScanTooLarge:
    return ScanTooLarge(rows=RUNS_MAX, bytes_max=RUNS_MAX * _RUN_BYTES)


def can_take_pieces(part: Part, schema: RegionSchema, query: RunQuery) -> bool:
    """Tell whether a part's columns can be used as they lie in memory."""
    source = part.source
    if source.facts.has_tombstones or not is_pieced(source):
        return False
    columns = (schema.by_name[name] for name in query.columns)
    return all(column is schema.time or source.stored_type(column.id) == column.type for column in columns)


@dataclass(slots=True, eq=False)
class _Chunks:
    """Pieces of one source, and what was read of them."""

    source: PiecedSource
    schema: RegionSchema
    numbers: list[int]
    columns: dict[str, list[pa.Array]] = field(default_factory=dict)

    def read(self, numbers: Sequence[int], names: Sequence[str], *, is_narrow: bool = False) -> list[list[pa.Array]]:
        """Return columns in the types of the table, or integers as they are held, with one array for each piece."""
        found = [self.schema.by_name[name] for name in names]
        arrays = self.source.pieces(numbers, [column.id for column in found], is_narrow=is_narrow)
        return [
            [values.view(column.type) for values in pieces] if column is self.schema.time else pieces
            for column, pieces in zip(found, arrays, strict=True)
        ]


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
        self, part: Part, schema: RegionSchema, groups: Positions, check: Callable[[], None]
    ) -> Iterator[Cells]:
        """Take the runs of a part; yields cells when enough is held. `check` raises when the query is over."""
        source = part.source
        assert is_pieced(source)
        offsets = source.piece_offsets
        numbers = _touched(part, offsets)
        stretches = pa.array(part.starts), pa.array(part.stops), pa.array(groups)
        check()
        if self._chunks and self._chunks[-1].source.holds_narrow != source.holds_narrow:
            # Columns are aggregated in one type: what is narrow would have to be copied to be as wide as the rest.
            yield from self.finish()
        if self._add_at_hand(part, schema, stretches, numbers, offsets):
            return
        step, step_bytes = self._plan_steps(source, schema, numbers, offsets)
        for at in range(0, len(numbers), step):
            check()
            self._add(part, schema, stretches, numbers[at : at + step], offsets)
            self._bytes += step_bytes
            if self._bytes >= _BATCH_BYTES_MAX:
                yield from self.finish()

    def _add_at_hand(
        self,
        part: Part,
        schema: RegionSchema,
        stretches: Stretches,
        numbers: list[int],
        offsets: npt.NDArray[np.int64],
    ) -> bool:
        """Take runs of pieces whose columns are all decoded; False, and nothing is done, if one is not."""
        source, query = part.source, self._query
        assert is_pieced(source)
        if query.newest is not None or query.oldest is not None:
            return False
        names = list(query.states)
        needs_times = query.needs_times or not part.is_inside
        own = [schema.by_name[name] for name in names]
        wanted = [*([schema.time.id] if needs_times else ()), *(column.id for column in own)]
        found = source.pieces_at_hand(numbers, wanted)
        if found is None:
            return False
        times = found.pop(0) if needs_times else None
        added = self._add_runs(part, stretches, numbers, offsets, times)
        kept = [at for at, count in enumerate(added) if count]
        if kept:
            chunks = _Chunks(source, schema, [numbers[at] for at in kept])
            for name, column, pieces in zip(names, own, found, strict=True):
                arrays = pieces if len(kept) == len(numbers) else [pieces[at] for at in kept]
                is_time = column is schema.time
                chunks.columns[name] = [values.view(column.type) for values in arrays] if is_time else arrays
            self._chunks.append(chunks)
        return True

    def _plan_steps(
        self, source: PiecedSource, schema: RegionSchema, numbers: list[int], offsets: npt.NDArray[np.int64]
    ) -> tuple[int, int]:
        """Decide how many pieces are taken at a time, and what decoding them takes."""
        wanted = [schema.time.id, *(schema.by_name[name].id for name in self._query.columns)]
        if source.has_pieces(numbers, wanted):
            return max(1, len(numbers)), 0
        piece_bytes = int(np.diff(offsets).max()) * _VALUE_BYTES * len(wanted)
        step = max(1, min(len(numbers), _BATCH_BYTES_MAX // max(1, piece_bytes)))
        return step, step * piece_bytes

    def _add_runs(
        self,
        part: Part,
        stretches: Stretches,
        numbers: list[int],
        offsets: npt.NDArray[np.int64],
        times: list[pa.Array] | None,
    ) -> list[int]:
        """Add the runs of pieces; returns how many each has."""
        within = None if part.is_inside else (part.time_range.start, part.time_range.last)
        begins, ends = offsets[numbers].tolist(), offsets[[number + 1 for number in numbers]].tolist()
        added = _guarded(lambda: self._runs.add_chunks(*stretches, begins, ends, times, within))
        self._statistics.runs += sum(added)
        return added

    def _add(
        self,
        part: Part,
        schema: RegionSchema,
        stretches: Stretches,
        numbers: list[int],
        offsets: npt.NDArray[np.int64],
    ) -> None:
        source, query = part.source, self._query
        assert is_pieced(source)
        needs_times = query.needs_times or not part.is_inside
        times = source.pieces(numbers, [schema.time.id])[0] if needs_times else None
        added = self._add_runs(part, stretches, numbers, offsets, times)
        kept = [number for number, count in zip(numbers, added, strict=True) if count]
        if kept:
            chunks = _Chunks(source, schema, kept)
            names = list(query.states)
            chunks.columns = dict(zip(names, chunks.read(kept, names, is_narrow=True), strict=True)) if names else {}
            self._chunks.append(chunks)

    def finish(self) -> Iterator[Cells]:
        """Yield the cells of what is held."""
        if self._chunks:
            held, runs, query = self._chunks, self._runs, self._query
            self._statistics.pieces += sum(len(chunks.numbers) for chunks in held)
            columns = {
                name: _alike([values for chunks in held for values in chunks.columns[name]]) for name in query.states
            }
            yield make_cells(runs, query, columns, _Ends(runs, held), threads=self._threads)
        self._clear()


def _alike(arrays: list[pa.Array]) -> list[pa.Array]:
    """Return arrays in one type: integers are held in types of their own, of which the widest has room for all."""
    first = arrays[0].type
    if not pa.types.is_signed_integer(first):
        return arrays
    widths = [values.type.bit_width for values in arrays]
    widest = max(widths)
    if min(widths) == widest:
        return arrays
    kind = arrays[widths.index(widest)].type
    return [values if width == widest else values.cast(kind) for values, width in zip(arrays, widths, strict=True)]


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


def _touched(part: Part, offsets: npt.NDArray[np.int64]) -> list[int]:
    """Return the numbers of the pieces that rows of a part lie in."""
    starts, stops = part.starts, part.stops
    if len(starts) == 1:
        first = int(offsets.searchsorted(starts[0], side="right")) - 1
        last = int(offsets.searchsorted(stops[0], side="left")) - 1
        return list(range(first, last + 1))
    low = stops.searchsorted(offsets[:-1], side="right")
    high = starts.searchsorted(offsets[1:], side="left")
    numbers: list[int] = np.flatnonzero(high > low).tolist()
    return numbers


def new_runs(query: RunQuery) -> _kernels.SeriesRuns:
    return _kernels.SeriesRuns(width=query.width, origin=query.origin, runs_max=RUNS_MAX)


def _guarded(add: Callable[[], list[int]]) -> list[int]:
    """Add runs; ScanTooLarge when there are too many."""
    try:
        return add()
    except ValueError as error:
        if "more than" not in str(error):
            raise
        raise too_many_runs() from error


def add_runs(runs: _kernels.SeriesRuns, stretches: Stretches, times: pa.Array | None) -> int:
    """Add starts, stops and groups of the stretches of one chunk to runs; ScanTooLarge when there are too many."""
    return _guarded(lambda: [runs.add(*stretches, times)])[0]


def make_cells(
    runs: _kernels.SeriesRuns,
    query: RunQuery,
    columns: dict[str, list[pa.Array]],
    read: ReadChunk,
    *,
    threads: int,
) -> Cells:
    """Number the cells of runs and compute their states; `read` is for the ends of cells."""
    groups, buckets = (_numpy(each) for each in runs.cells())
    names = list(query.states)
    wanted = [["count", *(state for state in query.states[name] if state != "count")] for name in names]
    found = runs.aggregate([columns[name] for name in names], wanted, threads=threads) if names else []
    states: dict[State, Values] = {}
    for name, kinds, arrays in zip(names, wanted, found, strict=True):
        parts = [part for kind in kinds for part in (("mean", "squares") if kind == "spread" else (kind,))]
        states.update({(name, part): _numpy(array) for part, array in zip(parts, arrays, strict=True)})
    return Cells(
        groups,
        buckets,
        _numpy(runs.rows()),
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
    chunks, rows, times = (_numpy(each) for each in runs.ends(newest=is_newest))
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


def _numpy(array: _kernels.ArrowArray) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.int64] = np.frombuffer(memoryview(array), array.dtype)
    return values
