"""CommandStatementIngest: finds or creates the table of the rows.

A new table needs a time index and may have tags. The metadata `greptime:semantic_type` (or `tsdb:semantic_type`) of a
column says what it is: `timestamp`, `tag` or `field`; the options `time_index` and `tags` (names separated by commas)
say the same. Without either, the only timestamp, or the first one that is never null, is the time index, and there are
no tags: such a table is in append mode, because otherwise rows with the same time would overwrite each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from tsdb.catalog import DatabaseNotFound, TableAlreadyExists, TableNotFound
from tsdb.database import DatabasePort
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import CATALOG, CATALOG_NAMES, DEFAULT_DATABASE
from tsdb.query import Session
from tsdb.servers.grpc.flight._run import run_update
from tsdb.servers.grpc.flight.flight_sql_pb2 import CommandStatementIngest
from tsdb.sql.template import quoted_name

_Options = CommandStatementIngest.TableDefinitionOptions
_SEMANTIC_KEYS = (b"tsdb:semantic_type", b"greptime:semantic_type")
_KNOWN_OPTIONS = frozenset({"time_index", "tags"})


@dataclass(frozen=True, slots=True)
class IngestTarget:
    """Where rows go."""

    table: tuple[str, str]


def plan_ingest(
    command: CommandStatementIngest, schema: pa.Schema, database: DatabasePort, session: Session
) -> IngestTarget:
    """Find the table, or make it; refuse what cannot be before anything is changed."""
    if command.temporary:
        raise Unsupported("temporary tables are not supported")
    if command.catalog and command.catalog not in CATALOG_NAMES:
        raise InvalidArguments(f"there is no catalog {command.catalog!r}, the only one is {CATALOG!r}")
    if not command.table:
        raise InvalidArguments("the command names no table")
    table = (command.schema or session.database or DEFAULT_DATABASE, command.table)
    said = command.table_definition_options
    exists, misfit = _try_append(table, schema, database, session)
    if exists and said.if_exists in (_Options.TABLE_EXISTS_OPTION_UNSPECIFIED, _Options.TABLE_EXISTS_OPTION_FAIL):
        raise TableAlreadyExists(*table)
    if exists and said.if_exists == _Options.TABLE_EXISTS_OPTION_REPLACE:
        layout = plan_layout(schema, dict(command.options))
        run_update(f"DROP TABLE {quoted_name(table[0])}.{quoted_name(table[1])}", database, session)
        _create(table, schema, layout, database, session)
    elif not exists:
        if said.if_not_exist != _Options.TABLE_NOT_EXIST_OPTION_CREATE:
            raise TableNotFound(*table)
        _create(table, schema, plan_layout(schema, dict(command.options)), database, session)
    elif misfit is not None:
        raise misfit
    return IngestTarget(table)


def _try_append(
    table: tuple[str, str], schema: pa.Schema, database: DatabasePort, session: Session
) -> tuple[bool, InvalidArguments | None]:
    """Return whether there is a table; fail if rows cannot be appended to it. Write permission is enough."""
    try:
        database.append(table, schema.empty_table(), session)
    except TableNotFound:
        return False, None
    except DatabaseNotFound:
        raise
    except InvalidArguments as misfit:
        return True, misfit
    return True, None


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """The roles of the columns of a new table."""

    time: str
    tags: tuple[str, ...]


def plan_layout(schema: pa.Schema, options: dict[str, str]) -> ColumnRoles:
    """Decide which column is the time index and which are tags."""
    unknown = sorted(options.keys() - _KNOWN_OPTIONS)
    if unknown:
        raise InvalidArguments(f"unknown option {unknown[0][:100]!r}", hint="supported are time_index and tags")
    semantics = {field.name: _semantic(field) for field in schema}
    tags = tuple(name for name, semantic in semantics.items() if semantic == "tag")
    if "tags" in options:
        tags = tuple(name.strip() for name in options["tags"].split(",") if name.strip())
    times = [name for name, semantic in semantics.items() if semantic == "timestamp"]
    if "time_index" in options:
        times = [options["time_index"]]
    if len(times) > 1:
        raise InvalidArguments("a table has one time index", columns=", ".join(times))
    return ColumnRoles(times[0] if times else _only_time(schema), tags)


def _semantic(field: pa.Field) -> str:
    metadata = field.metadata or {}
    return next((metadata[key].decode("utf-8", "replace").lower() for key in _SEMANTIC_KEYS if key in metadata), "")


def _only_time(schema: pa.Schema) -> str:
    times = [field for field in schema if pt.is_timestamp(field.type)]
    required = [field for field in times if not field.nullable]
    if len(times) == 1 or required:
        return str((required or times)[0].name)
    problem = "none is a timestamp" if not times else "several are timestamps"
    raise InvalidArguments(
        f"a new table needs a time index, and of its columns {problem}",
        hint="name it by the option time_index, or by the field's metadata greptime:semantic_type=timestamp",
    )


def _create(
    table: Sequence[str], schema: pa.Schema, layout: ColumnRoles, database: DatabasePort, session: Session
) -> None:
    options = {} if layout.tags else {"append_mode": "true"}
    database.create_for(table, schema, session, tags=layout.tags, time=layout.time, options=options)
