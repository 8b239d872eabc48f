"""Databases, views and what else is created, dropped, emptied and commented on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from tsdb.catalog import TableAlreadyExists, TableNotFound
from tsdb.database._names import (
    READ_ONLY_DATABASES,
    check_database_name,
    check_table_name,
    check_writable,
    quoted,
    resolve,
    resolve_database,
)
from tsdb.database._options import check_database_options
from tsdb.database._processes import Process
from tsdb.database._services import Services
from tsdb.database.modifying.delete import delete_where
from tsdb.database.showing.headings import headed_schema
from tsdb.database.writing.assign import assign_column
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.metric import check_writable as check_metric_writable
from tsdb.model import ColumnNotFound, DatabaseInfo, TableInfo, TimeRange, ViewInfo
from tsdb.query import Affected, Channel, Session
from tsdb.sql import Dialect, format_statement, statements, tokenize
from tsdb.sql.derived_names import name_derived
from tsdb.sql.mysql_rewrite import as_generic

TEMPORARY_VIEWS_MAX = 1000
"""How many temporary views a session may have."""
_LASTING = frozenset({Channel.MYSQL, Channel.POSTGRES, Channel.EMBEDDED})
"""Where a session is more than one request."""


class DatabaseInUse(InvalidArguments):
    """A database that sessions use cannot be dropped."""


def create_database(statement: statements.CreateDatabase, services: Services, session: Session) -> Affected:
    name = resolve_database(statement.name)
    check_database_name(name)
    options = check_database_options(statement.options, is_new=True)
    if name in READ_ONLY_DATABASES or services.catalog.find_database(name) is not None:
        if statement.if_not_exists:
            return Affected(1)
        raise InvalidArguments(f"Schema {name} already exists")
    services.catalog.create_database(DatabaseInfo(name, options, services.clock.now_ns() // 1_000_000))
    return Affected(1)


def alter_database(statement: statements.AlterDatabase, services: Services, session: Session) -> Affected:
    name = resolve_database(statement.name)
    check_writable(name)
    info = services.catalog.database(name)
    changed = check_database_options(
        [(key, value) for key, value in statement.set_options if value != ""], is_new=False
    )
    gone = {*statement.unset_options, *(key for key, value in statement.set_options if value == "")}
    check_database_options([(key, "") for key in gone if key not in _UNCHECKED_WHEN_UNSET], is_new=False)
    options = {key: value for key, value in {**info.options, **changed}.items() if key not in gone}
    services.catalog.alter_database(replace(info, options=options))
    return Affected(0)


# Keys whose values are checked: an empty one would be refused although only the key matters.
_UNCHECKED_WHEN_UNSET = frozenset(
    {
        *("append_mode", "merge_mode", "skip_wal", "sst_format", "memtable.type", "compaction.type"),
        *("compaction.twcs.time_window", "compaction.twcs.trigger_file_num", "compaction.twcs.fallback_to_local"),
        *("compaction.twcs.max_output_file_size", "ttl"),
    }
)


def drop_database(statement: statements.DropDatabase, services: Services, session: Session) -> Affected:
    name = resolve_database(statement.name)
    check_writable(name)
    if services.catalog.find_database(name) is None and statement.if_exists:
        return Affected(0)
    services.catalog.database(name)
    if name == session.database:
        raise DatabaseInUse(f"Schema `{name}` is in use", hint="USE another one first")
    services.catalog.drop_database(name)
    services.users.forget_database(name)
    return Affected(0)


def drop_table(statement: statements.DropTable, services: Services, session: Session) -> Affected:
    """Drop tables: all of them, or none when one is missing."""
    found = []
    for each in statement.names:
        database, name = resolve(each, session)
        check_writable(database)
        table = services.catalog.find_table(database, name)
        if table is None:
            if statement.if_exists:
                continue
            raise TableNotFound(database, name, near=services.catalog.near_table(database, name))
        found.append(table)
    services.catalog.drop_tables(found)
    return Affected(0)


def truncate_table(
    statement: statements.TruncateTable, services: Services, session: Session, process: Process
) -> Affected:
    """Remove all rows, or the data files of ranges of time."""
    database, name = resolve(statement.name, session)
    check_writable(database)
    table = services.catalog.table(database, name)
    check_metric_writable(table)
    if table.engine == "file":
        raise Unsupported(f"table {table.name} is read-only: it shows a file")
    if statement.ranges:
        if table.is_logical:
            raise Unsupported(f"table {table.name} shares its files with other tables", hint="use DELETE")
        ranges = _file_ranges(statement.ranges, table, services, session)
        return _remove_files(table, ranges, services, process)
    if table.is_logical:
        # Its rows share files and memtables with those of other tables, so there is nothing to drop as a whole.
        delete_where(table, services, session, process)
        return Affected(0)
    process.token.enter()
    services.catalog.truncate_table(table)
    return Affected(0)


def _remove_files(table: TableInfo, ranges: Sequence[TimeRange], services: Services, process: Process) -> Affected:
    started = []
    try:
        for region in table.region_ids:
            process.token.enter()
            started.append(services.regions.truncate(region, ranges))
    finally:
        # Also when it is cancelled: what was begun has ended by the time of the answer.
        for done in started:
            done.result()
    return Affected(0)


def _file_ranges(
    said: Sequence[tuple[statements.Slice, statements.Slice]], table: TableInfo, services: Services, session: Session
) -> list[TimeRange]:
    """Return ranges in the unit of the time column; both ends that were said belong to a range."""
    texts = [each.text for pair in said for each in pair]
    bounds = [_file_bound(value, table, session) for value in services.queries.evaluate(texts, session)]
    ranges = [TimeRange(start, end + 1) for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
    for pair, span in zip(said, ranges, strict=True):
        if span.is_empty:
            raise InvalidArguments(f"FILE RANGE ({pair[0].text}, {pair[1].text}): it ends before it starts")
    return ranges


def _file_bound(value: pa.Scalar, table: TableInfo, session: Session) -> int:
    """A number counts units of the time column, text is a timestamp in the session's zone."""
    plain = value.value if pa.types.is_timestamp(value.type) else value.as_py()
    made = pa.array([plain], value.type)
    bound = assign_column(made, table.time_index, zone=session.time_zone)[0].value
    if bound is None:
        raise InvalidArguments("FILE RANGE: a bound may not be null")
    return int(bound)


