"""Plain selections, read from the table without a plan.

`SELECT a, b FROM t WHERE tag = 'x' AND ts >= … AND ts < …` is what dashboards and programs ask most. Planning it took
more than half of its time, and the plan is always the same: hand the conditions to the table, which applies them
exactly anyway. A condition whose literal does not have the column's own type for certain is left to the planner, and so
is everything that would be an error.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tsdb.engine.scan import Call, Literal, Ref
from tsdb.errors import Cancelled, TsdbError
from tsdb.model import InvalidTimestamp, Kind, TableInfo, check_range
from tsdb.query._life import QueryLife
from tsdb.query._table_dataset import TableDataset
from tsdb.query.errors import execution_error
from tsdb.sql.selection import Condition, Selection

_INTEGERS = frozenset(
    {Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64}
)
_FUNCTIONS = {"=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_DOUBLE_EXACT = 1 << 53


class PlainSelection:
    """A selection that fits a table: which columns, under which conditions."""

    def __init__(self, selection: Selection, table: TableInfo, filter: Call | None) -> None:
        self.table = table
        self._columns = [column for column, _ in selection.items] or list(table.arrow.names)
        names = [name for _, name in selection.items] or self._columns
        self.schema = pa.schema(
            [table.arrow.field(column).with_name(name) for column, name in zip(self._columns, names, strict=True)]
        )
        self._filter = filter
        self._limit = selection.limit

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


def fit_selection(selection: Selection, table: TableInfo) -> PlainSelection | None:
    """Return a selection as one of a table, None if anything about it needs a planner."""
    known = table.by_name
    if any(column not in known for column, _ in selection.items) or selection.limit == 0:
        return None
    calls = []
    for condition in selection.conditions:
        call = _call(condition, table)
        if call is None:
            return None
        calls.append(call)
    filter = calls[0] if len(calls) == 1 else Call("and_kleene", tuple(calls)) if calls else None
    return PlainSelection(selection, table, filter)


def _call(condition: Condition, table: TableInfo) -> Call | None:
    column = table.by_name.get(condition.column)
    if column is None:
        return None
    value = _literal(condition, column.type.kind, column.type.arrow)
    if value is None:
        return None
    return Call(_FUNCTIONS[condition.operator], (Ref(condition.column), Literal(value)))


def _literal(condition: Condition, kind: Kind, arrow: pa.DataType) -> pa.Scalar | None:
    if condition.is_string:
        return pa.scalar(condition.text, arrow) if kind is Kind.STRING else None
    is_whole = condition.text.lstrip("-").isdigit()
    if kind is Kind.FLOAT64:
        if is_whole and abs(int(condition.text)) > _DOUBLE_EXACT:
            return None
        return pa.scalar(float(condition.text), arrow)
    if not is_whole:
        return None
    number = int(condition.text)
    try:
        if pa.types.is_timestamp(arrow):
            check_range(number, arrow.unit)
        elif kind not in _INTEGERS:
            return None
        return pa.scalar(number, arrow)
    except (InvalidTimestamp, pa.ArrowInvalid, OverflowError):
        return None


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
