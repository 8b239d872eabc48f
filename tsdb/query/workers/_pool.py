"""The workers of a server: as many as may run at a time, first come first served, replaced when they are ended."""

from __future__ import annotations

import logging
import os
import select
import shutil
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tsdb.errors import Cancelled
from tsdb.processes.fork_server import Forked, Forker
from tsdb.processes.messages import Gone
from tsdb.processes.resident import resident_bytes
from tsdb.query.errors import OutOfMemory
from tsdb.query.lifetime import QueriesBusy, QueryLife
from tsdb.query.workers._service import WorkerService
from tsdb.query.workers._worker import WorkerOptions

WAITING_MAX = 1000
"""How many queries may wait for a worker."""
EXTRA_MAX = 32
"""How many workers may be added while others wait for clients to take their rows."""
PARKED_SECONDS = 0.5
"""A worker that waits this long for its client does not count as running."""
KEPT_BYTES_MAX, KEPT_PART = 96 << 20, 0.5
"""A worker that has grown by more than this, or by this part of its memory, is replaced when its query is over."""
_WATCH_SECONDS = 0.05
OWN_BYTES = 8 << 20
"""What an idle worker has of its own, beside the memory that it shares with the process it was forked from."""

_log = logging.getLogger(__name__)


class WorkerProcess:
    """A worker process."""

    def __init__(
        self,
        forked: Forked,
        spill_dir: Path,
        on_gone: Callable[[WorkerProcess], None],
    ) -> None:
        self.process = forked.process
        self.control, calls = forked.connections
        self.service = WorkerService(calls, lambda: on_gone(self))
        self._calls = calls
        self._descriptor = forked.descriptor
        self._spill_dir = spill_dir
        self._lock = threading.Lock()
        self._is_ended = False
        self.idle_bytes = self.resident_bytes()
        self.life: QueryLife | None = None
        """Of the query that it runs."""
        self.parked_since: float | None = None
        """Since when its rows wait for the client."""

    def resident_bytes(self) -> int:
        return resident_bytes(self.process)

    def is_alive(self) -> bool:
        """Return whether the process runs; its descriptor can be read when it has ended."""
        with self._lock:
            return not self._is_ended and not select.select([self._descriptor], [], [], 0)[0]

    def is_parked(self, now: float) -> bool:
        since = self.parked_since
        return since is not None and now - since > PARKED_SECONDS

    def end(self) -> None:
        """End the process, whatever it does; from any thread, any number of times."""
        with self._lock:
            if self._is_ended:
                return
            self._is_ended = True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
        os.close(self._descriptor)
        for each in (self.control, self._calls):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self.control.close()
        shutil.rmtree(self._spill_dir, ignore_errors=True)


