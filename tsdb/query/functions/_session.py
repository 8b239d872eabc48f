"""Functions that tell what the session has chosen and whom it talks to."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa
from datafusion import ScalarUDF

from tsdb import __version__
from tsdb.query.functions._define import STRING, Function
from tsdb.query.session import Channel, Session

MYSQL_VERSION = f"8.4.2-tsdb-{__version__}"
"""What MySQL clients take for the version of the server; they choose their features by it."""
POSTGRES_VERSION = f"PostgreSQL 16.3 tsdb {__version__}"

_USER_NAMES = ("session_user", "current_user", "user", "session_user__0", "current_user__0", "user__0")
_VERSIONS = {Channel.MYSQL: MYSQL_VERSION, Channel.POSTGRES: POSTGRES_VERSION}


def session_functions(session: Session) -> list[ScalarUDF]:
    """The functions of this session; each holds a constant."""
    database, user = session.database, session.user or "tsdb"
    return [
        _constant("database", database),
        _constant("current_schema", database),
        _constant("current_database", database),
        _constant("version", _VERSIONS.get(session.channel, __version__)),
        _constant("build", f"tsdb {__version__}"),
        _constant("timezone", session.time_zone),
        _constant("read_preference", session.variables.get("read_preference", "leader").upper()),
        *(_constant(name, user) for name in _USER_NAMES),
        _constant("connection_id", session.connection_id & 0xFFFFFFFF, pa.uint32()),
        _constant("pg_backend_pid", session.connection_id, pa.uint64()),
    ]


@lru_cache(maxsize=1024)
def _constant(name: str, value: Any, kind: pa.DataType = STRING) -> ScalarUDF:
    cell = pa.array([value], kind)
    return Function(name, (), kind, lambda: cell, "stable").make()
