"""Bodies of remote write read by threads that need no interpreter, while the event loop goes on.

body ─ submit ─▶ threads of the kernel: unpack, parse ─ bell ─▶ event loop ─▶ whoever waits
"""

from __future__ import annotations

import asyncio
import itertools
import socket

from tsdb.ingest.prometheus import RemoteWriteReader, Samples

READ_THREADS = 2


class RemoteWriteReads:
    """The threads, and who waits for them. Belongs to the event loop that it was made on."""

    def __init__(self, reader: RemoteWriteReader, *, bytes_max: int) -> None:
        self.loop = asyncio.get_running_loop()
        self._reader = reader
        self._tickets = itertools.count()
        self._waiting: dict[int, asyncio.Future[Samples | None]] = {}
        self._ear, mouth = socket.socketpair()
        self._ear.setblocking(False)
        mouth.setblocking(False)
        self._reads = reader.start_reading(bell=mouth.detach(), threads=READ_THREADS, bytes_max=bytes_max)
        self.loop.add_reader(self._ear.fileno(), self._hear)

    async def read(self, body: bytes) -> Samples | None:
        """Read a body of version 1; None if it is not a snappy block of one, not too large."""
        ticket = next(self._tickets)
        done: asyncio.Future[Samples | None] = self.loop.create_future()
        self._waiting[ticket] = done
        try:
            self._reads.submit(ticket, body)
            return await done
        finally:
            del self._waiting[ticket]

    def close(self) -> None:
        if not self.loop.is_closed():
            self.loop.remove_reader(self._ear.fileno())
        self._reads.close()
        self._ear.close()

    def _hear(self) -> None:
        self._ear.recv(4096)
        for ticket, batch in self._reads.take():
            done = self._waiting.get(ticket)
            if done is not None and not done.done():
                done.set_result(None if batch is None else self._reader.samples(batch))
