"""Small durable requests: 100 rows of line protocol each, on 32 connections, synced before they are acknowledged.

The rows are those of `ingest.line`. What is measured is the cost of a request, and how well requests share a sync of
the log. The sender is one thread that writes prepared bytes and waits for answers: it takes little of the machine.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks import Measurement
from benchmarks.ingest.line import cpu_seconds, make_bodies
from tests.server_process import running

CONNECTIONS = 32
ROWS = 100
REQUESTS = 5_000
WARM = 500
"""Requests before the clock starts: the table is made, series become known."""
_ANSWERED = b"HTTP/1.1 204"


def make_requests(count: int) -> list[bytes]:
    """Make whole HTTP requests."""
    lines = [line for body in make_bodies(-(-count * ROWS // 5000)) for line in body.splitlines(keepends=True)]
    bodies = [b"".join(lines[at * ROWS : (at + 1) * ROWS]) for at in range(count)]
    return [
        b"POST /v1/influxdb/write HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        for body in bodies
    ]


async def send_all(address: tuple[str, int], requests: list[bytes]) -> list[float]:
    """Send requests from one queue on all connections; return the seconds of each."""
    queue = iter(requests)
    seconds: list[float] = []

    async def work() -> None:
        reader, writer = await asyncio.open_connection(*address)
        for request in queue:
            started = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(_ANSWERED), head
            seconds.append(time.perf_counter() - started)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return seconds


def main() -> Iterator[Measurement]:
    requests = make_requests(REQUESTS + WARM)
    for is_synced in (True, False):
        yield from over_http(requests, is_synced=is_synced)


def over_http(requests: list[bytes], *, is_synced: bool) -> Iterator[Measurement]:
    environment = {"TSDB_STANDALONE__WAL__SYNC_WRITE": str(is_synced).lower()}
    with (
        tempfile.TemporaryDirectory() as directory,
        running("standalone", Path(directory), environment=environment) as server,
    ):
        url = urlsplit(server.url)
        address = (url.hostname or "", url.port or 0)
        asyncio.run(send_all(address, requests[:WARM]))
        cpu, started = cpu_seconds(server.process.pid), time.perf_counter()
        answers = asyncio.run(send_all(address, requests[WARM:]))
        seconds, cpu = time.perf_counter() - started, cpu_seconds(server.process.pid) - cpu
    name = f"HTTP, {CONNECTIONS} connections, sync_write = {environment['TSDB_STANDALONE__WAL__SYNC_WRITE']}"
    yield Measurement(name, seconds, len(answers) * ROWS, "rows")
    yield Measurement(f"{name}: CPU", cpu, len(answers) * ROWS, "rows")
    middle, late = np.percentile(answers, [50, 99]) * 1e3
    print(
        f"  {cpu / len(answers) * 1000:.2f} CPU seconds per 1,000 requests, {len(answers) / seconds:,.0f} requests/s, "
        f"answers after {middle:.1f} ms (median), {late:.1f} ms (99 %)"
    )
