"""The statements whose rows are being sent, by ticket id, so that another call can cancel them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tsdb.query import Session


class Running:
    """Used by the event loop alone; as many as there are calls under way."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[Session]] = {}

    @contextmanager
    def entered(self, ticket: str, session: Session) -> Iterator[None]:
        """Know a session while its statement runs."""
        self._sessions.setdefault(ticket, []).append(session)
        try:
            yield
        finally:
            left = [each for each in self._sessions[ticket] if each is not session]
            if left:
                self._sessions[ticket] = left
            else:
                del self._sessions[ticket]

    def find(self, ticket: str, user: str | None) -> list[Session]:
        """Return the sessions that run a ticket for a user."""
        return [each for each in self._sessions.get(ticket, ()) if each.user == user]
