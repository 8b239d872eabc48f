"""Results headed as the protocol's own server heads them.

Clients of MySQL and PostgreSQL find columns by the names those servers give (`count`, `?column?`, the text of an
expression); every other channel shows the names of the query engine. The rules are in `tsdb.sql.headings`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tsdb.query import Records
from tsdb.sql import Dialect
from tsdb.sql.headings import name_columns


def with_headings(records: Records, text: str, dialect: Dialect) -> Records:
    """Return the rows of a query with the headings of a protocol."""
    schema = headed_schema(records.schema, text, dialect)
    return records if schema is records.schema else _HeadedRecords(records, schema)


def headed_schema(schema: pa.Schema, text: str, dialect: Dialect) -> pa.Schema:
    """Return the columns of a query's result with the headings of a protocol; itself if they are right."""
    if dialect is Dialect.GENERIC:
        return schema
    names = name_columns(schema.names, text, dialect)
    if names == schema.names:
        return schema
    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)], schema.metadata)


class _HeadedRecords:
    """Rows under other names."""

    def __init__(self, records: Records, schema: pa.Schema) -> None:
        self._records = records
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._records:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

    def close(self) -> None:
        self._records.close()
