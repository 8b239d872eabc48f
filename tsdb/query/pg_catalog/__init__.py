"""pg_catalog: the tables and functions by which PostgreSQL's clients find their way.

psql's backslash commands, JDBC and SQLAlchemy query these tables. They are seen on PostgreSQL connections
only. Syntax that the query engine does not know (`::regclass`, `OPERATOR(pg_catalog.~)`) is put into
other words before it is planned: `rewrite_pg`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tsdb.query.information_schema import InformationContext
from tsdb.query.pg_catalog import _keys, _relations, _static
from tsdb.query.pg_catalog._columns import information_columns
from tsdb.query.pg_catalog._functions import pg_functions
from tsdb.query.pg_catalog._oids import TYPES, TYPES_BY_OID, type_modifier, type_oid
from tsdb.query.pg_catalog._relations import pg_table_infos
from tsdb.query.pg_catalog._rewrite import rewrite_pg
from tsdb.query.pg_catalog._schemas import PG_TABLES, pg_schema_of
from tsdb.query.pg_catalog._settings import settings_of

_BUILDERS: dict[str, Callable[[InformationContext], pa.Table]] = {
    "pg_am": _static.pg_am,
    "pg_attrdef": _relations.pg_attrdef,
    "pg_attribute": _relations.pg_attribute,
    "pg_class": _relations.pg_class,
    "pg_collation": _static.pg_collation,
    "pg_constraint": _keys.pg_constraint,
    "pg_database": _relations.pg_database,
    "pg_description": _relations.pg_description,
    "pg_index": _keys.pg_index,
    "pg_indexes": _keys.pg_indexes,
    "pg_language": _static.pg_language,
    "pg_namespace": _relations.pg_namespace,
    "pg_proc": _static.pg_proc,
    "pg_roles": _static.pg_roles,
    "pg_settings": _static.pg_settings,
    "pg_stat_activity": _relations.pg_stat_activity,
    "pg_stat_user_tables": _relations.pg_stat_user_tables,
    "pg_tables": _relations.pg_tables,
    "pg_tablespace": _static.pg_tablespace,
    "pg_type": _static.pg_type,
    "pg_user": _static.pg_user,
    "pg_views": _relations.pg_views,
}


def pg_table(name: str, context: InformationContext) -> pa.Table | None:
    """Return a table of pg_catalog as it is now, None when there is none of that name.

    Tables without a builder tell of things that do not exist here (triggers, sequences, policies): they are empty.
    """
    if name not in PG_TABLES:
        return None
    builder = _BUILDERS.get(name)
    return pg_schema_of(name).empty_table() if builder is None else builder(context)


__all__ = [
    "PG_TABLES",
    "TYPES",
    "TYPES_BY_OID",
    "information_columns",
    "pg_functions",
    "pg_schema_of",
    "pg_table",
    "pg_table_infos",
    "rewrite_pg",
    "settings_of",
    "type_modifier",
    "type_oid",
]
