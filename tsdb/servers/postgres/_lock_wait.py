"""Waits for an advisory lock: runs the statement again until it gets the lock or times out."""

from __future__ import annotations

import time

from tsdb.errors import TsdbError
from tsdb.query import Session
from tsdb.query.advisory_locks import SessionLocks
from tsdb.servers.postgres._errors import PgError

LOCK_SECONDS_MAX = 60.0
"""How long a statement waits for an advisory lock, unless `statement_timeout` is shorter."""
_NS_PER_SECOND = 1_000_000_000


class LockWait:
    """How long the statement of a connection has been waiting."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._locks = session.locks or SessionLocks()
        self._deadline: float | None = None

    def begin_statement(self) -> None:
        self._deadline = None
        self._locks.end_statement()

    def retry(self, error: TsdbError) -> None:
        """Return if the statement is to be run again; otherwise raise why it failed."""
        if self._locks.refused is None:
            raise error
        self._locks.undo_statement()
        now = time.monotonic()
        if self._deadline is None:
            wanted = self._session.timeout
            self._deadline = now + min(LOCK_SECONDS_MAX, int(wanted) / _NS_PER_SECOND if wanted else LOCK_SECONDS_MAX)
        if self._locks.is_cancelled:
            raise PgError("57014", "canceling statement due to user request")
        if now >= self._deadline:
            raise PgError("55P03", "canceling statement due to lock timeout")

    def end_transaction(self) -> None:
        self._locks.end_transaction()

    def close(self) -> None:
        self._locks.close()
