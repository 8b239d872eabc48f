"""A fast worker: takes one query after the other, computes it and sends the encoded answer."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from tsdb.clock import SystemClock
from tsdb.engine.lending import PARCEL_RUNS_MAX, Borrower
from tsdb.processes.fork_server import name_process
from tsdb.processes.messages import Gone, receive_object
from tsdb.query import Records, run_checked
from tsdb.query.lifetime import QueryLife
from tsdb.query.series_aggregate import LentAggregate, borrowed_records
from tsdb.servers._inline import SoftDeadline, SoftDeadlineExceeded, start_watch

ANSWER_BYTES_MAX = 1 << 20
"""A larger answer is streamed by the server."""
COMPUTE_SECONDS_MAX = 0.025
"""What takes longer is declined: nobody else but the queries behind it waits for a worker, but those do."""
META_BYTES = 16 << 20
VECTOR_BYTES_MAX = 96 << 20
"""What a worker keeps decoded at most; all of them together half of what the server does."""

HEADER = struct.Struct("<IBdI")
"""Of an answer: the number of the request, its outcome, the seconds it took, the size of what follows."""


class Encode(Protocol):
    """Encodes rows; it travels."""

    def __call__(self, records: Records, /) -> Iterable[bytes]: ...


class Outcome(IntEnum):
    """What became of a query."""

    ANSWERED = 0
    DECLINED = 1


class FastQuery(NamedTuple):
    """One query, with what the worker needs for it and does not have."""

    number: int
    lent: LentAggregate
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
        borrower = Borrower.of(meta_bytes=META_BYTES, vector_bytes=self.vector_bytes)
        worker = _Worker(connection, borrower, self.soft_deadline_seconds)
        with suppress(Gone, BrokenPipeError, ConnectionResetError):
            while True:
                worker.answer(*receive_object(connection, PARCEL_RUNS_MAX))


class _Worker:
    def __init__(self, connection: socket.socket, borrower: Borrower, soft_deadline_seconds: float) -> None:
        self._connection = connection
        self._soft_deadline_seconds = soft_deadline_seconds
        self._borrower = borrower
        self._clock = SystemClock()

    def answer(self, request: FastQuery, descriptors: list[int]) -> None:
        self._borrower.take(request.news, request.gone, descriptors)
        seconds = start_watch()
        try:
            body, outcome = self._compute(request, seconds), Outcome.ANSWERED
        except (Exception, SoftDeadlineExceeded) as error:  # noqa: BLE001
            # The server runs it again, and has the error if it is one of the query.
            body, outcome = repr(error).encode(errors="replace"), Outcome.DECLINED
        self._connection.sendall(HEADER.pack(request.number, outcome, seconds(), len(body)) + body)

    def _compute(self, request: FastQuery, seconds: Callable[[], float]) -> bytes:
        deadline = SoftDeadline(seconds, self._soft_deadline_seconds)
        return run_checked(deadline, lambda: self._encode(request))

    def _encode(self, request: FastQuery) -> bytes:
        records = borrowed_records(request.lent, self._borrower, QueryLife(self._clock, None))
        pieces, size = [], 0
        for piece in request.encode(records):
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_BYTES_MAX:
                raise ValueError("the answer is large")
        return b"".join(pieces)
