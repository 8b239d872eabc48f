import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from tsdb.errors import StartError
from tsdb.servers.http import HttpApp, HttpServer, Request, Response, StreamingResponse
from tsdb.servers.http.wire._tuning import TUNING, HttpTuning
from tsdb.units import Duration

Handler = Callable[[Request], Awaitable[Response | StreamingResponse]]


pytestmark = pytest.mark.timeout(10)


async def hello(request: Request) -> Response:
    return Response.text("hello")


async def echo(request: Request) -> Response:
    return Response(await request.body())


@asynccontextmanager
async def serving(
    *handlers: tuple[str, str, Handler],
    host: str = "127.0.0.1",
    body_limit: int = 0,
    time_limit: str = "0s",
    tuning: HttpTuning = TUNING,
) -> AsyncIterator[HttpServer]:
    """A server on a free port for the time of the block."""
    app = HttpApp(body_limit=body_limit, timeout=Duration.parse(time_limit))
    for method, path, handler in handlers:
        app.add(path, handler, methods=(method,))
    server = HttpServer(app, host=host, port=0, tuning=tuning)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0.2)


@asynccontextmanager
async def connection(
    server: HttpServer,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(2):
            yield reader, writer
    finally:
        writer.close()


async def get(server: HttpServer, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
    async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
        return await client.get(f"http://{server.address}{path}", headers=headers)


async def test_requests_are_served_on_the_port_that_was_picked() -> None:
    async with serving(("GET", "/hello", hello)) as server:
        assert server.port != 0
        assert server.address == f"127.0.0.1:{server.port}"
        answer = await get(server, "/hello")
        assert (answer.status_code, answer.text) == (200, "hello")
        assert (await get(server, "/nowhere")).status_code == 404
        async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
            answer = await client.post(f"http://{server.address}/hello", content=b"x" * 100_000)
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
            answer = await client.head(f"http://{server.address}/hello")
            assert (answer.status_code, answer.headers["content-length"], answer.text) == (200, "5", "")


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
async def test_ipv6_is_served(host: str) -> None:
    async with serving(("GET", "/hello", hello), host=host) as server:
        assert server.address == f"[::1]:{server.port}"
        assert (await get(server, "/hello")).text == "hello"


async def test_a_host_name_and_all_addresses_are_served() -> None:
    for host in ("localhost", "0.0.0.0"):
        async with serving(("GET", "/hello", hello), host=host) as server, connection(server) as (reader, writer):
            writer.write(b"GET /hello HTTP/1.0\r\n\r\n")
            assert (await reader.read()).endswith(b"hello")


# Bodies over the limit, and bodies that do not come


@pytest.mark.parametrize(
    "request_head",
    [
        b"Content-Length: 20000000\r\n",
        b"Content-Length: 20000000\r\nExpect: 100-continue\r\n",
    ],
)
async def test_413_comes_before_the_body_is_sent(request_head: bytes) -> None:
    async with serving(("POST", "/x", echo), body_limit=1000) as server, connection(server) as (reader, writer):
        writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\n" + request_head + b"\r\n")
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in answer


async def test_413_comes_while_a_chunked_body_is_sent() -> None:
    async with serving(("POST", "/x", echo), body_limit=1000) as server, connection(server) as (reader, writer):
        writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"200\r\n" + b"a" * 512 + b"\r\n")
        writer.write(b"200\r\n" + b"a" * 512 + b"\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")


async def test_a_client_that_sends_a_body_far_over_the_limit_still_gets_its_413() -> None:
    async with (
        serving(("POST", "/x", echo), body_limit=1000) as server,
        httpx.AsyncClient(timeout=2, trust_env=False) as client,
    ):
        answer = await client.post(f"http://{server.address}/x", content=b"a" * 5_000_000)
        assert answer.status_code == 413


async def test_a_body_that_is_expected_is_asked_for() -> None:
    async with serving(("POST", "/x", echo), body_limit=1000) as server, connection(server) as (reader, writer):
        writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        writer.write(b"body")
        await reader.readline()
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


async def test_408_comes_when_a_body_stalls() -> None:
    async with (
        serving(("POST", "/x", echo), time_limit="50ms") as server,
        connection(server) as (reader, writer),
    ):
        writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"http.timeout" in answer


# Clients that leave


async def test_a_client_that_leaves_ends_the_stream_it_was_reading() -> None:
    closed = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 1000
                await asyncio.sleep(0.001)
        finally:
            closed.set()

    async def stream(request: Request) -> StreamingResponse:
        return StreamingResponse(chunks())

    async with serving(("GET", "/x", stream)) as server:
        async with connection(server) as (reader, writer):
            writer.write(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            await reader.readuntil(b"xxx")
        async with asyncio.timeout(1):
            await closed.wait()


async def test_a_client_that_leaves_cancels_the_handler_it_was_waiting_for() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Response:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    async with serving(("GET", "/x", handler)) as server:
        async with connection(server) as (_, writer):
            writer.write(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            await entered.wait()
        async with asyncio.timeout(1):
            await cancelled.wait()


async def test_a_stream_that_fails_is_cut_so_that_its_reader_notices() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        raise RuntimeError("broken")

    async def stream(request: Request) -> StreamingResponse:
        return StreamingResponse(chunks())

    async with serving(("GET", "/x", stream)) as server:
        with pytest.raises(httpx.RemoteProtocolError):
            # To be compressed, so little would be held back, and its error be answered as one.
            await get(server, "/x", headers={"accept-encoding": "identity"})


# Starting and stopping


async def test_stopping_lets_a_request_in_progress_finish_and_accepts_no_more() -> None:
    entered, proceed = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Response:
        entered.set()
        await proceed.wait()
        return Response.text("finished")

    async with serving(("GET", "/x", handler)) as server:
        request = asyncio.create_task(get(server, "/x"))
        await entered.wait()
        stopping = asyncio.create_task(server.stop(2))
        await asyncio.sleep(0.05)
        with pytest.raises(OSError, match="onnect"):
            await asyncio.open_connection("127.0.0.1", server.port)
        assert not stopping.done()
        proceed.set()
        assert (await request).text == "finished"
        await stopping
        await server.wait_stopped()


async def test_a_request_that_never_ends_is_cancelled_after_the_grace() -> None:
    entered = asyncio.Event()

    async def handler(request: Request) -> Response:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(("GET", "/x", handler)) as server:
        request = asyncio.create_task(get(server, "/x"))
        await entered.wait()
        began = time.monotonic()
        await server.stop(0.1)
        assert 0.1 <= time.monotonic() - began < 10
        assert (await request).status_code == 503


async def test_stopping_ends_even_when_a_handler_ignores_its_cancellation() -> None:
    entered, proceed = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Response:
        entered.set()
        while not proceed.is_set():
            try:
                await proceed.wait()
            except asyncio.CancelledError:
                continue
        return Response.text("at last")

    tuning = HttpTuning(interrupt_seconds_max=0.05)
    async with serving(("GET", "/x", handler), tuning=tuning) as server, connection(server) as (_, writer):
        writer.write(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        await entered.wait()
        began = time.monotonic()
        await server.stop(0.05)
        assert time.monotonic() - began < 10
        proceed.set()


async def test_an_idle_connection_does_not_delay_stopping() -> None:
    async with serving(("GET", "/x", hello)) as server, connection(server) as (reader, writer):
        writer.write(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"hello")
        began = time.monotonic()
        await server.stop(30)
        assert time.monotonic() - began < 10


async def test_stopping_a_server_that_was_never_started_or_stopping_twice_is_nothing() -> None:
    server = HttpServer(HttpApp(body_limit=0, timeout=Duration(0)), host="127.0.0.1", port=0)
    await server.stop(1)
    server.probe()
    await server.stop(1)
    async with serving() as server:
        await server.stop(1)
        await server.stop(1)


# Addresses


def unstarted(host: str, port: int) -> HttpServer:
    return HttpServer(HttpApp(body_limit=0, timeout=Duration(0)), host=host, port=port)


async def test_a_second_server_on_the_same_port_is_refused() -> None:
    async with serving(("GET", "/hello", hello)) as server:
        for host in ("127.0.0.1", "0.0.0.0"):
            with pytest.raises(StartError) as caught:
                await unstarted(host, server.port).start()
            assert str(caught.value) == (
                f"http.addr: {host}:{server.port} is already in use; "
                "stop the other process or choose another address with --http-addr"
            )
        assert (await get(server, "/hello")).text == "hello"


def test_a_probed_address_is_taken_before_the_server_listens() -> None:
    first = unstarted("127.0.0.1", 0)
    first.probe()
    first.probe()
    with pytest.raises(StartError, match="is already in use"):
        unstarted("127.0.0.1", first.port).probe()
    first._release()
    second = unstarted("127.0.0.1", first.port)
    second.probe()
    second._release()


async def test_a_port_with_lingering_connections_can_be_used_again() -> None:
    async with serving(("GET", "/hello", hello)) as server, connection(server) as (reader, writer):
        writer.write(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await reader.read()
    again = unstarted("127.0.0.1", server.port)
    await again.start()
    await again.stop(1)


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ("192.0.2.1", "http.addr: 192.0.2.1:4000 is not an address of this machine"),
        ("no-such-host.invalid", "http.addr: cannot resolve the host of no-such-host.invalid:4000"),
        ("a" * 70 + ".b", "http.addr: cannot resolve the host of"),
    ],
)
def test_an_address_that_cannot_be_had_is_named_with_its_key(host: str, problem: str) -> None:
    with pytest.raises(StartError) as caught:
        unstarted(host, 4000).probe()
    assert str(caught.value).startswith(problem)
    assert str(caught.value).endswith("; choose another address with --http-addr")


def test_a_port_that_needs_privileges_is_named_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(StartError, match=r"http\.addr: 127\.0\.0\.1:80 needs privileges"):
        unstarted("127.0.0.1", 80).probe()
