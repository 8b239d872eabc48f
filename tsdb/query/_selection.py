"""Plain selections, read from the table without a plan.

`SELECT a, b FROM t WHERE tag = 'x' AND ts >= … AND ts < …` is what dashboards and programs ask most. Planning it took
more than half of its time, and the plan is always the same: hand the conditions to the table, which applies them
exactly anyway. A condition whose literal does not have the column's own type for certain is left to the planner, and so
is everything that would be an error.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pyarrow as pa

from tsdb.engine.scan import Conditions, Node
from tsdb.errors import Cancelled, TsdbError
from tsdb.model import TableInfo
from tsdb.query._conditions import fit_condition
from tsdb.query._life import QueryLife
from tsdb.query._table_dataset import TableDataset
from tsdb.query.errors import execution_error
from tsdb.sql.selection import Selection


class PlainSelection:
    """A selection that fits a table: which columns, under which conditions."""

    def __init__(self, selection: Selection, table: TableInfo, filter: Node | Conditions | None) -> None:
        self.table = table
        self._columns = [column for column, _ in selection.items] or list(table.arrow.names)
        names = [name for _, name in selection.items] or self._columns
        self.schema = pa.schema(
            [table.arrow.field(column).with_name(name) for column, name in zip(self._columns, names, strict=True)]
        )
        self._filter = filter
        self._limit = selection.limit

    def where(self, filter: Node | Conditions | None) -> PlainSelection:
        """Return the same selection under other conditions."""
        other = copy.copy(self)
        other._filter = filter
        return other

    def batches(self, dataset: TableDataset) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a dataset of the table."""
        left = self._limit
        for fragment in dataset.get_fragments(self._filter):
            for batch in fragment.scanner(columns=self._columns, filter=self._filter).to_batches():
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
                if left == 0:
                    return


def fit_selection(selection: Selection, table: TableInfo, zone: str) -> PlainSelection | None:
    """Return a selection as one of a table, None if anything about it needs a planner."""
    known = table.by_name
    if any(column not in known for column, _ in selection.items) or selection.limit == 0:
        return None
    if selection.where is None:
        return PlainSelection(selection, table, None)
    filter = fit_condition(selection.where, table, zone)
    return None if filter is None else PlainSelection(selection, table, filter)


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

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            self._life.check()
            yield from self._selection.batches(self._dataset)
            self._is_read_to_end = True
        except TsdbError:
            raise
        except Exception as error:
            if self._life.is_cancelled:
                raise Cancelled("the query was cancelled") from error
            raise execution_error(error) from error
        finally:
            self._life.end()

    def close(self) -> None:
        """Stop the work and let go of snapshots; from any thread, any number of times."""
        if not self._is_read_to_end:
            self._life.cancel()
        self._life.end()

    def __del__(self) -> None:
        self._life.end()
