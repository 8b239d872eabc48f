"""Which operational endpoints need a login when there are users: `http.public_endpoints` and the rights of the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.auth.clients import basic
from tests.servers.http.asgi_client import call
from tsdb.auth import open_authenticator
from tsdb.config import Component, load_config
from tsdb.errors import ConfigError
from tsdb.servers.http import HttpApp, operational_routes
from tsdb.telemetry import LogSetup, setup_logging
from tsdb.units import Duration

USERS = "static_user_provider:cmd:root=p,reader:ro=p,writer:wo=p"
DEFAULT = load_config(Component.STANDALONE, environment={}).config.http.public_endpoints


@pytest.fixture
def log_setup(tmp_path: Path) -> Iterator[LogSetup]:
    setup = setup_logging(app="tsdb-standalone", directory=tmp_path, level="info", append_stdout=False)
    yield setup
    setup.close()


@pytest.fixture
def make(log_setup: LogSetup) -> Iterator[Callable[..., HttpApp]]:
    made: list[HttpApp] = []

    def build(*public: str, provider: str = USERS) -> HttpApp:
        app = HttpApp(
            body_limit=0,
            timeout=Duration(0),
            authenticator=open_authenticator(provider),
            public_endpoints=public or DEFAULT,
        )
        operational_routes(
            app,
            component="standalone",
            version="1",
            commit="",
            branch="",
            is_ready=lambda: True,
            effective_config=lambda: "a = 1\n",
            log_setup=log_setup,
        )
        made.append(app)
        return app

    yield build
    for app in made:
        app.close()


async def status(app: HttpApp, path: str, user: str | None = None) -> int:
    method = "POST" if path.startswith("/debug") else "GET"
    headers = {} if user is None else {"authorization": basic(user, "p")}
    return (await call(app, method, path, headers=headers, body=b"info")).status


async def test_by_default_only_what_probes_and_scrapers_ask_is_public(make: Callable[..., HttpApp]) -> None:
    app = make()
    router = app._router
    found = {path: await status(app, path) for path in router._exact}
    public = {"/", "/health", "/ready", "/status", "/metrics"}
    assert {path for path, code in found.items() if code == 200} == public
    assert {path for path, code in found.items() if code == 401} == {"/config", "/debug/log_level"}


@pytest.mark.parametrize("path", ["/config", "/debug/log_level"])
async def test_administrators_alone_see_the_configuration_and_change_the_log(
    make: Callable[..., HttpApp], path: str
) -> None:
    app = make()
    found = {user: await status(app, path, user) for user in ("root", "reader", "writer", "nobody")}
    assert found == {"root": 200, "reader": 403, "writer": 403, "nobody": 401}


async def test_the_configuration_decides_what_is_public(make: Callable[..., HttpApp]) -> None:
    app = make("/health", "/config")
    found = [await status(app, path) for path in ("/health", "/config", "/metrics", "/debug/log_level")]
    assert found == [200, 200, 401, 401]
    assert await status(app, "/metrics", "reader") == 200, "a login is enough to scrape"


async def test_without_users_everything_is_open(make: Callable[..., HttpApp]) -> None:
    app = make(provider="")
    assert [await status(app, path) for path in ("/config", "/debug/log_level")] == [200, 200]


@pytest.mark.parametrize("text", ["/debug/log_level", "/v1/sql", "health"])
def test_nothing_else_can_be_made_public(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be public"):
        load_config(Component.STANDALONE, environment={"TSDB_STANDALONE__HTTP__PUBLIC_ENDPOINTS": text})
