"""A table as DataFusion sees it: the rows of all its regions, columns in the order of the table.

A region's dataset has its tags first and knows nothing of SQL types; this one has the columns as users see them, each
with the metadata that tells its type. Before every batch it asks whether the query is still wanted.

For a query without any clause that decides about order, a table is read in one piece and in the order of primary key
and time. A region that holds one segment of time is in that order already. Several segments, or several regions, are
sorted together while they are few rows; beyond `SORTED_ROWS_MAX` they follow one another.

Between two batches of a scan a join may compare all their rows with millions of others, and only then a scan is asked
again and can say that the query is over. So a query of several tables gets small batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tsdb.model import METRIC_ENGINE, TableInfo
from tsdb.query._life import QueryLife
from tsdb.query._pace import Pace

SORTED_ROWS_MAX = 131_072
"""Sorting this many rows of five columns took 45 ms; more are not worth holding back the first of them."""


_JOINED_BATCH_ROWS_MAX = 2048
_JOINED_FIRST_ROWS = 1024
_JOINED_LEAST_ROWS = 256


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """The visible rows of a table, for one query."""

    def __init__(
        self, table: TableInfo, regions: Sequence[Any], life: QueryLife, *, is_ordered: bool, is_single: bool = True
    ) -> None:
        self.table = table
        self.regions = regions
        self._life = life
        self._is_ordered = is_ordered
        self._batch_rows_max = None if is_single else _JOINED_BATCH_ROWS_MAX
        for region in regions:
            life.on_end(region.snapshot.release)

    @property
    def schema(self) -> pa.Schema:
        return self.table.arrow

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> TableScanner:
        """Return a scanner over everything; DataFusion wants to see its schema."""
        names = self.schema.names if columns is None else list(columns)
        scanners = [region.scanner(columns=names, filter=filter) for region in self.regions]
        return TableScanner(self._project(names), self._life, lambda: _chain(scanners), self._batch_rows_max)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[TableFragment]:
        self._life.check()
        fragments = [list(region.get_fragments(filter=filter)) for region in self.regions]
        if self._is_ordered:
            together = [fragment for each in fragments for fragment in each]
            return iter([TableFragment(self, together, is_sorted=self._comes_sorted(fragments))])
        return iter([TableFragment(self, [fragment], is_sorted=True) for each in fragments for fragment in each])

    def _comes_sorted(self, fragments: list[list[Any]]) -> bool:
        """Tell whether one region with one segment in one fragment is all there is."""
        if len(self.regions) > 1 or len(fragments[0]) > 1:
            return False
        statistics = self.regions[0].statistics
        return bool(statistics.segments_direct + statistics.segments_merged <= 1)

    def scan(
        self, fragments: Sequence[Any], columns: Sequence[str] | None, filter: Any, *, is_sorted: bool
    ) -> TableScanner:
        names = self.schema.names if columns is None else list(columns)
        keys = [*self.table.primary_key, self.table.time_index.name]
        wanted = names if is_sorted else [*names, *(key for key in keys if key not in names)]
        schema = self._project(names)

        def read() -> Iterator[pa.RecordBatch]:
            scanners = (each.scanner(columns=wanted, filter=filter) for each in fragments)
            batches = _chain(scanners)
            if is_sorted:
                return batches
            # The labels of a metric are no columns of the region that it is in, whose order is another one.
            comes_in_order = self.table.engine != METRIC_ENGINE
            return _sort_small(batches, keys, self._project(wanted), schema, comes_in_order=comes_in_order)

        return TableScanner(schema, self._life, read, self._batch_rows_max)

    def _project(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])


class TableFragment:
    """What one thread reads of a table."""

    def __init__(self, dataset: TableDataset, fragments: Sequence[Any], *, is_sorted: bool) -> None:
        self._dataset = dataset
        self._fragments = fragments
        self._is_sorted = is_sorted

    @property
    def physical_schema(self) -> pa.Schema:
        return self._dataset.schema

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> TableScanner:
        return self._dataset.scan(self._fragments, columns, filter, is_sorted=self._is_sorted)


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
            pace = None if most is None else Pace(min(most, _JOINED_FIRST_ROWS), most, least_rows=_JOINED_LEAST_ROWS)
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


def _chain(scanners: Any) -> Iterator[pa.RecordBatch]:
    for scanner in scanners:
        yield from scanner.to_batches()


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch the metadata of the table's columns."""
    if not schema.names:
        return batch
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _sort_small(
    batches: Iterator[pa.RecordBatch], keys: list[str], read: pa.Schema, wanted: pa.Schema, *, comes_in_order: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the order of the keys if they are few, as they come if not; without the keys nobody wants.

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
    """Tell whether no batch begins before the one before it ends: the rows of one series mostly come like that."""
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
