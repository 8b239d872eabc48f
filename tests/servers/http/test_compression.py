"""Answers in a content coding: the one that the client asks for, and the same bytes as without."""

from __future__ import annotations

import asyncio
import re
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers.http.asgi_client import Answer, Exchange, call
from tests.servers.http.sql_database import MadeRecords, ScriptedDatabase, rows
from tests.servers.http.test_prometheus_api import World
from tests.servers.http.test_server import serving
from tsdb.database import DatabaseGate
from tsdb.errors import InvalidSyntax
from tsdb.servers.http import HttpApp, HttpServer, Request, Response, StreamingResponse, sql_routes
from tsdb.servers.http.wire import _compression as module
from tsdb.servers.http.wire import _reply as reply_module
from tsdb.servers.http.wire._compression import ACCEPTED_CHARS_MAX, BODY_BYTES_MIN, INLINE_BYTES_MAX, choose_coding
from tsdb.units import Duration

pytestmark = pytest.mark.timeout(60)

LINES = b"".join(b"h%d,%d\n" % (at % 7, at) for at in range(40_000))
"""More than the event loop compresses itself."""
CODINGS = ("gzip", "zstd")


def unpack(body: bytes, coding: str | None) -> bytes:
    if coding is None:
        return body
    if coding == "gzip":
        unpacker = zlib.decompressobj(31)
        unpacked = unpacker.decompress(body)
        assert (unpacker.eof, unpacker.unused_data) == (True, b"")
        return unpacked
    with pa.CompressedInputStream(pa.BufferReader(body), coding) as stream:
        found: bytes = stream.read()
        return found


def unpacked(answer: Answer) -> bytes:
    return unpack(answer.body, answer.headers.get("content-encoding"))


def whole(body: bytes = LINES, **options: object) -> Callable[[Request], Awaitable[Response]]:
    async def handler(request: Request) -> Response:
        return Response(body, content_type="text/csv", **options)  # type: ignore[arg-type]

    return handler


def streamed(
    *chunks: bytes, error: Exception | None = None, **options: object
) -> Callable[[Request], Awaitable[StreamingResponse]]:
    async def pieces() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
        if error is not None:
            raise error

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(pieces(), content_type="text/csv", **options)  # type: ignore[arg-type]

    return handler


def app_of(handler: Callable[..., Awaitable[Response | StreamingResponse]]) -> HttpApp:
    app = HttpApp(body_limit=0, timeout=Duration(0))
    app.add("/x", handler)
    return app


async def ask(
    handler: Callable[..., Awaitable[Response | StreamingResponse]], accepted: str, method: str = "GET"
) -> Answer:
    return await call(app_of(handler), method, "/x", headers={"accept-encoding": accepted})


# Negotiation


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("GZip", "gzip"),
        ("x-gzip", "gzip"),
        ("gzip, zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, deflate", "gzip"),
        ("gzip;q=1.0, zstd;q=0.9", "gzip"),
        ("gzip;q=0.5, zstd;q=0.5", "zstd"),
        ("gzip;q=0.001", "gzip"),
        ("gzip ; q=0.8 ,\tzstd; Q=0.2", "gzip"),
        ("gzip,,zstd;q=0", "gzip"),
        ("*", "zstd"),
        ("*;q=0.1", "zstd"),
        ("zstd;q=0, *", "gzip"),
        ("gzip, *;q=0", "gzip"),
        ("gzip;q=0.2, *;q=0.4", "zstd"),
        ("identity, gzip", "gzip"),
        ("identity;q=0.5, gzip", "gzip"),
        ("identity;q=0, gzip", "gzip"),
        ("", None),
        ("identity", None),
        ("identity;q=0", None),
        ("*;q=0", None),
        ("gzip;q=0", None),
        ("gzip;q=0.000, zstd;q=0", None),
        ("gzip;q=0.5, identity", None),
        ("gzip;q=0.5, zstd;q=0.5, *", None),
        ("br, deflate, compress", None),
        ("gzip;q=2", None),
        ("gzip;q=0.1234", None),
        ("gzip;q=much", None),
        ("gzip;level=1", None),
        ("gzip zstd", None),
        ("gzip" + " " * ACCEPTED_CHARS_MAX, None),
    ],
)
def test_the_coding_is_the_one_that_the_client_prefers(accepted: str, coding: str | None) -> None:
    assert choose_coding(accepted) == coding


