"""HTTP/1.1 byte by byte, as clients of all kinds send it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.servers.http.test_server import connection, echo, hello, serving
from tsdb.servers.http import HttpApp, HttpServer, Request, Response, StreamingResponse
from tsdb.servers.http.wire import _connection as module
from tsdb.servers.http.wire._tuning import TUNING, HttpTuning
from tsdb.units import Duration

pytestmark = pytest.mark.timeout(20)


async def where(request: Request) -> Response:
    return Response.text(f"{request.method} {request.path} {request.raw_query.decode()} {await request.body()!r}\n")


async def count(request: Request) -> StreamingResponse:
    async def pieces() -> AsyncIterator[bytes]:
        for number in range(3):
            yield b"%d " % number

    return StreamingResponse(pieces(), content_type="text/plain")


@asynccontextmanager
async def server(tuning: HttpTuning = TUNING) -> AsyncIterator[HttpServer]:
    routes = [("GET", "/hello", hello), ("POST", "/echo", echo), ("GET", "/count", count)]
    routes += [(method, "/where", where) for method in ("GET", "POST", "PUT")]
    async with serving(*routes, body_limit=100_000_000, tuning=tuning) as started:
        yield started


async def say(started: HttpServer, *parts: bytes, pause: float = 0.0) -> bytes:
    """Send parts, and return everything that is answered until the end."""
    async with connection(started) as (reader, writer):
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        return await reader.read()


def without_date(answer: bytes) -> list[bytes]:
    return [line for line in answer.split(b"\r\n") if not line.startswith(b"date: ")]


async def test_an_answer_as_it_is_written() -> None:
    async with server() as started:
        answer = await say(started, b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert without_date(answer) == [
            b"HTTP/1.1 200 OK",
            b"content-type: text/plain; charset=utf-8",
            b"content-length: 5",
            b"connection: close",
            b"",
            b"hello",
        ]
        assert b"\r\ndate: " in answer


async def test_a_request_may_come_in_any_pieces() -> None:
    request = b"POST /where?a=1 HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\n12345"
    async with server() as started:
        for cut in range(1, len(request), 7):
            answer = await say(started, request[:cut], request[cut:], pause=0.002)
            assert answer.endswith(b"POST /where a=1 b'12345'\n"), cut


async def test_requests_that_are_sent_ahead_are_answered_in_order() -> None:
    ahead = b"".join(b"POST /where?%d HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc" % number for number in range(50))
    chunked = b"POST /where?c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n"
    last = b"GET /where?last HTTP/1.1\r\nConnection: close\r\n\r\n"
    async with server() as started:
        answer = await say(started, ahead + chunked + last)
    found = [line for line in answer.replace(b"HTTP/1.1 ", b"\n").split(b"\n") if b"/where" in line]
    assert found == [
        *(b"POST /where %d b'abc'" % number for number in range(50)),
        b"POST /where c b'xyz'",
        b"GET /where last b''",
    ]


async def test_more_ahead_than_is_held_waits_in_the_socket() -> None:
    gate = asyncio.Event()

    async def wait(request: Request) -> Response:
        await gate.wait()
        return Response.text("done")

    body = b"x" * 2_000_000
    async with (
        serving(("GET", "/wait", wait), ("POST", "/echo", echo)) as started,
        connection(started) as (reader, writer),
    ):
        writer.write(b"GET /wait HTTP/1.1\r\n\r\n")
        writer.write(b"POST /echo HTTP/1.1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))
        await asyncio.sleep(0.1)
        (one,) = started._listener._connections  # type: ignore[union-attr]
        assert len(one._ahead) <= module.AHEAD_BYTES_MAX + (256 << 10)
        gate.set()
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(body)


async def test_a_body_that_nobody_asks_for_waits_in_the_socket() -> None:
    gate, sent = asyncio.Event(), 5_000_000

    async def wait(request: Request) -> Response:
        await gate.wait()
        return Response.text(str(len(await request.body())))

    async with serving(("POST", "/wait", wait)) as started, connection(started) as (reader, writer):
        writer.write(b"POST /wait HTTP/1.1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % sent + b"x" * sent)
        await asyncio.sleep(0.1)
        (one,) = started._listener._connections  # type: ignore[union-attr]
        assert one._exchange is not None
        assert one._exchange._held <= module.AHEAD_BYTES_MAX + (256 << 10)
        gate.set()
        assert (await reader.read()).endswith(b"\r\n\r\n%d" % sent)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /" + b"x" * 70_000, 414),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET /?q=" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"G" * 70_000 + b" / HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nh: " + b"x" * 70_000, 431),
        (b"GET / HTTP/1.1\r\nh: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: %s\r\n" % (n, b"x" * 1000) for n in range(70)) + b"\r\n", 431),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 70_000 + b"\r\na\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nt: " + b"x" * 70_000 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(200)) + b"\r\n", 431),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"1;" + b"x" * 4000 + b"\r\na\r\n") * 17, 400),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"t: x\r\n" * 10_923, 400),
    ],
)
async def test_what_cannot_be_read_is_refused_and_the_connection_closed(request_bytes: bytes, status: int) -> None:
    async with server() as started:
        answer = await say(started, request_bytes)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"connection: close\r\n" in answer
    assert b"cannot be read" in answer


async def test_what_is_wrong_with_a_body_that_nobody_reads_is_no_matter(caplog: pytest.LogCaptureFixture) -> None:
    async with server() as started:
        answer = await say(started, b"POST /nowhere HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert answer.startswith(b"HTTP/1.1 404 ")
    gc.collect()
    # Threads that other tests of this process left may have something to say.
    assert not [record for record in caplog.records if not record.name.startswith("tsdb.meta")]


async def test_streams_have_chunks_and_end_with_the_connection_for_older_clients() -> None:
    async with server() as started:
        answer = await say(started, b"GET /count HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert answer.endswith(b"\r\n\r\n2\r\n0 \r\n2\r\n1 \r\n2\r\n2 \r\n0\r\n\r\n")
        assert b"transfer-encoding: chunked\r\n" in answer
        older = await say(started, b"GET /count HTTP/1.0\r\n\r\n")
        assert older.endswith(b"\r\n\r\n0 1 2 ")
        assert b"transfer-encoding" not in older


async def test_older_clients_may_keep_a_connection() -> None:
    async with server() as started:
        one = b"GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        answer = await say(started, one, b"GET /hello HTTP/1.0\r\n\r\n", pause=0.01)
        assert answer.count(b"HTTP/1.1 200 OK") == 2
        assert answer.count(b"connection: keep-alive") == 1


async def test_an_answer_to_head_has_no_body() -> None:
    async with server() as started:
        head = b"HEAD /hello HTTP/1.1\r\n\r\nHEAD /count HTTP/1.1\r\n\r\n"
        answer = await say(started, head + b"GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert answer.count(b"hello") == 1
    assert b"0\r\n\r\n" not in answer


async def test_nobody_writes_headers_in_our_name(caplog: pytest.LogCaptureFixture) -> None:
    async def reflect(request: Request) -> Response:
        return Response.text("ok", headers=[("x-said", request.query.get("said") or "")])

    async with serving(("GET", "/reflect", reflect)) as started:
        ask = b"GET /reflect?said=%s HTTP/1.1\r\nConnection: close\r\n\r\n"
        assert b"x-said: fine\r\n" in await say(started, ask % b"fine")
        assert await say(started, ask % b"a%0d%0aset-cookie:%20b") == b""
    assert "line break" in caplog.text


async def test_silent_connections_are_closed() -> None:
    async with server(HttpTuning(idle_seconds_max=0.1, sweep_seconds=0.02)) as started:
        assert await say(started) == b""
        assert await say(started, b"GET /hello HT") == b""
        answer = await say(started, b"GET /hello HTTP/1.1\r\n\r\n")
        assert answer.endswith(b"hello")


async def test_connections_over_the_limit_wait_for_a_place() -> None:
    app = HttpApp(body_limit=0, timeout=Duration(0))
    app.add("/hello", hello)
    started = HttpServer(app, host="127.0.0.1", port=0, connections_max=1)
    await started.start()
    try:
        async with connection(started) as (reader, writer):
            writer.write(b"GET /hello HTTP/1.1\r\n\r\n")
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
            waiting = asyncio.create_task(say(started, b"GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n"))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        assert (await asyncio.wait_for(waiting, 5)).endswith(b"hello")
    finally:
        await started.stop(1)


async def test_many_clients_come_and_go() -> None:
    async with server() as started:

        async def one(number: int) -> None:
            request = b"POST /where?%d HTTP/1.1\r\nContent-Length: 30000\r\n\r\n" % number + b"y" * 30_000
            async with connection(started) as (reader, writer):
                writer.write(request)
                if number % 3:
                    assert b"/where %d b'yyy" % number in await reader.readuntil(b"'\n")

        for _ in range(5):
            await asyncio.gather(*(one(number) for number in range(40)))
        async with asyncio.timeout(5):
            while started._listener._connections:  # type: ignore[union-attr]  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        # The next connection has its place already.
        assert started._listener._places._value == 4095  # type: ignore[union-attr]


async def test_a_client_is_alone_while_no_other_open_connection_has_begun_a_request_recently() -> None:
    async def is_alone(request: Request) -> Response:
        return Response.text("alone" if request.is_alone else "busy")

    async def ask(client: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> str:
        client[1].write(b"GET /alone HTTP/1.1\r\n\r\n")
        await client[0].readuntil(b"\r\n\r\n")
        return (await client[0].read(5)).decode().strip()

    route, tuning = ("GET", "/alone", is_alone), HttpTuning(recent_seconds=60.0)
    async with serving(route, tuning=tuning) as started, connection(started) as first:
        assert [await ask(first), await ask(first)] == ["alone", "alone"]
        async with connection(started) as second:
            assert await ask(first) == "alone", "the other one has sent nothing"
            assert await ask(second) == "busy"
            assert await ask(first) == "busy"
            second[1].close()
            async with asyncio.timeout(30):
                while started._listener.connection_count > 1:  # type: ignore[union-attr]  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        assert await ask(first) == "alone"
    tuning = HttpTuning(recent_seconds=0.0)
    async with serving(route, tuning=tuning) as started, connection(started) as first, connection(started) as second:
        assert await ask(first) == "alone"
        await asyncio.sleep(0.01)
        assert await ask(second) == "alone", "the request of the other one is long ago"
