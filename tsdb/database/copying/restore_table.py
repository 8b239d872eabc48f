"""ADMIN restore_table: the rows of one table of a backup, as a table of the running server.

    files of the table ─▶ a database of its own, in a temporary directory ─▶ rows ─▶ `name__restoring` ─▶ rename

Until everything is there the table has another name, so that nothing half restored looks complete. If the statement
fails or is cancelled, the table is dropped; a server that is killed leaves it under that name. A frontend has no
storage: a datanode does the same for it, and if that is lost, the frontend drops the table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tsdb.backup import BackupProgress, parse_time
from tsdb.backup.cluster import ClusterBackups, RemoteRestore
from tsdb.catalog import TableAlreadyExists
from tsdb.database._names import check_writable, quoted, resolve
from tsdb.database._processes import Process
from tsdb.database._services import Services
from tsdb.database.definitions.alter_table import alter_table
from tsdb.database.definitions.create_table import create_table
from tsdb.database.modifying.insert import insert_rows
from tsdb.database.showing.create_statement import render_create_table
from tsdb.errors import Cancelled, InvalidArguments, TsdbError, Unsupported
from tsdb.model import TableInfo
from tsdb.query import Session
from tsdb.sql import Dialect, parse
from tsdb.sql.statements import AlterTable, CreateTable, Name, RenameTableOp
from tsdb.store import ObjectStore
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.backup")

_LOOK_SECONDS = 0.2
_END_SECONDS_MAX = 30.0
"""How long a statement that was cancelled waits for a datanode to drop what it had restored."""
SUFFIX = "__restoring"
"""Behind the name of a table that does not have all its rows yet."""


def restore_table(arguments: Sequence[Any], services: Services, session: Session, process: Process) -> int:
    """`restore_table(place, backup, table[, new_name[, to_time]])`: return the number of rows."""
    if not 3 <= len(arguments) <= 5 or not all(isinstance(each, str) for each in arguments):
        raise InvalidArguments(
            "restore_table takes the destination, the backup or 'latest', the table, a new name or '', and a time"
        )
    place, backup, wanted, new_name, to_time = (*arguments, "", "")[:5]
    source = wanted if "." in wanted else f"{session.database}.{wanted}"
    backups, scratch = services.backups, services.scratch
    if backups is None or (scratch is None and not isinstance(backups, ClusterBackups)):
        raise Unsupported("this database cannot restore tables", hint="restore them with tsdb restore --table")
    database, name = resolve(Name(tuple((new_name or source).split("."))), session)
    check_writable(database)
    services.catalog.database(database)
    for each in (name, f"{name}{SUFFIX}"):
        if services.catalog.find_table(database, each) or services.catalog.find_view(database, each):
            raise TableAlreadyExists(database, each)
    to_ns = parse_time(to_time) if to_time else None
    progress = BackupProgress()
    process.on_cancel(progress.cancel)
    # What follows takes long: another query may have the slot of this one.
    process.token.enter()
    if isinstance(backups, ClusterBackups):
        return _at_datanode(backups, arguments, Name((database, name)), services, session, process)
    assert scratch is not None

    def fill(home: Path) -> ObjectStore:
        return backups.restore_into(home, place, backup, tables=[source], progress=progress, to_ns=to_ns)

    with scratch(fill) as restored:
        table = _find(restored, source)
        return _copy(table, restored, Name((database, name)), services, session, process)


def _at_datanode(
    backups: ClusterBackups,
    arguments: Sequence[str],
    name: Name,
    services: Services,
    session: Session,
    process: Process,
) -> int:
    """Let a datanode restore the table; nothing is left of it if that fails."""
    job = backups.restore_table(arguments, session.database)
    try:
        while not job.wait(_LOOK_SECONDS):
            process.check()
    except Cancelled:
        _end(job)
        raise
    except TsdbError:
        # The datanode is gone. One that is only cut off finds that its table is not there.
        backups.catch_up()
        database, last = name.parts
        left = services.catalog.find_table(database, f"{last}{SUFFIX}")
        if left is not None:
            _drop(left, services)
        raise
    if job.error is not None:
        raise job.error
    backups.catch_up()
    return job.rows


def _end(job: RemoteRestore) -> None:
    """Wait until a datanode has dropped what it had restored; one that is cut off does that by itself."""
    deadline = time.monotonic() + _END_SECONDS_MAX
    try:
        job.cancel()
        while not job.wait(_LOOK_SECONDS) and time.monotonic() < deadline:
            pass
    except TsdbError as error:
        _log.warning("a datanode does not say whether it has ended the restore of a table", error=error)


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
