"""OpenTSDB by telnet: lines of `put` on a connection that stays open."""

from __future__ import annotations

from tsdb.servers.opentsdb._lines import LINE_BYTES_MAX
from tsdb.servers.opentsdb._server import CONNECTIONS_MAX, OpentsdbServer

__all__ = ["CONNECTIONS_MAX", "LINE_BYTES_MAX", "OpentsdbServer"]
