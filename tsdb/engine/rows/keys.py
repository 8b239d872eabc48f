"""The keys of a memtable: every series once, under a number; rows hold the number.

    number: 0 … n-1        n … 2n-1        2n …
            ├─ shard 0 ───┤├─ shard 1 ───┤├─ young keys: not a full shard yet

- A full shard holds the tags of its keys compressed; they are decompressed when they are read. Hashes and the table in
  which keys are found are a kernel's (`SeriesNumbers`).
- One thread adds keys, the region's worker; any thread reads. Tags are there before a row has their number.
- The next memtable of a region takes the keys over (`fork`), so that its series need not be registered again: those
  that had rows, within a limit of bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb import _kernels
from tsdb.engine.rows.packed import PackedArray, pack_array
from tsdb.engine.rows.series import Positions, sort_order
from tsdb.engine.tuning import ARRAY_BYTES
from tsdb.model import LateTags, SeriesTable, TagKeeper, make_tags, take_tags

Numbers = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]

_YOUNG_BATCHES_MAX = 64
"""So many batches of young keys are put together: each takes memory besides its tags."""
_FORK_USED_RATIO = 2
"""Keys are taken over as they are if one in this many had rows; if fewer had, the others are left behind."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tags:
    """The tags of all keys at one moment; replaced, never changed."""

    shards: tuple[PackedArray, ...] = ()
    young: tuple[pa.RecordBatch, ...] = ()
    young_keys: int = 0

    @property
    def nbytes(self) -> int:
        shards = sum(shard.nbytes for shard in self.shards)
        return shards + sum(int(batch.nbytes + batch.num_columns * ARRAY_BYTES) for batch in self.young)


