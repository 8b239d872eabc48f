"""CSV files whose times have a zone, such as `2024-01-30T12:30:00Z`.

Arrow reads such times into columns with a zone only, and times without one into columns without. The columns of tables
have none: their times are in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.types as pt


def zoned_schema(path: str, schema: pa.Schema) -> pa.Schema:
    """Return the schema to read CSV files with: times have a zone where those of the first file do."""
    zoned = {field.name for field in ds.dataset(path, format="csv").schema if getattr(field.type, "tz", None)}
    for position, field in enumerate(schema):
        if field.name in zoned and pt.is_timestamp(field.type):
            schema = schema.set(position, field.with_type(pa.timestamp(field.type.unit, "UTC")))
    return schema


class ZonedFiles(ds.Dataset):  # type: ignore[misc]
    """Files, with times in UTC and without a zone."""

    def __init__(self, files: ds.Dataset, schema: pa.Schema) -> None:
        self._files = files
        self._schema = schema

    def __reduce__(self) -> tuple[Any, ...]:
        return ZonedFiles, (self._files, self._schema)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, **_: Any) -> _Scanner:
        """Return a scanner of which DataFusion wants to know the schema alone."""
        return _Scanner(None, self._schema, columns, None)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[_Fragment]:
        return iter([_Fragment(each, self._files.schema, self._schema) for each in self._files.get_fragments()])


class _Fragment:
    """One file."""

    def __init__(self, file: ds.Fragment, file_schema: pa.Schema, schema: pa.Schema) -> None:
        self._file = file
        self._file_schema = file_schema
        self.physical_schema = schema

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> _Scanner:
        scanner = self._file.scanner(schema=self._file_schema)
        return _Scanner(scanner, self.physical_schema, columns, filter)


class _Scanner:
    """What DataFusion needs of a scanner. A filter is about times without a zone, so it comes after the conversion."""

    def __init__(
        self,
        file: ds.Scanner | None,
        schema: pa.Schema,
        columns: Sequence[str] | None,
        filter: pc.Expression | None,
    ) -> None:
        self._file = file
        self._schema = schema
        self._filter = filter
        self._names = schema.names if columns is None else list(columns)
        self.projected_schema = pa.schema([schema.field(name) for name in self._names])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        assert self._file is not None, "rows are read by file"
        for batch in self._file.to_batches():
            rows = pa.Table.from_batches([batch]).cast(self._schema)
            if self._filter is not None:
                rows = rows.filter(self._filter)
            yield from rows.select(self._names).to_batches()
