"""Numbers in a row as tables: `public.numbers`, and `generate_series` and `range` in a FROM clause.

`numbers` has 0, 1, 2, …, up to the LIMIT of the query, 100 without one. DataFusion's own series do not check
for cancellation, so a join of two of them runs for hours; these check before every batch. Series of times are left to
DataFusion: a year of milliseconds is no more than a scan of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from datafusion import Expr, SessionContext, Table, TableFunction, udtf

from tsdb.query.functions import FunctionError
from tsdb.query.lifetime import BatchPace, QueryLife, in_thread

NUMBERS = "numbers"
NUMBERS_ROWS = 100
"""How many there are when nothing says how many."""
NUMBERS_ROWS_MAX = 2**32
"""A column of 32 bits has no more."""

SERIES_FUNCTIONS = ("generate_series", "range")

_NUMBER = pa.field("number", pa.uint32(), nullable=False)
_VALUE = pa.field("value", pa.int64(), nullable=False)


class _BatchRows(NamedTuple):
    """How many rows batches have: the first, those of a slow query, and those of a fast one."""

    first: int
    least: int
    most: int


_ALONE = _BatchRows(16, 64, 8192)
# A cross join makes a batch of results of each batch and each row of the other side: with batches of 16 rows, which a
# slow machine never made longer, a join of 4000 with 4000 rows took 3.8 s of processor time, with 256 rows 0.8 s.
_JOINED = _BatchRows(256, 256, 1024)


class NumbersDataset(ds.Dataset):  # type: ignore[misc]
    """The numbers of a range, as a column."""

    def __init__(self, numbers: range, column: pa.Field, life: QueryLife, *, batch_rows: _BatchRows = _ALONE) -> None:
        self._batch_rows = batch_rows
        self._numbers = numbers
        self._schema = pa.schema([column])
        self._life = life

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def physical_schema(self) -> pa.Schema:
        return self._schema

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[NumbersDataset]:
        return iter([self])

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> _NumbersScanner:
        names = self._schema.names if columns is None else list(columns)
        return _NumbersScanner(self._numbers, self._schema, names, filter, self._life, self._batch_rows)


class _NumbersScanner:
    def __init__(
        self,
        numbers: range,
        schema: pa.Schema,
        names: Sequence[str],
        filter: Any,
        life: QueryLife,
        batch_rows: _BatchRows,
    ) -> None:
        self._batch_rows = batch_rows
        self._numbers = numbers
        self._schema = schema
        self._names = names
        self._filter = filter
        self._life = life

    @property
    def projected_schema(self) -> pa.Schema:
        return self._schema if self._names else pa.schema([])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        first, least, most = self._batch_rows
        pace = BatchPace(first, most, least_rows=least)
        kind = self._schema.types[0]
        try:
            rest = self._numbers
            while rest:
                self._life.check()
                rows = pace.next_rows()
                part, rest = rest[:rows], rest[rows:]
                values = part.start + part.step * np.arange(_length(part), dtype=np.int64)
                column = pa.array(values).cast(kind)
                yield from self._select(pa.RecordBatch.from_arrays([column], schema=self._schema))
        except Exception as error:
            self._life.fail(error)
            raise

    def _select(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        if isinstance(self._filter, pa.Scalar):
            batch = batch if self._filter.as_py() else batch.slice(0, 0)
        elif self._filter is not None:
            batch = pa.Table.from_batches([batch]).filter(self._filter).combine_chunks()
            batch = batch.to_batches()[0] if batch.num_rows else self._schema.empty_table().to_batches()
        if not isinstance(batch, pa.RecordBatch) or not batch.num_rows:
            return []
        if self._names:
            return [batch]
        return [pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), batch.num_rows, [None]))]


def numbers_table(rows: int, life: QueryLife) -> Table:
    """Return the table `public.numbers`."""
    return Table(NumbersDataset(range(rows), _NUMBER, life))


def series_functions(names: Sequence[str], life: QueryLife, *, is_joined: bool) -> list[TableFunction]:
    """Return the functions that make series of numbers in a FROM clause; for a join in smaller batches."""
    batch_rows = _JOINED if is_joined else _ALONE
    return [udtf(_series_function(name, life, batch_rows), name) for name in names]


def _series_function(name: str, life: QueryLife, batch_rows: _BatchRows) -> Callable[..., Table]:
    def make(*arguments: Expr) -> Table:
        values = [each.python_value() for each in arguments]
        if not 1 <= len(values) <= 3 or not all(pa.types.is_integer(each.type) for each in values):
            return in_thread(lambda: _engine_series(name, values))
        bounds = [each.as_py() for each in values]
        start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (bounds[0], bounds[1], (*bounds, 1)[2])
        if None in (start, stop, step):
            return Table(NumbersDataset(range(0), _VALUE, life))
        if not step:
            raise FunctionError("Step cannot be zero")
        last = stop + (1 if step > 0 else -1) if name == "generate_series" else stop
        return Table(NumbersDataset(range(start, last, step), _VALUE, life, batch_rows=batch_rows))

    return make


def _length(numbers: range) -> int:
    """Return how many there are; `len` takes no more than 63 bits."""
    return (numbers[-1] - numbers[0]) // numbers.step + 1 if numbers else 0


def _engine_series(name: str, arguments: Sequence[pa.Scalar]) -> Table:
    """Return a series of DataFusion's own: of times."""
    text = ", ".join(_rendered(each) for each in arguments)
    return Table(SessionContext().sql(f"SELECT * FROM {name}({text})"))


def _rendered(value: pa.Scalar) -> str:
    """Return a constant as SQL."""
    kind = value.type
    if not value.is_valid:
        return "NULL"
    if pa.types.is_timestamp(kind):
        zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
        unit = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}[kind.unit]
        return f"arrow_cast({value.value}, 'Timestamp({unit}, {zone})')"
    if pa.types.is_date(kind):
        return f"DATE '{value.as_py()}'"
    if pa.types.is_interval(kind):
        months, days, nanoseconds = value.as_py()
        return f"INTERVAL '{months} months {days} days {nanoseconds} nanoseconds'"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return str(value.as_py())
    return "'" + str(value.as_py()).replace("'", "''") + "'"