class Workers:
    """Lends workers to queries."""

    def __init__(
        self, count: int, options: WorkerOptions, *, forker: Forker | None = None, waiting_max: int = WAITING_MAX
    ) -> None:
        """`count` of them run at a time; each has a directory of its own below that of the options to spill to.

        Without a `forker` they have one of their own.
        """
        self._count = count
        self._waiting_max = waiting_max
        self._options = options
        shutil.rmtree(options.spill_dir, ignore_errors=True)
        self._lock = threading.Lock()
        self._idle: deque[WorkerProcess] = deque()
        self._busy: set[WorkerProcess] = set()
        self._waiting: deque[Future[WorkerProcess]] = deque()
        self._starting = 0
        self._is_closed = False
        self._is_watching = False
        self._serial = 0
        self._kept_bytes = _kept_bytes(options)
        self.forker = forker or Forker([WorkerOptions.__module__])
        self._owns_forker = forker is None
        with self._lock:
            self._start_missing()

    @property
    def processes(self) -> list[int]:
        """The process ids of all workers."""
        with self._lock:
            return [each.process for each in (*self._idle, *self._busy)]

    def resident_bytes(self) -> int:
        """Return what all workers have of their own."""
        with self._lock:
            workers = [*self._idle, *self._busy]
        return sum(OWN_BYTES + max(each.resident_bytes() - each.idle_bytes, 0) for each in workers)

    def limit_memory(self, share: float) -> None:
        """Let workers keep this part of what they may; idle ones that have more are replaced."""
        with self._lock:
            self._kept_bytes = int(_kept_bytes(self._options) * share)
            large = [each for each in self._idle if self._is_large(each)]
            for worker in large:
                self._idle.remove(worker)
            self._start_missing()
        for worker in large:
            worker.end()

    def _is_large(self, worker: WorkerProcess) -> bool:
        return worker.resident_bytes() - worker.idle_bytes > self._kept_bytes

    def take(self, life: QueryLife) -> WorkerProcess:
        """Return a worker for a query, when it is its turn; raises at the deadline or when it is cancelled."""
        ticket: Future[WorkerProcess] = Future()
        with self._lock:
            while self._idle and not self._idle[0].is_alive():
                self._idle.popleft()
            if self._idle and not self._waiting:
                ticket.set_result(self._lend(self._idle.popleft()))
            elif len(self._waiting) >= self._waiting_max:
                raise QueriesBusy(f"{self._waiting_max} queries are waiting for a worker", hint="try again later")
            else:
                self._waiting.append(ticket)
                self._start_missing()
        life.on_cancel(lambda: _cancel(ticket))
        try:
            worker = life.wait_for(ticket)
        except TimeoutError:
            if ticket.cancel():
                raise life.expired() from None
            worker = ticket.result()
        except CancelledError:
            raise Cancelled("the query was cancelled") from None
        worker.life = life
        return worker

    def give_back(self, worker: WorkerProcess) -> None:
        """Take a worker back whose query is over."""
        worker.life = worker.parked_since = worker.service.tables = None
        is_large = self._is_large(worker)
        with self._lock:
            self._busy.discard(worker)
            is_kept = not is_large and not self._is_closed and len(self._busy) + len(self._idle) < self._count
            if is_kept or (self._waiting and not is_large and not self._is_closed):
                self._hand_on(worker)
                return
            self._start_missing()
        worker.end()

    def discard(self, worker: WorkerProcess) -> None:
        """End a worker, and start another one in its place."""
        worker.end()
        with self._lock:
            self._busy.discard(worker)
            self._start_missing()

    def _forget(self, worker: WorkerProcess) -> None:
        """Replace a worker that has ended by itself while it was idle; a query finds out about its own."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
            if worker in self._busy or self._is_closed:
                return
            self._start_missing()
        worker.end()

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            self._is_closed = True
            workers = [*self._idle, *self._busy]
            waiting = list(self._waiting)
            self._idle.clear()
            self._busy.clear()
            self._waiting.clear()
        for ticket in waiting:
            ticket.cancel()
        for worker in workers:
            worker.end()
        if self._owns_forker:
            self.forker.close()
        # What a worker made that was only starting.
        shutil.rmtree(self._options.spill_dir, ignore_errors=True)

    def _lend(self, worker: WorkerProcess) -> WorkerProcess:
        self._busy.add(worker)
        if not self._is_watching:
            self._is_watching = True
            threading.Thread(target=self._watch, name="query-workers", daemon=True).start()
        return worker

    def _hand_on(self, worker: WorkerProcess) -> None:
        """Give a free worker to the first query that waits for one."""
        while self._waiting:
            with suppress(InvalidStateError):
                ticket = self._waiting.popleft()
                if ticket.set_running_or_notify_cancel():
                    ticket.set_result(self._lend(worker))
                    return
        self._idle.append(worker)

    def _start_missing(self) -> None:
        """Start workers until as many run as may; those whose clients are slow do not count while others wait."""
        if self._is_closed:
            return
        now = time.monotonic()
        parked = sum(each.is_parked(now) for each in self._busy) if self._waiting else 0
        missing = self._count + min(parked, EXTRA_MAX) - len(self._busy) - len(self._idle) - self._starting
        for _ in range(missing):
            self._starting += 1
            threading.Thread(target=self._start, name="query-worker-start", daemon=True).start()

    def _start(self) -> None:
        try:
            worker = self._fork()
        except (Gone, OSError, RuntimeError, ValueError) as error:
            with self._lock:
                self._starting -= 1
                is_closed, ticket = self._is_closed, self._waiting.popleft() if self._waiting else None
            if not (is_closed or self.forker.is_closed):
                _log.exception("cannot start a query worker")
            if ticket is not None:
                with suppress(InvalidStateError):
                    ticket.set_exception(
                        QueriesBusy(f"no worker could be started for the query: {error}", hint="try again later")
                    )
            return
        with self._lock:
            self._starting -= 1
            if not self._is_closed:
                self._hand_on(worker)
                return
        worker.end()

    def _fork(self) -> WorkerProcess:
        with self._lock:
            if self._is_closed:
                raise Gone
            self._serial += 1
            spill_dir = self._options.spill_dir / str(self._serial)
        return WorkerProcess(self.forker.fork(replace(self._options, spill_dir=spill_dir), 2), spill_dir, self._forget)

    def _watch(self) -> None:
        """End workers that take too much memory, as long as any runs."""
        while True:
            time.sleep(_WATCH_SECONDS)
            with self._lock:
                busy = list(self._busy)
                if not busy:
                    self._is_watching = False
                    return
                if self._waiting:
                    self._start_missing()
            for worker in busy:
                self._check_memory(worker)

    def _check_memory(self, worker: WorkerProcess) -> None:
        limit, life = int(self._options.memory_bytes), worker.life
        if not limit or life is None or worker.resident_bytes() - worker.idle_bytes <= limit:
            return
        life.fail(
            OutOfMemory(
                f"the query was stopped: it needed more than {limit >> 20} MiB",
                hint="reduce the query, or use shorter strings and lists",
            )
        )
        worker.end()


def _kept_bytes(options: WorkerOptions) -> int:
    part = int(int(options.memory_bytes) * KEPT_PART)
    return min(part, KEPT_BYTES_MAX) if part else KEPT_BYTES_MAX


def _cancel(ticket: Future[WorkerProcess]) -> None:
    ticket.cancel()
