"""A query over the few rows of an aggregate: HAVING, and whatever is computed with aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from tsdb.query.series_aggregate._records import AggregateRecords
from tsdb.query.session import Records
from tsdb.query.tables import TableDataset
from tsdb.sql.clauses import Declined


class OuterRecords:
    """The rows of a query over an aggregate, which is computed when they are read."""

    def __init__(
        self,
        inner: AggregateRecords,
        outer: Callable[[pa.Table], Records],
        schema: pa.Schema,
        plan: Callable[[], Records],
    ) -> None:
        """`outer` runs the query over the aggregate's rows; `plan` has the whole planned."""
        self._inner = inner
        self._outer = outer
        self._schema = schema
        self._plan = plan
        self._running: Records = inner

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def scans(self) -> list[TableDataset]:
        return self._inner.scans

    def describe(self) -> str:
        return f"{self._inner.describe()}, and a query over its cells"

    def describe_run(self) -> str:
        return f"{self._inner.describe_run()}, and a query over its cells"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        found = self._inner.aggregate()
        if isinstance(found, Declined):
            self._running = self._plan()
            yield from self._running
            return
        self._running = self._outer(pa.Table.from_batches([found]))
        for batch in self._running:
            arrays = [
                values if values.type == field.type else values.cast(field.type)
                for values, field in zip(batch.columns, self._schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def close(self) -> None:
        """Stop the work and let go of snapshots; from any thread, any number of times."""
        self._running.close()
        self._inner.close()
