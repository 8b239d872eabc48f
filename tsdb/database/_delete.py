"""DELETE: the keys that a condition chooses, then one tombstone each."""

from __future__ import annotations

import pyarrow as pa

from tsdb.database._names import check_writable, quoted, resolve
from tsdb.database._processes import Process
from tsdb.database._rows import delete_keys
from tsdb.database._services import Services
from tsdb.errors import InvalidArguments
from tsdb.model import TableInfo
from tsdb.query import Affected, Session
from tsdb.sql.statements import Delete


def delete(statement: Delete, services: Services, session: Session, process: Process) -> Affected:
    """Delete the rows for which a condition holds; the number of rows."""
    database, name = resolve(statement.table, session)
    check_writable(database)
    table = services.catalog.table(database, name)
    if table.is_append:
        raise InvalidArguments(f"table {table.name} is in append mode: its rows cannot be deleted")
    records = services.queries.query(_key_query(table, statement, session), session)
    process.on_cancel(records.close)
    deleted = 0
    try:
        # The keys come from one snapshot, so what is deleted on the way does not disturb it.
        for batch in records:
            process.check()
            deleted += delete_keys(services, table, pa.Table.from_batches([batch]))
    finally:
        records.close()
    return Affected(deleted)


def _key_query(table: TableInfo, statement: Delete, session: Session) -> str:
    def quote(name: str) -> str:
        return quoted(name, session.dialect)

    keys = ", ".join(quote(column.name) for column in (*table.tags, table.time_index))
    alias = f" AS {quote(statement.alias)}" if statement.alias else ""
    where = f" WHERE {statement.where.text}" if statement.where is not None else ""
    return f"SELECT {keys} FROM {quote(table.database)}.{quote(table.name)}{alias}{where}"
