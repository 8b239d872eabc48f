"""The listings of Flight SQL: catalogs, databases (its schemas), tables, keys.

They are read from information_schema in the session of the client, so that permissions apply. Results are streamed: the
columns of a table are looked up when its piece is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf.message import Message

from tsdb.database import DatabasePort
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.model import CATALOG, Semantic, TableInfo, type_name
from tsdb.query import Affected, Session, read_all
from tsdb.query.information_schema import has_unique_key
from tsdb.servers.grpc.flight import flight_sql_pb2 as sql
from tsdb.servers.grpc.flight._run import parse_one
from tsdb.servers.grpc.flight._sql_info import SQL_INFO, XDBC_TYPES, sql_info, xdbc_types
from tsdb.sql.template import quoted, quoted_name

PIECE_ROWS = 500
"""How many tables are described at a time."""
TABLE_TYPES = ("SYSTEM TABLE", "TABLE", "VIEW")

_STRING, _INT32 = pa.string(), pa.int32()
_TYPES = {"BASE TABLE": "TABLE", "VIEW": "VIEW"}


def _columns(**kinds: pa.DataType) -> pa.Schema:
    """A schema; names that end in an underscore are never null."""
    return pa.schema([pa.field(name.rstrip("_"), kind, not name.endswith("_")) for name, kind in kinds.items()])


CATALOGS = _columns(catalog_name_=_STRING)
SCHEMAS = _columns(catalog_name=_STRING, db_schema_name_=_STRING)
TYPES = _columns(table_type_=_STRING)
TABLES = _columns(catalog_name=_STRING, db_schema_name=_STRING, table_name_=_STRING, table_type_=_STRING)
TABLES_WITH_SCHEMA = TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
PRIMARY_KEYS = _columns(
    catalog_name=_STRING,
    db_schema_name=_STRING,
    table_name_=_STRING,
    column_name_=_STRING,
    key_name=_STRING,
    key_sequence_=_INT32,
)
FOREIGN_KEYS = _columns(
    pk_catalog_name=_STRING,
    pk_db_schema_name=_STRING,
    pk_table_name_=_STRING,
    pk_column_name_=_STRING,
    fk_catalog_name=_STRING,
    fk_db_schema_name=_STRING,
    fk_table_name_=_STRING,
    fk_column_name_=_STRING,
    key_sequence_=_INT32,
    fk_key_name=_STRING,
    pk_key_name=_STRING,
    update_rule_=pa.uint8(),
    delete_rule_=pa.uint8(),
)


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """An answer: its columns, and what makes its rows."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]


def find_listing(command: Message, database: DatabasePort, session: Session, *, version: str) -> CatalogRows | None:
    """Return the answer to a listing command, None for any other command."""
    if isinstance(command, sql.CommandGetSqlInfo):
        wanted = tuple(command.info)
        return CatalogRows(SQL_INFO, lambda: iter([sql_info(wanted, version)]))
    if isinstance(command, sql.CommandGetXdbcTypeInfo):
        kind = command.data_type if command.HasField("data_type") else None
        return CatalogRows(XDBC_TYPES, lambda: iter([xdbc_types(kind)]))
    if isinstance(command, sql.CommandGetTableTypes):
        return CatalogRows(TYPES, lambda: iter([_batch(TYPES, [{"table_type": each} for each in TABLE_TYPES])]))
    if isinstance(command, sql.CommandGetExportedKeys | sql.CommandGetImportedKeys | sql.CommandGetCrossReference):
        return CatalogRows(FOREIGN_KEYS, lambda: iter(()))
    catalog = FlightCatalog(database, session)
    if isinstance(command, sql.CommandGetCatalogs):
        return CatalogRows(CATALOGS, catalog.catalogs)
    if isinstance(command, sql.CommandGetDbSchemas):
        return CatalogRows(SCHEMAS, lambda: catalog.schemas(command))
    if isinstance(command, sql.CommandGetTables):
        schema = TABLES_WITH_SCHEMA if command.include_schema else TABLES
        return CatalogRows(schema, lambda: catalog.tables(command))
    if isinstance(command, sql.CommandGetPrimaryKeys):
        return CatalogRows(PRIMARY_KEYS, lambda: catalog.primary_keys(command))
    return None


