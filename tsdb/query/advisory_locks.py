"""PostgreSQL's advisory locks: numbers that clients lock to take turns. They protect nothing by themselves.

A lock is held by one session, until it unlocks it or ends, or until its transaction ends. A session may lock a number
several times; it has to unlock it as often. The locks are in the memory of the server: each frontend of a cluster has
its own.

Taking a lock never blocks. When another session holds it, the number is recorded in `refused` and the statement fails;
the server repeats the statement until it succeeds or the wait is over. So no thread waits for a lock.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tsdb.errors import Busy

LOCKS_MAX = 10_000
"""How many numbers may be locked at a time."""


class AdvisoryLocks:
    """All locks of a server."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.owners: dict[int, SessionLocks] = {}


@dataclass(slots=True)
class _LockCount:
    """How many times a session has locked a number."""

    session: int = 0
    transaction: int = 0


class SessionLocks:
    """The locks of one session."""

    def __init__(self, server: AdvisoryLocks | None = None) -> None:
        self._server = server or AdvisoryLocks()
        self._held: dict[int, _LockCount] = {}
        self._taken: list[tuple[int, bool]] = []
        self.refused: int | None = None
        """The number that the statement could not lock."""
        self.is_cancelled = False
        """Whether the statement that waits is to give up; set from any thread."""

    def take(self, number: int, *, is_transaction: bool) -> bool:
        """Lock a number; returns False if another session holds it."""
        with self._server.mutex:
            owners = self._server.owners
            if owners.get(number, self) is not self:
                return False
            if number not in owners and len(owners) >= LOCKS_MAX:
                raise Busy(f"all {LOCKS_MAX} advisory locks are taken", hint="try again when some are released")
            owners[number] = self
            self._add(number, 1, is_transaction=is_transaction)
        self._taken.append((number, is_transaction))
        return True

    def release(self, number: int) -> bool:
        """Unlock a number once; returns False if the session has not locked it."""
        with self._server.mutex:
            held = self._held.get(number)
            if held is None or held.session == 0:
                return False
            self._add(number, -1, is_transaction=False)
        return True

    def release_session(self) -> None:
        """Unlock everything that is not locked by the transaction."""
        self._release_where(is_transaction=False)

    def end_transaction(self) -> None:
        """Unlock what the transaction has locked."""
        if self._held:
            self._release_where(is_transaction=True)

    def close(self) -> None:
        self.end_transaction()
        self.release_session()

    def end_statement(self) -> None:
        """Keep what the statement has locked."""
        self._taken.clear()
        self.refused, self.is_cancelled = None, False

    def undo_statement(self) -> None:
        """Unlock what the statement has locked so far: it runs again from its beginning."""
        with self._server.mutex:
            for number, is_transaction in self._taken:
                held = self._held.get(number)
                if held is not None and (held.transaction if is_transaction else held.session):
                    self._add(number, -1, is_transaction=is_transaction)
        self._taken.clear()
        self.refused = None

    def _release_where(self, *, is_transaction: bool) -> None:
        with self._server.mutex:
            for number, held in list(self._held.items()):
                count = held.transaction if is_transaction else held.session
                self._add(number, -count, is_transaction=is_transaction)

    def _add(self, number: int, count: int, *, is_transaction: bool) -> None:
        """Change how many times a number is locked; the caller has the mutex."""
        held = self._held.setdefault(number, _LockCount())
        if is_transaction:
            held.transaction += count
        else:
            held.session += count
        if not held.session and not held.transaction:
            del self._held[number], self._server.owners[number]
