"""The memory of request bodies, of all connections together.

A body is announced before it is sent. One that is large waits for its turn until there is room for it, in order of
arrival, at most for the timeout of its request; meanwhile it stays with the client. A body that is sent in chunks is
not announced: it is refused when there is no room for more of it. One body alone may be of any permitted size.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from tsdb.errors import Busy
from tsdb.memory import MemoryUse

SMALL_BYTES_MAX = 64 << 10
"""Bodies up to this size are not counted."""
BODIES_BYTES_MAX = 256 << 20
UNPACKED_FACTOR = 4
"""A compressed body counts as if it became so many times as large."""


class BodyMemory:
    """Counts the bytes of bodies that are read or worked on. Everything happens on the event loop."""

    def __init__(self, bytes_max: int = BODIES_BYTES_MAX) -> None:
        self._full_bytes = self.bytes_max = bytes_max
        self.held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def memory_use(self) -> Iterator[MemoryUse]:
        yield MemoryUse("request_bodies", self.held, self.bytes_max)

    def limit_memory(self, share: float) -> None:
        self.bytes_max = int(self._full_bytes * share)
        self._admit()

    async def reserve(self, nbytes: int) -> None:
        """Take bytes for a body when it is its turn; to be given back."""
        if not self._waiting and self._fits(nbytes):
            self.held += nbytes
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((nbytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(nbytes)
            self._admit()
            raise

    def reserve_now(self, nbytes: int, held_before: int) -> None:
        """Take bytes for more of a body that already has some, or refuse it."""
        if self.held + nbytes > self.bytes_max and self.held > held_before:
            raise Busy(
                f"the bodies of the requests in progress take more than {self.bytes_max >> 20} MiB",
                hint="try again later, or send Content-Length so that the request waits for its turn",
            )
        self.held += nbytes

    def give_back(self, nbytes: int) -> None:
        self.held -= nbytes
        self._admit()

    def _fits(self, nbytes: int) -> bool:
        return not self.held or self.held + nbytes <= self.bytes_max

    def _admit(self) -> None:
        while self._waiting:
            nbytes, turn = self._waiting[0]
            if turn.done():
                self._waiting.popleft()
            elif self._fits(nbytes):
                self._waiting.popleft()
                self.held += nbytes
                turn.set_result(None)
            else:
                return
