"""The client's end of a stream of changes: requests go out one after the other, answers come by their numbers.

A thread of the stream takes the answers. When the stream breaks, everything that is unanswered ends with
`OutcomeUnknown`: it may have been done, and is not sent again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from tsdb.clock import Clock
from tsdb.errors import Busy, TsdbError
from tsdb.remote._errors import BadMessage, NodeUnavailable, OutcomeUnknown, StaleStream, raise_error
from tsdb.remote._message import Part, pack
from tsdb.remote._settings import RemoteSettings
from tsdb.remote._streams import BROKEN, CHANGES, ClientStream, text_of, why_broken
from tsdb.remote.codec import raise_value
from tsdb.telemetry import get_logger
from tsdb.units import Duration

PING = 0
"""The number of a question whose answer nobody waits for."""

_log = get_logger("tsdb.remote")


class SentChange(Protocol):
    """Something that was sent, and is told what became of it."""

    def succeed(self, value: Any) -> None: ...

    def fail(self, error: Exception) -> None:
        """Called on the thread that takes the answers: it must not wait."""


class _Pending:
    __slots__ = ("change", "give_up_ns")

    def __init__(self, change: SentChange, give_up_ns: int | None) -> None:
        self.change = change
        self.give_up_ns = give_up_ns


class ChangeStream:
    """A stream of changes to one datanode. Thread-safe."""

    def __init__(
        self,
        stream: ClientStream,
        address: str,
        *,
        settings: RemoteSettings,
        clock: Clock,
        on_end: Callable[[str], None] | None = None,
        on_bye: Callable[[], None] | None = None,
    ) -> None:
        """`on_end` is called when the stream ends, `on_bye` when the server says that it stops."""
        self.stream = stream
        self.address = address
        self.session = 0
        self._settings = settings
        self._clock = clock
        self._on_end = on_end
        self._on_bye = on_bye
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._pending: dict[int, _Pending] = {}
        self._room = threading.BoundedSemaphore(settings.changes_in_flight_max)
        self._numbers = count(1)
        self.heard = 0
        """How many messages have come."""
        self.is_broken = False
        """Nothing more can be sent."""
        self.is_over = False
        """Nothing more will be answered."""

    def begin(self, session: int | None) -> None:
        """Greet the datanode, and take answers from then on; NodeUnavailable if it does not answer.

        Without `session` the stream begins one.
        """
        stream = self.stream
        settings = self._settings
        timeout = settings.connect_timeout if session is None else settings.silence_timeout
        stream.give_up_ns = self._clock.monotonic_ns() + timeout
        try:
            stream.send({"hello": CHANGES, "session": session})
            head, _ = stream.receive()
            if "error" in head:
                raise raise_error(head["error"])
            self.session = int(head["session"])
        except BROKEN as error:
            reason = why_broken(stream, error)
            stream.close()
            raise NodeUnavailable(reason, address=self.address) from error
        except BaseException:
            stream.close()
            raise
        stream.give_up_ns = None
        threading.Thread(target=self._take_answers, name="tsdb-remote-answers", daemon=True).start()

    def send(
        self,
        change: SentChange,
        head: dict[str, Any],
        buffers: list[Part],
        *,
        wait: Duration,
        answer_by: Duration | None,
    ) -> None:
        """Send a change: it is told of its end from then on. NodeUnavailable, or Busy, if it was not sent."""
        if not self._room.acquire(timeout=wait.seconds):
            raise Busy("too many writes to the datanode are in flight", address=self.address, hint="try again later")
        number = next(self._numbers)
        try:
            message = pack({"n": number, **head}, buffers)
            give_up_ns = None if answer_by is None else self._clock.monotonic_ns() + answer_by
            with self._lock:
                if self.is_broken:
                    raise StaleStream("the connection broke", address=self.address)
                self._pending[number] = _Pending(change, give_up_ns)
        except BaseException:
            self._room.release()
            raise
        try:
            with self._sending:
                self.stream.send_packed(message)
        except BROKEN as error:
            # Some of it may have been received; the thread that takes answers finds the stream broken as well.
            self.close(text_of(error))

    def ping(self) -> bool:
        """Ask whether the datanode is there: `heard` grows when it answers."""
        return self.tell({"n": PING, "op": "ping"})

    @property
    def is_awaited(self) -> bool:
        """Whether something is unanswered."""
        return bool(self._pending)

    def tell(self, head: dict[str, Any]) -> bool:
        """Send something whose answer nobody waits for, unless something else is being sent."""
        if not self._sending.acquire(blocking=False):
            return False
        try:
            self.stream.send(head)
        except BROKEN:
            return False
        finally:
            self._sending.release()
        return True

    def is_overdue(self, now_ns: int) -> bool:
        """Whether a change has been unanswered for too long."""
        with self._lock:
            return any(each.give_up_ns is not None and each.give_up_ns <= now_ns for each in self._pending.values())

    def drain(self) -> None:
        """Send nothing more, and end the stream when everything is answered."""
        with self._lock:
            self.is_broken = True
            is_done = not self._pending
        if is_done:
            self.stream.cancel()

    def close(self, reason: str) -> None:
        """End the stream; what is unanswered ends as unknown."""
        with self._lock:
            self.is_broken = True
            unanswered, self._pending = list(self._pending.values()), {}
        self.stream.cancel()
        for pending in unanswered:
            self._room.release()
            pending.change.fail(OutcomeUnknown(reason, address=self.address))

    def _take_answers(self) -> None:
        reason = "the connection broke"
        try:
            while True:
                head, buffers = self.stream.receive()
                self.heard += 1
                if "error" in head:
                    raise raise_error(head["error"])
                if "stops" in head:
                    reason = "it is stopping"
                    if head["stops"] == "now":
                        break
                    if self._on_bye is not None:
                        self._on_bye()
                for number, is_done, lowered in head.get("answers", ()):
                    self._take(number, is_done, lowered, buffers)
        except BROKEN as error:
            reason = text_of(error)
        except (TsdbError, KeyError, TypeError) as error:
            reason = f"it sent an answer that cannot be read: {error}"
            _log.error("a stream of changes was abandoned", address=self.address, error=error)
        self.close(reason)
        self.is_over = True
        if self._on_end is not None:
            self._on_end(reason)
        self.stream.close()

    def _take(self, number: int, is_done: bool, lowered: Any, buffers: list[Any]) -> None:
        with self._lock:
            pending = self._pending.pop(number, None)
            is_drained = self.is_broken and not self._pending
        if is_drained:
            self.stream.cancel()
        if pending is None:
            return
        self._room.release()
        try:
            value = raise_value(lowered, buffers) if is_done else raise_error(lowered)
        except (BadMessage, KeyError, TypeError) as error:
            pending.change.fail(OutcomeUnknown(f"its answer cannot be read: {error}", address=self.address))
            return
        if is_done:
            pending.change.succeed(value)
        else:
            pending.change.fail(value)
