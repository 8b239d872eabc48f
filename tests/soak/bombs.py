"""Data out of shape: a million series, thousands of columns, ten thousand tables; and how a server bears them.

`watched` asks the server small things all the time, keeps the slowest answer, and knows how much memory it took.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from tests.ingest.prometheus_messages import write_request
from tests.server_process import ServerProcess
from tests.soak.check import Reader

START_MS = 1_767_225_600_000
ANSWER_SECONDS_MAX = 120.0


def series_lines(first: int, count: int) -> bytes:
    """One row for each of many series."""
    return "".join(
        f"bomb_line,host=host_{number % 1000},id=container-{number:08x} v={number}i {START_MS}\n"
        for number in range(first, first + count)
    ).encode()


def series_samples(first: int, count: int) -> bytes:
    """One sample for each of many series of one metric."""
    return pack(
        write_request(
            (
                [("__name__", "bomb_rw"), ("host", f"host_{number % 1000}"), ("id", f"container-{number:08x}")],
                [(START_MS, float(number))],
            )
            for number in range(first, first + count)
        ).SerializeToString()
    )


def metric_samples(first: int, count: int, prefix: str) -> bytes:
    """One sample for each of many metrics."""
    return pack(
        write_request(
            ([("__name__", f"{prefix}_{number}"), ("host", "a")], [(START_MS, float(number))])
            for number in range(first, first + count)
        ).SerializeToString()
    )


def measurement_lines(first: int, count: int) -> bytes:
    """One row for each of many measurements."""
    return "".join(f"m_{number},host=a v={number}i {START_MS}\n" for number in range(first, first + count)).encode()


def column_line(table: str, first: int, count: int, *, time_ms: int) -> bytes:
    """One row with many fields."""
    fields = ",".join(f"f{number}={number}i" for number in range(first, first + count))
    return f"{table},host=a {fields} {time_ms}\n".encode()


def pack(message: bytes) -> bytes:
    return bytes(pa.compress(message, codec="snappy", asbytes=True))


class Sender:
    """One connection that writes; every answer must be a success."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_SECONDS_MAX)

    def lines(self, body: bytes) -> None:
        self._post("/v1/influxdb/write?precision=ms", body, {})

    def samples(self, body: bytes) -> None:
        self._post("/v1/prometheus/write", body, {"Content-Encoding": "snappy"})

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        self._connection.request("POST", path, body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 204:
            self.close()  # so that it is this test that fails, and no other
            pytest.fail(f"{path}: {response.status} {answer[:1000]!r}")

    def close(self) -> None:
        self._connection.close()


@dataclass
class Seen:
    """What `watched` noticed."""

    questions: int = 0
    slowest_seconds: float = 0.0
    seconds: float = 0.0
    memory_mb: float = 0.0
    """The most that the process ever took."""

    def __str__(self) -> str:
        return (
            f"{self.seconds:.1f} s, memory at most {self.memory_mb:.0f} MiB, "
            f"slowest of {self.questions} other questions {self.slowest_seconds:.2f} s"
        )


@contextmanager
def watched(server: ServerProcess) -> Iterator[Seen]:
    """Ask the server small things from the side while the body works."""
    seen, end, faults = Seen(), threading.Event(), list[BaseException]()
    aside = Sender(server.url)
    aside.lines(f"aside,host=a v=1i {START_MS}\n".encode())
    started = time.monotonic()
    thread = threading.Thread(target=_ask, args=(server.url, aside, seen, end, faults))
    thread.start()
    try:
        yield seen
    finally:
        end.set()
        thread.join(2 * ANSWER_SECONDS_MAX)
        seen.seconds = time.monotonic() - started
        seen.memory_mb = peak_memory_mb(server.process.pid)
        aside.close()
    assert not faults, faults


def _ask(url: str, aside: Sender, seen: Seen, end: threading.Event, faults: list[BaseException]) -> None:
    reader = Reader(url)
    try:
        while True:
            started = time.monotonic()
            aside.lines(f"aside,host=a v=1i {START_MS}\n".encode())
            assert reader.sql("SELECT count(*) FROM aside") == [[1]]
            seen.questions += 1
            seen.slowest_seconds = max(seen.slowest_seconds, time.monotonic() - started)
            if end.wait(0.1):
                return
    except BaseException as error:  # noqa: BLE001 - told by the thread that waits
        faults.append(error)
    finally:
        reader.close()


def peak_memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return float(status.split("VmHWM:")[1].split()[0]) / 1024
