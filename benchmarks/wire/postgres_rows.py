"""100,000 rows of ten columns over PostgreSQL, the CPU of the server for it, idle connections, and single rows.

The client reads bytes and does not look at them, so that what is measured is the server, a process of its own. A single
row is asked for over HTTP as well, by the same kind of client and in turns: the two are to be compared.
"""

from __future__ import annotations

import http.client
import os
import re
import statistics
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx

from benchmarks import Measurement
from tests.server_process import ServerProcess, running
from tests.servers.postgres.running import RawClient, bind, execute, message, parse, query

ROWS = 100_000
ROUNDS = 5
IDLE = 1_000
POINTS, TURNS = 2_000, 20
_ONE = "SELECT * FROM wide WHERE host = 'h7' AND ts = 7000"
_END = b"Z\0\0\0\5I"


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as directory, running("standalone", Path(directory)) as server:
        port = int(re.search(r"Postgres +\S+:(\d+)", server.output)[1])  # type: ignore[index]
        yield from _measure_idle(server, port)
        _fill(server)
        yield from _measure_rows(server, port, is_binary=False)
        yield from _measure_rows(server, port, is_binary=True)
        yield from _measure_points(server, port)


def _fill(server: ServerProcess) -> None:
    columns = "host STRING PRIMARY KEY, a DOUBLE, b DOUBLE, c DOUBLE, d DOUBLE, e BIGINT, f BIGINT, g BIGINT, s STRING"
    values = "'h' || (value % 100), value * 0.25, value * 1.5, value / 3.0, value * 0.1, value, value * 2, value * 3"
    for text in (
        f"CREATE TABLE wide ({columns}, ts TIMESTAMP TIME INDEX)",
        f"INSERT INTO wide SELECT {values}, 'text ' || value, value * 1000 FROM generate_series(1, {ROWS})",
    ):
        httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=60).raise_for_status()


def _measure_rows(server: ServerProcess, port: int, *, is_binary: bool) -> Iterator[Measurement]:
    elapsed, cpu = [], []
    asked = parse("SELECT * FROM wide") + bind(results=(int(is_binary),)) + execute() + message("S")
    with RawClient(port) as client:
        client.log_in()
        for _ in range(ROUNDS):
            begun, spent = time.perf_counter(), _cpu_seconds(server)
            client.socket.sendall(asked)
            _read_answer(client)
            elapsed.append(time.perf_counter() - begun)
            cpu.append(_cpu_seconds(server) - spent)
    form = "binary" if is_binary else "text"
    yield Measurement(f"100k rows x 10 columns as {form}, until they are there", min(elapsed), ROWS, "rows")
    yield Measurement("the same, CPU of the server", min(cpu) or 0.01, ROWS, "rows")


def _read_answer(client: RawClient) -> None:
    tail = b""
    while not tail.endswith(_END):
        tail = (tail + client.socket.recv(1 << 20))[-6:]


def _measure_points(server: ServerProcess, port: int) -> Iterator[Measurement]:
    where = urllib.parse.urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port)
    path = "/v1/sql?" + urllib.parse.urlencode({"sql": _ONE})
    with RawClient(port) as client:
        client.log_in()

        def ask() -> None:
            client.socket.sendall(query(_ONE))
            _read_answer(client)

        def ask_http() -> None:
            connection.request("GET", path)
            connection.getresponse().read()

        ours, http_ = _medians(ask, ask_http)
    connection.close()
    yield Measurement(f"one row, median of {POINTS:,}", ours, 1, "rows")
    yield Measurement(f"one row over HTTP, median; PostgreSQL takes {ours / http_:.2f} of it", http_, 1, "rows")


def _medians(*ways: Callable[[], None]) -> list[float]:
    """The median of each way, asked in turns, so that what else the machine does meets all of them."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(TURNS):
        for way, found in zip(ways, times, strict=True):
            for _ in range(POINTS // TURNS):
                begun = time.perf_counter()
                way()
                found.append(time.perf_counter() - begun)
    return [statistics.median(each) for each in times]


def _measure_idle(server: ServerProcess, port: int) -> Iterator[Measurement]:
    with ExitStack() as stack:
        before = _memory_bytes(server)
        for _ in range(IDLE):
            stack.enter_context(RawClient(port)).log_in()
        used = _memory_bytes(server) - before
        begun = time.perf_counter()
        with RawClient(port) as client:
            client.log_in()
        elapsed = time.perf_counter() - begun
    yield Measurement(f"{IDLE} idle connections take {used / 1e6:.0f} MB; another one logs in", elapsed, 1, "logins")


def _cpu_seconds(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_bytes(server: ServerProcess) -> int:
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