@given(st.text(st.sampled_from("gzipstdq=;,.*01 \t-é\x00"), max_size=60))
def test_any_header_has_an_outcome(accepted: str) -> None:
    assert choose_coding(accepted) in (*CODINGS, None)


async def test_several_headers_are_one_list() -> None:
    async with serving(("GET", "/x", whole())) as server, httpx.AsyncClient(trust_env=False) as client:
        headers = [("accept-encoding", "gzip"), ("accept-encoding", "identity;q=0.5")]
        answer = await client.get(f"http://{server.address}/x", headers=headers)
        assert (answer.headers["content-encoding"], answer.content) == ("gzip", LINES)


# Whole bodies


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("size", [BODY_BYTES_MIN, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, len(LINES)])
async def test_a_whole_body_is_compressed(coding: str, size: int) -> None:
    answer = await ask(whole(LINES[:size]), coding)
    assert unpack(answer.body, coding) == LINES[:size]
    assert answer.headers == {
        "content-type": "text/csv",
        "content-encoding": coding,
        "vary": "accept-encoding",
        "content-length": str(len(answer.body)),
    }


@pytest.mark.parametrize(
    "handler",
    [
        whole(LINES[: BODY_BYTES_MIN - 1]),
        whole(b""),
        whole(b"", status=204),
        whole(b"", status=304),
        whole(headers=[("content-encoding", "snappy")]),
        whole(is_packed=True),
        streamed(LINES, LINES, is_packed=True),
        streamed(LINES, headers=[("Content-Encoding", "snappy")]),
    ],
)
async def test_what_gains_nothing_is_sent_as_without_the_header(
    handler: Callable[..., Awaitable[Response | StreamingResponse]],
) -> None:
    answer = await ask(handler, "gzip, zstd")
    plain = await call(app_of(handler), "GET", "/x")
    assert (answer.status, answer.headers, answer.body) == (plain.status, plain.headers, plain.body)


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_body_that_does_not_shrink_is_sent_as_it_is(coding: str) -> None:
    noise = Random(1).randbytes(4 * BODY_BYTES_MIN)
    answer = await ask(whole(noise), coding)
    assert (answer.body, answer.headers["vary"]) == (noise, "accept-encoding")
    assert "content-encoding" not in answer.headers


@pytest.mark.parametrize("handler", [whole(), streamed(LINES)])
@pytest.mark.parametrize("accepted", ["identity", "", "br", "*;q=0"])
async def test_an_answer_that_could_have_been_compressed_says_so(
    handler: Callable[..., Awaitable[Response | StreamingResponse]], accepted: str
) -> None:
    answer = await ask(handler, accepted)
    assert (answer.body, answer.headers["vary"]) == (LINES, "accept-encoding")
    assert "content-encoding" not in answer.headers


async def test_errors_are_compressed_like_other_answers() -> None:
    async def fail(request: Request) -> Response:
        raise InvalidSyntax("x" * 2000)

    answer = await ask(fail, "gzip")
    assert (answer.status, answer.headers["content-encoding"]) == (400, "gzip")
    assert b"x" * 2000 in unpacked(answer)


@pytest.mark.parametrize("handler", [whole(), streamed(LINES, LINES)])
async def test_a_request_without_the_header_costs_nothing(
    handler: Callable[..., Awaitable[Response | StreamingResponse]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_module, "compress", None)
    answer = await call(app_of(handler), "GET", "/x")
    assert answer.body.startswith(LINES)
    assert not {"vary", "content-encoding"} & set(answer.headers)


@pytest.mark.parametrize("accepted", ["gzip", "zstd", "identity", "gzip;q=0"])
@pytest.mark.parametrize(
    "handler", [whole(), whole(b"small"), streamed(LINES, LINES), streamed(b"small"), whole(is_packed=True)]
)
async def test_head_has_the_headers_of_get(
    handler: Callable[..., Awaitable[Response | StreamingResponse]], accepted: str
) -> None:
    head, get = await ask(handler, accepted, "HEAD"), await ask(handler, accepted)
    assert (head.status, head.headers, head.body) == (get.status, get.headers, b"")


# Streams


@pytest.mark.parametrize("coding", CODINGS)
@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(0, 3000) | st.sampled_from([INLINE_BYTES_MAX, 200_000]), max_size=6))
def test_a_stream_decodes_to_its_chunks(coding: str, sizes: list[int]) -> None:
    chunks = [LINES[at : at + size] for at, size in enumerate(sizes)]
    answer = asyncio.run(ask(streamed(*chunks), coding))
    assert answer.is_complete
    assert unpacked(answer) == b"".join(chunks)
    assert ("content-encoding" in answer.headers) == (sum(sizes) >= BODY_BYTES_MIN)
    assert ("vary" in answer.headers) == (sum(sizes) >= BODY_BYTES_MIN)


