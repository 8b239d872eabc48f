"""The table `public.numbers`: 0, 1, 2, …, as many as the LIMIT of the query asks for and 100 without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tsdb.query._life import QueryLife

NUMBERS = "numbers"
NUMBERS_ROWS = 100
"""How many there are when nothing says how many."""
NUMBERS_ROWS_MAX = 2**32
"""A column of 32 bits has no more."""

_SCHEMA = pa.schema([pa.field("number", pa.uint32(), nullable=False)])
_BATCH_ROWS = 8192
# A cross join spends its time between two batches of one of its inputs, and asks there whether it is still wanted.
_FIRST_BATCHES_ROWS = 10


class NumbersDataset(ds.Dataset):  # type: ignore[misc]
    """The numbers below a limit."""

    def __init__(self, rows: int, life: QueryLife) -> None:
        self._rows = rows
        self._life = life

    @property
    def schema(self) -> pa.Schema:
        return _SCHEMA

    @property
    def physical_schema(self) -> pa.Schema:
        return _SCHEMA

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[NumbersDataset]:
        return iter([self])

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> _NumbersScanner:
        names = _SCHEMA.names if columns is None else list(columns)
        return _NumbersScanner(self._rows, names, filter, self._life)


class _NumbersScanner:
    def __init__(self, rows: int, names: Sequence[str], filter: Any, life: QueryLife) -> None:
        self._rows = rows
        self._names = names
        self._filter = filter
        self._life = life

    @property
    def projected_schema(self) -> pa.Schema:
        return _SCHEMA if self._names else pa.schema([])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            start = 0
            while start < self._rows:
                self._life.check()
                stop = min(start + (_FIRST_BATCHES_ROWS if start < NUMBERS_ROWS else _BATCH_ROWS), self._rows)
                numbers = pa.array(np.arange(start, stop, dtype=np.uint32))
                yield from self._select(pa.RecordBatch.from_arrays([numbers], schema=_SCHEMA))
                start = stop
        except Exception as error:
            self._life.fail(error)
            raise

    def _select(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        if isinstance(self._filter, pa.Scalar):
            batch = batch if self._filter.as_py() else batch.slice(0, 0)
        elif self._filter is not None:
            batch = pa.Table.from_batches([batch]).filter(self._filter).combine_chunks()
            batch = batch.to_batches()[0] if batch.num_rows else _SCHEMA.empty_table().to_batches()
        if not isinstance(batch, pa.RecordBatch) or not batch.num_rows:
            return []
        if self._names:
            return [batch]
        return [pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), batch.num_rows, [None]))]
