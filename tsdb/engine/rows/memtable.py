"""The memtable: rows of a region that are in memory, as lists of immutable pieces per window of time.

    append ─▶ raw rows ─(freeze_rows, or pile_bytes)▶ sorted run ─(tier_runs that overlap, or runs_max)▶ one larger run

- One thread appends, the region's worker. Readers take what `runs` returns, which never changes. A batch is published
  as a whole, in all windows at once, by the swap of one attribute.
- A thread that needs raw rows sorted (a reader, a background job, a flush) sorts them outside the lock and installs the
  run if no other thread was faster.
- Windows of time keep late rows out of the files of today: a flush writes one file per window.
- Runs of few rows, as readers between small writes make them, are merged with those before them that have no
  more rows: so there are never many, and a row is merged again only when its run doubles.
- `nbytes` is what the write buffer is charged: all buffers of raw rows and runs, and what the arrays of raw rows take
  besides their values, which is most of it when writes are small.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.rows.merge import Merge, Selection, Stripe, join_ops
from tsdb.engine.rows.narrow import concat_held, narrowed
from tsdb.engine.rows.run import MemorySource, Rows, Run, count_arrays, make_run, sort_rows
from tsdb.engine.rows.series import SeriesOrder
from tsdb.engine.tuning import ARRAY_BYTES, MemtableTuning
from tsdb.model import Batch, MergeMode, RegionOptions, RegionSchema, SeriesTable, TimeRange


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The pieces of one window of time."""

    raw: tuple[Rows, ...] = ()
    runs: tuple[MemorySource, ...] = ()
    """Oldest first; the sequences of one all lie before those of the next."""


_EMPTY = Window()


