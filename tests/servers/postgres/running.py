"""A PostgreSQL server on a thread of its own, in front of a real database: for clients that block."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tsdb.auth import Authenticator
from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import Database, DatabaseGate
from tsdb.servers.postgres import PostgresServer


class RunningServer:
    """Where a server listens, and the database behind it."""

    def __init__(self, server: PostgresServer, database: Database) -> None:
        self.server = server
        self.database = database

    @property
    def port(self) -> int:
        return int(self.server.address.rsplit(":", 1)[1])

    def connect(self, *, user: str = "me", dbname: str = "public", **options: Any) -> psycopg.Connection[Any]:
        """Connect with psycopg; every statement by itself."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=user, dbname=dbname, autocommit=True, connect_timeout=10, **options
        )

    def raw(self) -> RawClient:
        return RawClient(self.port)


@contextmanager
def running_server(
    directory: Path, *, authenticator: Authenticator | None = None, **options: Any
) -> Iterator[RunningServer]:
    """Run a server until the block ends."""
    known = authenticator or Authenticator()
    directory.mkdir(exist_ok=True)
    opened = open_directory(directory, options=LocalOptions(has_housekeeping=False, authenticator=known))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    settings = {"host": "127.0.0.1", "port": 0, "threads_max": 2, "authenticator": known, "version": "9.9.9"}
    server = PostgresServer(DatabaseGate(opened.database), **{**settings, **options})
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(20)
        yield RunningServer(server, opened.database)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(5), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()
        opened.close()


class RawClient:
    """The protocol by hand: messages as letters and bodies."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._rest = b""

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send_startup(self, code: int, body: bytes = b"") -> None:
        self.socket.sendall(struct.pack("!ii", len(body) + 8, code) + body)

    def log_in(self, **parameters: str) -> list[tuple[str, bytes]]:
        """Send the start-up message and return everything up to ReadyForQuery."""
        known = {"user": "me", "database": "public"} | parameters
        pairs = b"".join(text.encode() + b"\0" for pair in known.items() for text in pair)
        self.send_startup(196608, pairs + b"\0")
        return self.read_until("Z", "E")

    def log_in_only(self, user: str) -> None:
        """Send the start-up message and read nothing."""
        self.send_startup(196608, f"user\0{user}\0database\0public\0\0".encode())

    def send(self, tag: str, body: bytes = b"") -> None:
        self.socket.sendall(message(tag, body))

    def read_byte(self) -> bytes:
        return self.socket.recv(1)

    def read(self) -> tuple[str, bytes]:
        """Return the next message; ("", b"") when the server has closed."""
        head = self._take(5)
        if len(head) < 5:
            return "", b""
        return chr(head[0]), self._take(struct.unpack("!i", head[1:])[0] - 4)

    def _take(self, count: int) -> bytes:
        while len(self._rest) < count:
            try:
                piece = self.socket.recv(65536)
            except ConnectionError:
                piece = b""
            if not piece:
                break
            self._rest += piece
        piece, self._rest = self._rest[:count], self._rest[count:]
        return piece

    def read_until(self, *tags: str) -> list[tuple[str, bytes]]:
        """Return messages up to one of these letters, or to the end."""
        found = [self.read()]
        while found[-1][0] not in (*tags, ""):
            found.append(self.read())
        return found

    def ask(self, *messages: bytes) -> list[tuple[str, bytes]]:
        """Send messages and a Sync, and return the answer up to ReadyForQuery."""
        self.socket.sendall(b"".join(messages) + message("S"))
        return self.read_until("Z")


def message(tag: str, body: bytes = b"") -> bytes:
    return tag.encode() + struct.pack("!i", len(body) + 4) + body


def parse(text: str, *, name: str = "", types: tuple[int, ...] = ()) -> bytes:
    packed = struct.pack(f"!h{len(types)}i", len(types), *types)
    return message("P", name.encode() + b"\0" + text.encode() + b"\0" + packed)


def bind(
    *values: bytes | None,
    portal: str = "",
    name: str = "",
    formats: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
) -> bytes:
    body = portal.encode() + b"\0" + name.encode() + b"\0" + struct.pack(f"!h{len(formats)}h", len(formats), *formats)
    body += struct.pack("!h", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return message("B", body + struct.pack(f"!h{len(results)}h", len(results), *results))


def describe(kind: str, name: str = "") -> bytes:
    return message("D", kind.encode() + name.encode() + b"\0")


def execute(portal: str = "", rows: int = 0) -> bytes:
    return message("E", portal.encode() + b"\0" + struct.pack("!i", rows))


def close(kind: str, name: str = "") -> bytes:
    return message("C", kind.encode() + name.encode() + b"\0")


def query(text: str) -> bytes:
    return message("Q", text.encode() + b"\0")


def error_field(body: bytes, letter: str) -> str:
    """A field of an ErrorResponse or a NoticeResponse."""
    for piece in body.split(b"\0"):
        if piece[:1] == letter.encode():
            return piece[1:].decode()
    return ""
