"""DESCRIBE: the columns of a table or view, one row each."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tsdb.database._names import resolve
from tsdb.database.showing.create_statement import quote_name
from tsdb.database.showing.lookup import Sources, find_table
from tsdb.model import ColumnInfo, Semantic, ViewInfo, type_name
from tsdb.query import Output, Session, TableRecords
from tsdb.query.information_schema import column_default
from tsdb.sql.statements import Describe

_HEADER = ("Column", "Type", "Key", "Null", "Default", "Semantic Type")


def describe(statement: Describe, services: Sources, session: Session) -> Output:
    """Tell the columns of a table in its own order; TableNotFound when there is none."""
    database, name = resolve(statement.name, session)
    found = find_table(database, name, services, session)
    if isinstance(found, ViewInfo):
        return _table(_view_rows(found, services, session))
    return _table(_row(column) for column in found.columns)


def _row(column: ColumnInfo) -> tuple[str, ...]:
    is_key = column.semantic in (Semantic.TAG, Semantic.TIMESTAMP)
    return (
        column.name,
        column.type.name,
        "PRI" if is_key else "",
        "YES" if column.nullable else "NO",
        column_default(column) or "",
        column.semantic.value.upper(),
    )


def _view_rows(view: ViewInfo, services: Sources, session: Session) -> Iterable[tuple[str, ...]]:
    """A view knows its columns only by its query: they are those of the tables it reads, as they are now."""
    name = f"{quote_name(view.database, session.dialect)}.{quote_name(view.name, session.dialect)}"
    for field in services.queries.schema_of(f"SELECT * FROM {name}", session):
        yield field.name, type_name(field), "", "YES" if field.nullable else "NO", "", Semantic.FIELD.value.upper()


def _table(rows: Iterable[tuple[str, ...]]) -> TableRecords:
    columns = list(zip(*rows, strict=True)) or [()] * len(_HEADER)
    schema = pa.schema([pa.field(name, pa.string(), nullable=False) for name in _HEADER])
    return TableRecords(pa.table([pa.array(column, pa.string()) for column in columns], schema))
