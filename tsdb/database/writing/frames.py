"""Rows that come as columns with names: the table is made to fit them, then they are written.

A table that is not there is created, columns that it lacks are added, as tags or fields; types that are there already
are kept, and values are cast to them where nothing is lost. `append_frame` changes no table: what does not fit is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.catalog import CatalogOutdated, TableAlreadyExists
from tsdb.database._assign import assign_column
from tsdb.database._names import check_table_name, check_writable
from tsdb.database._services import Services
from tsdb.database.writing.columns import complete_rows, put_rows
from tsdb.errors import InvalidArguments
from tsdb.metric import check_writable as check_metric_writable
from tsdb.metric import plan_column
from tsdb.model import (
    AddColumn,
    ColumnId,
    ColumnInfo,
    ColumnNotFound,
    DataType,
    Kind,
    Semantic,
    TableInfo,
    WidenColumn,
    can_widen,
    type_of_field,
)
from tsdb.query import WriteToken

ATTEMPTS_MAX = 5
"""How often a change of the table is tried again that somebody else's change has overtaken."""


class ColumnTypeMismatch(InvalidArguments):
    """A column comes with a type that the table's column does not hold."""


def write_frame(
    services: Services,
    database: str,
    name: str,
    frame: pa.Table,
    *,
    tags: Sequence[str],
    time: str,
    token: WriteToken | None = None,
) -> int:
    """Write all rows of a frame into a table, which is created or widened when it has to be; the number of rows."""
    check_writable(database)
    services.catalog.database(database)
    _check_frame(frame, tags, time)
    token = token or WriteToken()
    for attempt in range(ATTEMPTS_MAX):
        try:
            table = _fitting_table(services, database, name, frame, tags, time, token)
            break
        except (CatalogOutdated, TableAlreadyExists):
            if attempt == ATTEMPTS_MAX - 1:
                raise
    return _put_frame(services, table, frame, token)


def append_frame(services: Services, database: str, name: str, frame: pa.Table, token: WriteToken | None) -> int:
    """Write all rows of a frame into a table that is there and stays as it is; the number of rows."""
    check_writable(database)
    table = services.catalog.table(database, name)
    check_metric_writable(table)
    _check_unique(frame.column_names)
    for field in frame.schema:
        known = table.by_name.get(field.name)
        if known is None:
            raise ColumnNotFound.of(table.name, field.name, table.by_name)
        _check_holds(table, known, _type(field), field)
    return _put_frame(services, table, frame, token)


def create_frame_table(
    services: Services,
    database: str,
    name: str,
    schema: pa.Schema,
    *,
    tags: Sequence[str],
    time: str,
    options: Mapping[str, str] | None = None,
    token: WriteToken | None = None,
) -> None:
    """Create the table that rows of a schema need; TableAlreadyExists if the name is taken."""
    check_writable(database)
    services.catalog.database(database)
    check_table_name(name)
    empty = schema.empty_table()
    _check_frame(empty, tags, time)
    with _changing_table(token or WriteToken()):
        services.catalog.create_table(_new_table(services, database, name, empty, tags, time, options or {}))


@contextmanager
def _changing_table(token: WriteToken) -> Iterator[None]:
    """Create or change a table as a step of a write."""
    token.enter()
    yield
    token.expect(1)
    token.note(tables=1)


def create_own_table(
    services: Services, database: str, name: str, schema: pa.Schema, *, time: str, options: Mapping[str, str]
) -> None:
    """Create a table of the server itself, in a database that users only read; TableAlreadyExists if it is there."""
    services.catalog.create_table(_new_table(services, database, name, schema.empty_table(), (), time, options))


def put_frame(services: Services, database: str, name: str, frame: pa.Table, create: Callable[[], None]) -> int:
    """Write rows of the server itself into one of its own tables, which `create` makes when it is missing."""
    table = services.catalog.find_table(database, name)
    if table is None:
        create()
        table = services.catalog.table(database, name)
    return _put_frame(services, table, frame, None)


def _put_frame(services: Services, table: TableInfo, frame: pa.Table, token: WriteToken | None) -> int:
    given = {
        column: assign_column(_plain(frame.column(column)), table.by_name[column], zone="UTC")
        for column in frame.column_names
    }
    rows = complete_rows(table, given, frame.num_rows, now_ns=services.clock.now_ns())
    return put_rows(services, table, rows, token)


