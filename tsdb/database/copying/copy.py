"""COPY: tables, queries and whole databases to files and back.

`CopyJob` moves the rows of one table; `copy_database` moves all tables of a database with their definitions.
"""

from __future__ import annotations

from tsdb.database._files import confined
from tsdb.database._processes import Process
from tsdb.database._services import Services
from tsdb.database.copying.copy_database import database_from, database_to
from tsdb.database.copying.copy_job import CopyJob
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.query import Affected, Session
from tsdb.sql.statements import Copy

_COPY_KEYS = frozenset(
    {
        *("format", "start_time", "end_time", "pattern", "compression_type", "timestamp_format", "date_format"),
        *("time_format", "delimiter", "headers", "has_header", "strict_headers", "skip_bad_records"),
        *("schema_infer_max_record", "parallelism", "continue_on_error", "max_insert_rows", "limit"),
    }
)


def copy(statement: Copy, services: Services, session: Session, process: Process) -> Affected:
    """Run a COPY; the number of rows."""
    if statement.path is None:
        where = "TO STDOUT" if statement.direction == "to" else "FROM STDIN"
        raise Unsupported(f"COPY … {where} is for PostgreSQL connections")
    for key, _ in statement.options:
        if key not in _COPY_KEYS:
            raise InvalidArguments(f"COPY has no option {key!r}")
    job = CopyJob(statement, services, session, process)
    if statement.database is not None:
        return Affected(database_to(job) if statement.direction == "to" else database_from(job))
    path = confined(statement.path, services.options.copy_root)
    if statement.direction == "to":
        return Affected(job.query_to(path))
    assert statement.table is not None
    return Affected(job.table_from(job.table(), path, statement.path))
