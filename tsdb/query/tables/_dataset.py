"""A table as DataFusion sees it: the rows of all its regions, columns in the order of the table.

A region has its tags first and knows nothing of SQL types; this dataset has the columns as users see them, each with
metadata for its type. Before every batch it checks whether the query is cancelled or past its deadline.

DataFusion asks the dataset for its fragments while it plans, with a filter that it will not check again, and each
fragment for a scanner when it runs. Of a scanner it uses the schema and the iterator of batches and nothing else, so
ours is that and no scanner of Arrow's, which would filter the rows a second time.

For a query without any clause that decides about order, a table is read in one piece and in the order of primary key
and time. A region that holds one segment of time is in that order already. Several segments, or several regions, are
sorted together while they are few rows; beyond `SORTED_ROWS_MAX` they follow one another.

Between two batches of a scan a join may compare all their rows with millions of others, and only then a scan is asked
again and can say that the query is over. So a query of several tables gets small batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tsdb.engine.reading import (
    Conditions,
    Node,
    RegionReader,
    RowFilter,
    RowsAhead,
    ScanRequest,
    TextTest,
    as_node,
    is_understood,
    joined,
)
from tsdb.model import METRIC_ENGINE, TableInfo, TimeRange
from tsdb.query.lifetime import BatchPace, QueryLife
from tsdb.query.tables._partitions import TableRegions

SORTED_ROWS_MAX = 131_072
"""Sorting this many rows of five columns took 45 ms; more are not worth holding back the first of them."""


_JOINED_BATCH_ROWS_MAX = 2048
_JOINED_FIRST_ROWS = 1024
_JOINED_LEAST_ROWS = 256


@dataclass(frozen=True, slots=True)
class Handed:
    """Conditions of a query that are handed to its table beside the filter of the planner, which checks them again."""

    rest: Node | None
    texts: tuple[TextTest, ...]


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """The visible rows of a table, for one query."""

    def __init__(
        self,
        table: TableInfo,
        regions: TableRegions,
        life: QueryLife,
        *,
        is_ordered: bool,
        is_single: bool = True,
        handed: Handed | None = None,
    ) -> None:
        self.table = table
        self.regions = regions
        self._life = life
        self._is_ordered = is_ordered
        self._handed = handed
        self._batch_rows_max = None if is_single else _JOINED_BATCH_ROWS_MAX

    @property
    def schema(self) -> pa.Schema:
        return self.table.arrow

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> TableScanner:
        """Return a scanner over everything; DataFusion wants to see its schema."""
        names = self.schema.names if columns is None else list(columns)

        def read() -> Iterator[pa.RecordBatch]:
            planned = self._plan(filter, RowsAhead(names, names))
            return _read([part for each in planned for part in each.partitions], names)

        return TableScanner(self._project(names), self._life, read, self._batch_rows_max)

    def get_fragments(
        self, filter: RowFilter = None, *, columns: Sequence[str] | None = None, rows: int | None = None
    ) -> Iterator[TableFragment]:
        """Return the parts of the table, of which `columns` and so many rows will be read if that is known already."""
        try:
            self._life.check()
            planned = self._plan(filter, None if columns is None else self._ahead(columns, rows))
        except Exception as error:
            # DataFusion passes on its text only.
            self._life.fail(error)
            raise
        partitions = [part for each in planned for part in each.partitions]
        if self._is_ordered:
            # One segment of one region in one partition is sorted already.
            is_sorted = len(partitions) <= 1 and all(each.segments <= 1 for each in planned)
            return iter([TableFragment(self, filter, partitions, is_sorted=is_sorted, rows=rows)])
        return iter([TableFragment(self, filter, [part], is_sorted=True, rows=rows) for part in partitions])

    def scan(
        self,
        partitions: Sequence[_Partition],
        columns: Sequence[str] | None,
        *,
        is_sorted: bool,
        rows: int | None = None,
    ) -> TableScanner:
        """Return a scanner of partitions that gives at least so many rows, if there are that many."""
        names = self.schema.names if columns is None else list(columns)
        wanted = names if is_sorted else self._with_keys(names)
        schema = self._project(names)

        def read() -> Iterator[pa.RecordBatch]:
            batches = _read(partitions, wanted, rows if is_sorted else None)
            if is_sorted:
                return batches
            # The labels of a metric are no columns of the region that it is in, whose order is another one.
            comes_in_order = self.table.engine != METRIC_ENGINE
            return _sort_small(batches, self._keys, self._project(wanted), schema, comes_in_order=comes_in_order)

        return TableScanner(schema, self._life, read, self._batch_rows_max)

    @property
    def _keys(self) -> list[str]:
        return [*self.table.primary_key, self.table.time_index.name]

    def _with_keys(self, names: Sequence[str]) -> list[str]:
        return [*names, *(key for key in self._keys if key not in names)]

    def _ahead(self, columns: Sequence[str], rows: int | None) -> RowsAhead:
        """What `scan` will read."""
        return RowsAhead(columns, self._with_keys(columns) if self._is_ordered else columns, rows)

    def _plan(self, filter: RowFilter, ahead: RowsAhead | None) -> list[_RegionScan]:
        wanted = filter if self._handed is None else _with_handed(filter, self._handed)
        regions = list(self.regions.matching(wanted))
        # Rows that come with a plan keep a stream busy until they are read: one region at a time.
        return [_plan(region, wanted, ahead if len(regions) == 1 else None) for region in regions]

    def _project(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])


class TableFragment:
    """What one thread reads of a table."""

    def __init__(
        self,
        dataset: TableDataset,
        filter: RowFilter,
        partitions: Sequence[_Partition],
        *,
        is_sorted: bool,
        rows: int | None,
    ) -> None:
        self._dataset = dataset
        self._filter = filter
        self._partitions = partitions
        self._is_sorted = is_sorted
        self._rows = rows

    @property
    def physical_schema(self) -> pa.Schema:
        return self._dataset.schema

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        filter: RowFilter = None,
        **_: Any,
    ) -> TableScanner:
        """Return a scanner. The filter must be the one the fragments were made for."""
        if not _is_same(filter, self._filter):
            raise ValueError(f"the fragments were made for the filter {self._filter}, not for {filter}")
        return self._dataset.scan(self._partitions, columns, is_sorted=self._is_sorted, rows=self._rows)


class TableScanner:
    """What DataFusion needs of a scanner."""

    def __init__(
        self,
        schema: pa.Schema,
        life: QueryLife,
        read: Callable[[], Iterator[pa.RecordBatch]],
        batch_rows_max: int | None,
    ) -> None:
        self.projected_schema = schema
        self._batch_rows_max = batch_rows_max
        self._life = life
        self._read = read

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            self._life.check()
            most = self._batch_rows_max
            pace = (
                None if most is None else BatchPace(min(most, _JOINED_FIRST_ROWS), most, least_rows=_JOINED_LEAST_ROWS)
            )
            for batch in self._read():
                whole = _with_schema(batch, self.projected_schema)
                if pace is None:
                    yield whole
                    self._life.check()
                    continue
                start = 0
                while start < whole.num_rows:
                    rows = pace.next_rows()
                    yield whole.slice(start, rows)
                    self._life.check()
                    start += rows
        except Exception as error:
            self._life.fail(error)
            raise


@dataclass(frozen=True, slots=True)
class _Partition:
    """A partition of the scan of one region, read by one thread."""

    region: RegionReader
    plan: int
    number: int


@dataclass(frozen=True, slots=True)
class _RegionScan:
    """The scan of one region."""

    partitions: Sequence[_Partition]
    segments: int


def _plan(region: RegionReader, filter: RowFilter, ahead: RowsAhead | None) -> _RegionScan:
    planned = region.plan_scan(filter, ahead)
    return _RegionScan(
        [_Partition(region, planned.number, number) for number in range(planned.shares)], planned.segments
    )


def _with_handed(filter: RowFilter, handed: Handed) -> RowFilter:
    """Return a filter with conditions that are handed over beside it."""
    if isinstance(filter, Conditions):
        return filter
    own = as_node(filter)
    if handed.rest is None or (filter is not None and (own is None or not is_understood(own))):
        # What Arrow alone understands cannot be joined with something else.
        return Conditions(TimeRange.ALL, (), filter, handed.texts)
    rest = handed.rest if own is None else joined("and_kleene", [own, handed.rest])
    return Conditions(TimeRange.ALL, (), rest, handed.texts)


def _read(
    partitions: Sequence[_Partition], columns: Sequence[str], rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    for each in partitions:
        yield from each.region.scan(ScanRequest(each.plan, each.number, columns, rows))


def _is_same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    return left is right or bool(left.equals(right))


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch the metadata of the table's columns."""
    if not schema.names:
        return batch
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _sort_small(
    batches: Iterator[pa.RecordBatch], keys: list[str], read: pa.Schema, wanted: pa.Schema, *, comes_in_order: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the order of the keys if they are few, as they come if not; without keys that are not selected.

    `comes_in_order` says that the rows of each batch are in that order already.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows > SORTED_ROWS_MAX:
            break
    else:
        if not (comes_in_order and _follow_each_other(held, [read.names.index(key) for key in keys])):
            table = pa.Table.from_batches([_with_schema(batch, read) for batch in held], read)
            order = [(key, "ascending", "at_start") for key in keys]
            held = table.sort_by(order).to_batches() if rows else []
    for batch in held:
        yield _without_keys(batch, wanted)
    for batch in batches:
        yield _without_keys(batch, wanted)


def _follow_each_other(batches: list[pa.RecordBatch], keys: list[int]) -> bool:
    """Return whether no batch begins before the one before it ends: usual for the rows of one series."""
    filled = [batch for batch in batches if batch.num_rows]
    try:
        return all(
            _key_of(before, before.num_rows - 1, keys) <= _key_of(after, 0, keys) for before, after in pairwise(filled)
        )
    except TypeError:
        return False


def _key_of(batch: pa.RecordBatch, row: int, keys: list[int]) -> list[tuple[bool, Any]]:
    values = [_number_or_text(batch.column(key)[row]) for key in keys]
    return [(value is not None, 0 if value is None else value) for value in values]


def _number_or_text(value: pa.Scalar) -> Any:
    return value.value if pa.types.is_timestamp(value.type) else value.as_py()


def _without_keys(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    if not wanted.names:
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), batch.num_rows, [None]))
    return batch if batch.num_columns == len(wanted) else batch.select(wanted.names)
