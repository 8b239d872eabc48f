"""A crowd: many connections that ask while others write and some leave without waiting for their answers.

Each writer has its own hosts and counts acknowledged rows. A query for the number of rows of a host must return at
least the rows acknowledged before it was sent, and at most the rows sent so far. A host that has many rows is followed
by another one, whose times begin where the times of the first end: the data grows, and what one query reads does not.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlsplit

import orjson

from tests.soak.control import Span

ASKERS, WRITERS, LEAVERS = 64, 4, 4
HOSTS = 5
"""Of each writer at a time."""
HOST_ROWS = 50_000
"""After so many rows a host is followed by another one."""
ROWS = 200
"""Of each request."""
START_MS = 1_700_000_000_000


@dataclass
class Crowd:
    """What the clients did, and what they saw."""

    url: str
    seed: int
    sent: Counter[str] = field(default_factory=Counter)
    acknowledged: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    """How long the slowest answer of each kind took, in seconds."""
    stalls: list[Span] = field(default_factory=list)
    """The times over a second in which nobody got an answer."""
    left: int = 0
    hosts: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(WRITERS * HOSTS), 0))
    """How many hosts came before the present one in each place."""

    async def run(self, seconds: float, watch: Callable[[], None]) -> None:
        """Let everybody work for so long; `watch` is called every few seconds."""
        self._chance = random.Random(self.seed)
        first = self._host(0)
        await self._ask_once("POST", self._write_path, self._lines(first))
        self.sent[first] = self.acknowledged[first] = ROWS
        self._answered = time.monotonic()
        self._until = self._answered + seconds
        async with asyncio.TaskGroup() as group:
            for number in range(ASKERS):
                group.create_task(self._ask(number))
            for number in range(WRITERS):
                group.create_task(self._write(number))
            for _ in range(LEAVERS):
                group.create_task(self._leave())
            while time.monotonic() < self._until:
                await asyncio.to_thread(watch)
                await asyncio.sleep(min(2.0, seconds / 4))

    # Clients ----------------------------------------------------------------------------------------------------------

    async def _ask(self, number: int) -> None:
        connection = _Connection(self.url)
        try:
            while time.monotonic() < self._until:
                kind, path, check = self._question()
                started = time.monotonic()
                status, body = await connection.request("GET", path)
                assert status == 200, (kind, status, body)
                check(orjson.loads(body))
                self._note(kind, started)
        finally:
            connection.close()

    async def _write(self, number: int) -> None:
        connection = _Connection(self.url)
        try:
            while time.monotonic() < self._until:
                place = self._chance.randrange(HOSTS) * WRITERS + number
                host = self._host(place)
                body = self._lines(host)
                self.sent[host] += ROWS
                started = time.monotonic()
                status, answer = await connection.request("POST", self._write_path, body)
                assert status == 204, (status, answer)
                self.acknowledged[host] += ROWS
                self.hosts[place] += self.acknowledged[host] >= HOST_ROWS
                self._note("write", started)
        finally:
            connection.close()

    async def _leave(self) -> None:
        """Ask, and go away before the answer is there or while it comes."""
        while time.monotonic() < self._until:
            connection = _Connection(self.url)
            _, path, _ = self._question()
            await connection.send("GET", path)
            await asyncio.sleep(self._chance.random() * 0.02)
            connection.close()
            self.left += 1

    def _note(self, kind: str, started: float) -> None:
        now = time.monotonic()
        self.answers[kind] += 1
        self.slowest[kind] = max(self.slowest.get(kind, 0.0), now - started)
        if now - self._answered > 1:
            self.stalls.append((self._answered, now))
        self._answered = now

    # Requests ---------------------------------------------------------------------------------------------------------

    _write_path = "/v1/influxdb/write?db=public&precision=ms"

    def _lines(self, host: str) -> bytes:
        first, start_ms = self.sent[host], self._start_ms(host)
        return b"\n".join(
            b"cpu,host=%s v=%d,w=%f %d" % (host.encode(), row % 97, row / 7, start_ms + 1000 * row)
            for row in range(first, first + ROWS)
        )

    def _host(self, place: int) -> str:
        return f"h{place}-{self.hosts[place]}"

    def _start_ms(self, host: str) -> int:
        return START_MS + 1000 * HOST_ROWS * int(host.rpartition("-")[2])

    def _question(self) -> tuple[str, str, Callable[[dict[str, object]], None]]:
        host = self._host(self._chance.randrange(WRITERS * HOSTS))
        start = self._start_ms(host)
        kind = self._chance.choice(["count", "count", "count", "minutes", "last", "promql", "join"])
        if kind == "count":
            before = self.acknowledged[host]
            text = f"SELECT count(v) AS n FROM cpu WHERE host = '{host}'"
            return kind, _sql(text), lambda answer: self._check_count(host, before, answer)
        if kind == "minutes":
            bucket = "date_trunc('minute', tsdb_timestamp)"
            return kind, _sql(f"SELECT {bucket} AS m, max(v) FROM cpu WHERE host = '{host}' GROUP BY 1"), _no_check
        if kind == "last":
            recent = f"FROM cpu WHERE tsdb_timestamp >= {_moment(start)} GROUP BY host ORDER BY host"
            text = f"SELECT host, last_value(v ORDER BY tsdb_timestamp) AS v {recent}"
            return kind, _sql(text), _no_check
        if kind == "join":
            one = f"(SELECT DISTINCT host FROM cpu WHERE host = '{host}')"
            first = f"b.tsdb_timestamp >= {_moment(start)} AND b.tsdb_timestamp < {_moment(start + 600_000)}"
            both = f"{one} a JOIN cpu b ON a.host = b.host AND {first}"
            return kind, _sql(f"SELECT count(*) FROM {both}"), _no_check
        at = start // 1000
        query = quote(f'sum(rate(cpu{{host="{host}",__field__="v"}}[1m]))')
        return kind, f"/v1/prometheus/api/v1/query_range?query={query}&start={at}&end={at + 600}&step=15", _no_check

    def _check_count(self, host: str, before: int, answer: dict[str, object]) -> None:
        (row,) = answer["output"][0]["records"]["rows"]  # type: ignore[index]
        assert before <= row[0] <= self.sent[host], f"{row[0]} rows of {host}; {before} were acknowledged before"

    async def _ask_once(self, method: str, path: str, body: bytes) -> None:
        connection = _Connection(self.url)
        status, answer = await connection.request(method, path, body)
        connection.close()
        assert status == 204, answer

    async def check_all(self) -> None:
        """In the end every acknowledged row is there, and none that was not sent."""
        connection = _Connection(self.url)
        for host, rows in self.acknowledged.items():
            _, body = await connection.request("GET", _sql(f"SELECT count(v) AS n FROM cpu WHERE host = '{host}'"))
            self._check_count(host, rows, orjson.loads(body))
        connection.close()


class _Connection:
    """A connection that is kept open; one request at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, method: str, path: str, body: bytes = b"") -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, limit=1 << 24)
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._streams[1].write(head.encode() + body)

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        await self.send(method, path, body)
        assert self._streams is not None
        reader = self._streams[0]
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        status = int(head.split(" ", 2)[1])
        length = next((line.split(":")[1] for line in head.splitlines() if line.startswith("content-length:")), None)
        if length is not None:
            return status, await reader.readexactly(int(length))
        if "transfer-encoding: chunked" not in head:
            return status, b""
        pieces = []
        while size := int((await reader.readuntil(b"\r\n")).strip() or b"0", 16):
            pieces.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readexactly(2)
        return status, b"".join(pieces)

    def close(self) -> None:
        if self._streams is not None:
            with suppress(OSError):
                self._streams[1].close()


def _moment(milliseconds: int) -> str:
    return f"TIMESTAMP '{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}'"


def _sql(text: str) -> str:
    return f"/v1/sql?db=public&sql={quote(text)}"


def _no_check(answer: dict[str, object]) -> None:
    """That it is there is enough."""


def resident_mb(process: int) -> int:
    """Return what a process and all below it hold in memory, shared pages once and those of files not at all."""
    total, todo = 0, [process]
    while todo:
        each = todo.pop()
        with suppress(OSError):
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
            for path in Path(f"/proc/{each}/task").glob("*/children"):
                todo += map(int, path.read_text().split())
    return total >> 10
