"""The run-time settings of a session, as `pg_settings` and SHOW tell them."""

from __future__ import annotations

from tsdb.query.session import Session

SERVER_VERSION = "16.3"
"""The PostgreSQL whose behaviour is followed."""

_FIXED = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "integer_datetimes": "on",
    "intervalstyle": "postgres",
    "is_superuser": "off",
    "max_connections": "100",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "server_encoding": "UTF8",
    "server_version_num": "160003",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "transaction_isolation": "read committed",
    "transaction_read_only": "off",
}


def settings_of(session: Session, version: str) -> dict[str, str]:
    """Every setting of a session by its name in lower case, sorted; `version` is that of this server."""
    found = dict(_FIXED)
    found["server_version"] = f"{SERVER_VERSION}-tsdb-{version}"
    found["session_authorization"] = session.user or "postgres"
    found["search_path"] = session.variables.get("search_path", session.database)
    found["timezone"] = session.time_zone
    found |= {name: value for name, value in session.variables.items() if name in _FIXED}
    return dict(sorted(found.items()))
