"""COPY DATABASE: a directory with one file of rows per table, and `schema.sql` with the definitions.

The directory is a backup: COPY DATABASE … FROM creates the database, tables and views that do not exist, under the
name that the statement gives, and then reads the rows. What exists is kept as it is. A directory without `schema.sql`
is read into tables that exist.

Each table is read from one snapshot, but the tables of a database one after the other: rows that arrive meanwhile may
be in one file and not in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from tsdb.database._files import CopyFailed, confined, write_text
from tsdb.database._names import check_writable, resolve_database
from tsdb.database.copying.copy_job import CopyJob
from tsdb.database.definitions.create_table import create_table
from tsdb.database.definitions.objects import create_database, create_view
from tsdb.database.showing.create_statement import render_create_database, render_create_table
from tsdb.errors import Cancelled, InvalidArguments, TsdbError
from tsdb.model import TableInfo
from tsdb.query import Channel, Session
from tsdb.sql import Dialect, parse, statements
from tsdb.sql.statements import Name
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.copy")

DEFINITIONS = "schema.sql"


def database_to(job: CopyJob) -> int:
    """Write the definitions and all rows of a database; the number of rows."""
    name, directory = _name(job), _directory(job)
    write_text(directory / DEFINITIONS, _definitions(job, name))
    return sum(
        job.export(job.table_query(table), directory / f"{table.name}.{job.files.format}")
        for table in _tables(job, name)
    )


def database_from(job: CopyJob) -> int:
    """Create what is missing, then read every file of a directory into the table of its name; the number of rows."""
    name, directory = _name(job), _directory(job)
    if not directory.is_dir():
        raise CopyFailed(f"there is no directory {directory.name}")
    check_writable(name)
    errors = _Errors(goes_on=job.settings.get("continue_on_error", "false").lower() == "true")
    _define(job, name, directory / DEFINITIONS, errors)
    job.services.catalog.database(name)
    tables = {table.name: table for table in _tables(job, name)}
    suffix = f".{job.files.format}"
    total = 0
    for file in sorted(directory.glob(f"*{suffix}")):
        table = tables.get(file.name.removesuffix(suffix))
        with_file = f"file {file.name}"
        if table is None:
            errors.add(
                InvalidArguments(f"there is no table for the file {with_file}", hint="create it first"), with_file
            )
        else:
            total += errors.run(partial(job.table_from, table, file, str(file)), with_file)
    return total


class _Errors:
    """Raises the first error, or logs them all with `continue_on_error`."""

    def __init__(self, *, goes_on: bool) -> None:
        self._goes_on = goes_on

    def run(self, step: Callable[[], int], what: str) -> int:
        try:
            return step()
        except TsdbError as error:
            self.add(error, what)
            return 0

    def add(self, error: TsdbError, what: str) -> None:
        if not self._goes_on or isinstance(error, Cancelled):
            raise error
        _log.warning("COPY DATABASE skipped a part", part=what, error=error)


def _definitions(job: CopyJob, name: str) -> str:
    """The statements that create a database and what is in it, in an order in which they can be run."""
    catalog = job.services.catalog
    created = [render_create_database(catalog.database(name), Dialect.GENERIC)]
    # Tables over a physical table come after it, views after tables and views that they read.
    tables = sorted(catalog.tables(name), key=lambda table: (table.is_logical, table.id))
    created += [render_create_table(table, table.options, Dialect.GENERIC) for table in tables]
    created += [view.definition for view in sorted(catalog.views(name), key=lambda view: view.id)]
    return "".join(f"{each.rstrip().rstrip(';')};\n\n" for each in created)


def _define(job: CopyJob, name: str, path: Path, errors: _Errors) -> None:
    """Create what the definitions name and does not exist yet."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise CopyFailed(f"cannot read {path.name}: {error}") from error
    session = replace(job.session, database=name, channel=Channel.HTTP)
    for parsed in parse(text, Dialect.GENERIC):
        job.process.check()
        _create(parsed.statement, job, name, session, errors)


def _create(statement: statements.Statement, job: CopyJob, name: str, session: Session, errors: _Errors) -> None:
    services = job.services
    if isinstance(statement, statements.CreateDatabase):
        create_database(replace(statement, name=Name((name,)), if_not_exists=True), services, session)
    elif isinstance(statement, statements.CreateTable):
        table = replace(statement, name=Name((statement.name.parts[-1],)), if_not_exists=True)
        errors.run(lambda: create_table(table, services, session).rows, f"table {table.name.parts[-1]}")
    elif isinstance(statement, statements.CreateView):
        view = replace(statement, name=Name((statement.name.parts[-1],)), or_replace=False, if_not_exists=True)
        errors.run(lambda: create_view(view, services, session).rows, f"view {view.name.parts[-1]}")
    else:
        raise InvalidArguments(f"{DEFINITIONS} creates databases, tables and views; it has {type(statement).__name__}")


def _directory(job: CopyJob) -> Path:
    path = job.statement.path
    assert path is not None
    if not path.endswith("/"):
        raise InvalidArguments("COPY DATABASE takes a directory: its path ends with /")
    return confined(path, job.services.options.copy_root)


def _name(job: CopyJob) -> str:
    assert job.statement.database is not None
    return resolve_database(job.statement.database)


def _tables(job: CopyJob, name: str) -> Iterator[TableInfo]:
    for table in job.services.catalog.tables(name):
        if table.engine == "mito" or table.is_logical:
            yield table
