"""`/v1/influxdb/…` in front of a real database: bodies as clients pack them, and what happens when there is no room."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.database.cases import open_case_database, render
from tests.servers.http.asgi_client import Answer, call
from tsdb.clock import ManualClock
from tsdb.components._local import LocalDatabase
from tsdb.components.standalone import Standalone
from tsdb.config import StandaloneConfig
from tsdb.database import DatabaseGate, Session, read_all
from tsdb.servers.http import HttpApp, influx_routes
from tsdb.servers.http.ingest._request import IngestTuning
from tsdb.telemetry import render as render_metrics
from tsdb.units import Duration

NOW_NS = 1_700_000_000_000_000_000


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalDatabase]:
    made = open_case_database(tmp_path)
    yield made
    made.close()


@pytest.fixture
def app(local: LocalDatabase) -> Iterator[HttpApp]:
    made = HttpApp(body_limit=1_000_000, timeout=Duration(0))
    routes = influx_routes(made, DatabaseGate(local.database), clock=ManualClock(NOW_NS))
    yield made
    routes.close()


async def write(app: HttpApp, body: bytes, path: str = "/v1/influxdb/write", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await call(app, "POST", path, headers=named, body=body)


def rows(local: LocalDatabase, sql: str) -> list[str]:
    (output,) = list(local.database.execute(sql, Session()))
    assert hasattr(output, "schema")
    return render(read_all(output))[1:]


def pack(codec: str, body: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


async def test_bodies_are_unpacked_as_their_header_says(app: HttpApp, local: LocalDatabase) -> None:
    packed = {
        "gzip": gzip.compress(b"m,how=gzip v=1 1"),
        "deflate": zlib.compress(b"m,how=deflate v=1 1"),
        "zstd": pack("zstd", b"m,how=zstd v=1 1"),
        "br": pack("brotli", b"m,how=br v=1 1"),
        "identity": b"m,how=identity v=1 1",
    }
    for encoding, body in packed.items():
        assert (await write(app, body, content_encoding=encoding)).status == 204, encoding
    assert rows(local, "SELECT how FROM m ORDER BY how") == ["br", "deflate", "gzip", "identity", "zstd"]


async def test_a_body_that_cannot_be_unpacked_is_refused(app: HttpApp) -> None:
    whole = gzip.compress(b"m v=1 1\n" * 1000)
    for encoding, body in (("gzip", b"m v=1 1"), ("gzip", whole[:-9]), ("zstd", b"m v=1 1"), ("br", b"\xff" * 9)):
        answer = await write(app, body, content_encoding=encoding)
        assert answer.status == 400, encoding
        assert "decompress" in answer.json()["error"]


async def test_a_small_body_that_becomes_a_large_one_is_refused(local: LocalDatabase) -> None:
    app = HttpApp(body_limit=0, timeout=Duration(0))
    routes = influx_routes(app, DatabaseGate(local.database), tuning=IngestTuning(unpacked_bytes_max=10_000))
    bomb = b"m v=1 1\n" * 100_000
    for encoding, body in (("gzip", gzip.compress(bomb)), ("zstd", pack("zstd", bomb)), ("br", pack("brotli", bomb))):
        assert (await write(app, body, content_encoding=encoding)).status == 413, encoding
    routes.close()


async def test_a_body_over_the_limit_is_refused_before_it_is_read(app: HttpApp) -> None:
    assert (await write(app, b"#" * 1_000_001)).status == 413


async def test_when_there_is_no_room_the_sender_is_told_when_to_try_again(app: HttpApp, local: LocalDatabase) -> None:
    assert (await write(app, b"m v=1 1")).status == 204
    buffer = local.engine.context.buffer
    buffer.charge(int(buffer.reject_size))
    answer = await write(app, b"m v=2 2")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert "the write buffer is full" in answer.json()["error"]
    buffer.charge(-int(buffer.reject_size))
    assert (await write(app, b"m v=2 2")).status == 204
    assert rows(local, "SELECT v FROM m ORDER BY v") == ["1.0", "2.0"]


async def test_lines_without_a_time_are_of_now(app: HttpApp, local: LocalDatabase) -> None:
    assert (await write(app, b"m v=1")).status == 204
    assert rows(local, "SELECT tsdb_timestamp FROM m") == ["2023-11-14T22:13:20.000000000"]


async def test_clients_of_version_1_learn_a_version_from_ping(app: HttpApp) -> None:
    answer = await call(app, "GET", "/v1/influxdb/ping")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["x-influxdb-version"].startswith("1.8.")
    assert (await call(app, "HEAD", "/v1/influxdb/ping")).status == 204


async def test_clients_of_version_2_learn_that_all_is_well(app: HttpApp) -> None:
    health = (await call(app, "GET", "/v1/influxdb/health")).json()
    assert (health["name"], health["status"]) == ("tsdb", "pass")


async def test_errors_have_the_short_body_and_the_code_in_a_header(app: HttpApp) -> None:
    answer = await write(app, b"m v=1 1\nm,host= v=1 1\nm v 1")
    assert (answer.status, list(answer.json())) == (400, ["error"])
    assert answer.headers["x-tsdb-err-code"] == "2000"
    await write(app, b"m v=1 1")
    answer = await write(app, b'm v="x" 1')
    assert (answer.status, answer.headers["x-tsdb-err-code"]) == (400, "1004")


def count(family: str, labels: str) -> float:
    line = f"{family}{{{labels}}} "
    return sum(float(each.split()[-1]) for each in render_metrics().decode().splitlines() if each.startswith(line))


async def test_accepted_and_rejected_rows_are_counted(app: HttpApp) -> None:
    accepted = count("tsdb_ingest_rows_total", 'protocol="influxdb"')
    syntax = count("tsdb_ingest_rejected_rows_total", 'protocol="influxdb",reason="syntax"')
    types = count("tsdb_ingest_rejected_rows_total", 'protocol="influxdb",reason="type"')
    await write(app, b"m v=1 1\nm v=1 2")
    await write(app, b"m v=1 1\nm v=")
    await write(app, b'm v="x" 1\nm v="y" 2')
    assert count("tsdb_ingest_rows_total", 'protocol="influxdb"') == accepted + 2
    assert count("tsdb_ingest_rejected_rows_total", 'protocol="influxdb",reason="syntax"') == syntax + 1
    assert count("tsdb_ingest_rejected_rows_total", 'protocol="influxdb",reason="type"') == types + 2


async def test_the_protocol_is_served_as_configured_and_says_when_it_is_not_ready() -> None:
    for is_enabled, status in ((True, 204), (False, 404)):
        app = HttpApp(body_limit=0, timeout=Duration(0))
        parts = Standalone(StandaloneConfig.model_validate({"influxdb": {"enable": is_enabled}}))
        parts.add_routes(app)
        assert (await call(app, "GET", "/v1/influxdb/ping")).status == status
        if is_enabled:
            answer = await write(app, b"m v=1 1")
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            health = await call(app, "GET", "/v1/influxdb/health")
            assert (health.status, health.json()["status"]) == (503, "fail")
        parts.close()
