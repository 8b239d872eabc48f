"""Writes batches: again while the server is busy or gone, and in halves when it refuses some of the rows.

What a server refuses is found by division: a batch that is refused is written in halves, down to the single row, which
is then reported. Rows around it are written. Errors that concern all rows alike end the import.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from tsdb.cli.server import CannotConnect, HttpSession, IncompleteAnswer, ServerAddress, ServerError
from tsdb.cli.transfer._batches import RejectedRow, WriteBatch
from tsdb.errors import Status, TsdbError

RETRY_SECONDS = 60.0
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.1, 5.0
_ANSWER_BYTES_MAX = 1 << 20
_TOO_LARGE = 413
_FATAL_HTTP = (401, 403, 404, 405, 415)
_FATAL_CODES = frozenset({Status.DATABASE_NOT_FOUND.value, Status.TABLE_NOT_FOUND.value})


class ImportStopped(TsdbError):
    """The import ends before its source does."""

    status = Status.CANCELLED


@dataclass
class BatchOutcome:
    """What became of a batch."""

    rows: int = 0
    rejected: list[RejectedRow] = field(default_factory=list)


class BatchWriter:
    """Writes batches for any number of threads, each over a connection of its own."""

    def __init__(self, address: ServerAddress, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self._address = address
        self._retry_seconds = retry_seconds
        self._local = threading.local()
        self._sessions: list[HttpSession] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let every write end soon: nothing is tried again, and connections are closed."""
        self._stopped.set()
        with self._lock:
            sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.end()

    def write(self, batch: WriteBatch, *, rejected_max: int) -> BatchOutcome:
        """Write a batch; rows that the server refuses are returned, no more than one above the maximum."""
        found = BatchOutcome()
        self._write(batch, found, rejected_max)
        return found

    def _write(self, batch: WriteBatch, found: BatchOutcome, rejected_max: int) -> None:
        if len(found.rejected) > rejected_max:
            return
        try:
            self._send(batch)
        except ServerError as error:
            if error.http_status in _FATAL_HTTP or error.code in _FATAL_CODES or error.http_status >= 500:
                raise
            if batch.units == 1:
                if error.http_status == _TOO_LARGE:
                    raise
                found.rejected.append(RejectedRow(batch.place(), str(error)))
                return
            middle = batch.units // 2
            self._write(batch.part(0, middle), found, rejected_max)
            self._write(batch.part(middle, batch.units), found, rejected_max)
            return
        found.rows += batch.rows

    def _send(self, batch: WriteBatch) -> None:
        """Send until it is acknowledged. A write whose outcome is unknown is repeated: a row replaces itself."""
        request = batch.to_request()
        deadline = time.monotonic() + self._retry_seconds
        pause = _PAUSE_SECONDS
        while True:
            try:
                session = self._session()
                with session.request(
                    "POST", request.path, params=request.params, body=request.body, headers=request.headers
                ) as answer:
                    answer.read(_ANSWER_BYTES_MAX)
                return
            except (CannotConnect, IncompleteAnswer, ServerError) as error:
                self._check_retryable(error, deadline)
                pause = max(pause, getattr(error, "retry_after", None) or 0)
            if self._stopped.wait(pause):
                raise ImportStopped("the import was stopped")
            pause = min(pause * 2, _PAUSE_SECONDS_MAX)

    def _check_retryable(self, error: TsdbError, deadline: float) -> None:
        if self._stopped.is_set():
            raise ImportStopped("the import was stopped") from error
        is_final = isinstance(error, ServerError) and not error.is_retryable
        if is_final or time.monotonic() > deadline:
            raise error

    def _session(self) -> HttpSession:
        session: HttpSession | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = HttpSession(self._address)
            with self._lock:
                self._sessions.append(session)
        return session
