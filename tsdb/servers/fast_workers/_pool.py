"""The fast workers as the event loop sees them: whose turn it is, who computes it, what comes back."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol, cast

from tsdb.engine.lending import Lender, SharedRuns
from tsdb.memory import MemoryUse
from tsdb.processes.fork_server import Forked, Forker
from tsdb.processes.messages import Gone, object_header
from tsdb.processes.resident import resident_bytes
from tsdb.query import run_checked
from tsdb.servers._inline import SoftDeadlineExceeded
from tsdb.servers.fast_workers._process import HEADER, Encode, FastQuery, FastWorkerProgram, Lent, Outcome
from tsdb.telemetry import counter, gauge, get_logger, span
from tsdb.waits import Place

AT_ONCE = 3
"""How many queries a worker has at a time: it need not wait for the next one."""
WAITING_MAX = 1024
"""When so many wait, further ones are left to the scheduler, which refuses them."""
IDLE_SECONDS = 60.0
RESTART_SECONDS = 1.0
"""How long after the end of a worker another one is started."""
KEYS_MAX = 1024
SKIPS_FIRST, SKIPS_MAX = 16, 1024
"""How often a query runs in another way after it was declined; twice as often after each further time in a row."""
HANGS_SECONDS = 5.0
"""A worker that has not answered by then is ended."""
SEND_SECONDS_MAX = 1.0
SHARE_MIN = 0.5
"""With a smaller part of their memory there are no workers."""
OWN_BYTES = 8 << 20
"""What a worker that has just started has of its own, beside what it shares with the process it was forked from."""
_READ_BYTES = 1 << 18

_log = get_logger("tsdb.fast_workers")

_QUERIES = counter(
    "tsdb_servers_fast_queries_total", "Queries that fast workers were asked, by outcome.", labels=("outcome",)
)
_ANSWERED, _DECLINED, _LOST = (_QUERIES.labels(each) for each in ("answered", "declined", "lost"))
_PROCESSES = gauge("tsdb_servers_fast_workers", "Fast workers that run.")


class FastAnswer(NamedTuple):
    """What a worker has computed."""

    body: bytes
    seconds: float


class Lendable(Protocol):
    """A query that has begun here, and that a worker can perhaps compute."""

    def lend(self, lender: Lender) -> Lent | None:
        """Return what the worker needs; None if it has to be computed here."""

    def end_lent(self, *, is_answered: bool) -> None:
        """The worker has computed it, or not; raises if the query was cancelled in the meantime."""

    def close(self) -> None:
        """The query is over."""


class _Here:
    """The checkpoint of what begins on the event loop: a query that needs the planner does not belong here."""

    def __call__(self, check: Callable[[], None]) -> None:
        """Nothing is computed here."""

    def before_long_step(self) -> None:
        raise SoftDeadlineExceeded

    def begin_wait(self) -> None:
        """Only planned queries wait for others."""

    def end_wait(self, check: Callable[[], None]) -> None:
        """As above."""

    def begin_writing(self) -> None:
        """Only queries come here."""

    def threads_max(self, most: int) -> int:
        """The event loop has one thread."""
        return 1

    def place(self) -> Place | None:
        """Nothing waits for other nodes here: a query whose regions are there is not lent."""
        return None


_HERE = _Here()


class FastWorkers:
    """Lends queries to fast workers. Everything but the start of processes happens on the event loop."""

    def __init__(
        self, forker: Forker, program: FastWorkerProgram, count: int, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._forker = forker
        self._program = program
        self._count = count
        self._idle_seconds = idle_seconds
        self._runs = SharedRuns()
        self._workers: list[FastWorker] = []
        self._waiting: deque[asyncio.Future[FastWorker | None]] = deque()
        self._skips: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()
        """How many more times each query is not tried, and how often it will not be after the next failure."""
        self._is_starting = False
        self._not_before = 0.0
        """When workers may be started again, after that has failed."""
        self._is_closed = False
        self._is_short = False
        """Whether the server is short of memory."""
        self._used_at = 0.0

    def memory_use(self) -> Iterator[MemoryUse]:
        yield MemoryUse("fast_workers", sum(each.resident_bytes() for each in list(self._workers)))

    def limit_memory(self, share: float) -> None:
        """At less than half of their memory, workers that have nothing to do end; the server computes their queries."""
        self._is_short = share < SHARE_MIN
        if self._is_short:
            for worker in [each for each in self._workers if not each.at_once]:
                self._workers.remove(worker)
                worker.abandon()
            _PROCESSES.set(len(self._workers))

    async def answer(self, key: Hashable, *, start: Callable[[], object], encode: Encode) -> FastAnswer | None:
        """Have a worker answer a query; None if it has to be answered here.

        `key` is what queries have in common that are alike. `start` begins the query, here, when it is its turn; what
        it raises is raised here, too, and what it returns is `Lendable` or not. `encode` travels to the worker.
        """
        if not self._wants(key) or (worker := await self._turn()) is None:
            return None
        try:
            # The worker has no part in traces: what it does is one span here, with that of its statement inside.
            with span("fast_worker.compute") as computing:
                answer = await _compute(worker, start, encode)
                computing.set(answered=answer is not None)
        finally:
            self._give_back(worker)
        if answer is None:
            self._decline(key)
        else:
            self._skips[key] = 0, SKIPS_FIRST
        return answer

    def _wants(self, key: Hashable) -> bool:
        """Return whether a query should be tried; not the first time, and not if it was declined a moment ago."""
        left, skips = self._skips.get(key, (1, SKIPS_FIRST))
        self._skips[key] = max(left - 1, 0), skips
        self._skips.move_to_end(key)
        if len(self._skips) > KEYS_MAX:
            self._skips.popitem(last=False)
        return left == 0 and not self._is_closed and not self._is_short

    def _decline(self, key: Hashable) -> None:
        """Note that a query cannot be computed by a worker, or not soon enough."""
        _, skips = self._skips.get(key, (0, SKIPS_FIRST))
        self._skips[key] = skips, min(2 * skips, SKIPS_MAX)

    async def _turn(self) -> FastWorker | None:
        """Return a worker when it is the caller's turn, to be given back; None if there is none."""
        loop = asyncio.get_running_loop()
        self._used_at = loop.time()
        if not self._workers:
            self._start(loop)
            return None
        if not self._waiting and (worker := self._free_worker()) is not None:
            return worker
        if len(self._waiting) >= WAITING_MAX:
            return None
        ticket: asyncio.Future[FastWorker | None] = loop.create_future()
        self._waiting.append(ticket)
        try:
            return await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled() and (lent := ticket.result()) is not None:
                self._give_back(lent)
            raise

    def _give_back(self, worker: FastWorker) -> None:
        """Let the next query have its turn."""
        worker.at_once -= 1
        self._hand_out()

    def close(self) -> None:
        """End all of them; from any thread. The event loop notices that they have ended."""
        self._is_closed = True
        for worker in list(self._workers):
            worker.kill()

    def _free_worker(self) -> FastWorker | None:
        worker = min(self._workers, key=lambda each: each.at_once)
        if worker.at_once >= AT_ONCE:
            return None
        worker.at_once += 1
        return worker

    def _hand_out(self) -> None:
        while self._waiting:
            worker = self._free_worker() if self._workers else None
            if worker is None and self._workers:
                return
            ticket = self._waiting.popleft()
            if not ticket.done():
                ticket.set_result(worker)
            elif worker is not None:
                worker.at_once -= 1

    # Processes --------------------------------------------------------------------------------------------------------

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have workers started, on a thread: a fork takes milliseconds."""
        if self._is_starting or self._is_closed or self._is_short or loop.time() < self._not_before:
            return
        self._is_starting = True
        missing = self._count - len(self._workers)
        threading.Thread(target=self._fork, args=(loop, missing), name="tsdb-fast-start", daemon=True).start()

    def _fork(self, loop: asyncio.AbstractEventLoop, missing: int) -> None:
        forked: list[Forked] = []
        try:
            forked.extend(self._forker.fork(self._program) for _ in range(missing))
        except (Gone, OSError) as error:
            if not (self._is_closed or self._forker.is_closed):
                _log.warning("fast workers cannot be started", error=error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._add, loop, forked)

    def _add(self, loop: asyncio.AbstractEventLoop, forked: list[Forked]) -> None:
        self._is_starting = False
        if not forked:
            self._not_before = loop.time() + RESTART_SECONDS
        workers = [FastWorker(each, Lender(self._runs), loop, self._remove) for each in forked]
        if self._is_closed:
            for worker in workers:
                worker.abandon()
            return
        self._workers += workers
        _PROCESSES.set(len(self._workers))
        self._hand_out()
        if workers:
            loop.call_later(self._idle_seconds, self._end_idle, loop)
        if 0 < len(self._workers) < self._count:  # one has ended in the meantime
            loop.call_later(RESTART_SECONDS, self._start, loop)

    def _remove(self, worker: FastWorker) -> None:
        """A worker has ended: what it had to compute is computed in another way, and another one is started later."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        _PROCESSES.set(len(self._workers))
        self._hand_out()
        if not self._is_closed:
            loop = asyncio.get_running_loop()
            loop.call_later(RESTART_SECONDS, self._start, loop)

    def _end_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """End all workers when nobody has needed one for a while."""
        if self._is_closed or not self._workers:
            return
        idle = loop.time() - self._used_at
        if idle < self._idle_seconds or any(each.at_once for each in self._workers):
            loop.call_later(max(self._idle_seconds - idle, 1.0), self._end_idle, loop)
            return
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.abandon()
        _PROCESSES.set(0)


