"""CREATE TABLE: from what the statement says to a description the catalog can keep."""

from __future__ import annotations

from dataclasses import replace

from tsdb.catalog import TableAlreadyExists
from tsdb.database._names import check_table_name, check_writable, resolve
from tsdb.database._options import COLUMNS_MAX, INHERITED_AT_CREATION, check_modes, check_table_options
from tsdb.database._services import Services
from tsdb.database.definitions.external_table import plan_external_table
from tsdb.database.writing.defaults import make_default
from tsdb.errors import InvalidArguments, InvalidSyntax, Unsupported
from tsdb.metric import ON_PHYSICAL, plan_metric_table
from tsdb.model import METRIC_ENGINE, ColumnId, ColumnInfo, PartitionRule, Semantic, TableInfo
from tsdb.query import Affected, Session
from tsdb.sql.statements import ColumnDef, CreateTable, CreateTableLike

ENGINES = frozenset({"mito", "metric", "file"})


def create_table(statement: CreateTable, services: Services, session: Session) -> Affected:
    """Create a table, or leave the one that is there when the statement says so."""
    database, name = resolve(statement.name, session)
    check_writable(database)
    check_table_name(name)
    services.catalog.database(database)
    if statement.if_not_exists and services.catalog.find_table(database, name) is not None:
        return Affected(0)
    draft = plan_table(statement, services, session, database=database, name=name)
    _create(draft, services, if_not_exists=statement.if_not_exists)
    return Affected(0)


def create_table_like(statement: CreateTableLike, services: Services, session: Session) -> Affected:
    """Create an empty table with the columns, key and options of another."""
    source_database, source_name = resolve(statement.source, session)
    database, name = resolve(statement.name, session)
    check_writable(database)
    check_table_name(name)
    if statement.if_not_exists and services.catalog.find_table(database, name) is not None:
        return Affected(0)
    source = services.catalog.table(source_database, source_name)
    numbered = tuple(replace(column, id=ColumnId(number)) for number, column in enumerate(source.columns))
    draft = replace(
        source,
        database=database,
        name=name,
        columns=numbered,
        next_column_id=len(numbered),
        version=0,
        schema_version=0,
        created_ms=_now_ms(services),
    )
    _create(draft, services, if_not_exists=statement.if_not_exists)
    return Affected(0)


def _create(draft: TableInfo, services: Services, *, if_not_exists: bool) -> None:
    """Enter a table in the catalog; another session may have been faster."""
    try:
        services.catalog.create_table(draft)
    except TableAlreadyExists:
        if not if_not_exists or services.catalog.find_table(draft.database, draft.name) is None:
            raise


def plan_table(statement: CreateTable, services: Services, session: Session, *, database: str, name: str) -> TableInfo:
    """Check a new table and return its description, without an id."""
    if statement.engine not in ENGINES:
        raise Unsupported(f"there is no table engine {statement.engine!r}", hint="use mito")
    check_columns(statement.columns)
    if statement.is_external or statement.engine == "file":
        return plan_external_table(
            statement, _columns(statement, statement.primary_key, session), services, database=database, name=name
        )
    options = table_options(statement, services, database)
    keys = _key_columns(statement)
    columns = _columns(statement, keys, session)
    rules = _partition_rules(statement, columns)
    draft = TableInfo(
        id=0,
        database=database,
        name=name,
        columns=columns,
        primary_key=keys,
        engine=statement.engine,
        options={key: value for key, value in options.items() if key != "comment"},
        partition_columns=statement.partition_columns,
        partition_rules=rules,
        region_numbers=tuple(range(max(1, len(rules)))),
        comment=options.get("comment"),
        created_ms=_now_ms(services),
        next_column_id=len(columns),
    )
    return _metric_table(draft, statement, services) if statement.engine == METRIC_ENGINE else draft


def _metric_table(draft: TableInfo, statement: CreateTable, services: Services) -> TableInfo:
    said = {key for key, _ in statement.options} - {"comment"}
    name = draft.options.get(ON_PHYSICAL)
    physical = None if name is None else services.catalog.table(draft.database, name)
    return plan_metric_table(draft, physical, said)


