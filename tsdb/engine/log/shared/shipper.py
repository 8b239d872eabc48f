"""Shipping: threads that send what is in the outbox, until the store has it or the term is fenced.

    append ─▶ outbox ─▶ sender threads: take ─▶ encode ─▶ put-if-absent, again and again ─▶ acknowledge in order

An object whose fate is unknown is sent again for as long as it takes: whether its entries are in the log is decided by
the store and by nobody else, so its appends are not answered before. Callers bound their own waiting. What is not
shipped is bounded by bytes: callers of `append` wait for room.

If the term is fenced, another process owns the log: everything from the fence on is refused, for good.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from tsdb.clock import Clock
from tsdb.engine.errors import LogFenced, StorageUnavailable
from tsdb.engine.log.frame import Frame
from tsdb.engine.log.shared.container import EncodedObject, ObjectIdentity, encode_entries
from tsdb.engine.log.shared.metrics import BYTES, FENCED, PUT_SECONDS, STORED, UNKNOWN
from tsdb.engine.log.shared.outbox import Append, Outbox, Shipment
from tsdb.engine.log.shared.sending import send_object
from tsdb.engine.log.shared.settings import SharedSettings
from tsdb.errors import DeadlineExceeded, TsdbError
from tsdb.store import ObjectStore, Purpose, StoreError, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.wal")


@dataclass(slots=True)
class ShippingState:
    """How shipping is going. Written by sender threads under the lock of the shipper."""

    puts: int = 0
    failures: int = 0
    failing_since_ms: int = 0
    """0 if the last object that was sent is stored."""
    last_error: str = ""


class Shipper:
    """Sends the entries of one term. Thread-safe.

    `record` is called for each acknowledged object, in order, under the lock, and must be quick.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        node: int,
        term: int,
        nonce: bytes,
        settings: SharedSettings,
        clock: Clock,
        check: Callable[[Sequence[Frame]], None],
        record: Callable[[Shipment, EncodedObject, int], None],
    ) -> None:
        self._store = store
        self._node = node
        self._term = term
        self._nonce = nonce
        self._settings = settings
        self._clock = clock
        self._check = check
        self._record = record
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        """Senders wait for something to send."""
        self._room = threading.Condition(lock)
        """Callers wait for room."""
        self._outbox = Outbox(
            interval_ns=settings.interval,
            batch_bytes_max=settings.max_batch,
            in_flight_max=settings.in_flight,
            burst=settings.burst,
        )
        self._objects: dict[int, tuple[EncodedObject, int]] = {}
        """Encoded objects that are not acknowledged, and when they were made."""
        self._previous_crc = 0
        self._broken: TsdbError | None = None
        self._is_closed = False
        self._receivers: list[Callable[[TsdbError], None]] = []
        self._stop = threading.Event()
        self.state = ShippingState()
        self._threads = [
            threading.Thread(target=self._run, name=f"wal-ship-{number}", daemon=True)
            for number in range(settings.in_flight)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def broken(self) -> TsdbError | None:
        return self._broken

    @property
    def acknowledged(self) -> int:
        """All objects with lower numbers are acknowledged."""
        return self._outbox.acknowledged

    @property
    def unshipped_bytes(self) -> int:
        return self._outbox.unshipped_bytes

    @property
    def unshipped_entries(self) -> int:
        with self._changed:
            return sum(len(append.frames) for append in self._outbox.appends)

    @property
    def lag_ns(self) -> int:
        """How long ago the oldest entry was appended that is not shipped."""
        with self._changed:
            oldest = self._outbox.oldest_ns()
            return 0 if oldest is None else self._clock.monotonic_ns() - oldest

    def append(
        self,
        frames: Sequence[Frame],
        after: Future[None] | None = None,
        *,
        waits: bool = True,
        is_new: bool = True,
    ) -> Future[None]:
        """Ship entries, once `after` is done; the future completes when they are acknowledged.

        Without `waits` they are taken although there is no room: the caller has waited for that before. Without
        `is_new` they were acknowledged at some time before.
        """
        append = Append(frames, after)
        with self._changed:
            self.wait_for_room(append.size_bytes if waits else -self._outbox.unshipped_bytes)
            self._check(frames)
            # Under the lock: later entries have later times. And before anybody is told that they are durable.
            append.logged_ns = self._clock.now_ns() if is_new else 0
            self._outbox.add(append, self._clock.monotonic_ns())
            self._changed.notify()
        if after is not None and not after.done():
            after.add_done_callback(lambda _: self._wake())
        return append.done

    def wait_for_room(self, size_bytes: int) -> None:
        """Wait until so many bytes more may be on their way; DeadlineExceeded, or why nothing is taken any more."""
        with self._changed:
            timeout_s = self._settings.append_timeout.seconds
            if not self._room.wait_for(lambda: self._has_room(size_bytes), timeout_s):
                raise DeadlineExceeded(
                    f"the shared log did not take the entry within {timeout_s:g} s",
                    unshipped_bytes=self._outbox.unshipped_bytes,
                    last_error=self.state.last_error or "none",
                    hint="check the object store of the log; writes resume automatically",
                )
            if self._broken is not None:
                raise self._broken
            if self._is_closed:
                raise StorageUnavailable("the shared log is closed")

    def on_broken(self, receive: Callable[[TsdbError], None]) -> None:
        """Call `receive` when the log is fenced, or now if it is."""
        with self._changed:
            broken = self._broken
            if broken is None:
                self._receivers.append(receive)
        if broken is not None:
            receive(broken)

    def break_off(self, error: TsdbError, number: int = 0) -> None:
        """Refuse all that is to come, and everything from an object on.

        Objects before it have senders that are about to find out what became of them.
        """
        with self._changed:
            is_first, self._broken = self._broken is None, self._broken or error
            left = self._outbox.cut(number)
            receivers = list(self._receivers)
            self._changed.notify_all()
            self._room.notify_all()
        if is_first:
            _log.error("the shared log accepts no more entries", node=self._node, term=self._term, error=error)
            for receive in receivers:
                receive(error)
        for append in left:
            append.done.set_exception(error)

    def close(self, timeout_s: float) -> bool:
        """Ship what is left, then stop; False if that took longer than the timeout."""
        with self._changed:
            self._is_closed = self._outbox.is_closing = True
            self._changed.notify_all()
            self._room.notify_all()
        deadline_ns = self._clock.monotonic_ns() + round(timeout_s * 1e9)
        for thread in filter(threading.Thread.is_alive, self._threads):
            thread.join(max(0.0, (deadline_ns - self._clock.monotonic_ns()) / 1e9))
        self._stop.set()
        return self._outbox.is_empty and self._broken is None

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _has_room(self, size_bytes: int) -> bool:
        if self._broken is not None or self._is_closed or not self._outbox.unshipped_bytes:
            return True
        return self._outbox.unshipped_bytes + size_bytes <= self._settings.buffer_bytes_max

    def _run(self) -> None:
        try:
            with requests_for(Purpose.LOG):
                while (batch := self._take()) is not None:
                    self._send(batch)
        except BaseException as error:
            # Whatever it is, no caller may be left waiting.
            self.break_off(StorageUnavailable(f"shipping the log failed: {error!r}"))
            raise

    def _take(self) -> EncodedObject | None:
        """Wait for the next object; None when there is nothing more to do."""
        with self._changed:
            while self._broken is None:
                found = self.take_due()
                if found is not None:
                    # There may be more than one object has room for.
                    self._changed.notify()
                    return found
                if self._outbox.is_closing and self._outbox.is_empty:
                    return None
                wait_ns = self._outbox.wait_ns(self._clock.monotonic_ns())
                self._changed.wait(None if wait_ns is None else wait_ns / 1e9)
        return None

    def take_due(self) -> EncodedObject | None:
        """Make the next object, if it is time to send one."""
        with self._changed:
            now_ns = self._clock.monotonic_ns()
            return self._encode(self._outbox.take(now_ns)) if self._outbox.wait_ns(now_ns) == 0 else None

    def _encode(self, batch: Shipment) -> EncodedObject:
        identity = ObjectIdentity(self._node, self._term, batch.number, self._nonce)
        created_ms = self._clock.now_ns() // 1_000_000
        encoded = encode_entries(
            identity,
            batch.frames,
            logged_ns=batch.logged_ns,
            acknowledged=self._outbox.acknowledged,
            previous_crc=self._previous_crc,
            created_ms=created_ms,
        )
        self._previous_crc = encoded.crc
        self._objects[batch.number] = encoded, created_ms
        return encoded

    def _send(self, encoded: EncodedObject) -> None:
        """Send an object until its fate is known."""
        delay_s = self._settings.retry_min.seconds
        while not self._stop.is_set() and not self.try_send(encoded):
            self._stop.wait(delay_s)
            delay_s = min(2 * delay_s, self._settings.retry_max.seconds)

    def try_send(self, encoded: EncodedObject) -> bool:
        """Send an object once; False if its fate is unknown."""
        started_ns = self._clock.monotonic_ns()
        try:
            send_object(self._store, encoded)
        except LogFenced as error:
            FENCED.inc()
            self.break_off(error, encoded.identity.number)
        except StoreError as error:
            self._note_failure(error)
            return False
        else:
            PUT_SECONDS.observe((self._clock.monotonic_ns() - started_ns) / 1e9)
            self._acknowledge(encoded)
        return True

    def _note_failure(self, error: StoreError) -> None:
        UNKNOWN.inc()
        with self._changed:
            state = self.state
            state.failures += 1
            state.last_error = str(error)
            is_first, state.failing_since_ms = not state.failing_since_ms, state.failing_since_ms or self._now_ms()
        if is_first:
            _log.warning("an object of the shared log could not be stored; retrying", error=error)

    def _acknowledge(self, encoded: EncodedObject) -> None:
        """An object is stored: answer the appends of all that are acknowledged by that."""
        STORED.inc()
        BYTES.inc(encoded.size_bytes)
        with self._changed:
            state = self.state
            state.puts += 1
            state.failing_since_ms = 0
            batches = self._outbox.stored(encoded.identity.number)
            for batch in batches:
                self._record(batch, *self._objects.pop(batch.number))
            self._room.notify_all()
            if self._outbox.is_closing:
                self._changed.notify_all()
        # The newest first: the pipeline applies in order, and does all of them at once when told of the oldest.
        for append in reversed([append for batch in batches for append in batch.appends]):
            append.done.set_result(None)

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000
