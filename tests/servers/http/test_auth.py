"""Logins over HTTP: every path without, and with wrong, right, restricted, malformed, replayed, unknown credentials."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from tests.auth.clients import basic
from tests.ingest.prometheus_messages import messages, write_request
from tests.servers.http.asgi_client import Answer, Exchange, call
from tsdb.auth import Authenticator, open_authenticator
from tsdb.auth._throttle import PAIR_FAILURES_MAX
from tsdb.components.standalone import Standalone
from tsdb.config import Component, StandaloneConfig, load_config
from tsdb.servers.http import HttpApp, Request, Response
from tsdb.units import Duration

FORM = {"content-type": "application/x-www-form-urlencoded"}
USERS = "static_user_provider:cmd:u=p:w,r:ro=p,w:wo=p,päul=pässword"


def _snappy(body: bytes) -> bytes:
    packed: bytes = pa.compress(body, codec="snappy", asbytes=True)
    return packed


@dataclass(frozen=True)
class Ask:
    """A request that works for those who may make it."""

    method: str
    path: str
    query: str = ""
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    needs: str = ""
    """`read`, `write`, or nothing but a login."""

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path


_SAMPLES = _snappy(write_request([([("__name__", "m")], [(1, 1.0)])]).SerializeToString())
_READ = messages["ReadRequest"]()
_asked = _READ.queries.add(start=0, end=10)
_asked.matchers.add(type=0, name=b"__name__", value=b"m")
_API = "/v1/prometheus/api/v1"

ASKS = [
    *(Ask(method, "/v1/sql", "sql=SELECT%201", needs="read", headers=FORM) for method in ("GET", "POST")),
    Ask(
        "POST",
        "/v1/sql",
        body=b"sql=CREATE+TABLE+IF+NOT+EXISTS+x(ts+TIMESTAMP+TIME+INDEX)",
        needs="write",
        headers=FORM,
    ),
    *(
        Ask(method, f"/v1/sql/{what}", "sql=SELECT%201", headers=FORM)
        for what in ("parse", "format")
        for method in ("GET", "POST")
    ),
    Ask("POST", "/v1/influxdb/write", body=b"m v=1 1", needs="write"),
    Ask("POST", "/v1/influxdb/api/v2/write", "bucket=public", body=b"m v=1 1", needs="write"),
    Ask("POST", "/v1/influxdb/api/v3/write_lp", "db=public", body=b"m v=1 1", needs="write"),
    Ask("POST", "/v1/prometheus/write", body=_SAMPLES, needs="write"),
    Ask("POST", "/v1/prometheus/read", body=_snappy(_READ.SerializeToString()), needs="read"),
    Ask("POST", "/v1/opentsdb/api/put", body=b'{"metric":"o","timestamp":1,"value":1,"tags":{}}', needs="write"),
    Ask(
        "POST",
        "/v1/opentsdb/api/put",
        "details",
        body=b'{"metric":"o","timestamp":1,"value":1,"tags":{}}',
        needs="write",
    ),
    *(Ask(method, "/v1/opentsdb/api/version") for method in ("GET", "POST")),
    Ask(
        "POST",
        "/v1/otlp/v1/metrics",
        body=bytes.fromhex("0a1c121a12180a016d2a1312110900000000000000001900000000000000"),
        needs="write",
    ),
    Ask("POST", "/v1/otlp/v1/logs", body=b"", needs=""),
    Ask("POST", "/v1/otlp/v1/traces", body=b"", headers={"x-tsdb-pipeline-name": "tsdb_trace_v1"}, needs=""),
    *(
        Ask(method, f"{_API}/{what}", query, needs="read", headers=FORM)
        for what, query in (
            ("query", "query=m"),
            ("query", "query=1"),
            ("query_range", "query=m&start=0&end=1&step=1"),
            ("labels", ""),
            ("series", "match[]=m"),
        )
        for method in ("GET", "POST")
    ),
    *(
        Ask(method, f"{_API}/label/{name}/values", needs="read", headers=FORM)
        for name in ("host", "__name__", "__database__", "__field__")
        for method in ("GET", "POST")
    ),
    Ask("GET", f"{_API}/metadata", needs="read"),
    *(Ask(method, "/v1/prometheus/federate", "match[]=m", needs="read", headers=FORM) for method in ("GET", "POST")),
    *(Ask("GET", f"{_API}/status/{what}") for what in ("config", "flags", "runtimeinfo")),
    Ask("GET", f"{_API}/status/tsdb", needs="read"),
    # The same under the paths of Prometheus itself
    Ask("POST", "/api/v1/write", body=_SAMPLES, needs="write"),
    Ask("POST", "/api/v1/read", body=_snappy(_READ.SerializeToString()), needs="read"),
    Ask("GET", "/api/v1/query", "query=m", needs="read"),
    Ask("GET", "/api/v1/label/host/values", needs="read"),
    Ask("GET", "/federate", "match[]=m", needs="read"),
    *(Ask(method, "/v1/promql", "query=m&start=0&end=1&step=1", needs="read") for method in ("GET", "POST")),
]


class World:
    """A standalone server without sockets."""

    def __init__(self, directory: Path, provider: str) -> None:
        options = {"storage.data_home": str(directory), "logging.dir": str(directory / "logs")}
        variables = {f"TSDB_STANDALONE__{key.upper().replace('.', '__')}": value for key, value in options.items()}
        config = load_config(Component.STANDALONE, environment=variables).config
        assert isinstance(config, StandaloneConfig)
        self.authenticator: Authenticator = open_authenticator(provider)
        self.app = HttpApp(body_limit=1 << 20, timeout=Duration.of_seconds(30), authenticator=self.authenticator)
        self.parts = Standalone(config)
        self.parts.add_routes(self.app)
        self.parts.open()

    def close(self) -> None:
        self.app.close()
        self.parts.close()

    async def ask(self, ask: Ask, **headers: str) -> Answer:
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        return await call(self.app, ask.method, ask.target, headers={**ask.headers, **told}, body=ask.body)

    @property
    def paths(self) -> set[tuple[str, str]]:
        """Every path and method that there is."""
        router = self.app._router
        found = {(method, path) for path, methods in router._exact.items() for method in methods}
        return found | {(method, f"{prefix}x") for prefix, methods in router._prefixes for method in methods}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("auth"), USERS)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _forgiven(world: World) -> None:
    """Every test begins without failed logins: all come from one address."""
    world.authenticator._throttle.__init__()  # type: ignore[misc]


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[HttpApp]:
    """An application with one route, where nothing behind it is needed."""
    app = HttpApp(body_limit=100, timeout=Duration.of_seconds(5), authenticator=open_authenticator(USERS))

    async def hello(request: Request) -> Response:
        return Response.text(f"{request.user}")

    for path in ("/v1/x", "/v1/influxdb/write", "/v1/health", "/v1/influxdb/ping", "/v1/influxdb/health", "/health"):
        app.add(path, hello, methods=("GET", "POST"))
    yield app
    app.close()


_ids = [f"{each.method} {each.path} {each.query[:20]}" for each in ASKS]


async def test_every_path_below_v1_needs_a_login(world: World) -> None:
    open_paths = {"/v1/influxdb/ping", "/v1/influxdb/health"}
    for method, path in world.paths:
        answer = await call(world.app, method, path, headers=FORM, body=b"")
        is_refused = answer.status == 401
        assert is_refused == (path.startswith("/v1/") and path not in open_paths), (method, path)


def test_every_path_that_reads_or_writes_is_among_the_tried_ones(world: World) -> None:
    tried = {(each.method, each.path.replace("/label/host/values", "/label/x")) for each in ASKS}
    rest = {path for pair in world.paths - tried for path in [pair[1]] if path.startswith("/v1/")}
    harmless = (
        *("buildinfo", "format_query", "parse_query", "query_exemplars", "rules", "alerts", "alertmanagers"),
        *("targets", "targets/metadata", "scrape_pools", "/v1/influxdb/ping", "/v1/influxdb/health"),
    )
    left = {path for path in rest if not path.endswith(harmless) and path.count("/status/") == 0}
    assert left <= {"/v1/prometheus", "/v1/prometheus/", "/v1/prometheus/-/healthy", "/v1/prometheus/-/ready"} | {
        f"{_API}/{name}" for name in ("metadata", "labels")
    }


@pytest.mark.parametrize("ask", ASKS, ids=_ids)
async def test_no_wrong_unknown_and_malformed_credentials_are_refused(world: World, ask: Ask) -> None:
    for code, headers in (
        (7003, {}),
        (7002, {"authorization": basic("u", "x")}),
        (7002, {"authorization": basic("nobody", "p")}),
        (7002, {"authorization": basic("u", "p:w ")}),
        (7004, {"authorization": "Basic %%%"}),
        (7004, {"authorization": "Digest abc"}),
        (7001, {"authorization": "Bearer abc"}),
        (1004, {"authorization": basic("u", "")}),
    ):
        answer = await world.ask(ask, **headers)
        assert answer.status == 401, headers
        body = answer.json()
        assert body["code"] == code
        assert set(body) == {"code", "error", "execution_time_ms"}
        assert answer.headers["x-tsdb-err-code"] == str(code)
        assert answer.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize("ask", ASKS, ids=_ids)
async def test_right_credentials_are_let_in_as_far_as_their_mode_goes(world: World, ask: Ask) -> None:
    assert (await world.ask(ask, authorization=basic("u", "p:w"))).status in (200, 204), "both rights"
    reader = await world.ask(ask, authorization=basic("r", "p"))
    writer = await world.ask(ask, authorization=basic("w", "p"))
    assert (reader.status == 403) == (ask.needs == "write")
    assert (writer.status == 403) == (ask.needs == "read")
    for refused in (reader, writer):
        if refused.status == 403 and "otlp" not in ask.path:
            assert refused.headers["x-tsdb-err-code"] == "7006"
            assert "not authorized" in refused.json()["error"]


@pytest.mark.parametrize("what", ["metrics", "logs"])
async def test_otlp_takes_nothing_from_those_who_may_not_write(world: World, what: str) -> None:
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    if what == "metrics":
        data = MetricsData()
        point = data.resource_metrics.add().scope_metrics.add().metrics.add(name="otel")
        point.gauge.data_points.add(time_unix_nano=1, as_double=1.0)
        body = data.SerializeToString()
    else:
        logs = LogsData()
        logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1)
        body = logs.SerializeToString()
    ask = Ask("POST", f"/v1/otlp/v1/{what}", body=body)
    assert (await world.ask(ask, authorization=basic("r", "p"))).status == 403
    assert (await world.ask(ask, authorization=basic("w", "p"))).status == 200


@pytest.mark.parametrize("name", ["authorization", "x-tsdb-auth", "x-greptime-auth"])
@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC"])
async def test_basic_is_read_from_any_of_its_headers_in_any_case(closed: HttpApp, name: str, scheme: str) -> None:
    value = basic("u", "p:w").replace("Basic", scheme)
    answer = await call(closed, "GET", "/v1/x", headers={name: value})
    assert (answer.status, answer.body) == (200, b"u")


async def test_the_own_header_wins_over_authorization(closed: HttpApp) -> None:
    headers = {"x-greptime-auth": basic("r", "p"), "authorization": basic("u", "wrong")}
    assert (await call(closed, "GET", "/v1/x", headers=headers)).body == b"r"
    headers = {"x-greptime-auth": basic("r", "wrong"), "authorization": basic("u", "p:w")}
    assert (await call(closed, "GET", "/v1/x", headers=headers)).status == 401


async def test_names_and_passwords_may_be_any_utf8(closed: HttpApp) -> None:
    answer = await call(closed, "GET", "/v1/x", headers={"authorization": basic("päul", "pässword")})
    assert answer.body == "päul".encode()


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Basic",
        "Basic ",
        "Basic =",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
        "Basic " + base64.b64encode(b"u:p:w").decode()[:-3] + "!",
        "Token u:p:w",
        "u:p:w",
        "Basic " + "A" * 100_000,
    ],
)
async def test_credentials_that_cannot_be_read_are_refused(closed: HttpApp, value: str) -> None:
    answer = await call(closed, "GET", "/v1/x", headers={"authorization": value})
    assert answer.status == 401
    assert answer.json()["code"] in (7004, 1004)


@pytest.mark.parametrize(
    ("query", "headers", "expected"),
    [
        ("u=u&p=p:w", {}, 200),
        ("u=u&p=" + quote("p:w"), {}, 200),
        ("", {"authorization": "Token u:p:w"}, 200),
        ("", {"authorization": "Bearer u:p:w"}, 200),
        ("", {"authorization": "Bearer u:wrong"}, 7002),
        ("", {"authorization": "token u:p:w"}, 200),
        ("", {"authorization": basic("u", "p:w")}, 200),
        ("u=u&p=wrong", {"authorization": basic("u", "p:w")}, 200),
        ("u=u&p=p:w", {"authorization": "Token u:wrong"}, 7002),
        ("u=u&p=wrong", {}, 7002),
        ("u=nobody&p=x", {}, 7002),
        ("u=u", {}, 7004),
        ("p=p", {}, 7004),
        ("u=&p=", {}, 1004),
        ("", {"authorization": "Token abc"}, 7004),
        ("", {"x-greptime-auth": basic("u", "p:w")}, 7003),
        ("", {}, 7003),
    ],
)
async def test_paths_of_influxdb_know_tokens_and_parameters(
    closed: HttpApp, query: str, headers: dict[str, str], expected: int
) -> None:
    answer = await call(closed, "POST", f"/v1/influxdb/write?{query}", headers=headers, body=b"")
    assert (answer.status if answer.status == 200 else answer.json()["code"]) == expected


async def test_parameters_and_tokens_are_known_nowhere_else(closed: HttpApp) -> None:
    assert (await call(closed, "GET", "/v1/x?u=u&p=p:w")).json()["code"] == 7003


@pytest.mark.parametrize("path", ["/health", "/v1/health", "/v1/influxdb/ping", "/v1/influxdb/health"])
async def test_some_paths_are_open_even_with_wrong_credentials(closed: HttpApp, path: str) -> None:
    assert (await call(closed, "GET", path)).status == 200
    assert (await call(closed, "GET", path, headers={"authorization": basic("u", "x")})).status == 200


async def test_a_body_is_not_read_before_its_sender_is_known(closed: HttpApp) -> None:
    exchange = Exchange(closed, "POST", "/v1/x", {"content-length": "50"})
    exchange.leave()
    answer = await exchange.finish()
    assert answer.status == 401
    assert exchange.received_before_answer == 0


async def test_a_body_that_is_too_large_is_told_only_to_those_who_may_send_one(closed: HttpApp) -> None:
    headers = {"content-length": "1000"}
    assert (await call(closed, "POST", "/v1/x", headers=headers, body=b"x" * 1000)).status == 401
    headers["authorization"] = basic("u", "p:w")
    answer = await call(closed, "POST", "/v1/x", headers=headers, body=b"x" * 1000)
    assert answer.status in (200, 413)


async def test_too_many_failures_are_answered_429_with_the_time_to_wait(closed: HttpApp) -> None:
    for _ in range(PAIR_FAILURES_MAX):
        assert (await call(closed, "GET", "/v1/x", headers={"authorization": basic("u", "x")})).status == 401
    answer = await call(closed, "GET", "/v1/x", headers={"authorization": basic("u", "p:w")})
    assert answer.status == 429
    assert answer.json()["code"] == 6001
    assert int(answer.headers["retry-after"]) >= 1
    assert (await call(closed, "GET", "/v1/x", headers={"authorization": basic("r", "p")})).status == 200


async def test_credentials_are_worth_nothing_once_they_were_changed(tmp_path: Path) -> None:
    """A replayed request is let in as long as its password is right, and no longer."""
    users = tmp_path / "users"
    users.write_text("u=first\n")
    app = HttpApp(
        body_limit=100,
        timeout=Duration.of_seconds(5),
        authenticator=open_authenticator(f"watch_file_user_provider:{users}"),
    )

    async def hello(request: Request) -> Response:
        return Response.text("hello")

    app.add("/v1/x", hello)
    old = {"authorization": basic("u", "first")}
    assert (await call(app, "GET", "/v1/x", headers=old)).status == 200
    assert (await call(app, "GET", "/v1/x", headers=old)).status == 200
    users.write_text("u=second\n")
    assert (await call(app, "GET", "/v1/x", headers=old)).status == 401
    assert (await call(app, "GET", "/v1/x", headers={"authorization": basic("u", "second")})).status == 200
    app.close()


async def test_without_a_provider_nobody_is_asked_and_headers_are_ignored(tmp_path: Path) -> None:
    app = HttpApp(body_limit=100, timeout=Duration.of_seconds(5))

    async def hello(request: Request) -> Response:
        return Response.text(f"{request.user}")

    app.add("/v1/x", hello)
    for headers in ({}, {"authorization": "nonsense"}, {"authorization": basic("u", "x")}):
        answer = await call(app, "GET", "/v1/x", headers=headers)
        assert (answer.status, answer.body) == (200, b"None")
    app.close()


async def test_a_request_runs_as_its_user(world: World) -> None:
    ask = Ask("GET", "/v1/sql", "sql=" + quote("SELECT current_user()"))
    answer = await world.ask(ask, authorization=basic("r", "p"))
    assert answer.json()["output"][0]["records"]["rows"] == [["r"]]


async def test_lines_of_two_users_are_never_written_as_one(world: World) -> None:
    import asyncio

    ask = Ask("POST", "/v1/influxdb/write", body=b"together v=1 1")
    answers = await asyncio.gather(
        *(world.ask(ask, authorization=basic(user, "p")) for _ in range(20) for user in ("r", "w"))
    )
    assert [each.status for each in answers] == [403, 204] * 20
