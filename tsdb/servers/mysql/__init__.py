"""The MySQL protocol: statements from any client that speaks it, streamed answers, prepared statements, TLS."""

from __future__ import annotations

from tsdb.servers.mysql._server import MysqlLimits, MysqlServer
from tsdb.servers.mysql._statements import MysqlDatabase

__all__ = ["MysqlDatabase", "MysqlLimits", "MysqlServer"]
