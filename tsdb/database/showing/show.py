"""SHOW: every form of it, each a function that makes a small table and filters it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from tsdb.catalog import DatabaseNotFound, TableNotFound
from tsdb.database._names import resolve, resolve_database
from tsdb.database.showing.create_statement import render_create_database, render_create_table, render_foreign_table
from tsdb.database.showing.lookup import (
    NoSuchFlow,
    Sources,
    check_database,
    find_table,
    tables_in,
)
from tsdb.database.showing.rows import filtered, renamed, text_table
from tsdb.database.showing.variables import variable_value, variables_of
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import CATALOG, DatabaseInfo, TableInfo, ViewInfo
from tsdb.query import Channel, Output, Session, TableRecords
from tsdb.query.information_schema import (
    DescribedView,
    columns_of,
    database_options,
    format_database_options,
    information_table,
    is_system_table,
    sleeping_connections_table,
    statistics_of,
    table_type,
    tables_of,
)
from tsdb.sql.statements import Name, Show


def show(statement: Show, services: Sources, session: Session) -> Output:
    """Answer SHOW; what it names must exist."""
    return TableRecords(_FORMS[statement.what](statement, services, session))


def _databases(statement: Show, services: Sources, session: Session) -> pa.Table:
    databases = database_options(services.information(session))
    rows = [(name, format_database_options(options)) for name, options in databases.items()]
    table = text_table(("Database", "Options"), rows)
    kept = filtered(table, statement.filter, services, session)
    return kept if statement.is_full else kept.select(["Database"])


def _tables(statement: Show, services: Sources, session: Session) -> pa.Table:
    database = statement.database or session.database
    check_database(database, services.information(session))
    found = tables_in(database, services, session)
    title = f"Tables_in_{database}"
    table = text_table((title, "Table_type"), [(each.name, table_type(each, session.channel)) for each in found])
    kept = filtered(table, statement.filter, services, session, aliases={"Tables": title})
    return kept if statement.is_full else kept.select([title])


_STATUS_COLUMNS = {
    "table_name": "Name",
    "engine": "Engine",
    "version": "Version",
    "row_format": "Row_format",
    "table_rows": "Rows",
    "avg_row_length": "Avg_row_length",
    "data_length": "Data_length",
    "max_data_length": "Max_data_length",
    "index_length": "Index_length",
    "data_free": "Data_free",
    "auto_increment": "Auto_increment",
    "create_time": "Create_time",
    "update_time": "Update_time",
    "check_time": "Check_time",
    "table_collation": "Collation",
    "checksum": "Checksum",
    "create_options": "Create_options",
    "table_comment": "Comment",
}


def _table_status(statement: Show, services: Sources, session: Session) -> pa.Table:
    database, context = statement.database or session.database, services.information(session)
    check_database(database, context)
    rows = tables_of(tables_in(database, services, session), context)
    return filtered(renamed(rows, _STATUS_COLUMNS), statement.filter, services, session)


_COLUMN_COLUMNS = {
    "column_name": "Field",
    "data_type": "Type",
    "is_nullable": "Null",
    "column_key": "Key",
    "column_default": "Default",
    "extra": "Extra",
    "tsdb_data_type": "Tsdb_type",
}
_FULL_COLUMN_COLUMNS = {
    "column_name": "Field",
    "data_type": "Type",
    "collation_name": "Collation",
    "is_nullable": "Null",
    "column_key": "Key",
    "column_default": "Default",
    "column_comment": "Comment",
    "privileges": "Privileges",
    "extra": "Extra",
    "tsdb_data_type": "Tsdb_type",
}


def _columns(statement: Show, services: Sources, session: Session) -> pa.Table:
    """The columns of a table or view: by name, for clients of MySQL in their order."""
    found = _named(statement, services, session)
    shown: TableInfo | DescribedView
    if isinstance(found, ViewInfo):
        columns = services.queries.columns_of_view(found, session)
        shown = DescribedView(found.database, found.name, found.id, columns)
    else:
        shown = found
    order = "ordinal_position" if session.channel is Channel.MYSQL else "column_name"
    rows = columns_of([shown], session.channel).sort_by(order)
    if session.channel is Channel.MYSQL:
        rows = rows.set_column(rows.schema.get_field_index("data_type"), "data_type", rows.column("column_type"))
    names = _FULL_COLUMN_COLUMNS if statement.is_full else _COLUMN_COLUMNS
    return filtered(renamed(rows, names), statement.filter, services, session)


_INDEX_COLUMNS = {
    "table_name": "Table",
    "non_unique": "Non_unique",
    "index_name": "Key_name",
    "seq_in_index": "Seq_in_index",
    "column_name": "Column_name",
    "collation": "Collation",
    "cardinality": "Cardinality",
    "sub_part": "Sub_part",
    "packed": "Packed",
    "nullable": "Null",
    "index_type": "Index_type",
    "comment": "Comment",
    "index_comment": "Index_comment",
    "is_visible": "Visible",
    "expression": "Expression",
}


def _index(statement: Show, services: Sources, session: Session) -> pa.Table:
    if statement.filter.like is not None:
        raise Unsupported("SHOW INDEX takes WHERE, not LIKE")
    found = _named(statement, services, session)
    has_keys = isinstance(found, TableInfo) and not is_system_table(found)
    rows = statistics_of([found] if has_keys and isinstance(found, TableInfo) else [], session.channel)
    return filtered(renamed(rows, _INDEX_COLUMNS), statement.filter, services, session)


def _region(statement: Show, services: Sources, session: Session) -> pa.Table:
    if statement.filter.like is not None:
        raise Unsupported("SHOW REGION takes WHERE, not LIKE")
    found = _named(statement, services, session)
    regions = found.region_ids if isinstance(found, TableInfo) else ()
    peer = services.information(session).node.id
    table = pa.table(
        {
            "Table": pa.array([found.name] * len(regions), pa.string()),
            "Region": pa.array(regions, pa.uint64()),
            "Peer": pa.array([peer] * len(regions), pa.uint64()),
            "Leader": pa.array(["Yes"] * len(regions), pa.string()),
        }
    )
    return filtered(table, statement.filter, services, session)


def _named(statement: Show, services: Sources, session: Session) -> TableInfo | ViewInfo:
    """The table or view a form names; a database named beside it counts more than the session's."""
    database, name = resolve(_name(statement), session)
    return find_table(statement.database or database, name, services, session)


