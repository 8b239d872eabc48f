"""A server with fast workers, and clients that ask it byte by byte."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from tests.engine.lives import wait_until
from tests.servers.fast_workers.test_fast_workers import serving
from tsdb.auth import Authenticator
from tsdb.components import LocalDatabase
from tsdb.database import DatabaseGate
from tsdb.processes.fork_server import Forker
from tsdb.servers import QueryScheduler
from tsdb.servers._inline import InlineLimits, InlinePolicy
from tsdb.servers.http import HttpApp, HttpServer, prometheus_api_routes, sql_routes
from tsdb.servers.http.shortcut import QueryShortcut
from tsdb.servers.http.shortcut._exchange import QueryExchange
from tsdb.servers.http.wire import TUNING
from tsdb.units import Duration


class Answer(NamedTuple):
    status: int
    headers: list[bytes]
    body: bytes

    @property
    def timeless(self) -> tuple[int, list[bytes], bytes]:
        """Without what differs from one time to the next."""
        headers = [each for each in self.headers if not re.match(rb"date|x-.*-execution-time|content-length", each)]
        body = gzip.decompress(self.body) if b"content-encoding: gzip" in headers else self.body
        return self.status, headers, re.sub(rb'"execution_time_ms":\d+', b"", body)


class Client:
    """A connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, request: bytes) -> Answer:
        self.writer.write(request)
        return await self.answer()

    async def answer(self) -> Answer:
        head = await self.reader.readuntil(b"\r\n\r\n")
        line, *headers = head.rstrip().split(b"\r\n")
        (length,) = (int(each.split(b":")[1]) for each in headers if each.startswith(b"content-length"))
        return Answer(int(line.split()[1]), headers, await self.reader.readexactly(length))


class Site:
    """A server with fast workers, and what its shortcut has done."""

    def __init__(self, server: HttpServer, shortcut: QueryShortcut, opened: LocalDatabase) -> None:
        self.server = server
        self.shortcut = shortcut
        self.opened = opened
        self.clients: list[Client] = []
        self.statuses: list[int] = []
        """Of the answers that the shortcut has given."""

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.server.port))
        self.clients.append(client)
        return client

    async def both(self, *requests: bytes) -> list[Answer]:
        """Have two clients ask the same at the same time: none of them is alone."""
        return await asyncio.gather(
            *(client.ask(each) for client, each in zip(self.clients, requests * 2, strict=False))
        )

    async def shortly(self, request: bytes) -> Answer:
        """Ask until the shortcut answers."""
        async with asyncio.timeout(60):
            while True:
                before = len(self.statuses)
                answers = await self.both(request)
                if len(self.statuses) - before == len(answers):
                    assert len({str(each.timeless) for each in answers}) == 1
                    return answers[0]


@asynccontextmanager
async def site(
    opened: LocalDatabase,
    forker: Forker,
    authenticator: Authenticator | None = None,
    inline: InlinePolicy | None = None,
    **options: Any,
) -> AsyncIterator[Site]:
    async with serving(opened, forker, **options) as world:
        app = HttpApp(body_limit=0, timeout=Duration.parse("30s"), authenticator=authenticator)
        gate, scheduler = DatabaseGate(opened.database), QueryScheduler()
        routes = [
            make(app, gate, scheduler=scheduler, fast_workers=world.workers, inline=inline)
            for make in (sql_routes, prometheus_api_routes)
        ]
        assert isinstance(app.shortcut, QueryShortcut)
        # The machine may stand still: two clients that ask in turn are never alone.
        server = HttpServer(app, host="127.0.0.1", port=0, tuning=replace(TUNING, recent_seconds=3600.0))
        await server.start()
        found = Site(server, app.shortcut, opened)
        noted = app.shortcut.note

        def note(exchange: QueryExchange, status: int) -> None:
            found.statuses.append(status)
            noted(exchange, status)

        app.shortcut.note = note  # type: ignore[method-assign]
        await found.connect()
        await found.connect()
        try:
            yield found
        finally:
            for client in found.clients:
                client.writer.close()
            await server.stop(10)
            await until(lambda: not app.in_flight)
            for each in routes:
                each.close()


async def until(is_so: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, is_so)


def everything_is_fast() -> InlinePolicy:
    """However slow the machine is, a query that was seen once runs inline."""
    return InlinePolicy(InlineLimits(fast_seconds=3600, soft_deadline_seconds=3600, runs_min=1, runs_after_miss=1))


async def alone(here: Site, request: bytes) -> Answer:
    """Ask as the only client until the shortcut answers."""
    (client,) = here.clients
    async with asyncio.timeout(60):
        while True:
            before = len(here.statuses)
            answer = await client.ask(request)
            if len(here.statuses) > before:
                return answer


@asynccontextmanager
async def one_client(opened: LocalDatabase, forker: Forker) -> AsyncIterator[Site]:
    """A site with one client, none of whose queries may go to a worker from the shortcut."""

    def submit(*_: object) -> bool:
        raise AssertionError("its client is alone")

    async with site(opened, forker, inline=everything_is_fast()) as here:
        here.clients.pop().writer.close()
        here.shortcut._workers.submit = submit  # type: ignore[method-assign]
        yield here