async def _compute(worker: FastWorker, start: Callable[[], object], encode: Encode) -> FastAnswer | None:
    try:
        begun = run_checked(_HERE, start)
    except SoftDeadlineExceeded:
        return None
    if not hasattr(begun, "lend"):
        if hasattr(begun, "close"):
            begun.close()
        return None
    lendable = cast(Lendable, begun)
    try:
        answer = await worker.compute(lendable, encode)
    except BaseException:
        lendable.close()
        raise
    lendable.end_lent(is_answered=answer is not None)
    return answer


class FastWorker:
    """One worker process."""

    def __init__(
        self,
        forked: Forked,
        lender: Lender,
        loop: asyncio.AbstractEventLoop,
        on_end: Callable[[FastWorker], None],
    ) -> None:
        self.process = forked.process
        self.at_once = 0
        """How many queries have a turn with it."""
        (self._connection,) = forked.connections
        self._connection.setblocking(False)
        self._descriptor = forked.descriptor
        self._lender = lender
        self._loop = loop
        self._on_end = on_end
        self._last = 0
        self._asked: dict[int, asyncio.Future[FastAnswer | None]] = {}
        self._received = bytearray()
        self._unsent = bytearray()
        self._is_ended = False
        self._start_bytes = resident_bytes(self.process)
        self._kill_lock = threading.Lock()
        loop.add_reader(self._connection, self._read)

    async def compute(self, query: Lendable, encode: Encode) -> FastAnswer | None:
        """Return the encoded answer; None if this process has to compute it."""
        if self._is_ended or (lent := query.lend(self._lender)) is None:
            _DECLINED.inc()
            return None
        parcel = self._lender.parcel()
        self._last = number = (self._last + 1) & 0xFFFFFFFF
        sent = FastQuery(number, lent, encode, parcel.news, parcel.gone)
        try:
            body = pickle.dumps(sent, pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError):
            # What the worker was to be sent with it is lost to it.
            _log.exception("a query cannot be sent to a fast worker")
            self._end()
            return None
        answer: asyncio.Future[FastAnswer | None] = self._loop.create_future()
        self._asked[number] = answer
        watch = self._loop.call_later(HANGS_SECONDS, self._end)
        try:
            self._send(object_header(body) + body, list(parcel.descriptors))
            return await answer
        finally:
            watch.cancel()
            self._asked.pop(number, None)

    def resident_bytes(self) -> int:
        """Return what the process has of its own."""
        return OWN_BYTES + max(resident_bytes(self.process) - self._start_bytes, 0)

    def abandon(self) -> None:
        """End the process, whatever it does."""
        if self._is_ended:
            return
        self._is_ended = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
        self.kill()
        with self._kill_lock:
            os.close(self._descriptor)
            self._descriptor = -1
        self._connection.close()
        for answer in self._asked.values():
            if not answer.done():
                _LOST.inc()
                answer.set_result(None)

    def kill(self) -> None:
        """End the process; from any thread."""
        with self._kill_lock, suppress(ProcessLookupError):
            if self._descriptor >= 0:
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def _end(self) -> None:
        self.abandon()
        self._on_end(self)

    def _send(self, message: bytes, descriptors: list[int]) -> None:
        """Send a message, or what the socket takes of it now."""
        try:
            if descriptors:
                self._send_whole(message, descriptors)
                return
            sent = 0 if self._unsent else self._connection.send(message)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._end()
            return
        if sent < len(message):
            self._unsent += message[sent:]
            self._loop.add_writer(self._connection, self._write)

    def _send_whole(self, message: bytes, descriptors: list[int]) -> None:
        """Descriptors arrive with the first byte: it waits for its turn, at most for what the worker computes."""
        self._connection.settimeout(SEND_SECONDS_MAX)
        if self._unsent:
            self._connection.sendall(self._unsent)
            self._unsent.clear()
            self._loop.remove_writer(self._connection)
        sent = socket.send_fds(self._connection, [message], descriptors)
        self._connection.sendall(memoryview(message)[sent:])
        self._connection.setblocking(False)

    def _write(self) -> None:
        try:
            sent = self._connection.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self._end()
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._connection)

    def _read(self) -> None:
        try:
            received = self._connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._end()
            return
        self._received += received
        while len(self._received) >= HEADER.size:
            number, outcome, seconds, size = HEADER.unpack_from(self._received)
            if len(self._received) < HEADER.size + size:
                return
            body = bytes(memoryview(self._received)[HEADER.size : HEADER.size + size])
            del self._received[: HEADER.size + size]
            self._answer(number, outcome, FastAnswer(body, seconds))

    def _answer(self, number: int, outcome: int, found: FastAnswer) -> None:
        is_answered = outcome == Outcome.ANSWERED
        (_ANSWERED if is_answered else _DECLINED).inc()
        if outcome == Outcome.DAMAGED:
            self._note_damage(pickle.loads(found.body))
        elif not is_answered:
            _log.debug("a fast worker has declined a query", reason=found.body.decode(errors="replace"))
        answer = self._asked.get(number)
        if answer is not None and not answer.done():
            answer.set_result(found if is_answered else None)

    def _note_damage(self, reasons: Mapping[int, str]) -> None:
        """Report damaged files to their regions, not on the event loop: copies of files are deleted."""
        for number, file in self._lender.find_files(reasons).items():
            self._loop.run_in_executor(None, file.note_damage, reasons[number])