@pytest.mark.parametrize("coding", CODINGS)
async def test_rows_arrive_as_they_come(coding: str) -> None:
    goes_on = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield LINES[:100]
        yield LINES[100:5000]
        await goes_on.wait()
        yield b"the end"

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(pieces())

    async with serving(("GET", "/x", handler)) as server, httpx.AsyncClient(trust_env=False) as client:
        headers = {"accept-encoding": coding}
        async with client.stream("GET", f"http://{server.address}/x", headers=headers) as answer:
            raw = answer.aiter_raw()
            packed = await anext(raw)
            assert partly_unpacked(packed, coding) == LINES[:5000]
            goes_on.set()
            packed += b"".join([piece async for piece in raw])
    assert unpack(packed, coding) == LINES[:5000] + b"the end"


def partly_unpacked(packed: bytes, coding: str) -> bytes:
    """All that can be decoded of a body that goes on."""
    if coding == "gzip":
        return zlib.decompressobj(31).decompress(packed)
    found = b""
    stream = pa.CompressedInputStream(pa.BufferReader(packed), coding)
    while piece := stream.read(1):
        found += piece
        if len(found) == 5000:
            break
    return found


@pytest.mark.parametrize("coding", CODINGS)
async def test_an_error_of_a_stream_midway_cuts_it(coding: str) -> None:
    handler = streamed(LINES, LINES, error=InvalidSyntax("bad"))
    answer = await ask(handler, coding)
    assert (answer.status, answer.is_complete) == (200, False)
    async with serving(("GET", "/x", handler)) as server, httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"http://{server.address}/x", headers={"accept-encoding": coding})


async def test_an_error_before_a_stream_is_large_is_answered_as_an_error() -> None:
    answer = await ask(streamed(b"some", error=InvalidSyntax("bad")), "gzip")
    assert (answer.status, answer.is_complete) == (400, True)


@pytest.mark.parametrize("size", [10, len(LINES)])
async def test_the_iterator_of_a_stream_is_closed_when_its_reader_is_gone(size: int) -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            yield LINES[:size]
            begun.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(pieces())

    exchange = Exchange(app_of(handler), "GET", "/x", {"accept-encoding": "zstd"})
    async with asyncio.timeout(10):
        await begun.wait()
        exchange.leave()
        await exchange.finish()
    assert closed.is_set()


