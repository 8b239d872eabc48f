"""DELETE: the keys that a condition chooses, then one tombstone each."""

from __future__ import annotations

import pyarrow as pa

from tsdb.database._names import check_writable, quoted, resolve
from tsdb.database._processes import Process
from tsdb.database._services import Services
from tsdb.database.sessions.access import check_target, reading_session
from tsdb.database.writing.columns import make_rows
from tsdb.database.writing.values import convert
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import ColumnInfo, ColumnNotFound, OpType, TableInfo
from tsdb.query import Affected, Session
from tsdb.sql.statements import Delete


def delete(statement: Delete, services: Services, session: Session, process: Process) -> Affected:
    """Delete the rows for which a condition holds; the number of rows."""
    database, name = resolve(statement.table, session)
    check_writable(database)
    table = services.catalog.table(database, name)
    where = "" if statement.where is None else statement.where.text
    return Affected(delete_where(table, services, session, process, alias=statement.alias, where=where))


def delete_where(
    table: TableInfo,
    services: Services,
    session: Session,
    process: Process,
    *,
    alias: str | None = None,
    where: str = "",
) -> int:
    """Delete the rows of a table for which a condition holds, all of them if there is none; the number of rows."""
    check_deletable(services, table)
    query = _key_query(table, session, alias=alias, where=where)
    records = services.queries.query(query, reading_session(table, session, where))
    process.on_cancel(records.close)
    deleted = 0
    try:
        # The keys come from one snapshot, so what is deleted on the way does not disturb it.
        for batch in records:
            process.check()
            keys = make_rows(table, pa.Table.from_batches([batch]), OpType.DELETE)
            deleted += services.writer.put(keys, process.token)
    finally:
        records.close()
    return deleted


def delete_rows(name: str, keys: pa.Table, time: str, services: Services, session: Session) -> int:
    """Delete the rows of a table that have the given tags and times, `time` being the column of the times.

    A tag that is not given is null. Keys that no row has are deleted as well; all are counted.
    """
    check_writable(session.database)
    check_target(session, session.database)
    table = services.catalog.table(session.database, name)
    check_deletable(services, table)
    given = {column: keys.column(column) for column in keys.column_names if column != time}
    for column in given:
        if column not in {tag.name for tag in table.tags}:
            raise ColumnNotFound(f"{column} is not a tag of table {name}, rows are deleted by tags and time")
    columns = [_key_column(tag, given.get(tag.name), keys.num_rows) for tag in table.tags]
    columns.append(_key_column(table.time_index, keys.column(time), keys.num_rows))
    names = [each.name for each in (*table.tags, table.time_index)]
    return services.writer.put(make_rows(table, pa.table(columns, names), OpType.DELETE), session.token)


def check_deletable(services: Services, table: TableInfo) -> None:
    """Refuse to delete from a table that keeps every row or shows a file."""
    if table.engine == "file":
        raise Unsupported(f"table {table.name} is read-only: it shows a file")
    if table.is_append or services.catalog.stored_in(table).is_append:
        raise InvalidArguments(f"table {table.name} is in append mode: its rows cannot be deleted")


def _key_column(column: ColumnInfo, values: pa.ChunkedArray | None, rows: int) -> pa.Array:
    if values is None:
        if not column.nullable:
            raise InvalidArguments(f"missing column {column.name}, which is not null")
        return pa.nulls(rows, column.type.arrow)
    converted, bad = convert(values.combine_chunks(), None, column)
    if bad is not None and bad.any():
        raise InvalidArguments(f"column {column.name} has the type {column.type.name}, the request has {values.type}")
    return converted


def _key_query(table: TableInfo, session: Session, *, alias: str | None, where: str) -> str:
    def quote(name: str) -> str:
        return quoted(name, session.dialect)

    keys = ", ".join(quote(column.name) for column in (*table.tags, table.time_index))
    named = f" AS {quote(alias)}" if alias else ""
    chosen = f" WHERE {where}" if where else ""
    return f"SELECT {keys} FROM {quote(table.database)}.{quote(table.name)}{named}{chosen}"
