"""Queries over HTTP after a load by four connections that are not in step, beside one in step: one client, and a crowd.

Hosts with five fields every 10 s, written as line protocol by four connections at a time, each with every fourth step
of time and later than the one before it, as in `benchmarks/engine/out_of_step.py`; a flush every four hours leaves rows
in a later file that belong before the end of an earlier one. One server has a table for each load, and they are asked
in turn, in rounds, so that a busy machine is equally busy for all of them. The goals: out of step by a minute at most
1.3 times as long as in step, and at most 1.5 times with one row of a hundred sent twice.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from urllib.parse import urlencode, urlsplit

import numpy as np

from benchmarks import Measurement
from benchmarks.engine.out_of_step import (
    FIELDS,
    FLUSH_MS,
    HOSTS,
    HOUR_MS,
    LOADS,
    START_MS,
    STEP_MS,
    WRITERS,
    Load,
    Numbers,
    arrange,
    make_texts,
)
from tests.server_process import ServerProcess, running

HOURS = int(os.environ.get("TSDB_BENCH_HOURS", "24"))
ROUNDS = int(os.environ.get("TSDB_BENCH_ROUNDS", "12"))
CLIENTS = 16
ASKED_BY_EACH = 6
BODY_MS = 600_000
ALONE_TIMES = 5
_SECONDS_MAX = 120.0


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as name, running("standalone", Path(name)) as server:
        for number, load in enumerate(LOADS):
            began = time.perf_counter()
            rows = fill(server, f"cpu_{number}", load)
            yield Measurement(f"{load.name}: load by {WRITERS} connections", time.perf_counter() - began, rows, "rows")
        texts = {
            what: [text.replace("FROM cpu", f"FROM cpu_{number}") for number in range(len(LOADS))]
            for what, text in make_texts().items()
        }
        for what, by_load in texts.items():
            yield from compare(f"{what}, 1 client", [[text] for text in by_load], server, clients=1)
        small = [by_load for what, by_load in texts.items() if "means" not in what]
        mixed = [list(each) for each in zip(*small, strict=True)]
        yield from compare(f"small queries, {CLIENTS} clients", mixed, server, clients=CLIENTS)


def compare(what: str, texts: list[list[str]], server: ServerProcess, *, clients: int) -> Iterator[Measurement]:
    """Ask the texts of each load in turn, again and again, and compare the medians with those in step."""
    seconds: list[list[float]] = [[] for _ in LOADS]
    for turn in range(ROUNDS):
        for step in range(len(LOADS)):
            number = (turn + step) % len(LOADS)  # none is always the first
            seconds[number] += asyncio.run(ask_all(server.url, texts[number], clients=clients))
    in_step = median(seconds[0])
    for load, own in zip(LOADS, seconds, strict=True):
        yield Measurement(f"{load.name}: {what}: {median(own) / in_step:.2f}", median(own), 1, "queries")


# The load


def fill(server: ServerProcess, table: str, load: Load) -> int:
    """Write rows in the order of their arrival, with flushes in between; returns how many."""
    columns = ", ".join(f"{field} DOUBLE" for field in FIELDS)
    run(server, f"CREATE TABLE {table} (host STRING PRIMARY KEY, ts TIMESTAMP(3) TIME INDEX, {columns})")
    arrivals, steps, hosts = (each[: HOURS * HOUR_MS // STEP_MS * HOSTS] for each in arrange(load))
    ends = np.arange(BODY_MS, int(arrivals[-1]) + 2 * BODY_MS, BODY_MS)
    bounds = [0, *np.searchsorted(arrivals, ends).tolist()]
    connections = [connect(server) for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as threads:
        for end, (start, stop) in zip(ends.tolist(), pairwise(bounds), strict=True):
            bodies = [make_body(table, steps[start:stop], hosts[start:stop], writer) for writer in range(WRITERS)]
            list(threads.map(write, connections, bodies))
            if end % FLUSH_MS == 0:
                run(server, f"ADMIN flush_table('{table}')")
    run(server, f"ADMIN flush_table('{table}')")
    for connection in connections:
        connection.close()
    return len(steps)


def make_body(table: str, steps: Numbers, hosts: Numbers, writer: int) -> bytes:
    """Return the rows that one of the connections writes."""
    own = steps % WRITERS == writer
    lines = []
    for step, host in zip(steps[own].tolist(), hosts[own].tolist(), strict=True):
        values = ",".join(f"{field}={(step * (at + 3) + host * 7) % 101 + 0.5}" for at, field in enumerate(FIELDS))
        lines.append(f"{table},host=host_{host} {values} {START_MS + step * STEP_MS}")
    return "\n".join(lines).encode()


def connect(server: ServerProcess) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=_SECONDS_MAX)


def write(connection: http.client.HTTPConnection, body: bytes) -> None:
    if body:
        connection.request("POST", "/v1/influxdb/write?precision=ms", body)
        answer = connection.getresponse()
        found = answer.read()
        if answer.status != 204:
            raise RuntimeError(f"a body was refused: {answer.status} {found[:300]!r}")


def run(server: ServerProcess, text: str) -> None:
    connection = connect(server)
    connection.request("GET", "/v1/sql?" + urlencode({"sql": text}))
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"a statement failed: {found[:300]!r}")


# The queries


async def ask_all(url: str, texts: list[str], *, clients: int) -> list[float]:
    """Have clients ask the texts at the same time, each beginning with another one; returns the time of each answer."""
    times = ALONE_TIMES if clients == 1 else ASKED_BY_EACH
    found = await asyncio.gather(*(ask(url, texts, number, times) for number in range(clients)))
    return [seconds for each in found for seconds in each]


async def ask(url: str, texts: list[str], number: int, times: int) -> list[float]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    seconds = []
    for turn in range(times):
        target = "/v1/sql?" + urlencode({"sql": texts[(number + turn) % len(texts)]})
        began = time.perf_counter()
        writer.write(f"GET {target} HTTP/1.1\r\nhost: {parts.netloc}\r\n\r\n".encode())
        async with asyncio.timeout(_SECONDS_MAX):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
        seconds.append(time.perf_counter() - began)
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(f"a query failed: {head[:300]!r}")
    writer.close()
    return seconds
