"""The PostgreSQL protocol: logins, statements with values, rows in text and binary, cursors, COPY, cancellation."""

from __future__ import annotations

from tsdb.servers.postgres._server import CONNECTIONS_MAX, PostgresServer

__all__ = ["CONNECTIONS_MAX", "PostgresServer"]
