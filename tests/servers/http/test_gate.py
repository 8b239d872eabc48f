"""Requests before the database is open: 503 and when to try again, in the body that the protocol expects."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from google.rpc.status_pb2 import Status as RpcStatus

from tests.servers.http.asgi_client import call
from tsdb.database import DatabaseGate
from tsdb.servers.http import (
    HttpApp,
    influx_routes,
    opentsdb_routes,
    otlp_routes,
    prometheus_api_routes,
    prometheus_remote_routes,
    sql_routes,
)
from tsdb.units import Duration

API = "/v1/prometheus/api/v1"


@pytest.fixture
def app() -> Iterator[HttpApp]:
    made, gate = HttpApp(body_limit=1 << 20, timeout=Duration.of_seconds(30)), DatabaseGate()
    routes = [
        add(made, gate)
        for add in (
            sql_routes,
            influx_routes,
            opentsdb_routes,
            otlp_routes,
            prometheus_api_routes,
            prometheus_remote_routes,
        )
    ]
    yield made
    for each in routes:
        each.close()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/sql?sql=" + quote("SELECT 1"), b""),
        ("GET", "/v1/sql?db=public&sql=" + quote("SELECT 1"), b""),
        ("GET", "/v1/promql?query=up&start=0&end=1&step=1", b""),
        ("GET", f"{API}/query?query=up", b""),
        ("GET", f"{API}/query_range?query=up&start=0&end=1&step=1", b""),
        ("GET", f"{API}/labels", b""),
        ("GET", f"{API}/label/job/values", b""),
        ("GET", f"{API}/series?match[]=up", b""),
        ("GET", f"{API}/metadata", b""),
        ("GET", f"{API}/status/tsdb", b""),
        ("GET", "/v1/prometheus/federate?match[]=up", b""),
        ("POST", "/v1/prometheus/write", b""),
        ("POST", "/v1/prometheus/read", b"\x00"),
        ("POST", "/v1/influxdb/write", b"cpu v=1"),
        ("POST", "/v1/influxdb/write?dry_run=true", b"cpu v=1"),
        ("POST", "/v1/opentsdb/api/put", b'{"metric":"m","timestamp":1,"value":1,"tags":{"a":"b"}}'),
    ],
)
async def test_nothing_reaches_a_database_that_is_not_open(app: HttpApp, method: str, path: str, body: bytes) -> None:
    answer = await call(app, method, path, body=body)
    assert answer.status == 503, answer.body
    assert answer.headers["retry-after"] == "1"
    assert "the server is not ready" in answer.json()["error"]


async def test_otlp_exporters_get_the_body_they_expect(app: HttpApp) -> None:
    answer = await call(app, "POST", "/v1/otlp/v1/metrics")
    assert answer.status == 503
    assert RpcStatus.FromString(answer.body).message.startswith("the server is not ready")


async def test_influx_clients_are_told_that_the_server_is_not_healthy(app: HttpApp) -> None:
    answer = await call(app, "GET", "/v1/influxdb/health")
    assert (answer.status, answer.json()["status"]) == (503, "fail")
    assert "not ready" in answer.json()["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/influxdb/ping",
        "/v1/prometheus/",
        f"{API}/status/buildinfo",
        f"{API}/rules",
        "/v1/opentsdb/api/version",
        "/v1/sql/parse?sql=" + quote("SELECT 1"),
    ],
)
async def test_what_needs_no_database_is_answered(app: HttpApp, path: str) -> None:
    assert (await call(app, "GET", path)).status in (200, 204)
