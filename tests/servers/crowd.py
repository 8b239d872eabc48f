"""One database behind HTTP, MySQL, PostgreSQL and gRPC at once, and clients that block: for tests with many of them."""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

import psycopg
import pymysql

from tests.servers.grpc.running import SERVICES
from tsdb.auth import Authenticator
from tsdb.components import LocalDatabase
from tsdb.config import TlsMode
from tsdb.database import DatabaseGate
from tsdb.servers import QueryScheduler, Tls
from tsdb.servers.fast_workers import FastWorkers
from tsdb.servers.grpc import GrpcServer
from tsdb.servers.http import HttpApp, HttpServer, prometheus_api_routes, sql_routes
from tsdb.servers.http.wire import TUNING
from tsdb.servers.mysql import MysqlLimits, MysqlServer
from tsdb.servers.postgres import PostgresServer
from tsdb.units import Duration

CONNECTIONS = 64
SECONDS = 60
LATEST_MS = 600_000


class Ports(NamedTuple):
    """Where the servers listen."""

    http: int
    mysql: int
    postgres: int
    grpc: int
    app: HttpApp


@asynccontextmanager
async def serving_crowd(
    opened: LocalDatabase, scheduler: QueryScheduler, *, http_timeout: str = "0s", workers: FastWorkers | None = None
) -> AsyncIterator[Ports]:
    """Serve a database over all protocols, on free ports, with the queries of all of them on one scheduler."""
    gate = DatabaseGate(opened.database)
    shared: dict[str, Any] = {"scheduler": scheduler, "fast_workers": workers}
    app = HttpApp(body_limit=0, timeout=Duration.parse(http_timeout))
    routes = [
        sql_routes(app, gate, threads_max=CONNECTIONS, scheduler=scheduler, fast_workers=workers),
        prometheus_api_routes(app, gate, threads_max=CONNECTIONS, scheduler=scheduler, fast_workers=workers),
    ]
    # Clients that ask in turn are never alone, however long the machine stands still between them.
    tuning = replace(TUNING, recent_seconds=3600.0)
    where: dict[str, Any] = {"host": "127.0.0.1", "port": 0}
    limits = MysqlLimits(threads_max=CONNECTIONS)
    known: dict[str, Any] = {"authenticator": Authenticator(), "version": "9.9.9"}
    servers: list[Any] = [
        HttpServer(app, tuning=tuning, **where),
        MysqlServer(gate, Authenticator(), Tls(TlsMode.DISABLE), limits=limits, **where, **shared),
        PostgresServer(gate, threads_max=CONNECTIONS, **where, **known, **shared),
        GrpcServer(gate, SERVICES, scheduler=scheduler, **where, **known),
    ]
    for server in servers:
        await server.start()
    try:
        yield Ports(servers[0].port, *(int(each.address.rpartition(":")[2]) for each in servers[1:]), app)
    finally:
        for server in servers:
            await server.stop(5)
        for each in routes:
            each.close()


class Refused(Exception):
    """A query had no rows: the code of the protocol, and the message."""

    def __init__(self, code: object, message: str, retry_after: str | None = None) -> None:
        super().__init__(code, message)
        self.code, self.message, self.retry_after = code, message, retry_after


class Asker(Protocol):
    """A connection of any protocol."""

    def ask(self, text: str) -> list[tuple[Any, ...]]: ...


class HttpAsker:
    """A kept connection; `headers` go with each request."""

    def __init__(self, port: int, headers: dict[str, str] | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        self._headers = headers or {}

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        (output,) = self.get("/v1/sql", sql=text)["output"]
        return [tuple(row) for row in output["records"]["rows"]]

    def get(self, path: str, **parameters: object) -> Any:
        self.connection.request("GET", f"{path}?{urlencode(parameters)}", headers=self._headers)
        answer = self.connection.getresponse()
        found = json.loads(answer.read())
        if answer.status != 200:
            raise Refused(answer.status, str(found), answer.headers["retry-after"])
        return found


class MysqlAsker:
    def __init__(self, port: int) -> None:
        address: dict[str, Any] = {"host": "127.0.0.1", "port": port, "user": "me", "database": "public"}
        self.connection = pymysql.connect(**address, connect_timeout=SECONDS, read_timeout=SECONDS, autocommit=True)

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(text)
                return list(cursor.fetchall())
        except pymysql.MySQLError as error:
            raise Refused(*error.args[:2]) from error


class PostgresAsker:
    def __init__(self, port: int) -> None:
        address = f"host=127.0.0.1 port={port} user=me dbname=public connect_timeout={SECONDS}"
        self.connection = psycopg.connect(address, autocommit=True)

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        try:
            found = self.connection.execute(text.encode())
            return found.fetchall() if found.description is not None else []
        except psycopg.Error as error:
            raise Refused(error.sqlstate, str(error)) from error


def connect_http(ports: Ports) -> HttpAsker:
    return HttpAsker(ports.http)


def connect_mysql(ports: Ports) -> MysqlAsker:
    return MysqlAsker(ports.mysql)


def connect_postgres(ports: Ports) -> PostgresAsker:
    return PostgresAsker(ports.postgres)


CONNECTS: tuple[Callable[[Ports], Asker], ...] = (connect_http, connect_mysql, connect_postgres)
BUSY: dict[Callable[[Ports], Asker], object] = {connect_http: 503, connect_mysql: 1041, connect_postgres: "53000"}
"""The code that tells that there is too much to do at this moment."""


@contextmanager
def connected(ports: Ports, count: int, *connects: Callable[[Ports], Asker]) -> Iterator[list[Asker]]:
    """Open connections, of each protocol in turn."""
    chosen = connects or CONNECTS
    opened: list[Any] = [chosen[number % len(chosen)](ports) for number in range(count)]
    try:
        yield opened
    finally:
        for each in opened:
            each.connection.close()
