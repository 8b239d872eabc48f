"""What the numbers of a parser mean to one version of a table: the hashes of each series that was written before.

A parser that keeps series between requests numbers them (`NumberedSeries`). For a number that was here before, the
series of a batch are two look-ups in arrays; its tags are read from the parser when they are needed, never for a row.

- Bound to one version of the region's schema: hashes depend on the names of tags.
- Bound to one source: for another one (another parser, or one that has started over) it starts over.
- Readers take `_seen` as it is; those who add to it make a new one. So readers never wait.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsdb.engine.entry import TagPacker
from tsdb.ingest import NumberedSeries, ParsedTags
from tsdb.model import LateTags, RegionSchema, SeriesTable

Numbers = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """The series of one source, by their numbers. Arrays are filled in place, at positions not read yet."""

    source: tuple[int, int]
    is_there: npt.NDArray[np.bool_]
    tsid: Hashes
    check: Hashes

    @classmethod
    def empty(cls, source: tuple[int, int], size: int) -> _Seen:
        return cls(source, np.zeros(size, np.bool_), np.zeros(size, np.uint64), np.zeros(size, np.uint64))

    def grown(self, size: int) -> _Seen:
        new = _Seen.empty(self.source, max(size, 2 * len(self.is_there)))
        for old, wider in ((self.is_there, new.is_there), (self.tsid, new.tsid), (self.check, new.check)):
            wider[: len(old)] = old
        return new


class KnownHashes:
    """The hashes of known series under one version of a table. Safe to use from many threads."""

    def __init__(self, schema: RegionSchema) -> None:
        self._schema = schema
        self._lock = threading.Lock()
        self._seen = _Seen.empty((0, 0), 0)

    def series(self, known: NumberedSeries) -> SeriesTable:
        """Return the series of a request."""
        seen, numbers = self._seen, known.numbers
        if seen.source != known.source or len(seen.is_there) < known.bound or not seen.is_there[numbers].all():
            with self._lock:
                seen = self._learn(known)
        late = LateTags(self._schema.arrow_tags, numbers, _TableTags(known.keeper, self._schema))
        return SeriesTable(seen.tsid[numbers], seen.check[numbers], late)

    def _learn(self, known: NumberedSeries) -> _Seen:
        seen, numbers = self._seen, known.numbers
        if seen.source != known.source:
            seen = _Seen.empty(known.source, known.bound)
        elif len(seen.is_there) < known.bound:
            seen = seen.grown(known.bound)
        new = numbers[~seen.is_there[numbers]]
        if len(new):
            tags = _conform(self._schema, known.keeper.read_tags(new))
            made = SeriesTable.of_tags(self._schema, tags.columns, len(new))
            seen.tsid[new], seen.check[new] = made.tsid, made.check
            # Last: who finds a number there reads its hashes.
            seen.is_there[new] = True
        self._seen = seen
        return seen


class _TableTags(TagPacker):
    """The tags of a parser, as those of a table."""

    def __init__(self, parsed: ParsedTags, schema: RegionSchema) -> None:
        self._parsed = parsed
        self._schema = schema

    def read_tags(self, numbers: Numbers) -> pa.RecordBatch:
        return _conform(self._schema, self._parsed.read_tags(numbers))

    def pack_tags(self, numbers: Numbers) -> pa.Buffer:
        return self._parsed.pack_tags(numbers, self._schema.arrow_tags.names)


def _conform(schema: RegionSchema, tags: pa.RecordBatch) -> pa.RecordBatch:
    """Return tags in the order of the table, nulls for those that no series has."""
    names = tags.schema.names
    if names == schema.arrow_tags.names:
        return tags
    if not schema.tags:
        return tags
    columns = [tags.column(tag.name) if tag.name in names else pa.nulls(tags.num_rows, tag.type) for tag in schema.tags]
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow_tags)
