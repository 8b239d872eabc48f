"""INSERT and REPLACE: literals straight to Arrow, queries through the query engine, both into the table's columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from tsdb.database._names import check_writable, resolve
from tsdb.database._processes import Process
from tsdb.database._services import Services
from tsdb.database.writing.assign import assign_column
from tsdb.database.writing.cells import convert_cells
from tsdb.database.writing.columns import complete_rows, make_rows
from tsdb.database.writing.defaults import default_scalar
from tsdb.errors import InvalidArguments, Status
from tsdb.metric import check_writable as check_metric_writable
from tsdb.model import ColumnInfo, ColumnNotFound, TableInfo
from tsdb.query import Affected, Channel, Records, Session
from tsdb.sql.statements import Expression, Insert, Special, Update, Values

HELD_BYTES_MAX = 128 * 1024 * 1024
"""How much of a query's answer is held back until the query is over: one that fails by then has written nothing."""

WRITE_ROWS = 65_536
WRITE_BYTES = 32 << 20
"""Rows of a query are gathered to this much before they are written: joins make batches of a few rows each."""


class InsertPlanError(InvalidArguments):
    """A query whose columns do not fit the table."""

    status = Status.PLAN_QUERY


class NotATable(InvalidArguments):
    """Rows cannot be written to a view."""


def insert(
    statement: Insert,
    services: Services,
    session: Session,
    process: Process,
    tables: Mapping[str, pa.Table] | None = None,
) -> Affected:
    """Write the rows of an INSERT; all of them are counted, also those that overwrite each other."""
    table = target_table(statement, services, session)
    columns = _target_columns(statement, table)
    if statement.values is not None:
        return Affected(_insert_values(statement.values, table, columns, services, session, process))
    assert statement.query is not None
    records = services.queries.query(statement.query.text, session, tables=tables)
    return Affected(insert_rows(records, table, columns, services, session, process))


def target_table(statement: Insert | Update, services: Services, session: Session) -> TableInfo:
    database, name = resolve(statement.table, session)
    check_writable(database)
    if services.catalog.find_view(database, name) is not None:
        raise NotATable(f"{name} is a view: rows go into tables")
    table = services.catalog.table(database, name)
    check_metric_writable(table)
    return table


def _target_columns(statement: Insert, table: TableInfo) -> list[ColumnInfo]:
    if not statement.columns:
        return list(table.columns)
    chosen = []
    for name in statement.columns:
        column = table.by_name.get(name)
        if column is None:
            raise ColumnNotFound.of(table.name, name, table.by_name)
        if column in chosen:
            raise InvalidArguments(f"column {name} is named twice")
        chosen.append(column)
    return chosen


def _insert_values(
    values: Values,
    table: TableInfo,
    columns: Sequence[ColumnInfo],
    services: Services,
    session: Session,
    process: Process,
) -> int:
    if len(columns) != len(values.columns):
        raise InvalidArguments(
            f"column count mismatch, columns: {len(columns)}, values: {len(values.columns)}", table=table.name
        )
    now_ns = services.clock.now_ns()
    given: dict[str, pa.Array] = {}
    for column, cells in zip(columns, values.columns, strict=True):
        given[column.name] = _column_of_cells(cells, column, values, services, session, now_ns)
    rows = complete_rows(table, given, values.rows, now_ns=now_ns)
    return services.writer.put(make_rows(table, rows), process.token)


def _column_of_cells(
    cells: list[Any], column: ColumnInfo, values: Values, services: Services, session: Session, now_ns: int
) -> pa.Array:
    is_lenient = session.channel is Channel.MYSQL
    kinds = set(map(type, cells))
    if Special in kinds:
        cells = _with_defaults(cells, column, now_ns)
    if Expression not in kinds:
        plain = [cell for cell in cells if not isinstance(cell, pa.Scalar)] if Special in kinds else cells
        made = convert_cells(plain, column, zone=session.time_zone, is_lenient=is_lenient)
        return _merged(cells, made, column) if Special in kinds else made
    texts = [cell.text.text for cell in cells if isinstance(cell, Expression)]
    results = iter(_evaluate(texts, column, services, session))
    cells = [next(results) if isinstance(cell, Expression) else cell for cell in cells]
    plain = [cell for cell in cells if not isinstance(cell, pa.Scalar)]
    made = convert_cells(plain, column, zone=session.time_zone, is_lenient=is_lenient)
    return _merged(cells, made, column)


def _with_defaults(cells: list[Any], column: ColumnInfo, now_ns: int) -> list[Any]:
    default = default_scalar(column, now_ns=now_ns)
    if default is None and not column.nullable:
        raise InvalidArguments(f"column {column.name} is not null and has no default: DEFAULT means nothing here")
    filler = pa.scalar(None, column.type.arrow) if default is None else default
    return [filler if isinstance(cell, Special) else cell for cell in cells]


def _merged(cells: list[Any], made: pa.Array, column: ColumnInfo) -> pa.Array:
    """Put converted cells and values that are ready back into one column."""
    converted = iter(made)
    values = [cell if isinstance(cell, pa.Scalar) else next(converted) for cell in cells]
    return pa.array([_raw(value) for value in values], column.type.arrow)


def _raw(value: pa.Scalar) -> Any:
    return value.value if pt.is_timestamp(value.type) else value.as_py()


def _evaluate(texts: list[str], column: ColumnInfo, services: Services, session: Session) -> list[pa.Scalar]:
    results = services.queries.evaluate(texts, session)
    return [
        assign_column(pa.array([result.as_py()], result.type), column, zone=session.time_zone)[0]
        if not pt.is_timestamp(result.type)
        else assign_column(pa.array([result.value], pa.int64()).cast(result.type), column, zone=session.time_zone)[0]
        for result in results
    ]


def insert_rows(
    records: Records,
    table: TableInfo,
    columns: Sequence[ColumnInfo],
    services: Services,
    session: Session,
    process: Process,
    *,
    not_null: frozenset[str] = frozenset(),
) -> int:
    """Write the rows of a query, their number; `not_null` are columns in which a null would be without effect."""
    process.on_cancel(records.close)
    try:
        if len(records.schema) != len(columns):
            raise InsertPlanError(
                f"Failed to plan SQL: the query has {len(records.schema)} columns, the table takes {len(columns)}",
                table=table.name,
            )
        total, held, held_bytes = 0, [], 0
        for batch in _gathered(records):
            process.check()
            given = {
                column.name: assign_column(batch.column(position), column, zone=session.time_zone)
                for position, column in enumerate(columns)
            }
            for name in not_null:
                if given[name].null_count:
                    raise InvalidArguments(
                        f"column {name} cannot be set to NULL: table {table.name} keeps the last value that is not null"
                    )
            held.append(complete_rows(table, given, batch.num_rows, now_ns=services.clock.now_ns()))
            held_bytes += held[-1].nbytes
            if held_bytes > HELD_BYTES_MAX:
                total += _put_all(services, table, held, process)
        return total + _put_all(services, table, held, process)
    finally:
        records.close()


def _put_all(services: Services, table: TableInfo, held: list[pa.Table], process: Process) -> int:
    """Write what is held back, and hold it no longer."""
    total = sum(services.writer.put(make_rows(table, rows), process.token) for rows in held)
    held.clear()
    return total


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join batches to ones that are worth a write."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= WRITE_ROWS or size >= WRITE_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.concat_batches(waiting)
