"""Numbers by which PostgreSQL's tables refer to each other: types, namespaces, tables.

Types have PostgreSQL's own numbers, because drivers know those by heart. Tables have their id plus `USER_OID_MIN`:
tools take what is below for the server's own. Databases have no id; the number of a namespace is made from its name,
so it is the same in every process and after every restart.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from tsdb.model import DataType, Kind, TableInfo, ViewInfo

USER_OID_MIN = 16384
KEY_OID_MIN = 1 << 29
OWNER_OID = 10
OWNER_NAME = "postgres"
DATABASE_OID = 5
HEAP_OID = 2
BTREE_OID = 403
DEFAULT_COLLATION_OID = 100

CATALOG_CLASS_OIDS = {
    "pg_type": 1247,
    "pg_attribute": 1249,
    "pg_proc": 1255,
    "pg_class": 1259,
    "pg_authid": 1260,
    "pg_database": 1262,
    "pg_constraint": 2606,
    "pg_index": 2610,
    "pg_namespace": 2615,
    "pg_rewrite": 2618,
    "pg_trigger": 2620,
}
"""The tables other tables point at by their number."""

_NAMESPACE_OIDS = {"pg_catalog": 11, "public": 2200, "information_schema": 13000}
_CATALOG_OID_MIN = 12000
"""Numbers of those tables of pg_catalog that have none in CATALOG_CLASS_OIDS begin here."""


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of PostgreSQL."""

    oid: int
    name: str
    """As `pg_type.typname` has it."""
    title: str
    """As `format_type` prints it."""
    length: int
    category: str
    array: int = 0
    kind: str = "b"
    element: int = 0


TYPES: tuple[PgType, ...] = (
    PgType(16, "bool", "boolean", 1, "B", 1000),
    PgType(17, "bytea", "bytea", -1, "U", 1001),
    PgType(18, "char", '"char"', 1, "Z", 1002),
    PgType(19, "name", "name", 64, "S", 1003),
    PgType(20, "int8", "bigint", 8, "N", 1016),
    PgType(21, "int2", "smallint", 2, "N", 1005),
    PgType(22, "int2vector", "int2vector", -1, "A", 1006, "b", 21),
    PgType(23, "int4", "integer", 4, "N", 1007),
    PgType(24, "regproc", "regproc", 4, "N", 1008),
    PgType(25, "text", "text", -1, "S", 1009),
    PgType(26, "oid", "oid", 4, "N", 1028),
    PgType(30, "oidvector", "oidvector", -1, "A", 1013, "b", 26),
    PgType(114, "json", "json", -1, "U", 199),
    PgType(700, "float4", "real", 4, "N", 1021),
    PgType(701, "float8", "double precision", 8, "N", 1022),
    PgType(705, "unknown", "unknown", -2, "X", 0, "p"),
    PgType(869, "inet", "inet", -1, "I", 1041),
    PgType(1042, "bpchar", "character", -1, "S", 1014),
    PgType(1043, "varchar", "character varying", -1, "S", 1015),
    PgType(1082, "date", "date", 4, "D", 1182),
    PgType(1083, "time", "time without time zone", 8, "D", 1183),
    PgType(1114, "timestamp", "timestamp without time zone", 8, "D", 1115),
    PgType(1184, "timestamptz", "timestamp with time zone", 8, "D", 1185),
    PgType(1186, "interval", "interval", 16, "T", 1187),
    PgType(1700, "numeric", "numeric", -1, "N", 1231),
    PgType(2205, "regclass", "regclass", 4, "N", 2210),
    PgType(2206, "regtype", "regtype", 4, "N", 2211),
    PgType(2249, "record", "record", -1, "P", 2287, "p"),
    PgType(2278, "void", "void", 4, "P", 0, "p"),
    PgType(2950, "uuid", "uuid", 16, "U", 2951),
    PgType(3802, "jsonb", "jsonb", -1, "U", 3807),
)

ARRAY_TYPES: tuple[PgType, ...] = tuple(
    PgType(each.array, f"_{each.name}", f"{each.title}[]", -1, "A", 0, "b", each.oid) for each in TYPES if each.array
)

_TYPE_OIDS = {
    Kind.STRING: 1043,
    Kind.BINARY: 17,
    Kind.BOOLEAN: 16,
    Kind.INT8: 21,
    Kind.INT16: 21,
    Kind.INT32: 23,
    Kind.INT64: 20,
    Kind.UINT8: 21,
    Kind.UINT16: 23,
    Kind.UINT32: 20,
    Kind.UINT64: 1700,
    Kind.FLOAT32: 700,
    Kind.FLOAT64: 701,
    Kind.DECIMAL: 1700,
    Kind.DATE: 1082,
    Kind.TIMESTAMP_SECOND: 1114,
    Kind.TIMESTAMP_MILLISECOND: 1114,
    Kind.TIMESTAMP_MICROSECOND: 1114,
    Kind.TIMESTAMP_NANOSECOND: 1114,
    Kind.JSON: 114,
    Kind.VECTOR: 17,
}

TYPES_BY_OID = {each.oid: each for each in (*TYPES, *ARRAY_TYPES)}


_OIDS_BY_NAME = {name: each.oid for each in (*TYPES, *ARRAY_TYPES) for name in (each.title, each.name)} | {
    f"{each.name}[]": each.array for each in TYPES if each.array
}


def type_number(name: str) -> int | None:
    """The number of the type of a name (`int8`, `bigint`, `text[]`), None if there is none."""
    return _OIDS_BY_NAME.get(name.strip().removeprefix("pg_catalog.").strip('"').lower())


def type_oid(kind: DataType) -> int:
    """The number of the PostgreSQL type a column has on the wire."""
    return _TYPE_OIDS[kind.kind]


def type_modifier(kind: DataType) -> int:
    """`atttypmod`: digits of a decimal; -1 for every type without."""
    return (kind.precision << 16 | kind.scale) + 4 if kind.kind is Kind.DECIMAL else -1


def namespace_oid(database: str) -> int:
    known = _NAMESPACE_OIDS.get(database)
    return known if known is not None else 1 << 30 | zlib.crc32(database.encode()) & ((1 << 30) - 1)


def catalog_class_oid(name: str, position: int) -> int:
    """The number of a table of pg_catalog, which stands at this place among them."""
    return CATALOG_CLASS_OIDS.get(name, _CATALOG_OID_MIN + position)


def table_oid(table: TableInfo | ViewInfo) -> int:
    return USER_OID_MIN + table.id


def key_oid(table: TableInfo) -> int:
    """The number of the primary key of a table, and of its index."""
    return KEY_OID_MIN + table.id