@pytest.mark.parametrize("size", [INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1])
@pytest.mark.parametrize("coding", CODINGS)
async def test_the_event_loop_compresses_only_what_is_small(
    coding: module.Coding, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def pack(body: bytes) -> bytes:
        threads.append(threading.current_thread())
        return body[:-1]

    class Compressor:
        compress = staticmethod(pack)

        def finish(self) -> bytes:
            return b""

    monkeypatch.setitem(module._PACK, coding, pack)
    monkeypatch.setitem(module._COMPRESSORS, coding, Compressor)
    for handler in (whole(LINES[:size]), streamed(LINES[:size])):
        await ask(handler, coding)
    assert [each is threading.main_thread() for each in threads] == [size <= INLINE_BYTES_MAX] * 2


# Clients


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_connection_is_used_again_after_a_compressed_answer(coding: str) -> None:
    routes = [("GET", "/whole", whole()), ("GET", "/stream", streamed(LINES, LINES))]
    async with serving(*routes) as server, httpx.AsyncClient(trust_env=False) as client:
        seen = []
        for path in ("/whole", "/stream", "/whole"):
            body, address = await read_raw(client, server, path, coding)
            assert unpack(body, coding) == (LINES * 2 if path == "/stream" else LINES)
            seen.append(address)
        assert len(set(seen)) == 1


async def read_raw(client: httpx.AsyncClient, server: HttpServer, path: str, coding: str) -> tuple[bytes, object]:
    """Return the body as it was sent, and the client's address of the connection."""
    url, headers = f"http://{server.address}{path}", {"accept-encoding": coding}
    async with client.stream("GET", url, headers=headers) as answer:
        assert answer.headers["content-encoding"] == coding
        body = b"".join([piece async for piece in answer.aiter_raw()])
        return body, answer.extensions["network_stream"].get_extra_info("client_addr")


async def test_a_client_decodes_what_it_asked_for_on_its_own() -> None:
    routes = [("GET", "/whole", whole()), ("GET", "/stream", streamed(LINES, LINES))]
    async with serving(*routes) as server, httpx.AsyncClient(trust_env=False) as client:
        for path, expected in (("/whole", LINES), ("/stream", LINES * 2)):
            answer = await client.get(f"http://{server.address}{path}", headers={"accept-encoding": "gzip, deflate"})
            assert (answer.headers["content-encoding"], answer.content) == ("gzip", expected)


FORMATS = (
    "tsdb_v1",
    "influxdb_v1",
    "json",
    "csv",
    "csvwithnames",
    "csvwithnamesandtypes",
    "table",
    "arrow",
)


@pytest.mark.parametrize("accepted", CODINGS)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("batches", [1, 200])
async def test_every_format_has_the_rows_of_the_plain_answer(kind: str, accepted: str, batches: int) -> None:
    batch = pa.RecordBatch.from_pydict({"host": [f"h{at % 9}" for at in range(2000)], "n": list(range(2000))})

    async def read(headers: dict[str, str]) -> Answer:
        app = HttpApp(body_limit=0, timeout=Duration(0))
        database = ScriptedDatabase({"select": [MadeRecords(batch, batches)]})
        routes = sql_routes(app, DatabaseGate(database))
        try:
            return await call(app, "GET", f"/v1/sql?sql=select&format={kind}", headers=headers)
        finally:
            routes.close()

    plain, packed = await read({}), await read({"accept-encoding": accepted})
    assert packed.headers["content-encoding"] == accepted
    assert ("content-length" in plain.headers, "content-length" in packed.headers) == (batches == 1, batches == 1)
    assert without_time(unpacked(packed)) == without_time(plain.body)
    assert packed.headers["content-type"] == plain.headers["content-type"]
    assert len(packed.body) < len(plain.body) / 2


def without_time(body: bytes) -> bytes:
    return re.sub(rb'"execution_time_ms":\d+', b"", body)


@pytest.mark.parametrize(("compression", "coding"), [("", "gzip"), ("zstd", None), ("lz4", None)])
async def test_arrow_that_is_compressed_itself_is_not_compressed_again(compression: str, coding: str | None) -> None:
    app = HttpApp(body_limit=0, timeout=Duration(0))
    routes = sql_routes(app, DatabaseGate(ScriptedDatabase({"select": [rows(n=list(range(5000)))]})))
    target = f"/v1/sql?sql=select&format=arrow&compression={compression}"
    answer = await call(app, "GET", target, headers={"accept-encoding": "gzip"})
    routes.close()
    assert answer.headers.get("content-encoding") == coding
    assert pa.ipc.open_stream(unpacked(answer)).read_all()["n"].to_pylist() == list(range(5000))


@pytest.mark.parametrize("coding", CODINGS)
def test_the_prometheus_api_compresses(coding: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    span = "start=0&end=10&step=10ms"
    try:
        for target in (
            f"/v1/prometheus/api/v1/query_range?query=up&{span}",
            f"/v1/promql?query=up&{span}",
            f"/v1/promql?query=up&{span}&format=csv",
        ):
            plain = world.raw("GET", target)
            packed = world.raw("GET", target, headers={"accept-encoding": coding})
            assert (plain.status, packed.headers["content-encoding"]) == (200, coding)
            assert without_time(unpacked(packed)) == without_time(plain.body)
        target = f"/v1/promql?query=up&{span}&format=arrow&compression=zstd"
        answer = world.raw("GET", target, headers={"accept-encoding": coding})
        assert "content-encoding" not in answer.headers
        answer = world.raw("GET", f"/v1/promql?query={quote('up{')}&{span}", headers={"accept-encoding": coding})
        assert (answer.status, "vary" in answer.headers) == (400, False)
    finally:
        world.close()
