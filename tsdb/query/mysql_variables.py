"""The system variables that MySQL clients read when they connect, with their values here.

`@@name` gives numbers as numbers, because clients compare them; SHOW VARIABLES gives text. What a session has set
takes precedence. An unknown variable is 0: clients read dozens of them, and none should fail a connection.
"""

from __future__ import annotations

from tsdb.query.functions import MYSQL_VERSION
from tsdb.query.session import Session

_SECONDS_PER_YEAR = 31_536_000
_COLLATION = "utf8mb4_0900_ai_ci"

MYSQL_VARIABLES: dict[str, str | int] = {
    "auto_increment_increment": 1,
    "auto_increment_offset": 1,
    "autocommit": 1,
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_database": "utf8mb4",
    "character_set_filesystem": "binary",
    "character_set_results": "utf8mb4",
    "character_set_server": "utf8mb4",
    "character_set_system": "utf8mb4",
    "collation_connection": _COLLATION,
    "collation_database": _COLLATION,
    "collation_server": _COLLATION,
    "default_authentication_plugin": "caching_sha2_password",
    "default_storage_engine": "mito",
    "foreign_key_checks": 1,
    "have_openssl": "YES",
    "have_query_cache": "NO",
    "have_ssl": "YES",
    "init_connect": "",
    "interactive_timeout": _SECONDS_PER_YEAR,
    "license": "Apache-2.0",
    "lower_case_file_system": 0,
    "lower_case_table_names": 0,
    "max_allowed_packet": 134_217_728,
    "net_buffer_length": 16_384,
    "net_read_timeout": 30,
    "net_write_timeout": 600,
    "performance_schema": 0,
    "protocol_version": 10,
    "query_cache_size": 0,
    "query_cache_type": "OFF",
    "read_only": 0,
    "sql_mode": (
        "ONLY_FULL_GROUP_BY STRICT_TRANS_TABLES NO_ZERO_IN_DATE NO_ZERO_DATE ERROR_FOR_DIVISION_BY_ZERO "
        "NO_ENGINE_SUBSTITUTION"
    ),
    "sql_select_limit": 18_446_744_073_709_551_615,
    "transaction_isolation": "REPEATABLE-READ",
    "transaction_read_only": 0,
    "tx_isolation": "REPEATABLE-READ",
    "tx_read_only": 0,
    "unique_checks": 1,
    "version": MYSQL_VERSION,
    "version_comment": "tsdb",
    "version_compile_machine": "",
    "version_compile_os": "",
    "wait_timeout": _SECONDS_PER_YEAR,
}

_SWITCHES = frozenset(
    {"autocommit", "foreign_key_checks", "unique_checks", "lower_case_file_system", "performance_schema", "read_only"}
)
_ON, _OFF = frozenset({"on", "true", "1"}), frozenset({"off", "false", "0"})


def mysql_variable(session: Session, name: str) -> str | int:
    """Return what `@@name` stands for."""
    own = session.variables.get(name)
    if own is None or own.upper() == "DEFAULT":
        return MYSQL_VARIABLES.get(name, 0)
    if name in _SWITCHES and own.lower() in _ON | _OFF:
        return int(own.lower() in _ON)
    return int(own) if own.isascii() and own.isdigit() and len(own) < 19 else own


def shown_mysql_variables(session: Session) -> dict[str, str]:
    """Return every variable as SHOW VARIABLES lists it."""
    names = MYSQL_VARIABLES.keys() | {name for name in session.variables if not name.startswith("@")}
    return {name: _shown(name, mysql_variable(session, name)) for name in names}


def _shown(name: str, value: str | int) -> str:
    if name in _SWITCHES and value in (0, 1):
        return "ON" if value else "OFF"
    return str(value)