def _columns(statement: CreateTable, keys: tuple[str, ...], session: Session) -> tuple[ColumnInfo, ...]:
    return tuple(
        make_column(column, ColumnId(number), keys, statement.time_index, session.time_zone)
        for number, column in enumerate(statement.columns)
    )


def _now_ms(services: Services) -> int:
    return services.clock.now_ns() // 1_000_000


def table_options(statement: CreateTable, services: Services, database: str) -> dict[str, str]:
    """The options of a new table: its own, and those of its database that are copied."""
    own = check_table_options(statement.options)
    inherited = services.catalog.database(database).options
    options = {key: value for key, value in inherited.items() if key in INHERITED_AT_CREATION}
    if "append_mode" in own or "merge_mode" in own:
        options.pop("append_mode", None)
        options.pop("merge_mode", None)
    options.update(own)
    check_modes(options)
    storage = options.get("storage")
    if storage is not None and storage.lower() not in services.options.storages:
        known = ", ".join(sorted(services.options.storages)) or "none"
        raise InvalidArguments(
            f"Object store not found: {storage}", hint=f"name one of storage.providers, there are: {known}"
        )
    return options


def check_columns(columns: tuple[ColumnDef, ...]) -> None:
    if len(columns) > COLUMNS_MAX:
        raise InvalidArguments(f"a table has at most {COLUMNS_MAX} columns, this one {len(columns)}")
    seen: dict[str, int] = {}
    for position, column in enumerate(columns):
        if column.name in seen:
            raise InvalidArguments(
                f"column name `{column.name}` is duplicated at index {seen[column.name]} and {position}"
            )
        seen[column.name] = position


def _key_columns(statement: CreateTable) -> tuple[str, ...]:
    names = {column.name for column in statement.columns}
    for key in statement.primary_key:
        if key not in names:
            raise InvalidArguments(f"the primary key names a column that does not exist: {key}")
        if key == statement.time_index:
            raise InvalidArguments("the time index cannot be part of the primary key", column=key)
    if len(set(statement.primary_key)) != len(statement.primary_key):
        raise InvalidArguments("the primary key names a column twice")
    if statement.time_index is None or statement.time_index not in names:
        raise InvalidSyntax("Missing time index constraint")
    return statement.primary_key


def make_column(
    said: ColumnDef, column_id: ColumnId, keys: tuple[str, ...], time_index: str | None, zone: str
) -> ColumnInfo:
    """Check one column and describe it."""
    semantic = Semantic.TIMESTAMP if said.name == time_index else Semantic.TAG if said.name in keys else Semantic.FIELD
    if semantic is Semantic.TIMESTAMP:
        if not said.type.is_timestamp:
            raise _invalid_column(said, "time index column data type should be timestamp")
        if said.is_nullable:
            raise _invalid_column(said, "time index column can't be null")
    is_nullable = said.is_nullable is not False and semantic is not Semantic.TIMESTAMP
    default = None
    if said.default is not None:
        if said.default.kind == "null" and not is_nullable:
            raise InvalidArguments(f"column {said.name} is not null: its default cannot be NULL")
        default = make_default(said.name, said.type, said.default, zone)
    return ColumnInfo(
        id=column_id,
        name=said.name,
        type=said.type,
        semantic=semantic,
        nullable=is_nullable,
        default=default,
        comment=said.comment,
        indexes=said.indexes,
    )


def _invalid_column(said: ColumnDef, reason: str) -> InvalidArguments:
    return InvalidArguments(f"Invalid column option, column name: {said.name}, error: {reason}")


def _partition_rules(statement: CreateTable, columns: tuple[ColumnInfo, ...]) -> tuple[str, ...]:
    if not statement.partition_columns:
        return ()
    by_name = {column.name: column for column in columns}
    for name in statement.partition_columns:
        if name not in by_name:
            raise InvalidSyntax(f"the partition names a column that does not exist: {name}")
    if not statement.partition_rules:
        return ()
    types = {name: by_name[name].type for name in statement.partition_columns}
    texts = [rule.text for rule in statement.partition_rules]
    return PartitionRule.parse(statement.partition_columns, texts, types).texts