def _name(statement: Show) -> Name:
    if statement.name is None:
        raise InvalidArguments(f"SHOW {statement.what} needs a name")
    return statement.name


def _create_table(statement: Show, services: Sources, session: Session) -> pa.Table:
    database, name = resolve(_name(statement), session)
    found = find_table(database, name, services, session)
    if isinstance(found, ViewInfo) and session.channel is Channel.MYSQL:
        return text_table(("View", "Create View"), [(name, found.definition)])
    if isinstance(found, ViewInfo) or is_system_table(found):
        kind = "VIEW" if isinstance(found, ViewInfo) else "TEMPORARY"
        raise Unsupported(f"Show create table only for base table. {CATALOG}.{database}.{name} is {kind}")
    if statement.is_foreign:
        text = render_foreign_table(found)
    else:
        text = render_create_table(found, services.catalog.effective_options(found), session.dialect)
    return text_table(("Table", "Create Table"), [(found.name, text)])


def _create_database(statement: Show, services: Sources, session: Session) -> pa.Table:
    name = resolve_database(_name(statement))
    found = services.catalog.find_database(name)
    if found is None:
        if name not in database_options(services.information(session)):
            raise DatabaseNotFound(name)
        found = DatabaseInfo(name)
    return text_table(("Database", "Create Database"), [(name, render_create_database(found, session.dialect))])


def _create_view(statement: Show, services: Sources, session: Session) -> pa.Table:
    database, name = resolve(_name(statement), session)
    view = services.catalog.find_view(database, name)
    if view is None:
        if services.catalog.find_table(database, name) is not None:
            raise InvalidArguments(f"{CATALOG}.{database}.{name} is a table, not a view", hint="use SHOW CREATE TABLE")
        raise TableNotFound(database, name, near=services.catalog.near_table(database, name))
    return text_table(("View", "Create View"), [(name, view.definition)])


def _create_flow(statement: Show, services: Sources, session: Session) -> pa.Table:
    name = _name(statement).last
    flow = next((each for each in services.information(session).flows() if each.name == name), None)
    if flow is None:
        raise NoSuchFlow(f"Flow not found: {name}")
    return text_table(("Flow", "Create Flow"), [(name, flow.definition)])


def _views(statement: Show, services: Sources, session: Session) -> pa.Table:
    database = statement.database or session.database
    check_database(database, services.information(session))
    found = tables_in(database, services, session)
    table = text_table(("Views",), [(each.name,) for each in found if isinstance(each, ViewInfo)])
    return filtered(table, statement.filter, services, session)