class Memtable:
    """Rows of one region under one schema, all written before the region came into append mode or all after it.

    This is the one of type `time_series`; others change how rows are taken, sorted and merged.
    """

    def __init__(
        self,
        schema: RegionSchema,
        options: RegionOptions,
        *,
        window_ticks: int,
        tuning: MemtableTuning,
        on_bytes: Callable[[int], None] = lambda delta: None,
    ) -> None:
        self.schema = schema
        self.options = options
        self._window_ticks = window_ticks
        self._tuning = tuning
        self._on_bytes = on_bytes
        self._lock = threading.Lock()
        self._windows: dict[int, Window] = {}
        """Replaced, never changed: readers hold on to what they took."""
        self._raw_rows: dict[int, int] = {}
        """How many rows of each window are not sorted yet."""
        self._raw_arrays: dict[int, int] = {}
        """And in how many arrays they are."""
        self._fragmented: set[int] = set()
        """Windows with runs to be merged."""
        self._series_order = SeriesOrder()
        self._is_released = False
        self.nbytes = 0
        self.rows = 0
        self.time_range: TimeRange | None = None

    @property
    def is_empty(self) -> bool:
        return self.rows == 0

    @property
    def kept_bytes(self) -> int:
        """What the memtable holds besides rows, and hands on to the next one; it is not part of `nbytes`."""
        return 0

    @property
    def needs_sorting(self) -> bool:
        """Tell whether a background job should sort a pile of raw rows, or merge runs."""
        return bool(self._fragmented) or any(map(self._is_pile, self._raw_rows))

    def _is_pile(self, start: int) -> bool:
        """Tell whether the raw rows of a window should be sorted before a reader needs them."""
        return self._tuning.is_pile(self._raw_rows[start], self._raw_arrays[start])

    def append(self, batch: Batch, base_sequence: int, *, nbytes: int) -> None:
        """Add the rows of a batch, of `nbytes` in memory; row i has sequence `base_sequence + i`.

        The worker alone calls this.
        """
        if not batch.rows:
            return
        span = TimeRange.of(batch.times)
        pieces = self._split(self._to_rows(batch, base_sequence, nbytes), span)
        added = sum(piece.nbytes for _, piece in pieces)
        with self._lock:
            windows = dict(self._windows)
            for start, piece in pieces:
                window = windows.get(start, _EMPTY)
                windows[start] = Window((*window.raw, piece), window.runs)
                self._count_raw(start, (piece,), 1)
            self._windows = windows
            self.rows += batch.rows
            self.nbytes += added
            self.time_range = span if self.time_range is None else self.time_range.union(span)
        self._on_bytes(added)

    def _count_raw(self, start: int, pieces: Sequence[Rows], sign: int) -> None:
        """Count raw rows of a window that came, or that were sorted."""
        rows, arrays = sum(len(piece.times) for piece in pieces), sum(piece.arrays for piece in pieces)
        self._raw_rows[start] = self._raw_rows.get(start, 0) + sign * rows
        self._raw_arrays[start] = self._raw_arrays.get(start, 0) + sign * arrays

    def runs(self) -> dict[int, tuple[MemorySource, ...]]:
        """Return everything as sorted runs per window, oldest first within a window."""
        # Taken once: a batch that comes later is in no window of the answer.
        windows = self._windows
        return {start: self._sorted(start, window, self._sort).runs for start, window in windows.items()}

    def sort_pending(self) -> None:
        """Sort full piles of raw rows and merge runs of one size; for a background job."""
        for start, window in self._windows.items():
            if self._is_pile(start):
                window = self._sorted(start, window, self._sort_pile)
            runs = window.runs
            while (chosen := _mergeable(runs, self._tuning)) is not None:
                merged = (*runs[: chosen.start], self._merge(runs[chosen]), *runs[chosen.stop :])
                if not self._install(start, Window((), runs), Window((), merged)):
                    break
                runs = merged

    def release(self) -> None:
        """Give the write buffer its bytes back; the rows themselves live as long as a reader holds them."""
        with self._lock:
            freed, self.nbytes = self.nbytes, 0
            self._is_released = True
        self._on_bytes(-freed)

    def _to_rows(self, batch: Batch, base_sequence: int, nbytes: int) -> Rows:
        fields = {}
        for name, values in batch.fields.items():
            column = self.schema.by_name[name]
            fields[column.id] = values if values.type == column.type else values.cast(column.type)
        charged = charged_bytes(batch.series, fields, nbytes)
        return Rows(batch.series, batch.series_index, batch.times, base_sequence, batch.op, fields, charged)

    def _split(self, rows: Rows, span: TimeRange) -> list[tuple[int, Rows]]:
        """Return the rows of each window; usually that is all of them."""
        first = span.start // self._window_ticks
        if first == span.last // self._window_ticks:
            return [(first, rows)]
        windows = np.floor_divide(rows.times, self._window_ticks)
        order = np.argsort(windows, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(windows[order])) + 1)
        return [(int(windows[positions[0]]), _take_rows(rows, positions)) for positions in groups]

    def _sorted(self, start: int, window: Window, sort: Callable[[tuple[Rows, ...]], MemorySource]) -> Window:
        """Return a window as it was taken, its raw rows sorted."""
        if not window.raw:
            return window
        done = Window((), (*window.runs, sort(window.raw)))
        self._install(start, window, done)
        return done

    def _sort(self, raw: tuple[Rows, ...]) -> MemorySource:
        """Sort rows for a reader."""
        return sort_rows(self.schema, raw, drop_overwritten=self._drops_overwritten, series_order=self._series_order)

    def _sort_pile(self, raw: tuple[Rows, ...]) -> MemorySource:
        """Sort a pile of rows in the background."""
        return self._sort(raw)

    def _install(self, start: int, taken: Window, done: Window) -> bool:
        """Put sorted pieces in the place of those they were made from, unless another thread was faster."""
        with self._lock:
            current = self._windows[start]
            raw, runs = len(taken.raw), len(taken.runs)
            if current.raw[:raw] != taken.raw or current.runs[:runs] != taken.runs:
                return False
            kept = Window(current.raw[raw:], (*done.runs, *current.runs[runs:]))
            delta = sum(run.nbytes for run in done.runs) - sum(run.nbytes for run in taken.runs)
            delta -= sum(piece.nbytes for piece in taken.raw)
            if self._is_released:  # nothing is charged any more
                delta = 0
            self._windows = {**self._windows, start: kept}
            self._count_raw(start, taken.raw, -1)
            self.nbytes += delta
            if _mergeable(kept.runs, self._tuning) is None:
                self._fragmented.discard(start)
            else:
                self._fragmented.add(start)
        self._on_bytes(delta)
        return True

    @property
    def _drops_overwritten(self) -> bool:
        return not self.options.append_mode and self.options.merge_mode is MergeMode.LAST_ROW

    @property
    def _merge_options(self) -> RegionOptions:
        """Those of merges: only what a later row replaced as a whole is left out."""
        return self.options if self._drops_overwritten else replace(self.options, append_mode=True, append_from=0)

    def _merge(self, runs: tuple[MemorySource, ...]) -> MemorySource:
        """Merge runs that follow each other into one."""
        selections = [Selection.all_of(run.passing_reader()) for run in runs]
        return self._join(Merge(self.schema, self._merge_options, selections, keep_tombstones=True))

    def _join(self, merge: Merge) -> Run:
        """Put what is merged into one run."""
        # Only what a run holds of a stripe stays until the last one is merged.
        stripes = list(map(self._hold, merge.stripes()))
        ranks = np.concatenate([stripe.ranks for stripe in stripes])
        times = np.concatenate([stripe.times for stripe in stripes])
        return make_run(
            self.schema,
            merge.series,
            ranks,
            times,
            np.concatenate([stripe.sequences for stripe in stripes]),
            join_ops([(stripe.ops, stripe.rows) for stripe in stripes]),
            {column.id: concat_held([stripe.read(column) for stripe in stripes]) for column in self.schema.fields},
            is_unique=self._drops_overwritten or has_unique_keys(ranks, times),
        )

    def _hold(self, stripe: Stripe) -> Stripe:
        """Return a stripe with its fields as a run holds them, apart from what they were merged from."""
        fields = {column.id: narrowed(stripe.read(column)) for column in self.schema.fields}
        return replace(stripe, read=lambda column: fields[column.id])


