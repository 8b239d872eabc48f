"""The memtable of type `partition_tree`: less memory for very many series, in return for slower reads.

    append ─▶ raw rows with numbers of keys ─(a full shard, or raw_bytes_max)▶ compact run ─(tiers)▶ a larger one

- A series is registered once, with its tags, among the keys (`SeriesKeys`), which all rows and runs share. With
  `time_series`, every batch and every run has the tags of its series.
- Piles of raw rows, and runs that are merged, are compressed (`CompactRun`). What a reader sorts is small and stays as
  it is until it is merged.
- The next memtable of the region takes over the keys. They are charged to the write buffer as long as they are held:
  those that a memtable registered belong to its `nbytes`, which a flush frees; those that it took over do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.compact import PIECE_ROWS, CompactRun, SeriesSpans
from tsdb.engine.rows.keys import Numbers, SeriesKeys
from tsdb.engine.rows.memtable import Memtable, Window, has_unique_keys
from tsdb.engine.rows.merge import Merge, Selection, Stripe
from tsdb.engine.rows.narrow import narrowed
from tsdb.engine.rows.run import MemorySource, RowPiece, Rows, Run, count_arrays, sort_ranked
from tsdb.engine.tuning import ARRAY_BYTES, MemtableTuning
from tsdb.model import Batch, RegionOptions, RegionSchema
from tsdb.units import Size


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """The settings of this type of memtable."""

    shard_keys: int = 8192
    """Keys of one shard."""
    freeze_rows: int = 32_768
    """Raw rows of one shard that are compressed."""
    fork_bytes: Size = Size(1 << 30)
    """What keys may take that the next memtable takes over."""


class PartitionTree(Memtable):
    """A memtable whose rows are numbers of keys, and whose runs are compressed."""

    def __init__(
        self,
        schema: RegionSchema,
        options: RegionOptions,
        *,
        window_ticks: int,
        tuning: MemtableTuning,
        tree: TreeOptions,
        caches: Caches,
        on_bytes: Callable[[int], None] = lambda delta: None,
        on_kept: Callable[[int], None] = lambda delta: None,
    ) -> None:
        """`on_kept` is told of bytes of keys that outlive a flush; they are among those that `on_bytes` is told of."""
        small = replace(tuning, freeze_rows=min(tuning.freeze_rows, tree.freeze_rows))
        super().__init__(schema, options, window_ticks=window_ticks, tuning=small, on_bytes=on_bytes)
        self.keys = SeriesKeys(schema.arrow_tags, shard_keys=tree.shard_keys)
        self._tree = tree
        self._caches = caches
        self._on_kept = on_kept
        self._raw_bytes: dict[int, int] = {}
        self._shard_rows: dict[int, npt.NDArray[np.int64]] = {}
        """Of each window, how many raw rows each shard has."""
        self._kept_bytes = 0
        """What the keys took that were taken over, with what is charged to this memtable for them."""
        self._grown_bytes = 0
        """What the keys took since; part of `nbytes`."""
        self._is_registering = False
        """The first rows are on their way."""
        self._owns_keys = True
        self._next: PartitionTree | None = None
        """The memtable that took over the keys, if it has the same."""

    @property
    def kept_bytes(self) -> int:
        return self._kept_bytes

    def take_over(self, before: Memtable, room_bytes: int) -> None:
        """Begin with the keys of the memtable before this one, which takes no more rows. On the worker.

        `room_bytes` is what keys may take besides those that were taken over before.
        """
        if not isinstance(before, PartitionTree) or not before._owns_keys:
            return
        bytes_max = min(room_bytes + before._kept_bytes, self._tree.fork_bytes)
        if before.schema.tags_key != self.schema.tags_key or before.keys.shard_keys != self.keys.shard_keys:
            return
        keys = before.keys.fork(bytes_max)
        if keys is None:
            return
        self.keys = keys
        if keys is before.keys:
            grown, self._kept_bytes = before._give_keys(self)
            self._on_kept(grown)
        else:
            self._kept_bytes = keys.nbytes
            self._on_bytes(self._kept_bytes)
            self._on_kept(self._kept_bytes)

    def _give_keys(self, to: PartitionTree) -> tuple[int, int]:
        """Let the next memtable be charged for the keys; return what they grew by here, and what they take."""
        self._charge_keys()
        with self._lock:
            grown, kept = self._grown_bytes, self._kept_bytes
            self.nbytes -= grown
            self._grown_bytes = self._kept_bytes = 0
            self._owns_keys, self._next = False, to
        return grown, kept + grown

    def release(self) -> None:
        with self._lock:
            kept, self._kept_bytes, self._grown_bytes = self._kept_bytes, 0, 0
            self._owns_keys, self._next = False, None
        super().release()
        self._on_bytes(-kept)
        self._on_kept(-kept)
        for window in self._windows.values():
            _forget(window.runs)

    def _charge_keys(self) -> None:
        """Charge what the keys take by now: new ones came, or their order was remembered."""
        after = self._next
        if after is not None:
            after._charge_keys()
        with self._lock:
            if not self._owns_keys:
                return
            delta = self.keys.nbytes - self._kept_bytes - self._grown_bytes
            is_kept = self.is_empty and not self._is_registering
            if is_kept:
                self._kept_bytes += delta
            else:
                self._grown_bytes += delta
                self.nbytes += delta
        self._on_bytes(delta)
        self._on_kept(delta if is_kept else 0)

    def _is_pile(self, start: int) -> bool:
        tuning = self._tuning
        return (
            int(self._shard_rows[start].max()) >= self._tree.freeze_rows
            or self._raw_bytes[start] >= tuning.raw_bytes_max
            or self._raw_arrays[start] * ARRAY_BYTES >= tuning.pile_bytes
        )

    def _count_raw(self, start: int, pieces: Sequence[Rows], sign: int) -> None:
        super()._count_raw(start, pieces, sign)
        self._raw_bytes[start] = self._raw_bytes.get(start, 0) + sign * sum(piece.nbytes for piece in pieces)
        rows = np.zeros(max(1, self.keys.shards), np.int64)
        known = self._shard_rows.get(start, rows)
        rows[: len(known)] = known
        for piece in pieces:
            counts = np.bincount(piece.series_index, minlength=len(piece.numbers))
            np.add.at(rows, self.keys.shard_of(piece.numbers), sign * counts)
        self._shard_rows[start] = rows

    def _to_rows(self, batch: Batch, base_sequence: int, nbytes: int) -> Rows:
        fields = {}
        for name, values in batch.fields.items():
            column = self.schema.by_name[name]
            fields[column.id] = _own(values if values.type == column.type else values.cast(column.type))
        self._is_registering = True
        numbers = self.keys.number(batch.series)
        self._charge_keys()
        # Copies: what a batch brought may lie in one piece of memory with its tags.
        index, times = np.array(batch.series_index), np.array(batch.times)
        taken = sum(values.nbytes for values in fields.values()) + index.nbytes + times.nbytes + numbers.nbytes
        charged = int(taken) + count_arrays(numbers, fields) * ARRAY_BYTES
        return Rows(numbers, index, times, base_sequence, batch.op, fields, charged)

    def _sort(self, raw: tuple[Rows, ...]) -> Run:
        ordered, places = self.keys.union([piece.numbers for piece in raw])
        ranks = pa.array(np.concatenate(places).astype(np.uint32))
        table = self.keys.table(ordered)
        run = sort_ranked(self.schema, raw, table, ranks, drop_overwritten=self._drops_overwritten)
        self._charge_keys()
        return run

    def _sort_pile(self, raw: tuple[Rows, ...]) -> MemorySource:
        run = self._sort(raw)
        return CompactRun.of_run(run, _numbers_of(run), self.keys, self._caches)

    def _merge(self, runs: tuple[MemorySource, ...]) -> MemorySource:
        ordered, places = self.keys.union([_numbers_of(run) for run in runs])
        self._charge_keys()
        merge = Merge(
            self.schema,
            self._merge_options,
            [Selection.all_of(run.passing_reader()) for run in runs],
            keep_tombstones=True,
            stripe_rows=PIECE_ROWS,
            union=(self.keys.table(ordered), places),
        )
        if sum(run.facts.rows for run in runs) < self._tuning.freeze_rows:
            return self._join(merge)
        pieces = _Pieces(self.schema, merge)
        return CompactRun.of_pieces(
            self.schema,
            pieces,
            ordered,
            self.keys,
            self._caches,
            is_unique=lambda: self._drops_overwritten or pieces.are_unique,
        )

    def _install(self, start: int, taken: Window, done: Window) -> bool:
        is_installed = super()._install(start, taken, done)
        if is_installed:
            _forget(run for run in taken.runs if run not in done.runs)
        return is_installed


class _Pieces:
    """Merged rows, piece after piece as they are compressed."""

    def __init__(self, schema: RegionSchema, merge: Merge) -> None:
        self._schema = schema
        self._merge = merge
        self.are_unique = True
        """Whether no two rows so far have one series and time."""

    def __iter__(self) -> Iterator[tuple[RowPiece, SeriesSpans]]:
        return map(self._piece, self._merge.stripes())

    def _piece(self, stripe: Stripe) -> tuple[RowPiece, SeriesSpans]:
        self.are_unique = self.are_unique and (stripe.is_unique or has_unique_keys(stripe.ranks, stripe.times))
        found = _kernels.run_boundaries(pa.array(stripe.ranks), pa.array(stripe.times))
        starts, time_min, time_max = (pa.array(part).to_numpy() for part in found)
        counts = np.diff(np.append(starts.astype(np.int64), stripe.rows))
        fields = {column.id: narrowed(stripe.read(column)) for column in self._schema.fields}
        piece = RowPiece(stripe.times, stripe.sequences, stripe.ops, fields)
        return piece, SeriesSpans(stripe.ranks[starts], counts, time_min, time_max)


def _numbers_of(source: MemorySource) -> Numbers:
    """Return the keys of a run of this type of memtable, in the order of their tags."""
    if isinstance(source, CompactRun):
        return source.numbers()
    late = source.block.table.late
    assert late is not None
    return late.numbers


def _forget(runs: Iterator[MemorySource] | Sequence[MemorySource]) -> None:
    for run in runs:
        if isinstance(run, CompactRun):
            run.forget()


def _own(values: pa.Array) -> pa.Array:
    """Return a copy of values."""
    return pa.concat_arrays([values.slice(0, 0), values])