def _flows(statement: Show, services: Sources, session: Session) -> pa.Table:
    context = services.information(session)
    database = statement.database or session.database
    check_database(database, context)
    table = text_table(("Flows",), [(flow.name,) for flow in context.flows()])
    return filtered(table, statement.filter, services, session)


def _flow_status(statement: Show, services: Sources, session: Session) -> pa.Table:
    rows = _information("flow_statistics", services, session)
    return filtered(rows, statement.filter, services, session, like_column=rows.column_names.index("flow_name"))


def _information(name: str, services: Sources, session: Session) -> pa.Table:
    return information_table(name, services.information(session))


def _listed(name: str, columns: Mapping[str, str]) -> Callable[[Show, Sources, Session], pa.Table]:
    """A form that shows some columns of a table of information_schema."""

    def form(statement: Show, services: Sources, session: Session) -> pa.Table:
        return filtered(renamed(_information(name, services, session), columns), statement.filter, services, session)

    return form


_CHARSET_COLUMNS = {
    "character_set_name": "Charset",
    "description": "Description",
    "default_collate_name": "Default collation",
    "maxlen": "Maxlen",
}
_COLLATION_COLUMNS = {
    "collation_name": "Collation",
    "character_set_name": "Charset",
    "id": "Id",
    "is_default": "Default",
    "is_compiled": "Compiled",
    "sortlen": "Sortlen",
}
_ENGINE_COLUMNS = {
    "engine": "Engine",
    "support": "Support",
    "comment": "Comment",
    "transactions": "Transactions",
    "xa": "XA",
    "savepoints": "Savepoints",
}
_PROCESS_COLUMNS = {"id": "Id", "catalog": "Catalog", "query": "Query", "elapsed_time": "Elapsed Time"}
_FULL_PROCESS_COLUMNS = {
    "id": "Id",
    "catalog": "Catalog",
    "schemas": "Schema",
    "client": "Client",
    "frontend": "Frontend",
    "start_timestamp": "Start Time",
    "elapsed_time": "Elapsed Time",
    "query": "Query",
}


def _processlist(statement: Show, services: Sources, session: Session) -> pa.Table:
    names = _FULL_PROCESS_COLUMNS if statement.is_full else _PROCESS_COLUMNS
    context = services.information(session)
    rows = pa.concat_tables([information_table("process_list", context), sleeping_connections_table(context)])
    return filtered(renamed(rows, names), statement.filter, services, session)


def _variables(statement: Show, services: Sources, session: Session) -> pa.Table:
    """One variable by its name, or the list of them that LIKE and WHERE choose from."""
    if statement.name is not None:
        return _variable(statement, services, session)
    version = services.information(session).node.version
    table = text_table(("Variable_name", "Value"), list(variables_of(session, version).items()))
    return filtered(table, statement.filter, services, session)


def _variable(statement: Show, services: Sources, session: Session) -> pa.Table:
    name = " ".join(_name(statement).parts).lower()
    title, value = variable_value(name, session, services.information(session).node.version)
    return text_table((title,), [(value,)])


def _status(statement: Show, services: Sources, session: Session) -> pa.Table:
    return filtered(text_table(("Variable_name", "Value"), []), statement.filter, services, session)


def _search_path(statement: Show, services: Sources, session: Session) -> pa.Table:
    return text_table(("search_path",), [(session.variables.get("search_path", session.database),)])


_WARNING_CODE = 1000


def _warnings(statement: Show, services: Sources, session: Session) -> pa.Table:
    count = len(session.warnings)
    return pa.table(
        {
            "Level": pa.array(["Warning"] * count, pa.string()),
            "Code": pa.array([_WARNING_CODE] * count, pa.uint16()),
            "Message": pa.array(session.warnings, pa.string()),
        }
    )


_FORMS: dict[str, Callable[[Show, Sources, Session], pa.Table]] = {
    "databases": _databases,
    "tables": _tables,
    "table_status": _table_status,
    "columns": _columns,
    "index": _index,
    "region": _region,
    "create_table": _create_table,
    "create_database": _create_database,
    "create_view": _create_view,
    "create_flow": _create_flow,
    "views": _views,
    "flows": _flows,
    "flow_status": _flow_status,
    "charset": _listed("character_sets", _CHARSET_COLUMNS),
    "collation": _listed("collations", _COLLATION_COLUMNS),
    "processlist": _processlist,
    "variables": _variables,
    "variable": _variable,
    "status": _status,
    "search_path": _search_path,
    "warnings": _warnings,
    "engines": _listed("engines", _ENGINE_COLUMNS),
}
