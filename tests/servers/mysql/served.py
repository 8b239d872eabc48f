"""A real database with a MySQL server in front of it, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import uvloop

from tsdb.auth import open_authenticator
from tsdb.components import LocalOptions, open_local
from tsdb.config import TlsMode
from tsdb.database import Database, DatabaseGate
from tsdb.kv import MemoryKv
from tsdb.servers import QueryScheduler, Tls
from tsdb.servers.mysql import MysqlLimits, MysqlServer
from tsdb.store import LocalStore

SECONDS_MAX = 20


class Served:
    """What a test needs of the server."""

    def __init__(self, server: MysqlServer, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.database = database
        self.loop = loop

    @property
    def port(self) -> int:
        return int(self.server.address.rpartition(":")[2])

    def connect(self, user: str = "me", password: str = "secret", **options: Any) -> pymysql.Connection[Any]:
        settings = {"database": "public", "autocommit": True, "connect_timeout": SECONDS_MAX} | options
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            password=password,
            read_timeout=SECONDS_MAX,
            write_timeout=SECONDS_MAX,
            **settings,
        )

    def fetch(self, statement: str, **options: Any) -> tuple[Any, ...]:
        """Run one statement on a connection of its own."""
        with self.connect(**options) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchall())


@contextmanager
def serving(
    directory: Path,
    *,
    user_provider: str | None = None,
    tls: Tls | None = None,
    limits: MysqlLimits | None = None,
    requires_database: bool = False,
    scheduler: QueryScheduler | None = None,
) -> Iterator[Served]:
    """Open a database in a directory and serve it on a free port."""
    authenticator = open_authenticator(user_provider)
    options = LocalOptions(authenticator=authenticator, has_housekeeping=False)
    local = open_local(LocalStore(directory / "data"), MemoryKv(), directory / "wal", options=options)
    server = MysqlServer(
        DatabaseGate(local.database),
        authenticator,
        tls or Tls(TlsMode.DISABLE),
        host="127.0.0.1",
        port=0,
        limits=limits or MysqlLimits(threads_max=2),
        requires_database=requires_database,
        scheduler=scheduler,
    )
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="mysql-test-loop")
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(SECONDS_MAX)
        yield Served(server, local.database, loop)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(1.0), loop).result(SECONDS_MAX)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS_MAX)
        loop.close()
        local.close()
