"""Readers that a datanode holds for its clients.

A reader belongs to the session of its client, which is its first stream. It is released when the client says so, when
its time is over, or with the session; if a request is being answered then, at the end of that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from tsdb.clock import Clock
from tsdb.engine.reading import RegionReader
from tsdb.errors import Busy, Cancelled, DeadlineExceeded
from tsdb.units import Duration

READERS_MAX = 4096
"""How many readers all clients together may have open."""
READER_TIMEOUT = Duration.of_seconds(3600)
"""How long a reader without a deadline lives that its client does not release."""
GRACE = Duration.of_seconds(5)
"""How long a reader is kept after its deadline, so that its last request is told of that."""


class ServedReader:
    """A reader that a client has open."""

    __slots__ = ("expires_ns", "is_over", "reader", "session", "uses")

    def __init__(self, reader: RegionReader, session: int, expires_ns: int) -> None:
        self.reader = reader
        self.session = session
        self.expires_ns = expires_ns
        self.uses = 0
        self.is_over = False


class Readers:
    """All of them, by number. Thread-safe."""

    def __init__(self, clock: Clock, readers_max: int = READERS_MAX) -> None:
        self._clock = clock
        self._readers_max = readers_max
        self._lock = threading.Lock()
        self._held: dict[int, ServedReader] = {}
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._held)

    def check_room(self) -> None:
        """Raise Busy if no further reader may be opened."""
        if len(self._held) >= self._readers_max:
            raise Busy("too many readers are open on the datanode", readers=self._readers_max, hint="try again later")

    def add(self, reader: RegionReader, session: int, timeout: Duration | None) -> int:
        """Hold a reader; return its number."""
        lives = READER_TIMEOUT if timeout is None else timeout + GRACE
        served = ServedReader(reader, session, self._clock.monotonic_ns() + lives)
        with self._lock:
            number = next(self._numbers)
            self._held[number] = served
        return number

    @contextmanager
    def use(self, number: int, session: int) -> Iterator[RegionReader]:
        """Use a reader; it is not released meanwhile."""
        with self._lock:
            served = self._held.get(number)
            if served is None or served.session != session:
                raise DeadlineExceeded(
                    "the reader no longer exists: it expired, or the connection was lost", hint="ask again"
                )
            served.uses += 1
        try:
            yield served.reader
        finally:
            with self._lock:
                served.uses -= 1
                is_last = served.is_over and not served.uses
            if is_last:
                served.reader.release()

    def check(self, number: int) -> None:
        """Raise Cancelled if a reader was released while it is being used."""
        if number not in self._held:
            raise Cancelled("the query is over")

    def release(self, number: int, session: int) -> None:
        """Let go of a reader; of one that is gone already, nothing happens."""
        with self._lock:
            served = self._held.get(number)
            if served is None or served.session != session:
                return
            del self._held[number]
        self._end([served])

    def end_session(self, session: int) -> None:
        self._end_where(lambda served: served.session == session)

    def expire(self) -> None:
        """Release readers whose time is over."""
        now = self._clock.monotonic_ns()
        self._end_where(lambda served: served.expires_ns <= now)

    def close(self) -> None:
        self._end_where(lambda served: True)

    def _end_where(self, is_chosen: object) -> None:
        assert callable(is_chosen)
        with self._lock:
            chosen = {number: served for number, served in self._held.items() if is_chosen(served)}
            for number in chosen:
                del self._held[number]
        self._end(list(chosen.values()))

    def _end(self, ended: list[ServedReader]) -> None:
        for served in ended:
            with self._lock:
                served.is_over = True
                is_unused = not served.uses
            if is_unused:
                served.reader.release()
