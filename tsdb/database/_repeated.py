"""A query of a known shape that another process computes, or this one: in the process list, counted, and ended here.

It means what `Database.execute` makes of the same text. Where anything is unusual there is no such query, or it is not
answered; nothing has happened then, and its text is run as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import perf_counter

from tsdb.auth import SYSTEM, PermissionDenied
from tsdb.database._failures import note_text
from tsdb.database._services import Services
from tsdb.database.sessions.access import authorize
from tsdb.engine.lending import Lender
from tsdb.errors import Cancelled, TsdbError
from tsdb.query import Session
from tsdb.query.series_aggregate import AggregateRecords, LentAggregate, RepeatedAggregate


class RepeatedQuery:
    """One query. It is lent or started at most once, and ended."""

    __slots__ = ("_aggregate", "_process", "_processes", "_started", "session", "text")

    def __init__(self, text: str, session: Session, aggregate: RepeatedAggregate, services: Services) -> None:
        self.text = text
        self.session = session
        self._aggregate = aggregate
        self._started = perf_counter()
        self._processes = services.processes
        self._process = services.processes.enter(session, text)

    @property
    def key(self) -> Hashable:
        """What it has in common with others of its shape."""
        return self._aggregate.key

    def lend(self, lender: Lender) -> LentAggregate | None:
        """Take snapshots and return what another process needs; None if it cannot be computed there."""
        if self._process.is_cancelled:
            return None
        try:
            return self._aggregate.lend(lender)
        except TsdbError:
            # Whatever it is, the usual way meets it too, and reports it.
            return None

    def start(self) -> AggregateRecords:
        """Begin it in this process; its rows are NeedsPlanner if only a planned query has them."""
        return self._aggregate.start()

    def end(self, *, is_answered: bool, note: Callable[[float, RepeatedQuery], None]) -> None:
        """Let go of everything; `note` is told how long an answer took. Raises if the query was killed meanwhile."""
        self._aggregate.release()
        self._processes.leave(self._process)
        if self._process.is_cancelled:
            error = Cancelled("the query was cancelled")
            note_text(error, self.text)
            raise error
        if is_answered:
            note(perf_counter() - self._started, self)


def find_repeated(text: str, session: Session, services: Services) -> RepeatedQuery | None:
    """Return a query of a known shape that the session may run; None for anything else."""
    try:
        identity = authorize(services, session)
    except PermissionDenied:
        return None
    if identity is not SYSTEM and not identity.can_read:
        return None
    found = services.queries.find_repeated(text, session)
    return None if found is None else RepeatedQuery(text, session, found, services)
