"""One fast worker as the event loop sees it: what it was asked, and what comes back."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from tsdb.engine.lending import Lender
from tsdb.processes.fork_server import Forked
from tsdb.processes.messages import object_header
from tsdb.processes.resident import resident_bytes
from tsdb.servers.fast_workers._process import HEADER, Encode, FastQuery, Lent, Outcome
from tsdb.telemetry import counter, get_logger

HANGS_SECONDS = 5.0
"""A worker that has not answered by then is ended."""
SEND_SECONDS_MAX = 1.0
OWN_BYTES = 8 << 20
"""What a worker that has just started has of its own, beside what it shares with the process it was forked from."""
_READ_BYTES = 1 << 18

_log = get_logger("tsdb.fast_workers")

_QUERIES = counter(
    "tsdb_servers_fast_queries_total",
    "Queries sent to fast workers: answered; declined, computed by the server; lost with their "
    "worker, also computed by the server.",
    labels=("outcome",),
)
_ANSWERED, _DECLINED, _LOST = (_QUERIES.labels(each) for each in ("answered", "declined", "lost"))


class FastAnswer(NamedTuple):
    """What a worker has computed."""

    body: bytes
    seconds: float


OnAnswer: TypeAlias = Callable[[FastAnswer | None], None]
"""Is called once, on the event loop; with None if this process has to compute the query."""


class _Asked(NamedTuple):
    on_answer: OnAnswer
    watch: asyncio.TimerHandle


def count_declined() -> None:
    """Count a query that was not even sent to a worker."""
    _DECLINED.inc()


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
        self.lender = lender
        """Knows what the process has been sent."""
        (self._connection,) = forked.connections
        self._connection.setblocking(False)
        self._descriptor = forked.descriptor
        self._loop = loop
        self._on_end = on_end
        self._last = 0
        self._asked: dict[int, _Asked] = {}
        self._received = bytearray()
        self._unsent = bytearray()
        self.is_ended = False
        self._start_bytes = resident_bytes(self.process)
        self._kill_lock = threading.Lock()
        loop.add_reader(self._connection, self._read)

    def ask(self, lent: Lent, encode: Encode, on_answer: OnAnswer) -> None:
        """Have a query computed; what it was lent must be kept until the answer is there."""
        if self.is_ended:
            count_declined()
            on_answer(None)
            return
        parcel = self.lender.parcel()
        self._last = number = (self._last + 1) & 0xFFFFFFFF
        sent = FastQuery(number, lent, encode, parcel.news, parcel.gone)
        try:
            body = pickle.dumps(sent, pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError):
            # What the worker was to be sent with it is lost to it.
            _log.exception("a query cannot be sent to a fast worker")
            self._end()
            on_answer(None)
            return
        self._asked[number] = _Asked(on_answer, self._loop.call_later(HANGS_SECONDS, self._end))
        self._send(object_header(body) + body, list(parcel.descriptors))

    def resident_bytes(self) -> int:
        """Return what the process has of its own."""
        return OWN_BYTES + max(resident_bytes(self.process) - self._start_bytes, 0)

    def abandon(self) -> None:
        """End the process, whatever it does."""
        self._settle(self._close())

    def _end(self) -> None:
        """End the process because something is wrong: its owner is told before the queries that it had are."""
        asked = self._close()
        self._on_end(self)
        self._settle(asked)

    def _close(self) -> list[_Asked]:
        """End the process, once; return what it was asked."""
        if self.is_ended:
            return []
        self.is_ended = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.remove_reader(self._connection)
            self._loop.remove_writer(self._connection)
        self.kill()
        with self._kill_lock:
            os.close(self._descriptor)
            self._descriptor = -1
        self._connection.close()
        asked, self._asked = self._asked, {}
        return list(asked.values())

    def _settle(self, asked: list[_Asked]) -> None:
        for each in asked:
            each.watch.cancel()
            _LOST.inc()
            each.on_answer(None)

    def kill(self) -> None:
        """End the process; from any thread."""
        with self._kill_lock, suppress(ProcessLookupError):
            if self._descriptor >= 0:
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

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
        asked = self._asked.pop(number, None)
        if asked is not None:
            asked.watch.cancel()
            asked.on_answer(found if is_answered else None)

    def _note_damage(self, reasons: Mapping[int, str]) -> None:
        """Report damaged files to their regions, not on the event loop: copies of files are deleted."""
        for number, file in self.lender.find_files(reasons).items():
            self._loop.run_in_executor(None, file.note_damage, reasons[number])
