"""Rows that arrive as named columns, from `Connection.write`, Flight and COPY of PostgreSQL.

`write_frame` makes the table fit: a missing table is created, missing columns are added, as tags or fields; types that
are there already are kept, and values are cast to them. `append_frame` changes no table: what does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tsdb.catalog import AnyCatalog
from tsdb.clock import Clock
from tsdb.database.writing.assign import assign_column
from tsdb.database.writing.columns import complete_rows, make_rows
from tsdb.database.writing.request import WriteRequest
from tsdb.database.writing.writer import Writer
from tsdb.errors import InvalidArguments
from tsdb.ingest import NewTable, TableRows
from tsdb.metric import check_writable as check_metric_writable
from tsdb.model import (
    ColumnInfo,
    ColumnNotFound,
    DataType,
    Kind,
    TableInfo,
    can_widen,
    make_tags,
    type_of_field,
)
from tsdb.query import WriteToken


class ColumnTypeMismatch(InvalidArguments):
    """A column comes with a type that the table's column does not hold."""


class FrameWriter:
    """Writes frames."""

    def __init__(self, catalog: AnyCatalog, clock: Clock, writer: Writer) -> None:
        self._catalog = catalog
        self._clock = clock
        self._writer = writer

    def write(
        self, database: str, name: str, frame: pa.Table, *, tags: Sequence[str], time: str, token: WriteToken
    ) -> int:
        """Write a frame into a table, which is created or widened when it has to be; the number of rows."""
        _check_frame(frame, tags, time)
        table = self._catalog.find_table(database, name)
        if table is not None:
            _check_fits(table, frame, time)
        if table is None or not all(column in table.by_name for column in frame.column_names):
            # Without tags, rows of the same time are different rows rather than versions of one.
            options = {} if tags else {"append_mode": "true"}
            rows = _layout(name, frame.schema, tags, time)
            table = self._writer.ensure_table(rows, _request(database, frame.schema, time, options, token))
            _check_fits(table, frame, time)
        return self._put(table, frame, token)

    def append(self, database: str, name: str, frame: pa.Table, token: WriteToken) -> int:
        """Write a frame into a table that exists and stays as it is; the number of rows."""
        table = self._catalog.table(database, name)
        check_metric_writable(table)
        _check_unique(frame.column_names)
        for field in frame.schema:
            known = table.by_name.get(field.name)
            if known is None:
                raise ColumnNotFound.of(table.name, field.name, table.by_name)
            _check_holds(table, known, _type(field), field)
        return self._put(table, frame, token)

    def create_table(
        self,
        database: str,
        name: str,
        schema: pa.Schema,
        *,
        tags: Sequence[str],
        time: str,
        options: Mapping[str, str],
        token: WriteToken | None = None,
    ) -> TableInfo:
        """Create the table that frames of a schema need; TableAlreadyExists if the name is taken."""
        _check_frame(schema.empty_table(), tags, time)
        rows = _layout(name, schema, tags, time)
        return self._writer.create_table(rows, _request(database, schema, time, options, token or WriteToken()))

    def _put(self, table: TableInfo, frame: pa.Table, token: WriteToken) -> int:
        given = {
            column: assign_column(_plain(frame.column(column)), table.by_name[column], zone="UTC")
            for column in frame.column_names
        }
        rows = complete_rows(table, given, frame.num_rows, now_ns=self._clock.now_ns())
        return self._writer.put(make_rows(table, rows), token)


def _layout(name: str, schema: pa.Schema, tags: Sequence[str], time: str) -> TableRows:
    """Return rows without any row: what they need of their table."""
    empty = schema.empty_table()
    return TableRows(
        table=name,
        tags=make_tags([empty.column(tag).combine_chunks() for tag in tags], tags, 0),
        series_index=np.zeros(0, np.uint32),
        times=np.zeros(0, np.int64),
        unit=schema.field(time).type.unit,
        fields={each: empty.column(each).combine_chunks() for each in schema.names if each not in (*tags, time)},
        columns=tuple("" if each == time else each for each in schema.names),
        types={field.name: _type(field) for field in schema},
    )


def _request(
    database: str, schema: pa.Schema, time: str, options: Mapping[str, str], token: WriteToken
) -> WriteRequest:
    new_table = NewTable(time_column=time, time_unit=schema.field(time).type.unit, comment=None)
    return WriteRequest(database, token, new_table, table_options=options)


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


def _check_fits(table: TableInfo, frame: pa.Table, time: str) -> None:
    """Refuse a frame whose time index, or a type, is not that of the table."""
    check_metric_writable(table)
    if table.time_index.name != time:
        raise InvalidArguments(f"the time index of table {table.name} is {table.time_index.name!r}, not {time!r}")
    for field in frame.schema:
        known = table.by_name.get(field.name)
        if known is not None and known.type.arrow != field.type:
            _check_holds(table, known, _type(field), field)


def _type(field: pa.Field) -> DataType:
    if pt.is_null(field.type):
        return DataType(Kind.STRING)
    if pt.is_date64(field.type):
        return DataType(Kind.TIMESTAMP_MILLISECOND)
    kind = type_of_field(field)
    if kind is None:
        raise InvalidArguments(
            f"column {field.name!r} holds {field.type}, which tables do not support",
            hint="turn it into text or split it into columns",
        )
    return kind


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
