"""Requests of few bytes that unpack into millions of empty things are refused before anything is made of them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.database.cases import open_case_database
from tests.servers.http.asgi_client import call
from tsdb.database import DatabaseGate
from tsdb.errors import Cancelled, InvalidArguments
from tsdb.ingest import opentsdb
from tsdb.ingest.otlp import _parsed, parse_logs, parse_metrics, parse_traces
from tsdb.ingest.prometheus import RemoteWriteReader
from tsdb.ingest.prometheus_read import QUERIES_MAX, REQUEST_BYTES_MAX, parse_read_request
from tsdb.servers.http import HttpApp, opentsdb_routes, otlp_routes, prometheus_remote_routes
from tsdb.units import Duration


@pytest.fixture
def app(tmp_path: Path) -> Iterator[HttpApp]:
    local = open_case_database(tmp_path)
    made = HttpApp(body_limit=1 << 20, timeout=Duration(0))
    routes = [
        otlp_routes(made, DatabaseGate(local.database)),
        opentsdb_routes(made, DatabaseGate(local.database)),
        prometheus_remote_routes(made, DatabaseGate(local.database)),
    ]
    yield made
    for each in routes:
        each.close()
    local.close()


def _field(number: int, body: bytes) -> bytes:
    """A field of protobuf that holds bytes."""
    length, size = len(body), bytearray()
    while length >= 0x80:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2]) + bytes(size) + bytes([length]) + body


MANY = b"\x0a\x00" * 5_000_000
_NESTED = {
    "metrics": {
        "resources": MANY,
        "attributes of a resource": _field(1, _field(1, MANY)),
        "scopes": _field(1, b"\x12\x00" * 5_000_000),
        "metrics of a scope": _field(1, _field(2, b"\x12\x00" * 5_000_000)),
        "points": _field(1, _field(2, _field(2, _field(5, MANY)))),
        "attributes of a point": _field(1, _field(2, _field(2, _field(5, _field(1, b"\x3a\x00" * 5_000_000))))),
        "values of an attribute": _field(1, _field(1, _field(1, _field(2, _field(5, MANY))))),
    },
    "traces": {
        "resources": MANY,
        "spans": _field(1, _field(2, b"\x12\x00" * 5_000_000)),
        "events": _field(1, _field(2, _field(2, b"\x5a\x00" * 5_000_000))),
        "links": _field(1, _field(2, _field(2, b"\x6a\x00" * 5_000_000))),
    },
    "logs": {
        "resources": MANY,
        "records": _field(1, _field(2, b"\x12\x00" * 5_000_000)),
        "values of a body": _field(1, _field(2, _field(2, _field(5, _field(5, MANY))))),
    },
}


@pytest.mark.parametrize("signal", _NESTED)
async def test_otlp_counts_messages_before_they_are_made(app: HttpApp, signal: str) -> None:
    headers = {"content-encoding": "gzip", "x-tsdb-pipeline-name": "tsdb_trace_v1"} if signal != "logs" else {}
    headers["content-encoding"] = "gzip"
    for name, body in _NESTED[signal].items():
        answer = await call(
            app, "POST", f"/v1/otlp/v1/{signal}", headers=headers, body=gzip.compress(body, compresslevel=1)
        )
        assert answer.status == 400, name
        assert b"holds more than 2000000 messages" in answer.body, name


@pytest.mark.parametrize(
    "parse", [parse_metrics, parse_traces, lambda body, check: parse_logs(body, now_ns=1, check=check)]
)
def test_parsing_stops_when_nobody_waits_any_more(parse: object) -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise Cancelled("enough")

    assert callable(parse)
    body = _field(1, b"\x12\x00" * 100_000)
    with pytest.raises(Cancelled):
        parse(body, check=check)
    assert asked == 3


def test_what_fits_the_bound_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parsed, "MESSAGES_MAX", 100)
    assert parse_metrics(b"\x0a\x00" * 100).items == 0
    with pytest.raises(InvalidArguments, match="more than 100 messages"):
        parse_metrics(b"\x0a\x00" * 101)


@pytest.mark.parametrize("item", [b"{}", b"[]", b"0"])
async def test_arrays_of_opentsdb_are_bounded(app: HttpApp, item: bytes) -> None:
    count = (opentsdb.VALUES_MAX if item == b"0" else opentsdb.OBJECTS_MAX) + 2
    body = gzip.compress(b"[" + b",".join([item] * count) + b"]", compresslevel=1)
    answer = await call(app, "POST", "/v1/opentsdb/api/put", headers={"content-encoding": "gzip"}, body=body)
    assert answer.status == 400
    assert b"the body holds more than" in answer.body


async def test_remote_read_has_bounded_queries(app: HttpApp) -> None:
    packed = pa.compress(b"\x0a\x00" * (REQUEST_BYTES_MAX // 2 + 1), codec="snappy", asbytes=True)
    answer = await call(app, "POST", "/v1/prometheus/read", body=packed)
    assert (answer.status, b"at most 1048576 bytes" in answer.body) == (400, True)
    with pytest.raises(InvalidArguments, match=f"at most {QUERIES_MAX} queries"):
        parse_read_request(b"\x0a\x00" * (QUERIES_MAX + 1))


def test_remote_write_keeps_a_bounded_number_of_descriptions() -> None:
    samples = RemoteWriteReader(is_strict=True).read(b"\x1a\x00" * 1_000_000, version=1)
    assert len(samples.metadata) == 100_000