def _check_unique(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise InvalidArguments("the names of columns are not unique", columns=", ".join(names))


def _check_frame(frame: pa.Table, tags: Sequence[str], time: str) -> None:
    names = frame.column_names
    _check_unique(names)
    for name in (*tags, time):
        if name not in names:
            raise InvalidArguments(f"there is no column {name!r} in the data", columns=", ".join(names))
    if time in tags:
        raise InvalidArguments("the time column cannot be a tag", column=time)
    if not pt.is_timestamp(frame.schema.field(time).type):
        raise InvalidArguments(
            f"the time column {time!r} holds {frame.schema.field(time).type}, not timestamps",
            hint="convert it first, for example with pandas.to_datetime",
        )
    if frame.column(time).null_count:
        raise InvalidArguments(f"the time column {time!r} has rows without a time")


def _fitting_table(
    services: Services, database: str, name: str, frame: pa.Table, tags: Sequence[str], time: str, token: WriteToken
) -> TableInfo:
    table = services.catalog.find_table(database, name)
    if table is None:
        check_table_name(name)
        # Without tags, rows of the same time are different rows rather than versions of one.
        options = {} if tags else {"append_mode": "true"}
        with _changing_table(token):
            return services.catalog.create_table(_new_table(services, database, name, frame, tags, time, options))
    check_metric_writable(table)
    if table.time_index.name != time:
        raise InvalidArguments(f"the time index of table {name} is {table.time_index.name!r}, not {time!r}")
    return _widened(services, table, frame, tags, token)


def _new_table(
    services: Services,
    database: str,
    name: str,
    frame: pa.Table,
    tags: Sequence[str],
    time: str,
    options: Mapping[str, str] | None = None,
) -> TableInfo:
    columns = tuple(
        ColumnInfo(ColumnId(number), field.name, _type(field), _semantic(field.name, tags, time), field.name != time)
        for number, field in enumerate(frame.schema)
    )
    return TableInfo(
        id=0,
        database=database,
        name=name,
        columns=columns,
        primary_key=tuple(tags),
        options=options or {},
        created_ms=services.clock.now_ns() // 1_000_000,
        next_column_id=len(columns),
    )


def _semantic(name: str, tags: Sequence[str], time: str) -> Semantic:
    return Semantic.TIMESTAMP if name == time else Semantic.TAG if name in tags else Semantic.FIELD


def _type(field: pa.Field) -> DataType:
    if pt.is_null(field.type):
        return DataType(Kind.STRING)
    if pt.is_date64(field.type):
        return DataType(Kind.TIMESTAMP_MILLISECOND)
    kind = type_of_field(field)
    if kind is None:
        raise InvalidArguments(
            f"column {field.name!r} holds {field.type}, which no column of a table can hold",
            hint="turn it into text or split it into columns",
        )
    return kind


def _widened(
    services: Services, table: TableInfo, frame: pa.Table, tags: Sequence[str], token: WriteToken
) -> TableInfo:
    """Add the columns that a table lacks, and widen whole numbers to floats where floats come."""
    changes: list[AddColumn | WidenColumn] = []
    new = table
    for field in frame.schema:
        kind, known = _type(field), table.by_name.get(field.name)
        if known is None:
            is_tag = field.name in tags
            semantic = Semantic.TAG if is_tag else Semantic.FIELD
            column = ColumnInfo(ColumnId(new.next_column_id), field.name, kind, semantic)
            if table.is_logical:
                new = plan_column(new, column)
                continue
            changes.append(AddColumn(field.name, kind.arrow, semantic))
            new = replace(
                new,
                columns=(*new.columns, column),
                primary_key=(*new.primary_key, field.name) if is_tag else new.primary_key,
                next_column_id=new.next_column_id + 1,
            )
        else:
            _check_holds(table, known, kind, field)
    if new is table:
        return table
    with _changing_table(token):
        return services.catalog.alter_table(table, new.changed(), changes)


def _check_holds(table: TableInfo, known: ColumnInfo, kind: DataType, field: pa.Field) -> None:
    if pt.is_null(field.type) or known.type == kind or can_widen(kind.arrow, known.type.arrow):
        return
    if known.type.is_timestamp and kind.is_timestamp:
        return
    if known.type.kind in (Kind.JSON, Kind.VECTOR) and kind.kind in (Kind.STRING, Kind.BINARY):
        return
    raise ColumnTypeMismatch(
        f"column {known.name!r} of table {table.name} has type {known.type.name}, the data has {kind.name}",
        hint="convert the data, or change the column with ALTER TABLE … MODIFY COLUMN",
    )


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pt.is_date64(values.type):
        return values.cast(pa.timestamp("ms"))
    if pt.is_timestamp(values.type) and values.type.tz is not None:
        return values.cast(pa.timestamp(values.type.unit, "UTC")).cast(pa.timestamp(values.type.unit))
    return pc.cast(values, values.type.value_type) if pt.is_dictionary(values.type) else values
