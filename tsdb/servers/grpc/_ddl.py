"""Definitions of `greptime.v1` as statements, equivalent to their SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import CATALOG, CATALOG_NAMES
from tsdb.servers.grpc._types import column_type
from tsdb.servers.grpc.proto import greptime_pb2 as v1
from tsdb.sql import Parsed, parse
from tsdb.sql import statements as sql
from tsdb.sql.statements import Name


def ddl_statement(request: v1.DdlRequest) -> Parsed:
    """Return the statement that a request stands for."""
    kind = request.WhichOneof("expr")
    if kind is None:
        raise InvalidArguments("the request has no definition that this server supports")
    make = _STATEMENTS.get(kind)
    if make is None:
        raise Unsupported(f"{kind} is not supported here", hint="send it as SQL")
    # The text is what the process list shows.
    return Parsed(make(getattr(request, kind)), kind.replace("_", " ").upper())


def _name(expr: Any, last: str) -> Name:
    if expr.catalog_name and expr.catalog_name not in CATALOG_NAMES:
        raise InvalidArguments(f"there is no catalog {expr.catalog_name!r}, the only one is {CATALOG!r}")
    if not last:
        raise InvalidArguments("the request has no name of what it defines")
    return Name((expr.schema_name, last) if expr.schema_name else (last,))


def _database_name(expr: Any) -> Name:
    if expr.catalog_name and expr.catalog_name not in CATALOG_NAMES:
        raise InvalidArguments(f"there is no catalog {expr.catalog_name!r}, the only one is {CATALOG!r}")
    if not expr.schema_name:
        raise InvalidArguments("the request has no name of a database")
    return Name((expr.schema_name,))


def _create_database(expr: v1.CreateDatabaseExpr) -> sql.Statement:
    options = tuple(sorted(expr.options.items()))
    return sql.CreateDatabase(_database_name(expr), if_not_exists=expr.create_if_not_exists, options=options)


def _alter_database(expr: v1.AlterDatabaseExpr) -> sql.Statement:
    kind = expr.WhichOneof("kind")
    if kind == "set_database_options":
        options = tuple((each.key, each.value) for each in expr.set_database_options.set_database_options)
        return sql.AlterDatabase(_database_name(expr), set_options=options)
    if kind == "unset_database_options":
        return sql.AlterDatabase(_database_name(expr), unset_options=tuple(expr.unset_database_options.keys))
    raise InvalidArguments("the request changes nothing of the database")


def _create_table(expr: v1.CreateTableExpr) -> sql.Statement:
    options = dict(expr.table_options)
    if expr.desc:
        options.setdefault("comment", expr.desc)
    return sql.CreateTable(
        name=_name(expr, expr.table_name),
        columns=tuple(_column(each, time_index=expr.time_index) for each in expr.column_defs),
        if_not_exists=expr.create_if_not_exists,
        time_index=expr.time_index or None,
        primary_key=tuple(expr.primary_keys),
        engine=expr.engine or "mito",
        options=tuple(sorted(options.items())),
    )


def _column(given: v1.ColumnDef, *, time_index: str = "", is_added: bool = False) -> sql.ColumnDef:
    if not given.name:
        raise InvalidArguments("a column needs a name")
    is_time = given.name == time_index
    return sql.ColumnDef(
        name=given.name,
        type=column_type(given.name, given.data_type, given.datatype_extension),
        is_nullable=None if is_time else given.is_nullable,
        default=_default(given.name, given.default_constraint),
        is_primary_key=is_added and given.semantic_type == v1.TAG,
        is_time_index=is_time,
        comment=given.comment or None,
    )


def _default(name: str, encoded: bytes) -> sql.DefaultExpression | None:
    """Read `{"Function":"now()"}` or `{"Value":{"Int64":1}}`."""
    if not encoded:
        return None
    wrong = InvalidArguments(f"column {name}: the default cannot be read")
    try:
        said = orjson.loads(encoded)
    except orjson.JSONDecodeError:
        raise wrong from None
    if not isinstance(said, dict) or len(said) != 1:
        raise wrong
    if isinstance(said.get("Function"), str):
        return sql.DefaultExpression(said["Function"].lower(), "function")
    if "Value" not in said:
        raise wrong
    value = said["Value"]
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    if value is None or value == "Null":
        return sql.DefaultExpression("null", "null")
    if isinstance(value, bool):
        return sql.DefaultExpression("true" if value else "false", "boolean")
    if isinstance(value, int | float):
        return sql.DefaultExpression(str(value), "number")
    if isinstance(value, str):
        return sql.DefaultExpression(value, "string")
    raise Unsupported(f"column {name}: a default of this kind is not supported", hint="send it as SQL")


def _drop_table(expr: v1.DropTableExpr) -> sql.Statement:
    return sql.DropTable((_name(expr, expr.table_name),), if_exists=expr.drop_if_exists)


def _truncate_table(expr: v1.TruncateTableExpr) -> sql.Statement:
    return sql.TruncateTable(_name(expr, expr.table_name))


def _create_view(expr: v1.CreateViewExpr) -> sql.Statement:
    """The query is that of the definition; the rest of it counts less than what the message says besides."""
    if not expr.definition.strip():
        raise Unsupported("a view is made from its definition, not from a plan", hint="send the SQL in `definition`")
    parsed = parse(expr.definition, sql.Dialect.GENERIC)
    said = parsed[0].statement if len(parsed) == 1 else None
    if isinstance(said, sql.CreateView):
        query, columns = said.query.text, said.columns
    elif isinstance(said, sql.Query):
        query, columns = said.text.text, ()
    else:
        raise InvalidArguments(
            "the definition of the view is not one query", hint="send CREATE VIEW … AS SELECT …, or SELECT …"
        )
    columns = tuple(expr.columns) or columns
    names = ".".join(_quoted(each) for each in _name(expr, expr.view_name).parts)
    listed = f" ({', '.join(_quoted(each) for each in columns)})" if columns else ""
    text = (
        f"CREATE {'OR REPLACE ' if expr.or_replace else ''}VIEW "
        f"{'IF NOT EXISTS ' if expr.create_if_not_exists else ''}{names}{listed} AS {query}"
    )
    return parse(text, sql.Dialect.GENERIC)[0].statement


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _drop_view(expr: v1.DropViewExpr) -> sql.Statement:
    return sql.DropView(_name(expr, expr.view_name), if_exists=expr.drop_if_exists)


def _alter_table(expr: v1.AlterTableExpr) -> sql.Statement:
    kind = expr.WhichOneof("kind")
    operations = tuple(_OPERATIONS[kind](getattr(expr, kind))) if kind in _OPERATIONS else ()
    if not operations:
        raise InvalidArguments("the request changes nothing of the table that this server knows", hint="send it as SQL")
    return sql.AlterTable(_name(expr, expr.table_name), operations)


def _add_columns(given: v1.AddColumns) -> Iterable[sql.AlterOp]:
    for each in given.add_columns:
        position, after = None, None
        if each.HasField("location"):
            is_first = each.location.location_type == v1.AddColumnLocation.FIRST
            position, after = ("first", None) if is_first else ("after", each.location.after_column_name)
        column = _column(each.column_def, is_added=True)
        yield sql.AddColumnOp(column, if_not_exists=each.add_if_not_exists, position=position, after=after)


def _modify_types(given: v1.ModifyColumnTypes) -> Iterable[sql.AlterOp]:
    for each in given.modify_column_types:
        kind = column_type(each.column_name, each.target_type, each.target_type_extension)
        yield sql.ModifyTypeOp(each.column_name, kind)


_OPERATIONS: dict[str, Callable[[Any], Iterable[sql.AlterOp]]] = {
    "add_columns": _add_columns,
    "drop_columns": lambda given: (sql.DropColumnOp(each.name) for each in given.drop_columns),
    "rename_table": lambda given: (sql.RenameTableOp(Name((given.new_table_name,))),),
    "modify_column_types": _modify_types,
    "set_table_options": lambda given: (
        sql.SetOptionsOp(tuple((each.key, each.value) for each in given.table_options)),
    ),
    "unset_table_options": lambda given: (sql.UnsetOptionsOp(tuple(given.keys)),),
    "drop_defaults": lambda given: (sql.DropDefaultOp(each.column_name) for each in given.drop_defaults),
}

_STATEMENTS: dict[str, Callable[[Any], sql.Statement]] = {
    "create_database": _create_database,
    "alter_database": _alter_database,
    "create_table": _create_table,
    "alter_table": _alter_table,
    "drop_table": _drop_table,
    "truncate_table": _truncate_table,
    "create_view": _create_view,
    "drop_view": _drop_view,
}
