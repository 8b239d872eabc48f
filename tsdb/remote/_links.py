"""The links of a client to all datanodes that it talks to, and the thread that keeps their deadlines."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tsdb.clock import Clock
from tsdb.errors import Cancelled
from tsdb.remote._errors import NodeUnavailable
from tsdb.remote._link import Link
from tsdb.remote._pulse import TICK_SECONDS
from tsdb.remote._settings import RemoteSettings
from tsdb.remote._waits import Waits
from tsdb.units import Duration
from tsdb.waits import current_place

_LATE_NS = int(3 * TICK_SECONDS * 1e9)
"""The pause between two looks after which the second one ends nothing."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """An attempt to reach a datanode that has failed."""

    reason: str
    began_ns: int
    ended_ns: int

    def counts(self, asked_ns: int, timeout: Duration) -> bool:
        """Whether it is the answer to a request, too.

        It is for those that waited for the attempt. Afterwards a datanode that refuses connections is tried again at
        once: it may be back. One that hangs is left alone for as long as it hung, or every request would wait for it.
        """
        took_ns = self.ended_ns - self.began_ns
        return asked_ns <= self.ended_ns + (took_ns if took_ns >= timeout // 2 else 0)


class Links:
    """One link for each address. Thread-safe."""

    def __init__(self, settings: RemoteSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._links: dict[str, Link] = {}
        self._opening: dict[str, threading.Lock] = {}
        self._failures: dict[str, _Failure] = {}
        self._waits = Waits()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    def get(self, address: str) -> Link:
        """Return the link to a datanode; NodeUnavailable if there is none and the datanode does not answer."""
        found = self._links.get(address)
        if found is not None and found.is_ready:
            return found
        asked_ns = self._clock.monotonic_ns()
        with self._lock:
            opening = self._opening.setdefault(address, threading.Lock())
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="tsdb-remote-watch", daemon=True)
                self._thread.start()
        with self._waits.waiting(current_place()), opening:
            found = self._links.get(address)
            if found is None or found.is_broken:
                failure = self._failures.get(address)
                if failure is not None and failure.counts(asked_ns, self._settings.connect_timeout):
                    raise NodeUnavailable(failure.reason, address=address)
                found = self._open(address, found)
        return found

    def _open(self, address: str, broken: Link | None) -> Link:
        if self._is_closed.is_set():
            raise Cancelled("the client of remote regions is closed")
        if broken is not None:
            broken.close("the connection broke")
        link = Link(address, self._settings, self._clock, self._waits)
        # Before it is answered: the watch ends the attempt when its time is over.
        with self._lock:
            self._links[address] = link
        began_ns = self._clock.monotonic_ns()
        try:
            link.begin()
        except BaseException as error:
            with self._lock:
                self._links.pop(address, None)
            if isinstance(error, NodeUnavailable):
                self._failures[address] = _Failure(error.reason, began_ns, self._clock.monotonic_ns())
            raise
        self._failures.pop(address, None)
        return link

    def close(self) -> None:
        """End all links: what is unanswered ends as unknown."""
        self._is_closed.set()
        with self._lock:
            links, self._links = list(self._links.values()), {}
        for link in links:
            link.close("the client was closed")

    def _watch(self) -> None:
        last_ns = self._clock.monotonic_ns()
        while not self._is_closed.wait(TICK_SECONDS):
            now = self._clock.monotonic_ns()
            # This process stood still itself: answers may be there, and no thread has had the time to take them.
            is_late, last_ns = now - last_ns > _LATE_NS, now
            if is_late:
                continue
            self._waits.look()
            with self._lock:
                links = list(self._links.values())
            for link in links:
                link.tick(now)
