"""The head of a request, parsed by the kernel; and what it costs to hand a call to another thread and wait for it.

The head is that of a small query by a Prometheus client, with eleven headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from benchmarks import Measurement, measure
from tsdb import _kernels

COUNT = 5_000
HEAD = (
    b"POST /v1/prometheus/api/v1/query_range?db=public HTTP/1.1\r\n"
    b"Host: 127.0.0.1:4000\r\nUser-Agent: Grafana/11.2.0\r\nContent-Length: 98\r\nAccept-Encoding: gzip\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nX-Datasource-Uid: de1k8yh0a4lc1b\r\n"
    b"X-Grafana-Org-Id: 1\r\nX-Panel-Id: 7\r\nX-Dashboard-Uid: fe1k8z8f9zksgd\r\nX-Rule-Source: none\r\n"
    b"Connection: keep-alive\r\n\r\n"
)


def main() -> Iterator[Measurement]:
    def parse() -> None:
        for _ in range(COUNT):
            _kernels.parse_http_head(HEAD)

    yield measure("parse a head", parse, amount=COUNT, unit="heads")
    yield measure("hand a call to a thread and wait, on a loop", hand_over, amount=COUNT, unit="calls", repeats=3)


def hand_over() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as threads:
            for _ in range(COUNT):
                await loop.run_in_executor(threads, int)

    asyncio.run(run())
