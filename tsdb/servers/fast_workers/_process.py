"""A fast worker: takes one query after the other, computes it and sends the encoded answer."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from tsdb.clock import SystemClock
from tsdb.engine import DECODED
from tsdb.engine.lending import PARCEL_RUNS_MAX, Borrower
from tsdb.processes.allocator import give_back, keep_memory
from tsdb.processes.fork_server import name_process
from tsdb.processes.known_results import KnownResults
from tsdb.processes.messages import Gone, receive_object
from tsdb.query import run_checked
from tsdb.query.lifetime import QueryLife
from tsdb.query.promql import LentPromql, PromqlBorrower
from tsdb.query.series_aggregate import LentAggregate, borrowed_records
from tsdb.servers._inline import SoftDeadline, SoftDeadlineExceeded, start_watch

ANSWER_BYTES_MAX = 1 << 20
"""A larger answer is streamed by the server."""
COMPUTE_SECONDS_MAX = 0.025
"""What takes longer is declined: nobody else but the queries behind it waits for a worker, but those do."""
META_BYTES = 16 << 20
VECTOR_BYTES_MAX = 96 << 20
"""What a worker keeps decoded at most; all of them together half of what the server does."""

LABEL_BYTES = 16 << 20
"""Decoded labels of metric tables."""
RESULTS_PART = 1 / 8
"""What caches of expressions and schemas hold here, of what they do in the server."""

KEPT_BYTES = 4 << 20
"""What the C library keeps for the next query."""
LOOK_SECONDS = 1.0
BUSY_LOOKS = 10
"""A worker that is always busy gives free memory back after so many looks."""
VECTOR_BYTES_MIN = 32 << 20
"""Without so much for each there are no fast workers."""

HEADER = struct.Struct("<IBdI")
"""Of an answer: the number of the request, its outcome, the seconds it took, the size of what follows."""


Lent: TypeAlias = LentAggregate | LentPromql
"""What a worker can compute."""


class Encode(Protocol):
    """Encodes what was computed, rows or the answer of a PromQL query; it travels."""

    def __call__(self, found: Any, /) -> Iterable[bytes]: ...


class Outcome(IntEnum):
    """What became of a query."""

    ANSWERED = 0
    DECLINED = 1
    DAMAGED = 2
    """Declined, because data files are damaged: their numbers and what is wrong follow, pickled."""


class FastQuery(NamedTuple):
    """One query, with what the worker needs for it and does not have."""

    number: int
    lent: Lent
    encode: Encode
    news: Sequence[tuple[int, Any]]
    gone: Sequence[int]


@dataclass(frozen=True, slots=True)
class FastWorkerProgram:
    """What a fast worker runs."""

    vector_bytes: int = VECTOR_BYTES_MAX
    soft_deadline_seconds: float = COMPUTE_SECONDS_MAX

    def run(self, *connections: socket.socket) -> None:
        (connection,) = connections
        name_process("tsdb-fast")
        keep_memory(KEPT_BYTES)
        # The caches of the process that this one was forked from are as large as they get.
        DECODED.resize(LABEL_BYTES)
        KnownResults(RESULTS_PART)
        borrower = Borrower.of(meta_bytes=META_BYTES, vector_bytes=self.vector_bytes)
        worker = _Worker(connection, borrower, self.soft_deadline_seconds)
        threading.Thread(target=worker.give_back_unused, name="tsdb-memory", daemon=True).start()
        with suppress(Gone, BrokenPipeError, ConnectionResetError):
            while True:
                worker.answer(*receive_object(connection, PARCEL_RUNS_MAX))


class _Worker:
    def __init__(self, connection: socket.socket, borrower: Borrower, soft_deadline_seconds: float) -> None:
        self._connection = connection
        self._soft_deadline_seconds = soft_deadline_seconds
        self._borrower = borrower
        self._promql = PromqlBorrower(borrower)
        self._clock = SystemClock()
        self._answered = 0

    def give_back_unused(self) -> None:
        """Return free memory to the system whenever there was nothing to do for a moment, and now and then."""
        given_back = looks = 0
        while True:
            before = self._answered
            time.sleep(LOOK_SECONDS)
            looks += 1
            is_idle = self._answered == before
            if self._answered != given_back and (is_idle or looks % BUSY_LOOKS == 0):
                given_back = self._answered
                give_back()

    def answer(self, request: FastQuery, descriptors: list[int]) -> None:
        self._borrower.take(request.news, request.gone, descriptors)
        seconds = start_watch()
        try:
            body, outcome = self._compute(request, seconds), Outcome.ANSWERED
        except (Exception, SoftDeadlineExceeded) as error:  # noqa: BLE001
            # The server runs it again, and has the error if it is one of the query.
            body, outcome = self._declined(error)
        self._connection.sendall(HEADER.pack(request.number, outcome, seconds(), len(body)) + body)
        self._answered += 1

    def _declined(self, error: BaseException) -> tuple[bytes, Outcome]:
        # The server may not meet the damage: it may have decoded the file before.
        damage = self._borrower.take_damage()
        if damage:
            return pickle.dumps(damage), Outcome.DAMAGED
        return repr(error).encode(errors="replace"), Outcome.DECLINED

    def _compute(self, request: FastQuery, seconds: Callable[[], float]) -> bytes:
        deadline = SoftDeadline(seconds, self._soft_deadline_seconds)
        return run_checked(deadline, lambda: self._encode(request))

    def _encode(self, request: FastQuery) -> bytes:
        lent, life = request.lent, QueryLife(self._clock, None)
        found: object
        if isinstance(lent, LentPromql):
            found = self._promql.evaluate(lent, life)
        else:
            found = borrowed_records(lent, self._borrower, life)
        pieces, size = [], 0
        for piece in request.encode(found):
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_BYTES_MAX:
                raise ValueError("the answer is large")
        return b"".join(pieces)
