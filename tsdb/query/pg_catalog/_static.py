"""The tables of pg_catalog that are the same in every database: types, roles, settings."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from tsdb.query.information_schema import InformationContext, build_table
from tsdb.query.pg_catalog import _oids
from tsdb.query.pg_catalog._schemas import pg_schema_of
from tsdb.query.pg_catalog._settings import settings_of

_UNDERSCORED = frozenset({
    "date", "time", "timetz", "timestamp", "timestamptz", "interval", "numeric", "json", "jsonb", "uuid", "inet",
    "cidr", "bit", "varbit", "record", "void", "macaddr", "point",
})  # fmt: skip
"""Types whose functions have an underscore in their names: `date_recv`, but `int4recv`."""
_CATALOG_NAMESPACE = _oids.namespace_oid("pg_catalog")
_INTERNAL_LANGUAGE = 12
_FIRST_FUNCTION_OID = 6_000


def pg_type(context: InformationContext) -> pa.Table:
    return _pg_type()


def _function_of(kind: _oids.PgType, verb: str) -> str:
    """Return the name of the function that reads or writes values of a type; drivers know formats by it."""
    if kind.element:
        return f"array_{verb}"
    return f"{kind.name}_{verb}" if kind.name in _UNDERSCORED else f"{kind.name}{verb}"


@cache
def _pg_type() -> pa.Table:
    types = sorted((*_oids.TYPES, *_oids.ARRAY_TYPES), key=lambda each: each.oid)
    columns = {
        "oid": [each.oid for each in types],
        "typname": [each.name for each in types],
        "typnamespace": _CATALOG_NAMESPACE,
        "typowner": _oids.OWNER_OID,
        "typlen": [each.length for each in types],
        "typbyval": [0 < each.length <= 8 for each in types],
        "typtype": [each.kind for each in types],
        "typcategory": [each.category for each in types],
        "typispreferred": [each.name in ("bool", "text", "float8", "timestamptz", "interval", "oid") for each in types],
        "typisdefined": True,
        "typdelim": ",",
        "typrelid": 0,
        "typsubscript": ["array_subscript_handler" if each.element else "-" for each in types],
        "typelem": [each.element for each in types],
        "typarray": [each.array for each in types],
        "typinput": [_function_of(each, "in") for each in types],
        "typoutput": [_function_of(each, "out") for each in types],
        "typreceive": [_function_of(each, "recv") for each in types],
        "typsend": [_function_of(each, "send") for each in types],
        "typmodin": "-",
        "typmodout": "-",
        "typanalyze": "-",
        "typalign": "i",
        "typstorage": ["x" if each.length < 0 else "p" for each in types],
        "typnotnull": False,
        "typbasetype": 0,
        "typtypmod": -1,
        "typndims": 0,
        "typcollation": [_oids.DEFAULT_COLLATION_OID if each.category == "S" else 0 for each in types],
    }
    return build_table(pg_schema_of("pg_type"), len(types), columns)


def pg_proc(context: InformationContext) -> pa.Table:
    """The functions that types name, which is where drivers look for them."""
    verbs = ("typinput", "typoutput", "typreceive", "typsend")
    names = sorted({name for verb in verbs for name in _pg_type().column(verb).to_pylist()})
    columns = {
        "oid": [_FIRST_FUNCTION_OID + at for at in range(len(names))],
        "proname": names,
        "pronamespace": _CATALOG_NAMESPACE,
        "proowner": _oids.OWNER_OID,
        "prolang": _INTERNAL_LANGUAGE,
        "procost": 1.0,
        "prorows": 0.0,
        "provariadic": 0,
        "prosupport": "-",
        "prokind": "f",
        "prosecdef": False,
        "proleakproof": False,
        "proisstrict": True,
        "proretset": False,
        "provolatile": "i",
        "proparallel": "s",
        "pronargs": 1,
        "pronargdefaults": 0,
        "prorettype": 0,
        "prosrc": names,
    }
    return build_table(pg_schema_of("pg_proc"), len(names), columns)


def pg_am(context: InformationContext) -> pa.Table:
    columns = {
        "oid": [_oids.HEAP_OID, _oids.BTREE_OID],
        "amname": ["heap", "btree"],
        "amhandler": ["heap_tableam_handler", "bthandler"],
        "amtype": ["t", "i"],
    }
    return build_table(pg_schema_of("pg_am"), 2, columns)


def pg_roles(context: InformationContext) -> pa.Table:
    columns = {
        "rolname": _oids.OWNER_NAME,
        "rolsuper": True,
        "rolinherit": True,
        "rolcreaterole": False,
        "rolcreatedb": True,
        "rolcanlogin": True,
        "rolreplication": False,
        "rolconnlimit": -1,
        "rolbypassrls": False,
        "oid": _oids.OWNER_OID,
    }
    return build_table(pg_schema_of("pg_roles"), 1, columns)


def pg_user(context: InformationContext) -> pa.Table:
    columns = {
        "usename": _oids.OWNER_NAME,
        "usesysid": _oids.OWNER_OID,
        "usecreatedb": True,
        "usesuper": True,
        "userepl": False,
        "usebypassrls": False,
    }
    return build_table(pg_schema_of("pg_user"), 1, columns)


def pg_settings(context: InformationContext) -> pa.Table:
    settings = settings_of(context.session, context.node.version)
    columns = {
        "name": list(settings),
        "setting": list(settings.values()),
        "category": "Client Connection Defaults",
        "short_desc": "",
        "context": "user",
        "vartype": "string",
        "source": "default",
        "boot_val": list(settings.values()),
        "reset_val": list(settings.values()),
        "pending_restart": False,
    }
    return build_table(pg_schema_of("pg_settings"), len(settings), columns)


def pg_tablespace(context: InformationContext) -> pa.Table:
    columns = {"oid": 1663, "spcname": "pg_default", "spcowner": _oids.OWNER_OID}
    return build_table(pg_schema_of("pg_tablespace"), 1, columns)


def pg_collation(context: InformationContext) -> pa.Table:
    columns = {
        "oid": _oids.DEFAULT_COLLATION_OID,
        "collname": "default",
        "collnamespace": _CATALOG_NAMESPACE,
        "collowner": _oids.OWNER_OID,
        "collprovider": "d",
        "collisdeterministic": True,
        "collencoding": -1,
    }
    return build_table(pg_schema_of("pg_collation"), 1, columns)


def pg_language(context: InformationContext) -> pa.Table:
    columns = {
        "oid": _INTERNAL_LANGUAGE,
        "lanname": "internal",
        "lanowner": _oids.OWNER_OID,
        "lanispl": False,
        "lanpltrusted": False,
        "lanplcallfoid": 0,
        "laninline": 0,
        "lanvalidator": 0,
    }
    return build_table(pg_schema_of("pg_language"), 1, columns)
