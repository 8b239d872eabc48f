"""A region worker: the regions it owns are changed in its turns alone, one at a time.

    queue ─▶ drain ─▶ pressure (wait or refuse) ─▶ entry ids, sequences ─▶ log, one append ─▶ memtables ─▶ answer

- Writes that are queued together go to the log together; nothing reaches a memtable unless the log has it.
- A write that finds nothing ahead of it is done at once by the thread that brings it: to wake the worker, and to be
  woken by it, takes longer than most writes.
- Everything else that changes a region (alter, truncate, the end of a flush) is a function called on the worker's
  thread.
- Writes that find the buffer full wait here, in order and with a deadline; they are looked at again whenever a flush
  ends, well or badly, and at every tick.
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
from tsdb.engine.log import EncodedPayload
from tsdb.engine.metrics import REJECTED_WRITES, STALLED_WRITES
from tsdb.engine.region.region import Region
from tsdb.engine.rows.memtable import charged_bytes
from tsdb.engine.rows.write_buffer import WriteBuffer
from tsdb.model import Batch, RegionSchema
from tsdb.telemetry import get_logger

QUEUE_MAX = 128
DRAIN_MAX = 64
_TICK_SECONDS = 0.5
_PATIENCE_SECONDS_MIN = 0.001
_SEQUENCE_BYTES = 8

_log = get_logger("tsdb.worker")

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class PendingWrite:
    """A batch on its way into a region; `schema` is the one it was made and encoded under."""

    region: Region
    batch: Batch
    schema: RegionSchema
    payload: EncodedPayload
    nbytes: int
    deadline_ns: int
    done: Future[int]
    must_fit: bool = False
    """Refuse it, rather than bring it to the current schema, if that is another one by now."""

    @property
    def memory_bytes(self) -> int:
        """What the write buffer will be charged: the rows, and the sequences they are going to get."""
        return charged_bytes(self.batch.series, self.batch.fields, self.nbytes) + _SEQUENCE_BYTES * self.batch.rows


@dataclass(slots=True, eq=False)
class _Call:
    function: Callable[[], Any]
    done: Future[Any]


class _Wake:
    """Look at the waiting writes again."""


_WAKE = _Wake()
_Message = PendingWrite | _Call | _Wake | None


class Worker:
    """One worker thread with its queue. `commit` is what is done with writes when their turn comes."""

    def __init__(
        self,
        name: str,
        *,
        buffer: WriteBuffer,
        clock: Clock,
        commit: Callable[[list[PendingWrite]], None],
        is_synced: bool = False,
    ) -> None:
        """With `is_synced` a commit waits for the disk: then writes always queue, because one wait serves several."""
        self._is_synced = is_synced
        self._buffer = buffer
        self._clock = clock
        self._commit = commit
        self._queue: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._slots = threading.BoundedSemaphore(QUEUE_MAX)
        self._waiting: deque[PendingWrite] = deque()
        self._gate = threading.Lock()
        """Held to queue a message: none may come behind the one that ends the thread, or its sender waits forever."""
        self._turns = threading.Lock()
        """Held during a turn, by the worker's thread or by one that brought a write."""
        self._ahead = 0
        """How many messages are queued, or taken from the queue and not done yet; changed under the gate."""
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        buffer.on_release(self.wake)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many writes wait for memory."""
        return len(self._waiting)

    def submit(self, request: PendingWrite) -> None:
        """Do a write if nothing is ahead of it, else queue it; RegionBusy without a place there before its deadline."""
        if not self._is_synced and self._turns.acquire(blocking=False):
            try:
                if self._is_idle():
                    self._write([request])
                    if self._waiting:
                        # It waits for memory, and the worker's thread does not know of its deadline.
                        self.wake()
                    return
            finally:
                self._turns.release()
        seconds = (request.deadline_ns - self._clock.monotonic_ns()) / 1e9
        if not self._slots.acquire(timeout=max(0.0, seconds)):
            raise RegionBusy("the queue of the region's worker is full", region_id=request.region.id)
        if not self._put(request):
            self._slots.release()
            raise _closed()

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run a function on the worker's thread, after what is queued."""
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()
        if not self._put(_Call(function, done)):
            done.set_exception(_closed())
        return done

    def wake(self) -> None:
        """Look at the waiting writes again, soon."""
        self._put(_WAKE)

    def close(self, timeout_seconds: float | None = None) -> bool:
        """Do what is queued, refuse what waits, and stop; return whether that was done in time."""
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
        """During a turn: whether everything that came before is done, and the worker is open."""
        with self._gate:
            return not (self._ahead or self._waiting or self._is_closed)

    def _run(self) -> None:
        while self._turn():
            # Nothing of a turn is alive here: a worker that waits must not hold on to files or rows.
            pass
        while self._waiting:
            self._stop_waiting().done.set_exception(_closed())

    def _turn(self) -> bool:
        """Do what is queued; False if that was the end."""
        messages = self._drain()
        with self._turns:
            writes: list[PendingWrite] = []
            for message in messages:
                if isinstance(message, PendingWrite):
                    self._slots.release()
                    writes.append(message)
                elif isinstance(message, _Call):
                    self._write(writes)
                    writes = []
                    _answer(message)
            self._write(writes)
            with self._gate:
                self._ahead -= len(messages)
        return None not in messages

    def _drain(self) -> list[_Message]:
        """Wait for a message, then take what else is there; a tick ends the wait when writes have deadlines."""
        messages: list[_Message] = []
        try:
            messages.append(self._queue.get(timeout=self._patience()))
            while len(messages) < DRAIN_MAX:
                messages.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return messages

    def _patience(self) -> float | None:
        """How long nothing has to be looked at."""
        if not self._waiting:
            return None
        nearest = min(request.deadline_ns for request in self._waiting)
        seconds = (nearest - self._clock.monotonic_ns()) / 1e9
        return min(_TICK_SECONDS, max(_PATIENCE_SECONDS_MIN, seconds))

    def _write(self, writes: list[PendingWrite]) -> None:
        """Commit what there is memory for, oldest first; let the rest wait or refuse it."""
        self._expire()
        ready: list[PendingWrite] = []
        ahead = 0
        while self._waiting and not self._buffer.should_stall(ahead):
            request = self._stop_waiting()
            ready.append(request)
            ahead += request.memory_bytes
        for request in writes:
            if self._buffer.should_reject(request.memory_bytes, ahead):
                self._refuse(request)
            elif self._waiting or self._buffer.should_stall(ahead):
                self._waiting.append(request)
                self._buffer.wait(request.memory_bytes)
                STALLED_WRITES.inc()
            else:
                ready.append(request)
                ahead += request.memory_bytes
        if ready:
            self._commit_safely(ready)

    def _commit_safely(self, ready: list[PendingWrite]) -> None:
        try:
            self._commit(ready)
        except BaseException as error:  # noqa: BLE001 - handed to the waiter; the thread lives on
            _log.exception("writing failed", requests=len(ready))
            for request in ready:
                if not request.done.done():
                    request.done.set_exception(error)

    def _expire(self) -> None:
        """Answer the writes whose time is over. They need not be the first: each has a deadline of its own."""
        now = self._clock.monotonic_ns()
        late = [request for request in self._waiting if now >= request.deadline_ns]
        for request in late:
            self._waiting.remove(request)
            self._buffer.wait(-request.memory_bytes)
            REJECTED_WRITES.inc()
            request.done.set_exception(RegionBusy("the write waited too long for memory", region_id=request.region.id))

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


def _answer(call: _Call) -> None:
    try:
        call.done.set_result(call.function())
    except BaseException as error:  # noqa: BLE001 - handed to the waiter; the thread lives on
        call.done.set_exception(error)


def _closed() -> StorageUnavailable:
    return StorageUnavailable("the engine is closed")
