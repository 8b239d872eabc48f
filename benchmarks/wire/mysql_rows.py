"""100,000 rows of ten columns over MySQL: until the last byte is there, and the CPU of the server for it.

The client reads bytes and does not look at them, so that what is measured is the server, a process of its own. What
idle connections cost is measured first, while nothing else has used the memory yet.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx

from benchmarks import Measurement
from tests.server_process import ServerProcess, running
from tests.servers.mysql.raw_client import RawClient

ROWS = 100_000
ROUNDS = 5
IDLE = 1_000
_END = re.compile(rb"\x05\x00\x00.\xfe.{4}\Z", re.DOTALL)
_COLUMNS = (
    "ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, a DOUBLE, b DOUBLE, c DOUBLE, d BIGINT, e BIGINT, f STRING"
)


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as directory, running("standalone", Path(directory)) as server:
        port = int(re.search(r"MySQL +\S+:(\d+)", server.output)[1])  # type: ignore[index]
        yield from _measure_idle(server, port)
        _fill(server)
        yield from _measure_rows(server, port)


def _fill(server: ServerProcess) -> None:
    _ask(server, f"CREATE TABLE wide ({_COLUMNS}, g BOOLEAN, h INT)")
    for start in range(0, ROWS, 10_000):
        rows = ",".join(
            f"({1_700_000_000_000 + row * 1000},'h{row % 100}',{row * 0.37},{row * 1.1},{row / 3},{row},{row * 7},"
            f"'text {row}',{'true' if row % 2 else 'false'},{row % 1000})"
            for row in range(start, start + 10_000)
        )
        _ask(server, f"INSERT INTO wide VALUES {rows}")


def _ask(server: ServerProcess, statement: str) -> None:
    httpx.post(f"{server.url}/v1/sql", data={"sql": statement}, timeout=60).raise_for_status()


def _measure_rows(server: ServerProcess, port: int) -> Iterator[Measurement]:
    elapsed, cpu = [], []
    with RawClient(port) as client:
        for _ in range(ROUNDS):
            begun, spent = time.perf_counter(), _cpu_seconds(server)
            client.send(b"\x03SELECT * FROM wide")
            _read_answer(client.socket)
            elapsed.append(time.perf_counter() - begun)
            cpu.append(_cpu_seconds(server) - spent)
    yield Measurement("100k rows x 10 columns, until they are there", min(elapsed), ROWS, "rows")
    yield Measurement("the same, CPU of the server", min(cpu) or 0.01, ROWS, "rows")


def _read_answer(connection: socket.socket) -> None:
    tail = b""
    while not _END.search(tail):
        tail = (tail + connection.recv(1 << 20))[-9:]


def _measure_idle(server: ServerProcess, port: int) -> Iterator[Measurement]:
    with ExitStack() as stack:
        before = _memory_bytes(server)
        for _ in range(IDLE):
            stack.enter_context(RawClient(port))
        used = _memory_bytes(server) - before
        begun = time.perf_counter()
        with RawClient(port) as client:
            client.ask(b"\x0e")
        elapsed = time.perf_counter() - begun
    yield Measurement(f"{IDLE} idle connections take {used / 1e6:.0f} MB; another one logs in", elapsed, 1, "logins")


def _cpu_seconds(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_bytes(server: ServerProcess) -> int:
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
