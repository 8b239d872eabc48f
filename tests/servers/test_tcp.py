"""Accepting, refusing and draining TCP connections, without any protocol."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest
from prometheus_client import Gauge

from tsdb.errors import StartError
from tsdb.servers._tcp import KeepAlive, TcpServer, accept_one
from tsdb.telemetry import get_logger

LOG = get_logger("tests.tcp")


class Echo:
    """Sends back what comes; a line `slow` only after `release`, a line `bug` raises."""

    def __init__(self, accepted: socket.socket, client: str) -> None:
        self.socket, self.client = accepted, client
        self.is_asked_to_end = self.is_busy = self.is_closed = False
        self.release = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        self.task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        while not self.is_asked_to_end and (data := await loop.sock_recv(self.socket, 100)):
            if data == b"bug":
                raise ValueError("a bug")
            if data == b"slow":
                self.is_busy = True
                await self.release.wait()
                self.is_busy = False
            await loop.sock_sendall(self.socket, data)

    def end_soon(self) -> None:
        self.is_asked_to_end = True
        if not self.is_busy and self.task is not None:
            self.task.cancel()

    async def close(self) -> None:
        self.is_closed = True
        self.socket.close()


class Served:
    """A server, and how its clients speak."""

    def __init__(self, connections_max: int = 2) -> None:
        self.gauge = Gauge("open", "Open connections.", registry=None)
        self.tcp = TcpServer(
            "Echo",
            section="echo",
            host="127.0.0.1",
            port=0,
            connections_max=connections_max,
            accept=Echo,
            refuse=lambda accepted: accepted.send(b"full"),  # type: ignore[arg-type, return-value]
            open_connections=self.gauge,
            log=LOG,
            keep_alive=KeepAlive(7, 3),
        )

    @property
    def count(self) -> float:
        return next(iter(self.gauge.collect())).samples[0].value

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self.tcp.address.rpartition(":")
        return await asyncio.open_connection(host, int(port))


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    made.tcp.start()
    yield made
    await made.tcp.stop(0.1)


async def _ask(client: tuple[asyncio.StreamReader, asyncio.StreamWriter], data: bytes) -> bytes:
    client[1].write(data)
    return await client[0].read(100)


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_connections_over_the_limit_are_refused_until_one_ends(served: Served) -> None:
    first, second = await served.connect(), await served.connect()
    assert await _ask(first, b"a") == b"a"
    assert await _ask(second, b"b") == b"b"
    assert served.count == 2
    third = await served.connect()
    assert await third[0].read() == b"full"
    first[1].close()
    await _until(lambda: served.count == 1)
    fourth = await served.connect()
    assert await _ask(fourth, b"d") == b"d"
    assert {each.client for each in served.tcp.connections} == {"127.0.0.1"}
    for _, writer in (second, third, fourth):
        writer.close()


async def test_sockets_have_the_options_of_the_server(served: Served) -> None:
    client = await served.connect()
    assert await _ask(client, b"a") == b"a"
    (connection,) = served.tcp.connections
    assert connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 7
    assert connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3
    client[1].close()


async def test_a_bug_met_by_one_connection_ends_that_one_alone(served: Served) -> None:
    first, second = await served.connect(), await served.connect()
    assert await _ask(first, b"bug") == b""
    assert await _ask(second, b"b") == b"b"
    await _until(lambda: served.count == 1)
    for _, writer in (first, second):
        writer.close()


async def test_stopping_ends_idle_connections_and_waits_for_busy_ones(served: Served) -> None:
    idle, busy = await served.connect(), await served.connect()
    assert await _ask(idle, b"a") == b"a"
    busy[1].write(b"slow")
    await _until(lambda: any(each.is_busy for each in served.tcp.connections))
    working = next(each for each in served.tcp.connections if each.is_busy)
    stopping = asyncio.ensure_future(served.tcp.stop(30))
    assert await idle[0].read() == b""
    assert not stopping.done(), "it waits for the one that is busy"
    working.release.set()
    assert await busy[0].read(100) == b"slow"
    await stopping
    with pytest.raises(ConnectionError):
        await served.connect()
    assert served.count == 0
    assert working.is_closed
    for _, writer in (idle, busy):
        writer.close()


async def test_connections_that_outlast_the_grace_period_are_cancelled(served: Served) -> None:
    busy = await served.connect()
    busy[1].write(b"slow")
    await _until(lambda: any(each.is_busy for each in served.tcp.connections))
    (working,) = served.tcp.connections
    await served.tcp.stop(0.01)
    assert working.is_closed
    assert await busy[0].read() == b""
    busy[1].close()


async def test_accepting_goes_on_after_the_system_refused_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, failures = asyncio.get_running_loop(), [OSError(24, "Too many open files")] * 2

    class Loop:
        async def sock_accept(self, listening: socket.socket) -> tuple[socket.socket, tuple[str, int]]:
            if failures:
                raise failures.pop()
            accepted, peer = await loop.sock_accept(listening)
            return accepted, peer

    monkeypatch.setattr("tsdb.servers._tcp.asyncio.get_running_loop", Loop)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        listening.setblocking(False)
        accepted, client = await accept_one(listening, LOG, pause_seconds=0.0)
        accepted.close()
    assert client == "127.0.0.1"
    assert not failures


def test_an_address_that_is_taken_is_told_with_its_key() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        made = Served()
        made.tcp._port = port
        with pytest.raises(StartError, match=rf"cannot listen on 127\.0\.0\.1:{port} for Echo.*change echo\.addr"):
            made.tcp.probe()