class FlightCatalog:
    """Reads information_schema for one session. Blocks."""

    def __init__(self, database: DatabasePort, session: Session) -> None:
        self._database = database
        self._session = session

    def catalogs(self) -> Iterator[pa.RecordBatch]:
        yield _batch(CATALOGS, self._read("SELECT DISTINCT catalog_name FROM information_schema.schemata ORDER BY 1"))

    def schemas(self, command: sql.CommandGetDbSchemas) -> Iterator[pa.RecordBatch]:
        conditions = [
            *_is("catalog_name", command, "catalog"),
            *_like("schema_name", command, "db_schema_filter_pattern"),
        ]
        rows = self._read(
            "SELECT catalog_name, schema_name AS db_schema_name FROM information_schema.schemata"
            f"{_where(conditions)} ORDER BY 1, 2"
        )
        yield _batch(SCHEMAS, rows)

    def tables(self, command: sql.CommandGetTables) -> Iterator[pa.RecordBatch]:
        conditions = [
            *_is("table_catalog", command, "catalog"),
            *_like("table_schema", command, "db_schema_filter_pattern"),
            *_like("table_name", command, "table_name_filter_pattern"),
        ]
        rows = self._named_tables(conditions)
        if command.table_types:
            rows = [row for row in rows if row["table_type"] in command.table_types]
        if not command.include_schema:
            yield _batch(TABLES, rows)
            return
        for start in range(0, len(rows), PIECE_ROWS):
            yield _batch(TABLES_WITH_SCHEMA, self._with_schemas(rows[start : start + PIECE_ROWS]))

    def of_database(self, pattern: str | None) -> list[str]:
        """The names of the tables and views of the session's database, those that match a pattern."""
        conditions = [f"table_schema = {quoted(self._session.database)}", "table_type <> 'LOCAL TEMPORARY'"]
        if pattern is not None:
            conditions.append(f"table_name LIKE {quoted(pattern)}")
        return [row["table_name"] for row in self._named_tables(conditions)]

    def primary_keys(self, command: sql.CommandGetPrimaryKeys) -> Iterator[pa.RecordBatch]:
        """Return the key of a row: the tags, then the time; a table in append mode has none."""
        conditions = [
            f"table_name = {quoted(command.table)}",
            "constraint_name IN ('PRIMARY', 'TIME INDEX')",
            *_is("real_table_catalog", command, "catalog"),
            *_is("table_schema", command, "db_schema"),
        ]
        rows = self._read(
            "SELECT real_table_catalog AS catalog_name, table_schema AS db_schema_name, table_name, column_name,"
            " 'PRIMARY' AS key_name, CAST(row_number() OVER (PARTITION BY table_schema"
            " ORDER BY constraint_name, ordinal_position) AS INT) AS key_sequence"
            f" FROM information_schema.key_column_usage{_where(conditions)} ORDER BY 1, 2, 3, 6"
        )
        yield _batch(PRIMARY_KEYS, [row for row in rows if self._has_key(row["db_schema_name"], row["table_name"])])

    def _has_key(self, *parts: str) -> bool:
        table = self._database.find_table(parts, self._session)
        return table is not None and has_unique_key(table)

    def schema_of(self, *parts: str) -> pa.Schema | None:
        """Return the columns of a table or view, None if it can no longer be read."""
        table = self._database.find_table(parts, self._session)
        if table is not None:
            return described_schema(table)
        name = ".".join(quoted_name(part) for part in parts)
        return self._database.schema_of(parse_one(f"SELECT * FROM {name}", self._session), self._session)

    def _with_schemas(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = []
        for row in rows:
            try:
                schema = self.schema_of(row["catalog_name"], row["db_schema_name"], row["table_name"])
            except TsdbError:  # dropped meanwhile, or a view of something that was
                continue
            if schema is not None:
                found.append({**row, "table_schema": schema.serialize().to_pybytes()})
        return found

    def _named_tables(self, conditions: list[str]) -> list[dict[str, Any]]:
        rows = self._read(
            "SELECT table_catalog AS catalog_name, table_schema AS db_schema_name, table_name, table_type"
            f" FROM information_schema.tables{_where(conditions)} ORDER BY 1, 2, 3, 4"
        )
        return [{**row, "table_type": _TYPES.get(row["table_type"], "SYSTEM TABLE")} for row in rows]

    def _read(self, text: str) -> list[dict[str, Any]]:
        output = self._database.run_parsed(parse_one(text, self._session), self._session)
        assert not isinstance(output, Affected), "a query has rows"
        rows: list[dict[str, Any]] = read_all(output).to_pylist()
        return rows


def described_schema(table: TableInfo) -> pa.Schema:
    """The columns of a table, each with what clients of Flight SQL ask about it."""
    fields = []
    for column in table.columns:
        field = column.field
        said = {
            b"ARROW:FLIGHT:SQL:CATALOG_NAME": CATALOG.encode(),
            b"ARROW:FLIGHT:SQL:DB_SCHEMA_NAME": table.database.encode(),
            b"ARROW:FLIGHT:SQL:TABLE_NAME": table.name.encode(),
            b"ARROW:FLIGHT:SQL:TYPE_NAME": type_name(field).encode(),
            b"ARROW:FLIGHT:SQL:IS_AUTO_INCREMENT": b"0",
            b"ARROW:FLIGHT:SQL:IS_READ_ONLY": b"0",
            b"ARROW:FLIGHT:SQL:IS_SEARCHABLE": b"1",
            b"greptime:semantic_type": _SEMANTICS[column.semantic],
        }
        if column.comment:
            said[b"ARROW:FLIGHT:SQL:REMARKS"] = column.comment.encode()
        fields.append(field.with_metadata({**(field.metadata or {}), **said}))
    return pa.schema(fields)


_SEMANTICS = {Semantic.TAG: b"tag", Semantic.FIELD: b"field", Semantic.TIMESTAMP: b"timestamp"}


def _batch(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema)


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _is(column: str, command: Message, field: str) -> list[str]:
    return [f"{column} = {quoted(_said(command, field))}"] if command.HasField(field) else []


def _like(column: str, command: Message, field: str) -> list[str]:
    return [f"{column} LIKE {quoted(_said(command, field))}"] if command.HasField(field) else []


def _said(command: Message, field: str) -> str:
    text = getattr(command, field)
    if len(text) > 10_000:
        raise InvalidArguments(f"{field} is longer than 10000 characters")
    return str(text)
