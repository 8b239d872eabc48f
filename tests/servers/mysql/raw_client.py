"""A client that sends packets as a test says, right or wrong."""

from __future__ import annotations

import socket
from types import TracebackType

SECONDS_MAX = 20
CAPABILITIES = 0x0000_A28D | 1 << 16 | 1 << 17 | 1 << 19


def login_packet(user: bytes = b"me", *, capabilities: int = CAPABILITIES, database: bytes = b"public") -> bytes:
    """Return an answer to the greeting, without a password."""
    return (
        capabilities.to_bytes(4, "little")
        + (1 << 24).to_bytes(4, "little")
        + b"\x2d"
        + bytes(23)
        + user
        + b"\x00\x00"
        + database
        + b"\x00mysql_native_password\x00"
    )


class RawClient:
    """One connection."""

    def __init__(self, port: int, *, logs_in: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
        self.greeting = self.read()
        if logs_in:
            self.send(login_packet(), 1)
            assert self.read()[0] == 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, payload: bytes, number: int = 0) -> None:
        self.socket.sendall(len(payload).to_bytes(3, "little") + bytes((number,)) + payload)

    def read(self) -> bytes:
        """Return what the next packet carries; b"" at the end of the connection."""
        header = self._exactly(4)
        return self._exactly(int.from_bytes(header[:3], "little")) if len(header) == 4 else b""

    def ask(self, payload: bytes) -> bytes:
        """Send a command and return the first packet of its answer."""
        self.send(payload)
        return self.read()

    def is_closed(self) -> bool:
        """Read to the end; the socket's own deadline passes if there is none."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        return True

    def _exactly(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            more = self.socket.recv(size - len(got))
            if not more:
                return got
            got += more
        return got


def errno_of(packet: bytes) -> int:
    """Return the number of an error packet."""
    assert packet[:1] == b"\xff", packet
    return int.from_bytes(packet[1:3], "little")
