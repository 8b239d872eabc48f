"""The admin endpoints of a metadata server.

What only the leader knows is answered by the leader; other servers say which one that is (503).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tsdb.meta import Metasrv
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http.wire import Request, Response

_HELP = (
    "GET /admin/heartbeat            what all nodes said with their last heartbeat\n"
    "GET /admin/heartbeat?addr=A     what the node at an address said\n"
)


def metasrv_routes(app: HttpApp, opened: Callable[[], Metasrv]) -> None:
    """Add the routes; `opened` returns the server, or raises while there is none."""

    async def ask(method: str, **request: Any) -> Any:
        """Ask the server, on a thread: it may have to read the store."""
        return (await asyncio.to_thread(lambda: opened().answer(method, request)))["value"]

    async def health(request: Request) -> Response:
        return Response.text("OK\n")

    async def leader(request: Request) -> Response:
        return Response.text(f"{opened().leader_address() or ''}\n")

    async def leases(request: Request) -> Response:
        shown = ("role", "node_id", "address", "is_alive", "heard_ms", "silent_seconds")
        nodes = (await ask("Nodes"))["nodes"]
        return Response.json([{name: node[name] for name in shown} for node in nodes])

    async def heartbeats(request: Request) -> Response:
        address = request.query.get("addr")
        nodes = (await ask("Nodes"))["nodes"]
        return Response.json([node for node in nodes if address in (None, node["address"])])

    async def heartbeat_help(request: Request) -> Response:
        return Response.text(_HELP)

    async def procedures(request: Request) -> Response:
        wanted = request.query.get("id")
        return Response.json(await (ask("Procedure") if wanted is None else ask("Procedure", id=wanted)))

    async def maintenance(request: Request) -> Response:
        return Response.json(await asyncio.to_thread(lambda: opened().maintenance()))

    def switch(is_on: bool) -> Callable[[Request], Any]:
        async def change(request: Request) -> Response:
            return Response.json(await ask("Command", kind="maintenance", is_on=is_on))

        return change

    app.add("/admin/health", health)
    app.add("/admin/leader", leader)
    app.add("/admin/node-lease", leases)
    app.add("/admin/heartbeat", heartbeats)
    app.add("/admin/heartbeat/help", heartbeat_help)
    app.add("/admin/procedures", procedures)
    app.add("/admin/maintenance", maintenance)
    app.add("/admin/maintenance/status", maintenance)
    app.add("/admin/maintenance/enable", switch(True), methods=("POST",))
    app.add("/admin/maintenance/disable", switch(False), methods=("POST",))
