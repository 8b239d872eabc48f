"""Finding what a SHOW or DESCRIBE names: tables, views, and built-in tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from tsdb.catalog import DatabaseNotFound, TableNotFound
from tsdb.errors import Status, TsdbError
from tsdb.model import ColumnInfo, DatabaseInfo, TableInfo, ViewInfo
from tsdb.query import Channel, Records, Session
from tsdb.query.information_schema import (
    INFORMATION_SCHEMA,
    NUMBERS,
    PG_CATALOG,
    InformationContext,
    database_options,
    information_table_infos,
)
from tsdb.query.pg_catalog import pg_table_infos


class NoSuchFlow(TsdbError):
    """A statement names a flow that does not exist."""

    status = Status.FLOW_NOT_FOUND


class Directory(Protocol):
    """The part of a catalog that finds things."""

    def find_database(self, name: str) -> DatabaseInfo | None: ...

    def tables(self, database: str) -> list[TableInfo]: ...

    def find_table(self, database: str, name: str) -> TableInfo | None: ...

    def views(self, database: str) -> list[ViewInfo]: ...

    def find_view(self, database: str, name: str) -> ViewInfo | None: ...

    def near_table(self, database: str, name: str) -> str | None: ...

    def effective_options(self, table: TableInfo) -> dict[str, str]: ...


class Queries(Protocol):
    """The part of the query engine that filters rows and names columns."""

    def query(self, text: str, session: Session, *, tables: Mapping[str, pa.Table] = ...) -> Records: ...

    def schema_of(self, text: str, session: Session) -> pa.Schema: ...

    def columns_of_view(self, view: ViewInfo, session: Session) -> tuple[ColumnInfo, ...]: ...


class Sources(Protocol):
    """What SHOW and DESCRIBE work with; the services of a database are such."""

    @property
    def catalog(self) -> Directory: ...

    @property
    def queries(self) -> Queries: ...

    def information(self, session: Session, /) -> InformationContext: ...


def check_database(name: str, context: InformationContext) -> None:
    if name not in database_options(context):
        raise DatabaseNotFound(name)


def tables_in(database: str, services: Sources, session: Session) -> list[TableInfo | ViewInfo]:
    """All tables and views of a database, sorted by name; none when there is no such database."""
    is_tool = session.channel in (Channel.MYSQL, Channel.POSTGRES)
    # Tools would list `numbers` among the user's own tables.
    system = [each for each in _system_tables(database, session) if not (is_tool and each is NUMBERS)]
    found: list[TableInfo | ViewInfo] = [*system]
    if services.catalog.find_database(database) is not None:
        found += services.catalog.tables(database)
        found += services.catalog.views(database)
    return sorted(found, key=lambda each: each.name)


def find_table(database: str, name: str, services: Sources, session: Session) -> TableInfo | ViewInfo:
    """Return a table or view; TableNotFound when there is none of that name."""
    found: TableInfo | ViewInfo | None = session.views.get((database, name))
    found = found or services.catalog.find_table(database, name)
    found = found or services.catalog.find_view(database, name)
    found = found or next((each for each in _system_tables(database, session) if each.name == name), None)
    if found is None:
        raise TableNotFound(database, name, near=services.catalog.near_table(database, name))
    return found


def _system_tables(database: str, session: Session) -> tuple[TableInfo, ...]:
    if database == INFORMATION_SCHEMA:
        return information_table_infos()
    if database == PG_CATALOG and session.channel is Channel.POSTGRES:
        return pg_table_infos()
    return (NUMBERS,) if database == NUMBERS.database else ()
