"""What is to be shipped: collected into objects, sent several at a time, acknowledged in order. Pure decisions.

    add ─▶ waiting ─▶ take: the next number ─▶ on its way ─▶ stored, in any order ─▶ acknowledged, in order

When to send: at once if nothing is on its way, as long as the budget lasts; otherwise when the interval since the last
object has passed, or enough bytes wait. So one writer alone does not wait for a timer, and many writers cost no more
requests than the interval allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from tsdb.engine.log.frame import Frame, frame_bytes


@dataclass(slots=True, eq=False)
class Append:
    """Entries that are acknowledged together."""

    frames: Sequence[Frame]
    after: Future[None] | None = None
    """They are shipped when this is done, and not at all if it failed."""
    done: Future[None] = field(default_factory=Future)
    size_bytes: int = 0
    added_ns: int = 0
    logged_ns: int = 0
    """The time of day when they were appended; 0 if unknown, because they come from a local log."""

    def __post_init__(self) -> None:
        # A future that runs cannot be cancelled: whether the entries are in the log is not the caller's to decide.
        self.done.set_running_or_notify_cancel()
        self.size_bytes = sum(frame_bytes(frame.payload.size_bytes) for frame in self.frames)


@dataclass(slots=True, eq=False)
class Shipment:
    """Appends that go into one object."""

    number: int
    appends: list[Append]
    is_stored: bool = False

    @property
    def frames(self) -> list[Frame]:
        return [frame for append in self.appends for frame in append.frames]

    @property
    def logged_ns(self) -> list[int]:
        """When each of the frames was appended."""
        return [append.logged_ns for append in self.appends for _ in append.frames]

    @property
    def size_bytes(self) -> int:
        return sum(append.size_bytes for append in self.appends)


class Outbox:
    """Not thread-safe: its owner has a lock."""

    def __init__(self, *, interval_ns: int, batch_bytes_max: int, in_flight_max: int, burst: int) -> None:
        self._interval_ns = interval_ns
        self._batch_bytes_max = batch_bytes_max
        self._in_flight_max = in_flight_max
        self._burst = burst
        self._budget = float(burst)
        self._budget_ns = 0
        self._sent_ns: int | None = None
        self._waiting: deque[Append] = deque()
        self._waiting_bytes = 0
        self._sent: deque[Shipment] = deque()
        self._next_number = 0
        self.acknowledged = 0
        """All numbers below this are acknowledged."""
        self.is_closing = False
        """Nothing more is added: no reason to wait for more."""
        self.unshipped_bytes = 0
        """Of all that is not acknowledged."""

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._sent

    @property
    def appends(self) -> list[Append]:
        """All that are not acknowledged, the oldest first."""
        return [*(each for batch in self._sent for each in batch.appends), *self._waiting]

    def add(self, append: Append, now_ns: int) -> None:
        append.added_ns = now_ns
        self._waiting.append(append)
        self._waiting_bytes += append.size_bytes
        self.unshipped_bytes += append.size_bytes

    def oldest_ns(self) -> int | None:
        """When the oldest append was added that is not acknowledged."""
        for batch in self._sent:
            if batch.appends:
                return batch.appends[0].added_ns
        return self._waiting[0].added_ns if self._waiting else None

    def wait_ns(self, now_ns: int) -> int | None:
        """How long to wait before the next object is sent; None if something else has to happen first."""
        self._drop_refused()
        if not self._waiting or not _is_ready(self._waiting[0]) or self._is_full:
            return None
        if self.is_closing or self._waiting_bytes >= self._batch_bytes_max or self._sent_ns is None:
            return 0
        if not self._sent and self._refilled(now_ns) >= 1:
            return 0
        return max(0, self._sent_ns + self._interval_ns - now_ns)

    def take(self, now_ns: int) -> Shipment:
        """Take what goes into the next object."""
        batch = Shipment(self._next_number, [])
        size = 0
        while self._waiting and _is_ready(self._waiting[0]):
            if batch.appends and size + self._waiting[0].size_bytes > self._batch_bytes_max:
                break
            append = self._waiting.popleft()
            size += append.size_bytes
            if not _is_refused(append):
                batch.appends.append(append)
            else:
                self.unshipped_bytes -= append.size_bytes
        self._waiting_bytes -= size
        self._next_number += 1
        self._sent.append(batch)
        self._budget = max(0.0, self._refilled(now_ns) - 1)
        self._sent_ns = self._budget_ns = now_ns
        return batch

    def stored(self, number: int) -> list[Shipment]:
        """An object is in the store; return those that are acknowledged by that, in order."""
        for batch in self._sent:
            batch.is_stored |= batch.number == number
        acknowledged = []
        while self._sent and self._sent[0].is_stored:
            acknowledged.append(self._sent.popleft())
            self.acknowledged = acknowledged[-1].number + 1
            self.unshipped_bytes -= acknowledged[-1].size_bytes
        return acknowledged

    def cut(self, number: int) -> list[Append]:
        """Abandon everything from an object on; return the appends that will not be acknowledged."""
        kept = [batch for batch in self._sent if batch.number < number]
        cut = [append for batch in self._sent if batch.number >= number for append in batch.appends]
        left = [*cut, *self._waiting]
        self._sent = deque(kept)
        self._waiting.clear()
        self._waiting_bytes = 0
        self.unshipped_bytes = sum(batch.size_bytes for batch in kept)
        return left

    @property
    def _is_full(self) -> bool:
        # Counted from the oldest that is not stored: what is stored behind it costs no request.
        return sum(not batch.is_stored for batch in self._sent) >= self._in_flight_max

    def _drop_refused(self) -> None:
        """Forget appends that the local log has refused."""
        while self._waiting and _is_refused(self._waiting[0]):
            append = self._waiting.popleft()
            self._waiting_bytes -= append.size_bytes
            self.unshipped_bytes -= append.size_bytes

    def _refilled(self, now_ns: int) -> float:
        return min(float(self._burst), self._budget + (now_ns - self._budget_ns) / max(self._interval_ns, 1))


def _is_ready(append: Append) -> bool:
    return append.after is None or append.after.done()


def _is_refused(append: Append) -> bool:
    return append.after is not None and append.after.done() and append.after.exception() is not None
