"""The operational endpoints of every component.

`http.public_endpoints` lists those that need no login. Only `/debug/log_level` changes anything.
"""

from __future__ import annotations

import asyncio
import platform
import socket
from collections.abc import Callable
from html import escape

from tsdb.errors import InvalidArguments
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http.wire import Request, Response
from tsdb.telemetry import METRICS_CONTENT_TYPE, LogSetup, get_logger, render

_log = get_logger("tsdb.http")

_TOML = "application/toml; charset=utf-8"
_HTML = "text/html; charset=utf-8"
_LINKS = ("/health", "/ready", "/status", "/metrics", "/config")


def operational_routes(
    app: HttpApp,
    *,
    component: str,
    version: str,
    commit: str,
    branch: str,
    is_ready: Callable[[], bool | str],
    effective_config: Callable[[], str],
    log_setup: LogSetup,
    has_v1_health: bool = False,
) -> None:
    """Add the routes. `is_ready` returns True, or else a text that says what the process is still doing."""
    status = {
        "commit": commit,
        "branch": branch,
        # Clients expect this key; there is no rustc behind this server's logic.
        "rustc_version": f"Python {platform.python_version()}",
        "python_version": platform.python_version(),
        "hostname": socket.gethostname(),
        "version": version,
        "component": component,
    }
    index = _index_page(component, version).encode()

    async def health(request: Request) -> Response:
        return Response.json({})

    async def ready(request: Request) -> Response:
        state = is_ready()
        if state is True:
            return Response.json({})
        return Response.json({"state": state or "starting"}, status=503)

    async def show_status(request: Request) -> Response:
        return Response.json(status)

    async def show_metrics(request: Request) -> Response:
        text = await asyncio.get_running_loop().run_in_executor(None, render)
        return Response(text, content_type=METRICS_CONTENT_TYPE)

    async def show_config(request: Request) -> Response:
        return Response(effective_config().encode(), content_type=_TOML)

    async def set_log_level(request: Request) -> Response:
        before = log_setup.level
        try:
            log_setup.set_level((await request.body()).decode())
        except ValueError as error:
            raise InvalidArguments(str(error)) from error
        _log.info("the log level was changed", before=before, after=log_setup.level)
        return Response.text(f"Log Level changed from {before} to {log_setup.level}")

    async def show_index(request: Request) -> Response:
        return Response(index, content_type=_HTML)

    app.add("/health", health, methods=("GET", "POST"))
    if has_v1_health:
        app.add("/v1/health", health, methods=("GET", "POST"))
    app.add("/ready", ready, methods=("GET", "POST"))
    app.add("/status", show_status)
    app.add("/metrics", show_metrics)
    app.add("/config", show_config)
    app.add("/debug/log_level", set_log_level, methods=("POST",))
    app.add("/", show_index)


def _index_page(component: str, version: str) -> str:
    title = escape(f"tsdb {component} {version}")
    links = "".join(f'<li><a href="{link}">{link}</a></li>' for link in _LINKS)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><h1>{title}</h1><ul>{links}</ul></body></html>\n"
    )
