"""A connection to one datanode: a session, its streams for calls and its streams for changes.

The first stream begins the session; when it ends, all of it is over and the next request begins another one. Streams
for calls are opened as they are needed, up to a bound, and used again, the one that was used last first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from tsdb.clock import Clock
from tsdb.errors import Busy
from tsdb.model import RegionId
from tsdb.remote._changes import ChangeStream
from tsdb.remote._errors import NodeUnavailable, StaleStream, raise_error
from tsdb.remote._message import Part
from tsdb.remote._pulse import Pulse
from tsdb.remote._settings import RemoteSettings
from tsdb.remote._streams import BROKEN, CALLS, CHANGES, ClientStream, text_of, why_broken
from tsdb.remote._waits import Waits
from tsdb.waits import Place, current_place

_OPTIONS: list[tuple[str, int]] = [
    # Each link has a connection of its own: a new one is not made to wait for the fate of an old one.
    ("grpc.use_local_subchannel_pool", 1),
    # Data that the other side does not acknowledge for 20 s ends the connection. Probes are sent so seldom that
    # servers with default settings take them.
    ("grpc.keepalive_time_ms", 330_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # A datanode that restarts is found again soon.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]
_CONNECT_OPTION = "grpc.min_reconnect_backoff_ms"
"""In spite of its name, how long an attempt to connect may take."""


class CallStream:
    """A stream of calls: one at a time."""

    __slots__ = ("_link", "_number", "is_fresh", "stream")

    def __init__(self, link: Link, stream: ClientStream) -> None:
        self._link = link
        self._number = 0
        """Of the request that was sent last."""
        self.stream = stream
        self.is_fresh = True
        """Nothing was asked on it yet: if it breaks, the datanode is gone, and not just an old connection."""

    def ask(self, head: dict[str, Any], buffers: list[Part], give_up_ns: int) -> None:
        """Send a request; one of `BROKEN` if that fails."""
        self.stream.give_up_ns = give_up_ns
        self._number += 1
        numbered = {**head, "call": self._number}
        released = self._link.take_released()
        if released:
            numbered["released"] = released
        try:
            self.stream.send(numbered, buffers)
        except BROKEN:
            self._link.release(*released)
            raise

    def answer(self, place: Place | None = None) -> tuple[dict[str, Any], list[pa.Buffer]]:
        """Wait for the next message of the last request; one of `BROKEN` if there is none.

        `place` is that of the step for which a thread waits that runs none itself.
        """
        with self._link.waits.waiting(current_place() or place, self.stream.cancel):
            while True:
                head, buffers = self.stream.receive()
                # A datanode of an earlier version does not repeat the number.
                if head.get("call", self._number) == self._number:
                    return head, buffers


class Link:
    """A session with a datanode. Thread-safe."""

    def __init__(self, address: str, settings: RemoteSettings, clock: Clock, waits: Waits) -> None:
        self.address = address
        self.waits = waits
        self._settings = settings
        self._clock = clock
        self._lock = threading.Condition()
        self._open: set[ClientStream] = set()
        """All streams, so that those whose time is over can be cancelled."""
        self._idle: deque[CallStream] = deque()
        self._calls = 0
        self._released: deque[int] = deque()
        """Readers that are not needed any more; the next request tells the datanode."""
        self.is_broken = False
        connect = (_CONNECT_OPTION, max(1, settings.connect_timeout // 1_000_000))
        self._client = flight.FlightClient(f"grpc://{address}", generic_options=[*_OPTIONS, connect])
        self._write_locks = [threading.Lock() for _ in range(settings.write_streams)]
        self._writes: list[ChangeStream | None] = [None] * settings.write_streams
        self._first: ChangeStream | None = None
        self._pulse = Pulse(settings.silence_timeout)

    def begin(self) -> None:
        """Begin the session; NodeUnavailable if the datanode does not answer."""
        self._first = self._open_changes(None)

    @property
    def is_ready(self) -> bool:
        """Whether the session has begun and not ended."""
        return self._first is not None and not self.is_broken

    @property
    def changes(self) -> ChangeStream:
        """The stream that takes changes other than writes."""
        assert self._first is not None
        return self._first

    def writes(self, region_id: RegionId) -> ChangeStream:
        """Return the stream that takes the writes of a region."""
        at = (region_id ^ region_id >> 32) % len(self._writes)
        found = self._writes[at]
        if found is None or found.is_broken:
            with self._write_locks[at]:
                found = self._writes[at]
                if found is None or found.is_broken:
                    found = self._writes[at] = self._open_changes(self.changes.session)
        return found

    def take(
        self,
        deadline_ns: int,
        place: Place | None = None,
        on_open: Callable[[ClientStream], None] | None = None,
    ) -> CallStream:
        """Take a stream for calls, to be given back or discarded; Busy if all are in use until the deadline.

        `place` is that of the step for which a thread waits that runs none itself. `on_open` is told of a stream that
        is being opened, so that it can be cancelled.
        """
        with self.waits.waiting(current_place() or place):
            return self._take(deadline_ns, on_open)

    def _take(self, deadline_ns: int, on_open: Callable[[ClientStream], None] | None) -> CallStream:
        with self._lock:
            while True:
                if self.is_broken:
                    raise StaleStream("the connection broke", address=self.address)
                if self._idle:
                    return self._idle.pop()
                if self._calls < self._settings.call_streams_max:
                    self._calls += 1
                    break
                left = (deadline_ns - self._clock.monotonic_ns()) / 1e9
                if left <= 0 or not self._lock.wait(left):
                    raise Busy(
                        f"{self._settings.call_streams_max} requests wait for the datanode",
                        address=self.address,
                        hint="try again later",
                    )
        try:
            return self._open_call(deadline_ns, on_open)
        except BaseException:
            self._forget()
            raise

    def give(self, call: CallStream) -> None:
        """Give a stream back whose last answer was read to its end."""
        call.stream.give_up_ns = None
        call.is_fresh = False
        with self._lock:
            if not self.is_broken and not call.stream.is_cancelled:
                self._idle.append(call)
                self._lock.notify()
                return
        self.discard(call)

    def discard(self, call: CallStream) -> None:
        """Close a stream; the datanode stops what it does for it."""
        self._end(call.stream)
        self._forget()

    def release(self, *readers: int) -> None:
        """Have the datanode told soon that readers are not needed any more."""
        self._released.extend(readers)

    def take_released(self) -> list[int]:
        """Return the readers that the datanode is to be told of; other threads may take some of them meanwhile."""
        found: list[int] = []
        with suppress(IndexError):
            while self._released:
                found.append(self._released.popleft())
        return found

    def tick(self, now_ns: int) -> None:
        """End requests whose time is over, tell of readers that are not needed, look whether the datanode is there."""
        with self._lock:
            # Under the lock: afterwards a stream may belong to another request.
            for stream in self._open:
                if stream.give_up_ns is not None and stream.give_up_ns <= now_ns:
                    stream.cancel()
        for changes in self._all_changes():
            if changes.is_overdue(now_ns):
                changes.close("it did not answer in time")
        if self._released and self._first is not None:
            released = self.take_released()
            if not self._first.tell({"op": "release", "released": released}):
                self.release(*released)
        if self.is_ready and self._pulse.is_silent(self.changes, is_awaited=self._is_awaited()):
            self.close(f"it has not answered for {self._settings.silence_timeout}")

    def _is_awaited(self) -> bool:
        with self._lock:
            has_calls = any(each.give_up_ns is not None for each in self._open)
        return has_calls or any(each.is_awaited for each in self._all_changes())

    def close(self, reason: str) -> None:
        """End the session and all streams; what is unanswered ends as unknown."""
        self.drain()
        for changes in self._all_changes():
            changes.close(reason)
        with self._lock:
            busy = list(self._open)
        for stream in busy:
            stream.cancel()

    def drain(self) -> None:
        """Begin nothing more; what is unanswered may be answered."""
        with self._lock:
            self.is_broken = True
            idle, self._idle = list(self._idle), deque()
            self._lock.notify_all()
        for call in idle:
            self.discard(call)
        for changes in self._writes:
            if changes is not None:
                changes.drain()
        self._settle()

    def _settle(self, _: str = "") -> None:
        """End the session of a link that begins nothing more, once everything is answered: its readers end with it."""
        with self._lock:
            is_done = self.is_broken and not self._calls
        if is_done and self._first is not None and all(each is None or each.is_over for each in self._writes):
            self._first.drain()

    def _all_changes(self) -> list[ChangeStream]:
        return [each for each in (*self._writes, self._first) if each is not None]

    def _open_changes(self, session: int | None) -> ChangeStream:
        opened = ChangeStream(
            self._stream(CHANGES),
            self.address,
            settings=self._settings,
            clock=self._clock,
            on_end=self.close if session is None else self._settle,
            on_bye=self.drain if session is None else None,
        )
        with self._lock:
            self._open.add(opened.stream)
        try:
            opened.begin(session)
        finally:
            with self._lock:
                self._open.discard(opened.stream)
        return opened

    def _stream(self, kind: str) -> ClientStream:
        try:
            return ClientStream(self._client, kind)
        except BROKEN as error:
            raise NodeUnavailable(text_of(error), address=self.address) from error

    def _open_call(self, deadline_ns: int, on_open: Callable[[ClientStream], None] | None) -> CallStream:
        stream = self._stream(CALLS)
        if on_open is not None:
            on_open(stream)
        with self._lock:
            self._open.add(stream)
        # The session has begun: a datanode that is slow now is busy, and one that hangs is found by the pulse.
        stream.give_up_ns = min(deadline_ns, self._clock.monotonic_ns() + self._settings.silence_timeout)
        try:
            stream.send({"hello": CALLS, "session": self.changes.session})
            head, _ = stream.receive()
            if "error" in head:
                raise raise_error(head["error"])
        except BROKEN as error:
            reason = why_broken(stream, error)
            self._end(stream)
            raise NodeUnavailable(reason, address=self.address) from error
        except BaseException:
            self._end(stream)
            raise
        stream.give_up_ns = None
        return CallStream(self, stream)

    def _forget(self) -> None:
        with self._lock:
            self._calls -= 1
            self._lock.notify()
            is_draining = self.is_broken
        if is_draining:
            self._settle()

    def _end(self, stream: ClientStream) -> None:
        with self._lock:
            self._open.discard(stream)
        stream.close()
