"""Calls of PostgreSQL's functions whose answer does not depend on their arguments, or is one of them."""

from __future__ import annotations

from typing import NamedTuple

from tsdb.query.pg_catalog._oids import OWNER_NAME

UTF8_ENCODING = 6
"""PostgreSQL's number for UTF-8."""
NULL_TEXT = "CAST(NULL AS VARCHAR)"

_TRUE = frozenset(
    {
        *("pg_type_is_visible", "pg_function_is_visible", "pg_operator_is_visible", "pg_opclass_is_visible"),
        *("pg_collation_is_visible", "pg_conversion_is_visible", "pg_statistics_obj_is_visible"),
        *("pg_ts_config_is_visible", "pg_ts_dict_is_visible", "has_table_privilege", "has_schema_privilege"),
        *("has_database_privilege", "has_column_privilege", "has_any_column_privilege", "has_function_privilege"),
        *("has_sequence_privilege", "has_tablespace_privilege", "has_type_privilege", "pg_has_role"),
    }
)
_FALSE = frozenset({"pg_is_in_recovery", "pg_relation_is_publishable", "pg_is_other_temp_schema"})
_NULL = frozenset(
    {
        *("pg_get_partkeydef", "pg_get_triggerdef", "pg_get_ruledef"),
        *("pg_get_functiondef", "pg_get_function_arguments", "pg_get_function_result", "pg_get_serial_sequence"),
        *("pg_get_function_identity_arguments", "pg_get_statisticsobjdef_columns", "pg_get_statisticsobjdef"),
        *("pg_get_partition_constraintdef", "pg_get_function_sqlbody", "pg_tablespace_location", "shobj_description"),
    }
)
_ZERO = frozenset(
    {"pg_my_temp_schema", "pg_indexes_size", "pg_database_size", "pg_tablespace_size", "pg_stat_get_numscans"}
)


class CallRewrite(NamedTuple):
    """What becomes of a call; all None leaves it as it is."""

    replacement: str | None = None
    """Stands for the whole call."""
    name: str | None = None
    """Is called instead."""
    keeps: int | None = None
    """How many of the arguments count."""


def rewrite_call(name: str, arguments: int) -> CallRewrite | None:
    """Say what becomes of a call of a function with so many arguments; None if nothing."""
    if name in _TRUE:
        return CallRewrite("true")
    if name in _FALSE:
        return CallRewrite("false")
    if name in _NULL:
        return CallRewrite(NULL_TEXT)
    if name in _ZERO:
        return CallRewrite("0")
    if name == "pg_get_userbyid":
        return CallRewrite(f"'{OWNER_NAME}'")
    if name in ("pg_encoding_to_char", "getdatabaseencoding", "pg_client_encoding"):
        return CallRewrite("'UTF8'")
    if name == "pg_char_to_encoding":
        return CallRewrite(str(UTF8_ENCODING))
    if name in ("pg_get_expr", "pg_partition_ancestors"):
        return CallRewrite(name="", keeps=1)
    if name in ("pg_get_viewdef", "pg_get_constraintdef", "pg_get_indexdef", "obj_description", "current_setting"):
        return CallRewrite(keeps=1)
    if name == "pg_advisory_unlock_all":
        return CallRewrite("pg_advisory_unlock_session(0)")
    if name == "gen_random_uuid":
        return CallRewrite(name="uuid")
    if name == "set_config":
        return CallRewrite(keeps=2)
    if name in ("pg_relation_size", "pg_total_relation_size"):
        return CallRewrite(name="pg_table_size", keeps=1)
    return None
