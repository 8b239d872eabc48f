"""The MySQL protocol: statements from any client that speaks it, streamed answers, prepared statements, TLS."""

from tsdb.servers.mysql._limits import MysqlLimits
from tsdb.servers.mysql._server import MysqlServer

__all__ = ["MysqlLimits", "MysqlServer"]
