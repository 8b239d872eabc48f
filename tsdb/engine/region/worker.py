"""A region worker: the single writer of the regions it owns. It changes them in turns, one at a time.

    queue ─▶ pressure (wait or refuse) ─▶ pipeline: numbers, log ─▶ ... durable ... ─▶ pipeline: memtables, answer

- Queued writes go to the log as a group; several groups are in flight (`pipeline`). Nothing
  reaches a memtable unless the log has it, and the order is kept.
- A write that finds nothing ahead of it is submitted by the thread that brings it, and a group is applied by the thread
  that learns that the log has it, unless another thread has the turn, which then does it at its end. To wake the
  worker, and to be woken by it, takes longer than most writes. The worker's own thread does what had to queue.
- Everything else that changes a region (alter, truncate, the end of a flush) is a function called on the worker's
  thread when no group is in flight: all writes before it are applied, none after it is numbered.
- Writes that find the buffer full wait here, in order and with a deadline; they are retried whenever a flush
  ends, successful or not, and at every tick. Writes that wait for a place in the pipeline have the same deadline.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from tsdb.clock import Clock
from tsdb.engine.errors import RegionBusy, StorageUnavailable
from tsdb.engine.log import LogStore
from tsdb.engine.metrics import REJECTED_WRITES, STALLED_WRITES
from tsdb.engine.region.pipeline import Pipeline
from tsdb.engine.region.region import Region
from tsdb.engine.region.write import PendingWrite
from tsdb.engine.rows.write_buffer import WriteBuffer
from tsdb.telemetry import get_logger

QUEUE_MAX = 128
"""Maximum number of writes in the queue of a worker or in flight."""
GROUP_MAX = 64
"""Writes of one group."""
_TICK_SECONDS = 0.5
_PATIENCE_SECONDS_MIN = 0.001

_log = get_logger("tsdb.worker")

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Call:
    function: Callable[[], Any]
    done: Future[Any]


class _Wake:
    """Check the waiting writes again."""


_WAKE = _Wake()
_Message = PendingWrite | _Call | _Wake | None
"""None is the end."""


class Worker:
    """One worker thread with its queue. `after` is called with regions that have new rows."""

    def __init__(
        self,
        name: str,
        *,
        buffer: WriteBuffer,
        clock: Clock,
        log: LogStore,
        after: Callable[[set[Region]], None],
    ) -> None:
        self._buffer = buffer
        self._clock = clock
        self._pipeline = Pipeline(log, on_answer=self._settle, after=after)
        self._queue: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._slots = threading.BoundedSemaphore(QUEUE_MAX)
        self._backlog: deque[_Message] = deque()
        """Messages that were taken from the queue, and have to wait for the pipeline."""
        self._waiting: deque[PendingWrite] = deque()
        self._gate = threading.Lock()
        """Held to queue a message: none may follow the one that ends the thread, or its sender would wait forever."""
        self._turns = threading.Lock()
        """Held during a turn, by the worker's thread, by one that brought a write, or by one of the log."""
        self._ahead = 0
        """How many messages are queued, or taken from the queue and not done yet; changed under the gate."""
        self._is_blocked = False
        """The worker's thread has to be woken when groups were applied. Changed in turns."""
        self._is_closed = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        buffer.on_release(self.wake)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many writes wait for memory."""
        return len(self._waiting)

    def submit(self, request: PendingWrite) -> None:
        """Submit a write to the log if nothing is ahead of it, otherwise queue it.

        RegionBusy without a place in the queue before its deadline.
        """
        if self._turns.acquire(blocking=False):
            try:
                is_free = self._pipeline.has_room and self._is_idle()
                if is_free:
                    self._write([request])
                    self._pipeline.apply_ready()
                    if self._waiting:
                        # It waits for memory, and the worker's thread does not know of its deadline.
                        self.wake()
            finally:
                self._turns.release()
            self._settle()
            if is_free:
                return
        seconds = (request.deadline_ns - self._clock.monotonic_ns()) / 1e9
        if not self._slots.acquire(timeout=max(0.0, seconds)):
            raise RegionBusy("the queue of the region's worker is full", region_id=request.region.id)
        if not self._put(request):
            self._slots.release()
            raise _closed()

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run a function on the worker's thread, after what is queued, with no write in flight."""
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()
        if not self._put(_Call(function, done)):
            done.set_exception(_closed())
        return done

    def wake(self) -> None:
        """Check the waiting writes again, soon."""
        self._put(_WAKE)

    def close(self, timeout_seconds: float | None = None) -> bool:
        """Process the queue, refuse waiting writes, and stop; return whether this was done in time."""
        with self._gate:
            if not self._is_closed:
                self._is_closed = True
                self._ahead += 1
                self._queue.put(None)
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _put(self, message: _Message) -> bool:
        """Queue a message; False if the worker is closed."""
        with self._gate:
            if not self._is_closed:
                self._ahead += 1
                self._queue.put(message)
            return not self._is_closed

    def _is_idle(self) -> bool:
        """During a turn: whether everything that came before is submitted, and the worker is open."""
        with self._gate:
            return not (self._ahead or self._waiting or self._is_closed)

    def _settle(self) -> None:
        """Apply what the log has by now, unless a thread has the turn: it does this again when its turn ends."""
        while self._pipeline.is_ready and self._turns.acquire(blocking=False):
            try:
                self._pipeline.apply_ready()
                self._unblock()
            finally:
                self._turns.release()

    def _unblock(self) -> None:
        """Let the worker's thread go on with what has waited for the pipeline. Also when the worker is closed."""
        if self._is_blocked:
            self._is_blocked = False
            with self._gate:
                self._ahead += 1
                self._queue.put(_WAKE)

    def _run(self) -> None:
        while not self._is_over:
            # Nothing of a turn is alive here: a worker that waits must not hold on to files or rows.
            self._turn()
        while self._waiting:
            self._stop_waiting().done.set_exception(_closed())

    def _turn(self) -> None:
        """Process the queue, as far as the pipeline has room."""
        messages = self._drain()
        with self._turns:
            self._backlog.extend(messages)
            del messages
            before = len(self._backlog)
            self._is_blocked = False
            self._pipeline.apply_ready()
            self._expire()
            while self._advance():
                self._pipeline.apply_ready()
            self._pipeline.apply_ready()
            # What is in flight counts as memory: when it fails, nothing else tells those that wait for some.
            self._is_blocked |= bool(self._waiting) and not self._pipeline.is_empty
            with self._gate:
                self._ahead -= before - len(self._backlog)
        self._settle()

    def _advance(self) -> bool:
        """Do what comes next; False if that was all, or the rest has to wait for the log."""
        if not self._pipeline.has_room:
            self._is_blocked = bool(self._backlog or self._waiting)
            return False
        self._write(self._take_writes())
        if not self._backlog:
            return False
        if isinstance(self._backlog[0], PendingWrite):
            return True
        if not (self._pipeline.is_empty or (self._pipeline.apply_ready() and self._pipeline.is_empty)):
            self._is_blocked = True
            return False
        message = self._backlog.popleft()
        if isinstance(message, _Call):
            _answer(message)
        self._is_over = message is None
        return not self._is_over

    def _take_writes(self) -> list[PendingWrite]:
        """Take the writes of one group from the backlog."""
        writes: list[PendingWrite] = []
        while self._backlog and len(writes) < GROUP_MAX:
            message = self._backlog[0]
            if isinstance(message, PendingWrite):
                self._slots.release()
                writes.append(message)
            elif not isinstance(message, _Wake):
                break
            self._backlog.popleft()
        return writes

    def _drain(self) -> list[_Message]:
        """Wait for a message, then take what else is there; a tick ends the wait when writes have deadlines."""
        messages: list[_Message] = []
        try:
            messages.append(self._queue.get(timeout=self._patience()))
            while True:
                messages.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return messages

    def _patience(self) -> float | None:
        """The time until waiting writes have to be checked."""
        deadlines = [each.deadline_ns for each in (*self._waiting, *self._backlog) if isinstance(each, PendingWrite)]
        if not deadlines:
            return None
        seconds = (min(deadlines) - self._clock.monotonic_ns()) / 1e9
        return min(_TICK_SECONDS, max(_PATIENCE_SECONDS_MIN, seconds))

    def _write(self, writes: list[PendingWrite]) -> None:
        """Submit the writes that fit into memory, oldest first; let the others wait, or refuse them."""
        if self._waiting:
            self._expire()
        ready: list[PendingWrite] = []
        flying = ahead = self._pipeline.memory_bytes
        while self._waiting and not self._buffer.should_stall(ahead):
            request = self._stop_waiting()
            ready.append(request)
            ahead += request.memory_bytes
        for request in writes:
            size = request.memory_bytes
            if self._buffer.should_reject(size, ahead):
                self._refuse(request)
            elif self._waiting or self._buffer.should_stall(ahead):
                self._waiting.append(request)
                self._buffer.wait(size)
                STALLED_WRITES.inc()
            else:
                ready.append(request)
                ahead += size
        if ready:
            self._submit_safely(ready, ahead - flying)

    def _submit_safely(self, ready: list[PendingWrite], memory_bytes: int) -> None:
        try:
            self._pipeline.submit(ready, memory_bytes)
        except BaseException as error:  # noqa: BLE001 - handed to the waiter; the thread lives on
            _log.exception("writing failed", requests=len(ready))
            for request in ready:
                if not request.done.done():
                    request.done.set_exception(error)

    def _expire(self) -> None:
        """Refuse the writes whose deadline has passed. They need not be the first: each has its own deadline."""
        now = self._clock.monotonic_ns()
        late = [request for request in self._waiting if now >= request.deadline_ns]
        for request in late:
            self._waiting.remove(request)
            self._buffer.wait(-request.memory_bytes)
            _expired(request, "memory")
        if self._backlog and not self._pipeline.has_room:
            for message in [each for each in self._backlog if isinstance(each, PendingWrite)]:
                if now >= message.deadline_ns:
                    self._backlog.remove(message)
                    self._slots.release()
                    _expired(message, "the log")

    def _refuse(self, request: PendingWrite) -> None:
        REJECTED_WRITES.inc()
        request.done.set_exception(
            RegionBusy(
                "the write buffer is full",
                region_id=request.region.id,
                used_bytes=self._buffer.used,
                reject_bytes=int(self._buffer.reject_size),
            )
        )

    def _stop_waiting(self) -> PendingWrite:
        request = self._waiting.popleft()
        self._buffer.wait(-request.memory_bytes)
        return request


def _expired(request: PendingWrite, what: str) -> None:
    REJECTED_WRITES.inc()
    request.done.set_exception(RegionBusy(f"the write waited too long for {what}", region_id=request.region.id))


def _answer(call: _Call) -> None:
    try:
        call.done.set_result(call.function())
    except BaseException as error:  # noqa: BLE001 - handed to the waiter; the thread lives on
        call.done.set_exception(error)


def _closed() -> StorageUnavailable:
    return StorageUnavailable("the engine is closed")
