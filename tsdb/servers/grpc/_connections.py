"""The number of open gRPC connections.

The gRPC library accepts connections itself and reports them only through channelz, its own statistics, which are
enabled for this. They are read when the gauge is scraped; otherwise they cost one counter per call.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from grpc._cython import cygrpc

from tsdb.telemetry import gauge

OPTION = ("grpc.enable_channelz", 1)
"""Options that a server must be created with."""

_CONNECTIONS = gauge("tsdb_servers_grpc_connections", "Open connections of the gRPC server.")


class OpenConnections:
    """The connections of one server."""

    def __init__(self) -> None:
        self._server: int | None = None
        _counted.add(self)

    def watch(self, make: Callable[[], Any]) -> Any:
        """Make a server, whose connections count from now on instead of those of the one before."""
        before = _server_ids()
        made = make()
        self._server = max(_server_ids() - before, default=None)
        return made

    def count(self) -> int:
        """How many are open now."""
        if self._server is None:
            return 0
        count, start, is_end = 0, 0, False
        while not is_end:
            try:
                page = json.loads(cygrpc.channelz_get_server_sockets(self._server, start, 0))
            except ValueError:  # the server is gone
                return 0
            sockets = [int(each["socketId"]) for each in page.get("socketRef", ())]
            count += len(sockets)
            is_end = page.get("end", False) or not sockets
            start = max(sockets, default=0) + 1
        return count


_counted: WeakSet[OpenConnections] = WeakSet()
_CONNECTIONS.set_function(lambda: sum(each.count() for each in tuple(_counted)))


def _server_ids() -> set[int]:
    """Return the numbers of the servers of this process."""
    found: set[int] = set()
    while True:
        page = json.loads(cygrpc.channelz_get_servers(max(found, default=-1) + 1))
        more = {int(each["ref"]["serverId"]) for each in page.get("server", ())}
        found |= more
        if page.get("end", False) or not more:
            return found
