"""The OpenTSDB telnet protocol: lines of `put` on a persistent connection."""

from tsdb.servers.opentsdb._lines import LINE_BYTES_MAX
from tsdb.servers.opentsdb._server import OpentsdbServer

__all__ = ["LINE_BYTES_MAX", "OpentsdbServer"]
