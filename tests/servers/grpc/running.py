"""A gRPC server on a thread of its own, in front of a real database: for clients that block."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from tsdb.auth import SYSTEM, Authenticator, open_authenticator
from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import Database, DatabaseGate
from tsdb.query import Affected, Session
from tsdb.servers.grpc import (
    GrpcServer,
    MakeServices,
    database_services,
    flight_services,
    otlp_services,
    promql_services,
)
from tsdb.servers.grpc.proto import greptime_pb2 as v1

SERVICES: tuple[MakeServices, ...] = (database_services, flight_services, promql_services, otlp_services())
SECONDS = 20
USERS = "static_user_provider:cmd:u1=p1,r:ro=p,w:wo=p"


class RunningServer:
    """Where a server listens, and the database behind it."""

    def __init__(self, server: GrpcServer, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.database = database
        self._loop = loop

    def stop(self, grace_seconds: float) -> None:
        """Stop the server; the database stays open."""
        asyncio.run_coroutine_threadsafe(self.server.stop(grace_seconds), self._loop).result(SECONDS)

    @property
    def address(self) -> str:
        return self.server.address

    @contextmanager
    def channel(self, **options: Any) -> Iterator[grpc.Channel]:
        with grpc.insecure_channel(self.address, **options) as channel:
            yield channel

    def call(
        self,
        method: str,
        request: bytes,
        *,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float = SECONDS,
        compression: grpc.Compression | None = None,
    ) -> bytes:
        """Send the bytes of a request to a method, `greptime.v1.GreptimeDatabase/Handle` for one."""
        with self.channel() as channel:
            answer: bytes = channel.unary_unary(f"/{method}")(
                request, metadata=tuple(metadata), timeout=timeout, compression=compression
            )
            return answer

    def handle(self, request: v1.GreptimeRequest, *, metadata: Sequence[tuple[str, str]] = ()) -> int:
        """Send a request to the database service; the number of rows."""
        raw = self.call("greptime.v1.GreptimeDatabase/Handle", request.SerializeToString(), metadata=metadata)
        return v1.GreptimeResponse.FromString(raw).affected_rows.value

    def sql(self, text: str) -> list[dict[str, Any]]:
        """Ask the database itself."""
        output = self.database.run(text, Session(identity=SYSTEM))
        if isinstance(output, Affected):
            return []
        return [row for batch in output for row in batch.to_pylist()]


@contextmanager
def running_server(
    directory: Path,
    *,
    users: str | None = None,
    services: Sequence[MakeServices] = SERVICES,
    **options: Any,
) -> Iterator[RunningServer]:
    """Run a server until the block ends."""
    known = Authenticator() if users is None else open_authenticator(users)
    directory.mkdir(exist_ok=True)
    opened = open_directory(directory, options=LocalOptions(has_housekeeping=False, authenticator=known))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    settings = {"host": "127.0.0.1", "port": 0, "authenticator": known, "version": "9.9.9"}
    server = GrpcServer(DatabaseGate(opened.database), services, **{**settings, **options})
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(SECONDS)
        yield RunningServer(server, opened.database, loop)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(5), loop).result(SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()
        opened.close()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def trailer(error: grpc.RpcError, key: str) -> str | bytes | None:
    """A value of the trailing metadata of a call that failed."""
    return dict(error.trailing_metadata()).get(key)
