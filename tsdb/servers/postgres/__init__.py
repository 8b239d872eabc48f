"""The PostgreSQL protocol: logins, statements with values, rows in text and binary, cursors, COPY, cancellation."""

from tsdb.servers.postgres._server import PostgresServer

__all__ = ["PostgresServer"]