def charged_bytes(series: SeriesTable, fields: Sized, nbytes: int) -> int:
    """Return what raw rows take whose values take `nbytes`."""
    return nbytes + count_arrays(series, fields) * ARRAY_BYTES


def _mergeable(runs: tuple[MemorySource, ...], tuning: MemtableTuning) -> slice | None:
    """Find the newest runs of about one size that are worth a merge: of few rows first, then of many.

    Runs that follow each other in time, as rows in order make them, are read one after the other without a merge: there
    only their number counts. So it is with runs of which only neighbours overlap a little, as writers side by side
    make them: merged, they would still touch their neighbours. Runs that lie on top of each other cost a merge of all
    of them at every read.
    """
    large = len(runs)
    while large and runs[large - 1].facts.rows < tuning.freeze_rows:
        large -= 1
    if (small := _mergeable_small(runs[large:], tuning.tier_runs)) is not None:
        return slice(large + small.start, large + small.stop)
    runs = runs[:large]
    tier_runs, runs_max = tuning.tier_runs, tuning.runs_max
    count = tier_runs if _depth(runs[-tier_runs:]) > tier_runs // 2 else runs_max // 2
    newest = runs[-count:]
    if len(runs) < (tier_runs if count == tier_runs else runs_max):
        return None
    largest, smallest = max(run.facts.rows for run in newest), min(run.facts.rows for run in newest)
    return slice(len(runs) - count, len(runs)) if largest < tier_runs * max(smallest, tuning.freeze_rows) else None


def _mergeable_small(runs: tuple[MemorySource, ...], count: int) -> slice | None:
    """Find the newest runs of which each has no more rows than all after it, if there are `count`."""
    rows, start = 0, len(runs)
    while start and (not rows or runs[start - 1].facts.rows <= rows):
        start -= 1
        rows += runs[start].facts.rows
    return slice(start, len(runs)) if len(runs) - start >= count else None


def _depth(runs: tuple[MemorySource, ...]) -> int:
    """Return how many of the runs, at most, have rows around the same time."""
    spans = [run.facts.time_range for run in runs]
    return max((sum(span.start <= moment.start <= span.last for span in spans) for moment in spans), default=0)


def has_unique_keys(ranks: npt.NDArray[np.uint32], times: npt.NDArray[np.int64]) -> bool:
    return not bool(np.any((ranks[1:] == ranks[:-1]) & (times[1:] == times[:-1])))


def _take_rows(rows: Rows, positions: npt.NDArray[np.intp]) -> Rows:
    chosen = pa.array(positions)
    first = rows.sequences
    return Rows(
        rows.series,
        rows.series_index[positions],
        rows.times[positions],
        first + positions.astype(np.uint64) if isinstance(first, int) else first[positions],
        rows.op,
        {column: values.take(chosen) for column, values in rows.fields.items()},
        rows.nbytes * len(positions) // len(rows.times),
    )
