"""Small requests over HTTP at 1, 8 and 64 connections: our connection and granian, both with the same bare application.

granian is not a dependency: it is measured if `import granian` works. The application sends two bytes. Each connection
sends its next request when it has the response to the last one. Both servers are measured in turns; each number is the
best of several rounds. The CPU is that of the whole server process.
"""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks import Measurement

CONNECTIONS = (1, 8, 64)
REQUESTS = 8_000
ROUNDS = 6
REQUEST = b"GET / HTTP/1.1\r\nHost: benchmark\r\n\r\n"
_TICKS_PER_SECOND = 100
_APPLICATION = """
import asyncio, socket, sys
import uvloop

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})

port = int(sys.argv[1])
"""
_OWN = """
from tsdb.config import TlsMode
from tsdb.servers._tls import Tls
from tsdb.servers.http.wire._listener import Listener

async def serve():
    listener = Listener(app, Tls(TlsMode.DISABLE), socket.create_server(("127.0.0.1", port)), connections_max=1000)
    await listener.accepting

uvloop.run(serve())
"""
_GRANIAN = """
from granian.constants import Interfaces
from granian.server.embed import Server

uvloop.run(Server(app, address="127.0.0.1", port=port, interface=Interfaces.ASGINL).serve())
"""


class Round(NamedTuple):
    """Seconds: of all requests, of CPU for one, of one response."""

    elapsed: float
    cpu: float
    median: float


def main() -> Iterator[Measurement]:
    with ExitStack() as stack:
        servers = {"own": stack.enter_context(_serving(_OWN))}
        if importlib.util.find_spec("granian") is not None:
            servers["granian"] = stack.enter_context(_serving(_GRANIAN))
        for connections in CONNECTIONS:
            best: dict[str, list[Round]] = {name: [] for name in servers}
            for _ in range(ROUNDS):
                for name, (pid, port) in servers.items():
                    best[name].append(_measure(pid, port, connections))
            for name, rounds in best.items():
                cpu, median = min(each.cpu for each in rounds), min(each.median for each in rounds)
                what = f"{name}, {connections} connections"
                print(f"  {what}: CPU {cpu * 1e6:.0f} µs a request, median response {median * 1e6:.0f} µs")
                yield Measurement(what, min(each.elapsed for each in rounds), REQUESTS, "requests")


@contextmanager
def _serving(server: str) -> Iterator[tuple[int, int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", _APPLICATION + server, str(port)])
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield process.pid, port
    finally:
        process.terminate()
        process.wait(20)


def _measure(pid: int, port: int, connections: int) -> Round:
    spent = _cpu_seconds(pid)
    elapsed, latencies = asyncio.run(_send_all(port, connections, REQUESTS))
    return Round(elapsed, (_cpu_seconds(pid) - spent) / REQUESTS, statistics.median(latencies))


async def _send_all(port: int, connections: int, requests: int) -> tuple[float, list[float]]:
    latencies: list[float] = []
    begun = time.perf_counter()
    await asyncio.gather(*(_send(port, requests // connections, latencies) for _ in range(connections)))
    return time.perf_counter() - begun, latencies


async def _send(port: int, count: int, latencies: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        begun = time.perf_counter()
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        latencies.append(time.perf_counter() - begun)
    writer.close()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