def comment(statement: statements.Comment, services: Services, session: Session) -> Affected:
    """Set or remove the comment of a table or column."""
    if statement.kind == "flow":
        raise InvalidArguments(f"Flow not found: {statement.name}")
    database, name = resolve(statement.name, session)
    check_writable(database)
    table = services.catalog.table(database, name)
    if statement.column is None:
        services.catalog.alter_table(table, table.changed(comment=statement.comment))
        return Affected(0)
    column = table.by_name.get(statement.column)
    if column is None:
        raise ColumnNotFound.of(table.name, statement.column, table.by_name)
    new = replace(column, comment=statement.comment)
    columns = tuple(new if each is column else each for each in table.columns)
    services.catalog.alter_table(table, table.changed(columns=columns))
    return Affected(0)


def create_view(statement: statements.CreateView, services: Services, session: Session) -> Affected:
    """Create a view; its columns are those its query has today."""
    database, name = resolve(statement.name, session)
    check_writable(database)
    check_table_name(name)
    services.catalog.database(database)
    if statement.or_replace and statement.if_not_exists:
        raise InvalidArguments("CREATE VIEW takes OR REPLACE or IF NOT EXISTS, not both")
    if statement.is_temporary:
        return _create_temporary_view(statement, services, session, database=database, name=name)
    if services.catalog.find_table(database, name) is not None:
        raise TableAlreadyExists(database, name)
    if services.catalog.find_view(database, name) is not None and not statement.or_replace:
        if statement.if_not_exists:
            return Affected(0)
        raise TableAlreadyExists(database, name)
    view = _plan_view(statement, services, session, database=database, name=name)
    services.catalog.create_view(view, replace=statement.or_replace)
    return Affected(0)


def _create_temporary_view(
    statement: statements.CreateView, services: Services, session: Session, *, database: str, name: str
) -> Affected:
    """Create a view that only this session sees, before any table of its name, and that goes with its connection."""
    if session.channel not in _LASTING:
        raise Unsupported(
            "a temporary view lives as long as its connection, and this protocol has none",
            hint="use CREATE VIEW, or connect by MySQL or PostgreSQL",
        )
    key = (database, name)
    if key in session.views and not statement.or_replace:
        if statement.if_not_exists:
            return Affected(0)
        raise TableAlreadyExists(database, name)
    if key not in session.views and len(session.views) >= TEMPORARY_VIEWS_MAX:
        raise InvalidArguments(f"a session has at most {TEMPORARY_VIEWS_MAX} temporary views", hint="DROP some")
    session.views[key] = _plan_view(statement, services, session, database=database, name=name)
    return Affected(0)


def _plan_view(
    statement: statements.CreateView, services: Services, session: Session, *, database: str, name: str
) -> ViewInfo:
    query, columns = _fixed_query(statement, services, session)
    return ViewInfo(
        id=0,
        database=database,
        name=name,
        definition=format_statement(statement.text.text).rstrip(";"),
        query=query,
        columns=columns,
        created_ms=services.clock.now_ns() // 1_000_000,
    )


def _fixed_query(statement: statements.CreateView, services: Services, session: Session) -> tuple[str, tuple[str, ...]]:
    """The view's query and the names of its columns: a column that a table gets later is not the view's."""
    query = statement.query.text
    schema = services.queries.schema_of(query, session)
    names = schema.names
    wanted = statement.columns or _headings(schema, query, session)
    if session.dialect is Dialect.MYSQL:
        query = as_generic(query)
    elif session.dialect is Dialect.POSTGRESQL:
        query = name_derived(query, tokenize(query, session.dialect), session.dialect)
    if len(wanted) != len(names):
        raise InvalidArguments(f"Expect {len(names)} columns for view {statement.name}, {len(wanted)} are named")
    if len(set(names)) != len(names):
        return query, statement.columns
    if "*" not in query:
        return query, wanted
    # What `*` means may change: only the columns of today are taken.
    items = ", ".join(
        quoted(name, Dialect.GENERIC)
        if name == shown
        else f"{quoted(name, Dialect.GENERIC)} AS {quoted(shown, Dialect.GENERIC)}"
        for name, shown in zip(names, wanted, strict=True)
    )
    return f"SELECT {items} FROM ({query}\n) AS {quoted(statement.name.last, Dialect.GENERIC)}", ()


def _headings(schema: pa.Schema, query: str, session: Session) -> tuple[str, ...]:
    """The names the client expects; two of one name would make both unreadable."""
    headed = headed_schema(schema, query, session.dialect).names
    return tuple(headed if len(set(headed)) == len(headed) else schema.names)


def drop_view(statement: statements.DropView, services: Services, session: Session) -> Affected:
    database, name = resolve(statement.name, session)
    check_writable(database)
    if session.views.pop((database, name), None) is not None:
        return Affected(0)
    if services.catalog.find_view(database, name) is None:
        if statement.if_exists:
            return Affected(0)
        raise TableNotFound(database, name, near=services.catalog.near_table(database, name))
    services.catalog.drop_view(database, name)
    return Affected(0)
