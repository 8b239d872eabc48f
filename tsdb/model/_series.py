"""A set of series: their tags, one row each, and the hashes that identify them.

`tsid` is the 64-bit hash of the tags, by which series are found. `check` is a second hash of an independent seed: two
series are the same when both hashes are, 128 bits together, so that comparing series never means comparing strings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb import _kernels
from tsdb.model._schema import RegionSchema

Hashes = npt.NDArray[np.uint64]

_TSID_SEED = 0
_CHECK_SEED = 0x9E3779B97F4A7C15


def hash_tags(columns: Sequence[pa.Array], names: Sequence[str], rows: int) -> tuple[Hashes, Hashes]:
    """Return both hashes of every row of tag columns."""
    columns = [_hashable(column) for column in columns]
    tsid = pa.array(_kernels.row_hash(columns, names, seed=_TSID_SEED, rows=rows)).to_numpy()
    check = pa.array(_kernels.row_hash(columns, names, seed=_CHECK_SEED, rows=rows)).to_numpy()
    return tsid, check


def _hashable(column: pa.Array) -> pa.Array:
    """Return a column the kernel can hash, in which equal values are equal bits."""
    kind = column.type
    if pt.is_floating(kind):
        # One zero and one NaN; beyond that, floats are equal when their bits are.
        one_zero = pc.add(column, pa.scalar(0.0, kind))
        one_nan = pc.if_else(pc.is_nan(one_zero), pa.scalar(float("nan"), kind), one_zero)
        return one_nan.cast(pa.float64()).view(pa.int64())
    if pt.is_decimal(kind):
        return column.cast(pa.string())
    if pt.is_binary(kind):
        # The kernel compares bytes and never reads them as text.
        return pa.Array.from_buffers(pa.string(), len(column), column.buffers(), offset=column.offset)
    return column


def group_series(tsid: Hashes, check: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Find the distinct series among hashes: the first position of each, and for every position its series."""
    first, group = _kernels.group_series(pa.array(tsid), pa.array(check))
    return pa.array(first).to_numpy().astype(np.int64), pa.array(group).to_numpy()


class TagKeeper(ABC):
    """Keeps the tags of series under numbers, so that holders of series need not."""

    @abstractmethod
    def read_tags(self, numbers: npt.NDArray[np.uint32]) -> pa.RecordBatch:
        """Return the tags of some numbers, in the order given."""


@dataclass(frozen=True, slots=True, eq=False)
class LateTags:
    """Tags that are read when they are needed, and not kept: each read costs."""

    schema: pa.Schema
    numbers: npt.NDArray[np.uint32]
    """One per series."""
    keeper: TagKeeper
    """Reads tags with this schema."""


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """The distinct series of a batch, a memtable or a data file."""

    tsid: Hashes
    check: Hashes
    tags: pa.RecordBatch | LateTags
    """One column per tag, in the order of the primary key and named by the tag; one row per series. Use `read_tags`."""

    def __post_init__(self) -> None:
        tags = self.tags
        assert len(self.tsid) == len(self.check)
        assert len(self.tsid) == (len(tags.numbers) if isinstance(tags, LateTags) else tags.num_rows)

    def __len__(self) -> int:
        return len(self.tsid)

    @property
    def late(self) -> LateTags | None:
        """Where the tags are, if they are not here."""
        return self.tags if isinstance(self.tags, LateTags) else None

    @property
    def tags_schema(self) -> pa.Schema:
        return self.tags.schema

    def read_tags(self) -> pa.RecordBatch:
        """Return the tags of all series; late ones are read each time, so call it once."""
        tags = self.tags
        return tags.keeper.read_tags(tags.numbers) if isinstance(tags, LateTags) else tags

    def take_tags(self, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Return the tags of some series, in the order given; only theirs are read."""
        late = self.late
        return take_tags(self.tags, positions) if late is None else late.keeper.read_tags(late.numbers[positions])

    @classmethod
    def of_tags(cls, schema: RegionSchema, columns: list[pa.Array], rows: int) -> SeriesTable:
        """Make a table of tag columns whose rows are distinct; without tags there is one series and no columns."""
        names = [tag.name for tag in schema.tags]
        tsid, check = hash_tags(columns, names, rows)
        return cls(tsid, check, make_tags(columns, names, rows))

    def take(self, positions: npt.NDArray[np.int64]) -> SeriesTable:
        """Return some of the series, in the order given."""
        return SeriesTable(self.tsid[positions], self.check[positions], self.take_tags(positions))

    def choose(self, positions: npt.NDArray[np.int64]) -> SeriesTable:
        """The same; tags that are late stay so."""
        late = self.late
        if late is None:
            return self.take(positions)
        return SeriesTable(self.tsid[positions], self.check[positions], replace(late, numbers=late.numbers[positions]))

    @property
    def nbytes(self) -> int:
        tags = self.tags.numbers if isinstance(self.tags, LateTags) else self.tags
        return int(self.tsid.nbytes + self.check.nbytes + tags.nbytes)


def distinct_series(
    columns: Sequence[pa.Array], names: Sequence[str], rows: int
) -> tuple[SeriesTable, npt.NDArray[np.uint32]]:
    """Return the distinct series of rows, and for every row which of them is its own."""
    tsid, check = hash_tags(columns, names, rows)
    first, index = group_series(tsid, check)
    positions = pa.array(first)
    tags = make_tags([column.take(positions) for column in columns], names, len(first))
    return SeriesTable(tsid[first], check[first], tags), index


def make_tags(columns: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    """Put tag columns together; Arrow keeps the number of rows even when there are no columns."""
    if columns:
        return pa.RecordBatch.from_arrays(list(columns), names=list(names))
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def take_tags(tags: pa.RecordBatch, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return some rows of tag columns, in the order given."""
    if tags.num_columns:
        return tags.take(pa.array(positions))
    return make_tags((), (), len(positions))
