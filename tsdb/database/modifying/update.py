"""UPDATE: a query computes the new versions of rows, which replace the old ones by their keys.

All rows come from one snapshot, so that what is written on the way does not disturb it.
"""

from __future__ import annotations

from tsdb.database._names import quoted
from tsdb.database._processes import Process
from tsdb.database._services import Services
from tsdb.database.modifying.insert import insert_rows, target_table
from tsdb.database.sessions.access import reading_session
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import ColumnNotFound, MergeMode, TableInfo
from tsdb.query import Affected, Session
from tsdb.sql.statements import Update


def update(statement: Update, services: Services, session: Session, process: Process) -> Affected:
    """Change the rows for which a condition holds; the number of rows."""
    table = target_table(statement, services, session)
    stored = services.catalog.stored_in(table)
    _check_updatable(table, is_append=table.is_append or stored.is_append)
    _check_columns(statement, table)
    texts = [expression.text for _, expression in statement.assignments]
    where = "" if statement.where is None else statement.where.text
    query = _version_query(statement, table, session, where)
    records = services.queries.query(query, reading_session(table, session, " ".join([*texts, where])))
    keeps_values = stored.options.get("merge_mode") == MergeMode.LAST_NON_NULL
    not_null = frozenset(name for name, _ in statement.assignments) if keeps_values else frozenset()
    return Affected(insert_rows(records, table, list(table.columns), services, session, process, not_null=not_null))


def _check_updatable(table: TableInfo, *, is_append: bool) -> None:
    if table.engine == "file":
        raise Unsupported(f"table {table.name} is read-only: it shows a file")
    if is_append:
        raise InvalidArguments(f"table {table.name} is in append mode: its rows cannot be updated")


def _check_columns(statement: Update, table: TableInfo) -> None:
    keys = {column.name for column in table.tags}
    for name, _ in statement.assignments:
        if name not in table.by_name:
            raise ColumnNotFound(f"Column {name} does not exist in table {table.name}")
        what = "the time index" if name == table.time_index.name else "a tag" if name in keys else None
        if what is not None:
            raise InvalidArguments(
                f"column {name} is {what} of table {table.name} and cannot be updated",
                hint="delete the row and insert another one",
            )


def _version_query(statement: Update, table: TableInfo, session: Session, where: str) -> str:
    """Return the query of all columns with their new values; set values have names that no column has."""

    def quote(name: str) -> str:
        return quoted(name, session.dialect)

    values = {name: expression.text for name, expression in statement.assignments}
    items = [
        f"({values[column.name]}\n) AS {quote(f'set__{number}')}" if column.name in values else quote(column.name)
        for number, column in enumerate(table.columns)
    ]
    alias = f" AS {quote(statement.alias)}" if statement.alias else ""
    chosen = f" WHERE {where}" if where else ""
    return f"SELECT {', '.join(items)} FROM {quote(table.database)}.{quote(table.name)}{alias}{chosen}"
