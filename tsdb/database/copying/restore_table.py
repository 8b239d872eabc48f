"""ADMIN restore_table: the rows of one table of a backup, as a table of the running server.

    files of the table ─▶ a database of its own, in a temporary directory ─▶ rows ─▶ `name__restoring` ─▶ rename

Until everything is there the table has another name, so that nothing half restored looks complete. If the statement
fails or is cancelled, the table is dropped; a server that is killed leaves it under that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tsdb.backup import BackupProgress, BackupService, parse_time
from tsdb.catalog import TableAlreadyExists
from tsdb.database._names import check_writable, quoted, resolve
from tsdb.database._processes import Process
from tsdb.database._services import Services
from tsdb.database.definitions.alter_table import alter_table
from tsdb.database.definitions.create_table import create_table
from tsdb.database.modifying.insert import insert_rows
from tsdb.database.showing.create_statement import render_create_table
from tsdb.errors import InvalidArguments, TsdbError, Unsupported
from tsdb.model import TableInfo
from tsdb.query import Session
from tsdb.sql import Dialect, parse
from tsdb.sql.statements import AlterTable, CreateTable, Name, RenameTableOp
from tsdb.store import ObjectStore
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.backup")

SUFFIX = "__restoring"
"""Behind the name of a table that does not have all its rows yet."""


def restore_table(arguments: Sequence[Any], services: Services, session: Session, process: Process) -> int:
    """`restore_table(place, backup, table[, new_name[, to_time]])`: return the number of rows."""
    if not 3 <= len(arguments) <= 5 or not all(isinstance(each, str) for each in arguments):
        raise InvalidArguments(
            "restore_table takes the place, the backup or 'latest', the table, a new name or '', and a time"
        )
    place, backup, wanted, new_name, to_time = (*arguments, "", "")[:5]
    source = wanted if "." in wanted else f"{session.database}.{wanted}"
    backups, scratch = services.backups, services.scratch
    if not isinstance(backups, BackupService) or scratch is None:
        raise Unsupported(
            "this server restores no tables: its regions are in other processes, or it keeps nothing",
            hint="of a cluster's backup, tsdb restore --table makes a standalone server; COPY brings rows from there",
        )
    database, name = resolve(Name(tuple((new_name or source).split("."))), session)
    check_writable(database)
    services.catalog.database(database)
    if services.catalog.find_table(database, name) or services.catalog.find_view(database, name):
        raise TableAlreadyExists(database, name)
    to_ns = parse_time(to_time) if to_time else None
    progress = BackupProgress()
    process.on_cancel(progress.cancel)
    # What follows takes long: another query may have the slot of this one.
    process.token.enter()

    def fill(home: Path) -> ObjectStore:
        return backups.restore_into(home, place, backup, tables=[source], progress=progress, to_ns=to_ns)

    with scratch(fill) as restored:
        table = _find(restored, source)
        return _copy(table, restored, Name((database, name)), services, session, process)


def _find(restored: Services, source: str) -> TableInfo:
    catalog = restored.catalog
    tables = [table for database in catalog.databases() for table in catalog.tables(database.name)]
    return next(table for table in tables if f"{table.database}.{table.name}" == source)


def _copy(
    source: TableInfo, restored: Services, name: Name, services: Services, session: Session, process: Process
) -> int:
    database, last = name.parts
    temporary = Name((database, f"{last}{SUFFIX}"))
    create_table(_definition(source, temporary), services, session)
    table = services.catalog.table(*temporary.parts)
    try:
        columns = ", ".join(quoted(column.name, Dialect.GENERIC) for column in table.columns)
        place = ".".join(quoted(part, Dialect.GENERIC) for part in (source.database, source.name))
        reading, writing = Session(database=source.database), replace(session, time_zone="UTC")
        records = restored.queries.query(f"SELECT {columns} FROM {place}", reading)
        rows = insert_rows(records, table, table.columns, services, writing, process)
        alter_table(AlterTable(temporary, (RenameTableOp(Name((last,))),)), services, session)
    except BaseException:
        _drop(table, services)
        raise
    return rows


def _definition(source: TableInfo, name: Name) -> CreateTable:
    """Return the statement that creates a table like another.

    A logical metric table becomes one with regions of its own: it could not be renamed, and its rows would be among
    those of other tables.
    """
    if source.is_physical:
        raise Unsupported(
            f"the table {source.name} holds the rows of metric tables",
            hint="restore one of these, or everything with tsdb restore",
        )
    created = parse(render_create_table(source, source.options, Dialect.GENERIC), Dialect.GENERIC)[0].statement
    assert isinstance(created, CreateTable)
    if source.is_logical:
        options = tuple((key, value) for key, value in created.options if key != "on_physical_table")
        created = replace(created, engine="mito", options=options)
    return replace(created, name=name, if_not_exists=False)


def _drop(table: TableInfo, services: Services) -> None:
    try:
        services.catalog.drop_tables([table])
    except TsdbError as error:
        _log.warning("a table that is not completely restored is left", table=table.full_name, error=error)
