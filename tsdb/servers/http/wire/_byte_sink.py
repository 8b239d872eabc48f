"""A file in memory, for encoders whose output is sent while they go on."""

from __future__ import annotations


class ByteSink:
    """A file that keeps what is written until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._written.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Everything is already where `take` finds it."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        taken = b"".join(self._written)
        self._written.clear()
        return taken
