"""Series blocks: which series a sorted source holds, and where their rows are.

Sources (memtable runs, data files) are sorted by series, then time, then sequence; series are ordered by their tags
as the primary key says, nulls first. So everything about tags is decided on a block, one row per series, and the rows
of a series are one row range.
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

# New series are sorted together with those that are known, unless these are so many more that it would not pay.
_KNOWN_TIMES_MAX = 4


@dataclass(frozen=True, slots=True, eq=False)
class SeriesBlock:
    """The series of one source, in order, with the row range and the time range of each."""

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
        kept = table if len(present) == len(table) else table.choose(present)
        return cls(kept, offsets, time_min, time_max), present


@dataclass(frozen=True, slots=True, eq=False)
class FoundSeries:
    """Some of the series of one source, in order, each with its row range and time range."""

    positions: Positions
    """Where they are in the series block."""
    table: SeriesTable
    starts: Positions
    stops: Positions
    time_min: npt.NDArray[np.int64]
    time_max: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Ordered:
    """Series in the order of their tags, and how to find them in it by hashes alone."""

    table: SeriesTable
    ranks: _kernels.SeriesRanks

    @classmethod
    def of(cls, table: SeriesTable) -> _Ordered:
        return cls(table, _kernels.SeriesRanks(table.tsid, table.check))


class SeriesOrder:
    """Remembers series in the order of their tags: to sort tags is what costs, and most series come again.

    Any thread may use it: what is remembered is replaced as a whole.
    """

    def __init__(self) -> None:
        self._known: _Ordered | None = None

    def rank(self, tables: Sequence[SeriesTable]) -> tuple[SeriesTable, pa.Array | _kernels.ArrowArray]:
        """Return series in the order of their tags, all those of the tables and perhaps more, and where those of the
        tables are among them, table behind table (uint32). All tables have the same tags.
        """
        known = self._known
        if known is not None:
            found = known.ranks.find([table.tsid for table in tables], [table.check for table in tables])
            if found is not None:
                return known.table, found
        union = _Union.of(tables)
        if known is not None and len(known.table) <= _KNOWN_TIMES_MAX * len(union.first):
            # A few new series among those that are known: the next tables will have them all.
            wider = _Union.of([known.table, *tables])
            if (len(wider.first) - len(known.table)) * 2 <= len(union.first):
                union = wider
        table, ranks = union.sort()
        self._known = _Ordered.of(table)
        rows = union.bounds[-1] - sum(len(each) for each in tables)
        return table, pa.array(ranks[rows:].astype(np.uint32))


@dataclass(frozen=True, slots=True, eq=False)
class _Union:
    """The distinct series of some tables, not in order yet."""

    tables: Sequence[SeriesTable]
    tsid: npt.NDArray[np.uint64]
    """Of all tables laid end to end, like what follows."""
    check: npt.NDArray[np.uint64]
    bounds: Positions
    """Where the tables begin, and where the last one ends."""
    first: Positions
    """Where each distinct series is for the first time."""
    group: npt.NDArray[np.uint32]
    """Which distinct series each one is."""

    @classmethod
    def of(cls, tables: Sequence[SeriesTable]) -> _Union:
        tsid = np.concatenate([table.tsid for table in tables])
        check = np.concatenate([table.check for table in tables])
        bounds = np.cumsum([0, *(len(table) for table in tables)])
        return cls(tables, tsid, check, bounds, *group_series(tsid, check))

    def sort(self) -> tuple[SeriesTable, Positions]:
        """Return the series in the order of their tags, and for each one of the tables where it is among them."""
        tags = _gather_tags(self.tables, self.bounds, self.first)
        order = sort_order(tags)
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        chosen = self.first[order]
        return SeriesTable(self.tsid[chosen], self.check[chosen], take_tags(tags, order)), ranks[self.group]


def union_series(tables: Sequence[SeriesTable]) -> tuple[SeriesTable, list[Positions]]:
    """Put sets of series together, in the order of their tags.

    Returns the union and, for each set, where its series are in the union. All tables have the same tags.
    """
    union = _Union.of(tables)
    table, ranks = union.sort()
    return table, np.split(ranks, union.bounds[1:-1])


def union_ordered(tables: Sequence[SeriesTable]) -> tuple[SeriesTable, list[Positions]]:
    """The same for sets that are in order already; equal sets, the usual case, cost a comparison of hashes."""
    first = tables[0]
    if _are_equal(tables):
        return first, [np.arange(len(first), dtype=np.int64)] * len(tables)
    return union_series(tables)


def _are_equal(tables: Sequence[SeriesTable]) -> bool:
    first = tables[0]
    return all(
        table is first or (np.array_equal(table.tsid, first.tsid) and np.array_equal(table.check, first.check))
        for table in tables[1:]
    )


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
    columns, tags = [], table.read_tags()
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
    gathered = make_tags(columns, names, len(chosen)) if pieces else tables[0].read_tags().slice(0, 0)
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return take_tags(gathered, back)