class SeriesKeys(TagKeeper):
    """Numbers for series, and the tags and hashes of numbers."""

    def __init__(self, schema: pa.Schema, *, shard_keys: int) -> None:
        self.schema = schema
        self.shard_keys = shard_keys
        self._numbers = _kernels.SeriesNumbers()
        self._tags = _Tags()
        self._tags_bytes = 0
        self._ranks: Numbers = np.empty(0, np.uint32)
        """Where each key is in the order of tags, as long as there are no more keys than these."""
        self._has_rows = np.zeros(0, np.bool_)

    def __len__(self) -> int:
        tags = self._tags
        return len(tags.shards) * self.shard_keys + tags.young_keys

    @property
    def shards(self) -> int:
        """How many shards there are, the young keys counted as one."""
        tags = self._tags
        return len(tags.shards) + (tags.young_keys > 0)

    @property
    def nbytes(self) -> int:
        return self._numbers.nbytes + self._tags_bytes + self._ranks.nbytes + self._has_rows.nbytes

    def number(self, series: SeriesTable) -> Numbers:
        """Return the numbers of series that have rows; those that are new are registered. The worker alone calls it."""
        found, new = self._numbers.number(series.tsid, series.check)
        numbers, places = _uint32(found), _uint32(new)
        if len(places):
            try:
                self._add(series.take_tags(places.astype(np.int64)))
            except BaseException:
                self._forget_numbers()
                raise
        self._has_rows[numbers] = True
        return numbers

    def _forget_numbers(self) -> None:
        """Take back the numbers of keys whose tags could not be kept."""
        kept = _kernels.SeriesNumbers()
        kept.number(*self.hashes(np.arange(len(self), dtype=np.uint32)))
        self._numbers = kept

    def _add(self, tags: pa.RecordBatch) -> None:
        known = self._tags
        young, keys = (*known.young, tags), known.young_keys + tags.num_rows
        shards = list(known.shards)
        if keys >= self.shard_keys or len(young) > _YOUNG_BATCHES_MAX:
            whole = _concat(young)
            first = 0
            while keys - first >= self.shard_keys:
                shards.append(self._pack(whole.slice(first, self.shard_keys)))
                first += self.shard_keys
            # A copy: what is sliced would hold the whole.
            rest = take_tags(whole, np.arange(first, keys))
            young, keys = ((rest,) if keys > first else ()), keys - first
        self._tags = after = _Tags(tuple(shards), young, keys)
        self._tags_bytes = after.nbytes
        if len(self) > len(self._has_rows):
            more = np.zeros(len(self) + len(self) // 8, np.bool_)
            more[: len(self._has_rows)] = self._has_rows
            self._has_rows = more

    def _pack(self, tags: pa.RecordBatch) -> PackedArray:
        return pack_array(tags) if tags.num_columns else PackedArray(tags.num_rows, b"")

    def shard_of(self, numbers: Numbers) -> Numbers:
        return numbers // np.uint32(self.shard_keys)

    def hashes(self, numbers: Numbers) -> tuple[Hashes, Hashes]:
        """Return both hashes of keys."""
        tsid, check = self._numbers.hashes(np.ascontiguousarray(numbers, np.uint32))
        return pa.array(tsid).to_numpy(), pa.array(check).to_numpy()

    def table(self, numbers: Numbers) -> SeriesTable:
        """Return keys as series whose tags are read when they are needed."""
        return SeriesTable(*self.hashes(numbers), LateTags(self.schema, numbers, self))

    def read_tags(self, numbers: Numbers) -> pa.RecordBatch:
        known = self._tags
        names = self.schema.names
        if not names or not len(numbers):
            empty = [pa.array([], kind) for kind in self.schema.types]
            return make_tags(empty, names, len(numbers))
        shards = np.minimum(self.shard_of(numbers), len(known.shards))
        order = np.argsort(shards, kind="stable")
        bounds = np.flatnonzero(np.diff(shards[order])) + 1
        pieces = []
        for places in np.split(order, bounds):
            shard = int(shards[places[0]])
            within = numbers[places].astype(np.int64) - shard * self.shard_keys
            pieces.append(take_tags(self._shard_tags(known, shard), within))
        whole = _concat(pieces)
        if len(pieces) == 1:
            return whole
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return take_tags(whole, back)

    def _shard_tags(self, known: _Tags, shard: int) -> pa.RecordBatch:
        return known.shards[shard].unpack_batch() if shard < len(known.shards) else _concat(known.young)

    def order(self, numbers: Numbers) -> Numbers:
        """Return distinct keys in the order of their tags."""
        ranks = self._ranks
        count = len(self)
        if len(ranks) < count:
            if 4 * len(numbers) < count:
                return numbers[sort_order(self.read_tags(numbers))]
            ranks = self._ranks = self._rank_all(count)
        return numbers[np.argsort(ranks[numbers])]

    def _rank_all(self, count: int) -> Numbers:
        order = sort_order(self.read_tags(np.arange(count, dtype=np.uint32)))
        ranks = np.empty(count, np.uint32)
        ranks[order] = np.arange(count, dtype=np.uint32)
        return ranks

    def union(self, sets: list[Numbers]) -> tuple[Numbers, list[Positions]]:
        """Return the keys of some sets in the order of their tags, and for each set where its keys are among them."""
        distinct = np.unique(np.concatenate(sets))
        ordered = self.order(distinct)
        places = np.empty(int(distinct[-1]) + 1 if len(distinct) else 0, np.int64)
        places[ordered] = np.arange(len(ordered))
        return ordered, [places[each] for each in sets]

    def fork(self, bytes_max: int) -> SeriesKeys | None:
        """Return the keys that the next memtable begins with; None if it begins without.

        Keys without rows are left behind when they are the most, unless no key had any. Of more keys than there is room
        for, those stay that came last.
        """
        count = len(self)
        used = np.flatnonzero(self._has_rows[:count])
        if not len(used):
            used = np.arange(count)
        if not count or bytes_max <= 0:
            return None
        if _FORK_USED_RATIO * len(used) >= count and self.nbytes <= bytes_max:
            self._has_rows = np.zeros(len(self._has_rows), np.bool_)
            return self
        room = min(len(used), bytes_max * count // self.nbytes)
        while room:
            copied = self._copy(used[len(used) - room :].astype(np.uint32))
            if copied.nbytes <= bytes_max:
                return copied
            room //= 2  # a table of few keys has more slots for each
        return None

    def _copy(self, numbers: Numbers) -> SeriesKeys:
        copied = SeriesKeys(self.schema, shard_keys=self.shard_keys)
        for start in range(0, len(numbers), self.shard_keys):
            part = numbers[start : start + self.shard_keys]
            copied.number(SeriesTable(*self.hashes(part), self.read_tags(part)))
        copied._has_rows = np.zeros(len(copied._has_rows), np.bool_)
        return copied


def _concat(batches: tuple[pa.RecordBatch, ...] | list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays(parts) for parts in zip(*(batch.columns for batch in batches), strict=True)]
    return make_tags(columns, batches[0].schema.names, sum(batch.num_rows for batch in batches))


def _uint32(array: _kernels.ArrowArray) -> Numbers:
    values: Numbers = pa.array(array).to_numpy()
    return values
