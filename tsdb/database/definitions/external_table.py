"""CREATE EXTERNAL TABLE: a file, or a directory of files, under the name of a table. Read only.

Columns that the statement does not give are those of the first file. The time index is the column that says so, else
the one named `tsdb_timestamp`, else a column of that name is added, which the epoch fills.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tsdb.database._files import CopyFailed, FileOptions, confined, files_at, read_file
from tsdb.database._options import check_table_options
from tsdb.database._services import Services
from tsdb.errors import InvalidArguments
from tsdb.model import ColumnDefault, ColumnId, ColumnInfo, DataType, Kind, Semantic, TableInfo, type_of_field
from tsdb.sql.statements import CreateTable

TIME_COLUMN = "tsdb_timestamp"


def plan_external_table(
    statement: CreateTable, columns: tuple[ColumnInfo, ...], services: Services, *, database: str, name: str
) -> TableInfo:
    """Return the description of an external table whose files are there."""
    options = check_table_options(statement.options)
    location = options.get("location")
    if not location:
        raise InvalidArguments("an external table needs a location", hint="WITH (location = 'file.parquet')")
    files = FileOptions.parse([(key, value) for key, value in options.items() if key != "location"])
    path = confined(location, services.options.copy_root)
    found = files_at(path, location, options.get("pattern"))
    if not found or not found[0].exists():
        raise CopyFailed(f"there is no file at {location!r}")
    if not columns:
        columns = _inferred(found[0], files)
    columns = _with_time(columns, statement.time_index)
    numbered = tuple(replace(column, id=ColumnId(number)) for number, column in enumerate(columns))
    return TableInfo(
        id=0,
        database=database,
        name=name,
        columns=numbered,
        primary_key=tuple(column.name for column in numbered if column.semantic is Semantic.TAG),
        engine="file",
        options={**options, "location": str(path), "format": files.format},
        region_numbers=(),
        created_ms=services.clock.now_ns() // 1_000_000,
        next_column_id=len(numbered),
    )


def _inferred(path: Path, files: FileOptions) -> tuple[ColumnInfo, ...]:
    if files.format == "parquet":
        schema = pq.read_schema(path)
    else:
        schema = next(read_file(path, files), pa.RecordBatch.from_pylist([])).schema
    columns = []
    for position, field in enumerate(schema):
        kind = type_of_field(field)
        if kind is None:
            raise InvalidArguments(
                f"column {field.name} of the file has a type that tables do not support: {field.type}"
            )
        columns.append(ColumnInfo(ColumnId(position), field.name, kind, Semantic.FIELD))
    return tuple(columns)


def _with_time(columns: tuple[ColumnInfo, ...], time_index: str | None) -> tuple[ColumnInfo, ...]:
    """Make one column the time index."""
    if any(column.semantic is Semantic.TIMESTAMP for column in columns):
        return columns
    wanted = time_index or TIME_COLUMN
    if any(column.name == wanted and column.type.is_timestamp for column in columns):
        return tuple(
            replace(column, semantic=Semantic.TIMESTAMP, nullable=False) if column.name == wanted else column
            for column in columns
        )
    added = ColumnInfo(
        ColumnId(len(columns)),
        TIME_COLUMN,
        DataType(Kind.TIMESTAMP_MILLISECOND),
        Semantic.TIMESTAMP,
        nullable=False,
        default=ColumnDefault(literal="1970-01-01 00:00:00+0000"),
    )
    return (*columns, added)
