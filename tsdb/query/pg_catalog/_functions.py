"""PostgreSQL's functions about the system, as far as clients call them and a rewrite does not answer them.

Those that tell something of a table (its comment, its size, whether a bare name finds it) look it up in the catalog of
the session; without one they know of nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import pyarrow as pa

from tsdb.errors import Unsupported
from tsdb.model import TableInfo, ViewInfo
from tsdb.query.functions import Function, FunctionError
from tsdb.query.information_schema import InformationContext, table_size
from tsdb.query.pg_catalog import _oids
from tsdb.query.pg_catalog._advisory import advisory_functions
from tsdb.query.pg_catalog._keys import PrimaryKey, primary_keys
from tsdb.query.pg_catalog._relations import Relation, relations
from tsdb.query.pg_catalog._settings import settings_of

_TEXT = pa.string()
_OID = pa.int64()
"""Wide enough for every number a client writes; columns are narrower and widen by themselves."""
_SHORTS = pa.list_(pa.int16())
_PLACES = pa.list_(pa.struct([("x", pa.int16()), ("n", pa.int32())]))
_NAME_PART = re.compile(r'"(?:[^"]|"")+"|[^\W\d][\w$]*')
_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_VISIBLE_ALWAYS = "pg_catalog"
_SET_BY_STATEMENT = frozenset(
    {"search_path", "timezone", "time_zone", "datestyle", "intervalstyle", "bytea_output", "statement_timeout"}
)


def pg_functions(context: InformationContext | None = None) -> list[Function]:
    """Return the functions of PostgreSQL sessions; those that are not immutable run in the server process."""
    known = _Lookup(context)
    return [
        *_pure_functions(),
        _by_oid("pg_table_is_visible", pa.bool_(), known.is_visible),
        _by_oid("pg_relation_name", _TEXT, known.name),
        _by_oid("obj_description", _TEXT, known.comment),
        _by_oid("pg_get_viewdef", _TEXT, known.view_query),
        _by_oid("pg_get_indexdef", _TEXT, known.index_text),
        _by_oid("pg_get_constraintdef", _TEXT, known.constraint_text),
        _by_oid("pg_table_size", pa.int64(), known.bytes),
        Function(
            "col_description",
            (
                _OID,
                _OID,
            ),
            _TEXT,
            known.column_comments,
            "stable",
        ),
        Function("pg_class_number", (_TEXT,), _OID, _each(known.number, _OID), "stable"),
        Function("current_setting", (_TEXT,), _TEXT, _each(known.setting), "stable"),
        Function(
            "set_config",
            (
                _TEXT,
                _TEXT,
            ),
            _TEXT,
            known.set_settings,
            "volatile",
        ),
        *advisory_functions(None if context is None else context.session.locks),
    ]


class _Lookup:
    """What is known of relations by their numbers, looked up when it is first needed."""

    def __init__(self, context: InformationContext | None) -> None:
        self._context = context

    @cached_property
    def _relations(self) -> dict[int, Relation]:
        return {} if self._context is None else {each.oid: each for each in relations(self._context)}

    def is_visible(self, oid: int) -> bool:
        """Whether a bare name finds the relation: it is in the database of the session."""
        if self._context is None:
            return True
        found = self._relations.get(oid)
        if found is None and oid in self._keys:
            return self._keys[oid].table.database == self._context.session.database
        return found is not None and found.info.database in (self._context.session.database, _VISIBLE_ALWAYS)

    def name(self, oid: int) -> str:
        """As `oid::regclass` prints: with its database only where the bare name would not find it."""
        found = self._relations.get(oid)
        if found is None:
            return str(oid)
        bare = quote_ident(found.info.name)
        return bare if self.is_visible(oid) else f"{quote_ident(found.info.database)}.{bare}"

    @cached_property
    def _numbers(self) -> dict[tuple[str, str], int]:
        return {(each.info.database, each.info.name): oid for oid, each in self._relations.items()}

    def number(self, name: str) -> int | None:
        """The number of a relation by its name; a bare one is in the database of the session or in pg_catalog."""
        parts = parse_ident(name)
        bare = (self._context.session.database, _VISIBLE_ALWAYS) if self._context is not None else ()
        databases = bare if len(parts) == 1 else parts[-2:-1]
        return next((self._numbers[each, parts[-1]] for each in databases if (each, parts[-1]) in self._numbers), None)

    def comment(self, oid: int) -> str | None:
        found = self._relations.get(oid)
        return found.info.comment if found is not None and isinstance(found.info, TableInfo) else None

    def view_query(self, oid: int) -> str | None:
        found = self._relations.get(oid)
        return found.info.query if found is not None and isinstance(found.info, ViewInfo) else None

    @cached_property
    def _keys(self) -> dict[int, PrimaryKey]:
        return {} if self._context is None else {each.oid: each for each in primary_keys(self._context)}

    def index_text(self, oid: int) -> str | None:
        found = self._keys.get(oid)
        if found is None:
            return None
        table = f"{quote_ident(found.table.database)}.{quote_ident(found.table.name)}"
        return f"CREATE UNIQUE INDEX {quote_ident(found.name)} ON {table} USING btree ({_names(found)})"

    def constraint_text(self, oid: int) -> str | None:
        found = self._keys.get(oid)
        return None if found is None else f"PRIMARY KEY ({_names(found)})"

    def bytes(self, oid: int) -> int | None:
        found = self._relations.get(oid)
        if found is None or self._context is None:
            return None
        size = table_size(self._context, found.info) if isinstance(found.info, TableInfo) else None
        return 0 if size is None else size.bytes

    def setting(self, name: str) -> str | None:
        """The value of a setting of the session, None if there is none of that name."""
        if self._context is None:
            return None
        session = self._context.session
        key = "timezone" if name.lower() == "time_zone" else name.lower()
        return settings_of(session, self._context.node.version).get(key, session.variables.get(key))

    def set_settings(self, names: pa.Array, values: pa.Array) -> pa.Array:
        pairs = zip(names.to_pylist(), values.to_pylist(), strict=True)
        return pa.array([self._set(name, value) for name, value in pairs], _TEXT)

    def _set(self, name: str | None, value: str | None) -> str:
        """Set one that has no effect here; what has one is set by SET, which checks the value."""
        key = (name or "").lower()
        if key in _SET_BY_STATEMENT and value:
            raise Unsupported(f"set_config does not set {key}", hint="use SET")
        if self._context is not None and key and key not in _SET_BY_STATEMENT:
            self._context.session.variables[key] = value or ""
        return value or ""

    def column_comments(self, oids: pa.Array, positions: pa.Array) -> pa.Array:
        pairs = zip(oids.to_pylist(), positions.to_pylist(), strict=True)
        return pa.array([self._column_comment(oid, position) for oid, position in pairs], _TEXT)

    def _column_comment(self, oid: int | None, position: int | None) -> str | None:
        found = None if oid is None else self._relations.get(oid)
        if found is None or position is None or not isinstance(found.info, TableInfo):
            return None
        columns = found.info.columns
        return columns[position - 1].comment if 0 < position <= len(columns) else None


def _by_oid(name: str, result: pa.DataType, of: Callable[[int], Any]) -> Function:
    """A function of one number, worked out once for each distinct one."""

    def body(oids: pa.Array) -> pa.Array:
        encoded = oids.dictionary_encode()
        values = pa.array([of(oid) for oid in encoded.dictionary.to_pylist()], result)
        return values.take(encoded.indices)

    return Function(name, (_OID,), result, body, "stable")


@cache
def _pure_functions() -> tuple[Function, ...]:
    return (
        Function(
            "format_type",
            (
                _OID,
                _OID,
            ),
            _TEXT,
            _format_types,
            "immutable",
        ),
        Function("quote_ident", (_TEXT,), _TEXT, _each(quote_ident), "immutable"),
        Function("parse_ident", (_TEXT,), pa.list_(_TEXT), _each(parse_ident, pa.list_(_TEXT)), "immutable"),
        Function("quote_literal", (_TEXT,), _TEXT, _each(quote_literal), "immutable"),
        Function("pg_size_pretty", (pa.int64(),), _TEXT, _each(size_pretty), "immutable"),
        Function("to_regtype", (_TEXT,), _OID, _each(_oids.type_number, _OID), "immutable"),
        Function("pg_expanded", (_SHORTS,), _PLACES, _each(_expanded, _PLACES), "immutable"),
        Function("pg_subscripts", (_SHORTS,), _SHORTS, _each(_subscripts, _SHORTS), "immutable"),
        Function("current_schemas", (pa.bool_(),), pa.list_(_TEXT), _each(_schemas, pa.list_(_TEXT)), "stable"),
    )


def _names(key: PrimaryKey) -> str:
    return ", ".join(quote_ident(key.table.columns[place - 1].name) for place in key.places)


def _each(of: Callable[[Any], Any], result: pa.DataType = _TEXT) -> Callable[[pa.Array], pa.Array]:
    """Apply a function to every value that is not null. The rows are those of a catalog: few."""

    def body(values: pa.Array) -> pa.Array:
        return pa.array([None if value is None else of(value) for value in values.to_pylist()], result)

    return body


def _expanded(numbers: list[int]) -> list[dict[str, int]]:
    """The members of an array, each with its place."""
    return [{"x": number, "n": place} for place, number in enumerate(numbers, 1)]


def _subscripts(numbers: list[int]) -> list[int]:
    """The places of an array."""
    return list(range(1, len(numbers) + 1))


def _schemas(with_implicit: bool) -> list[str]:
    return ["public", "information_schema", "pg_catalog", "tsdb_private"] if with_implicit else ["public"]


def quote_ident(name: str) -> str:
    """Put a name in quotes if it needs them."""
    is_plain = name.isascii() and name.replace("_", "a").isalnum() and name == name.lower() and not name[0].isdigit()
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def parse_ident(name: str) -> list[str]:
    """Cut a name at its dots; parts without quotes are folded to lower case."""
    parts = _NAME_PART.findall(name)
    if ".".join(parts) != name.strip():
        raise FunctionError(f'string is not a valid identifier: "{name}"')
    return [each[1:-1].replace('""', '"') if each.startswith('"') else each.lower() for each in parts]


def quote_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def size_pretty(size: int) -> str:
    """A number of bytes as people read it: `8192 bytes`, `12 kB`."""
    amount = size
    for unit in _UNITS[:-1]:
        if abs(amount) < 10 * 1024:
            return f"{amount} {unit}"
        amount = (amount + 512) // 1024
    return f"{amount} {_UNITS[-1]}"


def format_type(oid: int, modifier: int | None) -> str:
    """The name of a type as SQL writes it: `numeric(10,2)`."""
    found = _oids.TYPES_BY_OID.get(oid)
    if found is None:
        return "???" if oid else "-"
    if found.name == "numeric" and modifier is not None and modifier > 4:
        digits = modifier - 4
        return f"numeric({digits >> 16},{digits & 0xFFFF})"
    return found.title


def _format_types(oids: pa.Array, modifiers: pa.Array) -> pa.Array:
    pairs = zip(oids.to_pylist(), modifiers.to_pylist(), strict=True)
    return pa.array([None if oid is None else format_type(oid, modifier) for oid, modifier in pairs], _TEXT)
