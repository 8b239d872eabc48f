"""Series blocks: which series a sorted source holds, and where their rows are.

Sources (memtable runs, data files) are sorted by series, then time, then sequence; series are ordered by their tags
as the primary key says, nulls first. So everything about tags is decided on a block, one row per series, and the rows
of a series are one stretch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsdb import _kernels
from tsdb.model import RegionSchema, SeriesTable, group_series, make_tags, take_tags

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SeriesBlock:
    """The series of one source, in order, with the stretch of rows and the span of time of each."""

    table: SeriesTable
    offsets: Positions
    """The rows of series i are `offsets[i]` to `offsets[i + 1]`."""
    time_min: npt.NDArray[np.int64]
    time_max: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.table)

    @property
    def rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes + self.offsets.nbytes + self.time_min.nbytes + self.time_max.nbytes)

    @classmethod
    def of_sorted(
        cls, table: SeriesTable, ranks: npt.NDArray[np.uint32], times: npt.NDArray[np.int64]
    ) -> tuple[SeriesBlock, Positions]:
        """Describe rows that are sorted by rank (position in `table`) and time.

        Returns the block of the series that have rows, and for each of them its position in `table`.
        """
        starts, time_min, time_max = (
            pa.array(part).to_numpy() for part in _kernels.run_boundaries(pa.array(ranks), pa.array(times))
        )
        present = ranks[starts].astype(np.int64)
        offsets = np.append(starts.astype(np.int64), len(ranks))
        kept = table if len(present) == len(table) else table.take(present)
        return cls(kept, offsets, time_min, time_max), present


@dataclass(frozen=True, slots=True, eq=False)
class _Ordered:
    """A set of series in the order of their tags, and how to recognise it by hashes alone."""

    table: SeriesTable
    by_hash: Positions
    """The order that sorts the table by `tsid`."""

    @classmethod
    def of(cls, table: SeriesTable) -> _Ordered:
        return cls(table, np.argsort(table.tsid, kind="stable"))

    def ranks_of(self, tsid: npt.NDArray[np.uint64], check: npt.NDArray[np.uint64]) -> Positions | None:
        """Return where the series of these hashes are; None unless they are exactly those of the table."""
        if len(tsid) != len(self.table):
            return None
        order = np.argsort(tsid, kind="stable")
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = self.by_hash
        is_same = np.array_equal(self.table.tsid[ranks], tsid) and np.array_equal(self.table.check[ranks], check)
        return ranks if is_same else None


class SeriesOrder:
    """Remembers the last union of series: sorting tags is most of its cost, and the next one is usually the same.

    Any thread may use it: what is remembered is replaced as a whole.
    """

    def __init__(self) -> None:
        self._last: _Ordered | None = None

    def union(self, tables: Sequence[SeriesTable]) -> tuple[SeriesTable, list[Positions]]:
        """Put sets of series together, in the order of their tags.

        Returns the union and, for each set, where its series are in the union. All tables have the same tags.
        """
        tsid = np.concatenate([table.tsid for table in tables])
        check = np.concatenate([table.check for table in tables])
        bounds = np.cumsum([0, *(len(table) for table in tables)])
        first, group = group_series(tsid, check)
        last = self._last
        ranks = None if last is None else last.ranks_of(tsid[first], check[first])
        if last is None or ranks is None:
            tags = _gather_tags(tables, bounds, first)
            order = sort_order(tags)
            last = _Ordered.of(SeriesTable(tsid[first][order], check[first][order], take_tags(tags, order)))
            self._last = last
            ranks = np.empty(len(order), dtype=np.int64)
            ranks[order] = np.arange(len(order))
        return last.table, np.split(ranks[group], bounds[1:-1])


def union_series(tables: Sequence[SeriesTable]) -> tuple[SeriesTable, list[Positions]]:
    """Put sets of series together, once."""
    return SeriesOrder().union(tables)


def union_ordered(tables: Sequence[SeriesTable]) -> tuple[SeriesTable, list[Positions]]:
    """The same for sets that are in order already; equal sets, the usual case, cost a comparison of hashes."""
    first = tables[0]
    if all(np.array_equal(table.tsid, first.tsid) and np.array_equal(table.check, first.check) for table in tables[1:]):
        return first, [np.arange(len(first), dtype=np.int64)] * len(tables)
    return union_series(tables)


def sort_order(tags: pa.RecordBatch) -> Positions:
    """Return the order that sorts series by their tags, nulls first."""
    if not tags.num_columns:
        return np.arange(tags.num_rows, dtype=np.int64)
    keys = [(name, "ascending", "at_start") for name in tags.schema.names]
    return np.asarray(pc.sort_indices(tags, sort_keys=keys)).astype(np.int64)


def conform_series(table: SeriesTable, written: RegionSchema, current: RegionSchema) -> SeriesTable:
    """Show series written under an older schema as the current one has them: renamed, widened, with new tags."""
    if written.tags_key == current.tags_key:
        return table
    columns, tags = [], table.tags
    for tag in current.tags:
        if tag.id in written.by_id:
            columns.append(tags.column(written.by_id[tag.id].name).cast(tag.type))
        else:
            columns.append(pa.array([tag.default] * len(table), tag.type))
    return SeriesTable.of_tags(current, columns, len(table))


def _gather_tags(tables: Sequence[SeriesTable], bounds: Positions, chosen: Positions) -> pa.RecordBatch:
    """Return the tags at positions of all tables laid end to end, touching only those that are chosen."""
    order = np.argsort(chosen, kind="stable")
    parts = np.split(chosen[order], np.searchsorted(chosen[order], bounds[1:-1]))
    pieces = [
        table.take_tags(part - start)
        for table, part, start in zip(tables, parts, bounds[:-1], strict=True)
        if len(part)
    ]
    names = tables[0].tags_schema.names
    columns = [pa.concat_arrays([piece.column(at) for piece in pieces]) for at in range(len(names))] if pieces else []
    gathered = make_tags(columns, names, len(chosen)) if pieces else tables[0].tags.slice(0, 0)
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return take_tags(gathered, back)
