"""Plain selections, read from the table without a plan.

`SELECT a, b FROM t WHERE tag = 'x' AND ts >= … AND ts < …` is the most common query of dashboards and programs.
Planning took more than half of its time, and the plan is always the same: push the conditions down to the table, which
applies them exactly anyway. A condition whose literal does not have the column's own type for certain is left to the
planner, and so is everything that would be an error. Rows in the order of time, with a limit, are read from that end of
the table.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from tsdb.engine.reading import Conditions, Node
from tsdb.model import TableInfo, TimeRange
from tsdb.query.lifetime import Executing, QueryLife
from tsdb.query.selection._conditions import fit_condition
from tsdb.query.tables import TableDataset
from tsdb.sql.clauses import Declined
from tsdb.sql.select import Select, number_of
from tsdb.sql.terms import Aggregate, Bucket, ColumnItem

ENGINE = "mito"
ORDERED_ROWS_MAX = 10_000
"""More rows in the order of time are the planner's to sort."""

_HELD_ROWS = 65_536
_AMPLE = 2
_WIDENING = 16
"""How many times as far each further try looks for the newest rows."""


class PlainSelection:
    """A selection that fits a table: which columns, under which conditions."""

    def __init__(
        self,
        table: TableInfo,
        items: Sequence[tuple[str, str]],
        filter: Node | Conditions | None,
        *,
        limit: int | None,
        order: tuple[str, bool] | None,
    ) -> None:
        """`items` are columns with their names in the answer, none for all; `order` is a column, and whether down."""
        self.table = table
        self._columns = [column for column, _ in items] or list(table.arrow.names)
        self._read = list(dict.fromkeys(self._columns))
        has_same = len(self._read) < len(self._columns)
        self._places = [self._read.index(column) for column in self._columns] if has_same else []
        """Where each column is among those that are read, if one is selected twice."""
        names = [name for _, name in items] or self._columns
        self.schema = pa.schema(
            [table.arrow.field(column).with_name(name) for column, name in zip(self._columns, names, strict=True)]
        )
        self.filter = filter
        self._limit = limit
        self._order = order

    def describe(self) -> str:
        """Say what is read, without its conditions."""
        order = "" if self._order is None else f", order={self._order[0]}{' DESC' if self._order[1] else ''}"
        limit = "" if self._limit is None else f", limit={self._limit}"
        return f"Scan: {self.table.full_name}, columns=[{', '.join(self._columns)}]{order}{limit}"

    def where(self, filter: Node | Conditions | None) -> PlainSelection:
        """Return the same selection under other conditions."""
        other = copy.copy(self)
        other.filter = filter
        return other

    def batches(self, dataset: TableDataset) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a dataset of the table."""
        if self._order is not None:
            yield from self._ends(dataset)
            return
        left = self._limit
        for fragment in dataset.get_fragments(self.filter, columns=self._read, rows=left):
            for batch in fragment.scanner(columns=self._read, filter=self.filter).to_batches():
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                if batch.num_rows:
                    columns = [batch.column(at) for at in self._places] if self._places else batch.columns
                    yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
                if left == 0:
                    return

    def _ends(self, dataset: TableDataset) -> Iterator[pa.RecordBatch]:
        """Yield the newest rows, or the oldest: read from that end, as far as it takes to have enough of them."""
        assert self._order is not None
        assert self._limit is not None
        is_newest = self._order[1]
        filter = self.filter if isinstance(self.filter, Conditions) else Conditions(TimeRange.ALL, (), self.filter)
        found = [bounds for region in dataset.regions.matching(filter) if (bounds := region.bounds(filter)) is not None]
        if not found:
            return
        span = TimeRange(min(each.time_range.start for each in found), max(each.time_range.end for each in found))
        rows_in_all = sum(each.rows for each in found)
        ticks = max(1, (span.end - span.start) * _AMPLE * self._limit // max(1, rows_in_all))
        while True:
            start, stop = max(span.start, span.end - ticks), min(span.end, span.start + ticks)
            within = TimeRange(start, span.end) if is_newest else TimeRange(span.start, stop)
            rows = self._sorted(dataset, replace(filter, time_range=filter.time_range.intersection(within)))
            if rows.num_rows == self._limit or within == span:
                for batch in rows.to_batches():
                    yield pa.RecordBatch.from_arrays(batch.columns[: len(self._columns)], schema=self.schema)
                return
            ticks *= _WIDENING

    def _sorted(self, dataset: TableDataset, filter: Conditions) -> pa.Table:
        """Return the first rows of a range of time in order; never many more than that are held."""
        time = self.table.time_index.name
        columns = [*self._columns, time]
        names = [f"c{at}" for at in range(len(columns))]
        order = [(names[-1], "descending" if self._order and self._order[1] else "ascending")]
        held: list[pa.RecordBatch] = []
        fields = [self.table.arrow.field(column).with_name(name) for column, name in zip(columns, names, strict=True)]
        schema = pa.schema(fields)
        wanted = list(dict.fromkeys(columns))
        rows = 0
        for fragment in dataset.get_fragments(filter):
            for batch in fragment.scanner(columns=wanted, filter=filter).to_batches():
                held.append(pa.RecordBatch.from_arrays([batch.column(column) for column in columns], schema=schema))
                rows += batch.num_rows
                if rows > _HELD_ROWS + 2 * (self._limit or 0):
                    table = pa.Table.from_batches(held, schema).sort_by(order).slice(0, self._limit)
                    held, rows = table.to_batches(), table.num_rows
        # Equal times stay in the order in which they were read.
        return pa.Table.from_batches(held, schema).sort_by(order).slice(0, self._limit)


def fit_selection(select: Select, table: TableInfo, zone: str) -> PlainSelection | Declined:
    """Return a query as a selection of a table; Declined says what about it needs the planner."""
    items = _fit_items(select, table)
    if isinstance(items, Declined):
        return items
    if reason := _why_not(select, table, items):
        return Declined(reason)
    where = select.plain_where()
    if isinstance(where, Declined):
        return where
    filter = None if where is None else fit_condition(where, table, zone)
    if where is not None and filter is None:
        return Declined("a condition compares a column with a literal of another type")
    limit = None if select.limit is None else number_of(select.limit)
    order = (table.time_index.name, select.order[0].is_descending) if select.order else None
    return PlainSelection(table, items, filter, limit=limit, order=order)


def _fit_items(select: Select, table: TableInfo) -> list[tuple[str, str]] | Declined:
    items = []
    for item in select.items:
        if not isinstance(item.term, ColumnItem):
            reason = "it computes with its columns" if isinstance(item.term, Aggregate | Bucket) else item.term.reason
            return Declined(reason)
        if item.term.name not in table.by_name:
            return Declined(f"there is no column {item.term.name}")
        items.append((item.term.name, item.alias or item.term.name))
    if len({name for _, name in items}) != len(items):
        return Declined("two columns have one name")
    return items


def _why_not(select: Select, table: TableInfo, items: list[tuple[str, str]]) -> str:
    """Return what else about a query is no plain selection."""
    if table.engine == "file" or table.is_physical:
        return "its table is none whose rows can be read directly"
    if select.group is not None or select.having is not None or select.offset is not None:
        return "it has GROUP BY, HAVING or OFFSET"
    limit = None if select.limit is None else number_of(select.limit)
    if select.limit is not None and not limit:
        return "a limit is no plain number" if limit is None else "it has no rows"
    if not select.order:
        return ""
    (key, *others) = select.order
    name = key.term.name if isinstance(key.term, ColumnItem) else ""
    if any(own == name and column != name for column, own in items):
        return "it is ordered by what the answer calls something else"
    if others or key.says_nulls or name != table.time_index.name or table.engine != ENGINE:
        return "it is ordered by something else than time"
    if limit is None:
        return "it sorts all rows"
    return f"it sorts more than {ORDERED_ROWS_MAX} rows" if limit > ORDERED_ROWS_MAX else ""


class SelectionRecords:
    """The rows of a plain selection; the thread that wants them reads them."""

    def __init__(self, selection: PlainSelection, dataset: TableDataset, life: QueryLife) -> None:
        self._selection = selection
        self._dataset = dataset
        self._life = life
        self._is_read_to_end = False

    @property
    def schema(self) -> pa.Schema:
        return self._selection.schema

    @property
    def scans(self) -> list[TableDataset]:
        """What it reads, for EXPLAIN ANALYZE."""
        return [self._dataset]

    def describe(self) -> str:
        """Say what is read, in one line."""
        regions = self._dataset.regions.matching(self._selection.filter)
        sources = sum(region.sources for region in regions)
        return f"{self._selection.describe()}, regions={len(regions)}, sources={sources}"

    def describe_run(self) -> str:
        """Say what was read; the scan reports what it took."""
        return self.describe()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with Executing(self._life):
            yield from self._selection.batches(self._dataset)
            self._is_read_to_end = True

    def close(self) -> None:
        """Stop the work and let go of snapshots; from any thread, any number of times."""
        if not self._is_read_to_end:
            self._life.cancel()
        self._life.end()

    def __del__(self) -> None:
        self._life.end()
