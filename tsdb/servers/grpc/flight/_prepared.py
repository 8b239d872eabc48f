"""Prepared statements and their bound values, by handle.

Flight has no connections, so statements belong to a user, and live until they are closed or have been unused for an
hour. Their number and the memory of bound values are bounded; at the limit new ones are refused. Used by the event loop
only.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import pyarrow as pa

from tsdb.clock import Clock, SystemClock
from tsdb.errors import Busy, InvalidArguments
from tsdb.query import Session
from tsdb.sql.template import StatementTemplate

PREPARED_MAX = 10_000
TEXT_BYTES_MAX = 1 << 20
"""How long a statement may be."""
BOUND_BYTES_MAX = 64 << 20
"""How much the values of one statement may take."""
ALL_BOUND_BYTES_MAX = 256 << 20
IDLE_SECONDS_MAX = 3_600
HANDLE_BYTES = 16


@dataclass(slots=True)
class FlightStatement:
    """A statement, for whom it was made, and the values bound to it."""

    template: StatementTemplate
    user: str | None
    database: str
    time_zone: str
    used_ns: int
    bound: pa.Table | None = None

    @property
    def bound_bytes(self) -> int:
        return 0 if self.bound is None else int(self.bound.nbytes)


class FlightStatements:
    """The prepared statements of one server."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        prepared_max: int = PREPARED_MAX,
        bound_bytes_max: int = ALL_BOUND_BYTES_MAX,
    ) -> None:
        self._clock = clock or SystemClock()
        self._prepared_max = prepared_max
        self._bound_bytes_max = bound_bytes_max
        self._known: dict[bytes, FlightStatement] = {}

    def add(self, template: StatementTemplate, session: Session) -> bytes:
        """Keep a statement; return its handle."""
        if len(template.text) > TEXT_BYTES_MAX:
            raise InvalidArguments(f"a prepared statement has at most {TEXT_BYTES_MAX} characters")
        if len(self._known) >= self._prepared_max:
            self._forget_idle()
        if len(self._known) >= self._prepared_max:
            raise Busy(
                "too many prepared statements are open", hint="try again later, or close those that are not needed"
            )
        handle = secrets.token_bytes(HANDLE_BYTES)
        now_ns = self._clock.monotonic_ns()
        self._known[handle] = FlightStatement(template, session.user, session.database, session.time_zone, now_ns)
        return handle

    def find(self, handle: bytes, session: Session) -> FlightStatement:
        """Return a statement of the session's user."""
        found = self._known.get(handle)
        now_ns = self._clock.monotonic_ns()
        if found is None or found.user != session.user or now_ns - found.used_ns > IDLE_SECONDS_MAX * 1_000_000_000:
            raise InvalidArguments(
                "there is no such prepared statement, or it was not used for an hour", hint="prepare it anew"
            )
        found.used_ns = now_ns
        return found

    def bind(self, prepared: FlightStatement, values: pa.Table) -> None:
        """Keep values for the next execution."""
        check_width(prepared.template, values.num_columns)
        held = sum(each.bound_bytes for each in self._known.values()) - prepared.bound_bytes
        if held + values.nbytes > self._bound_bytes_max:
            self._forget_idle()
            raise Busy(
                "too many values are bound to prepared statements", hint="try again later, or execute or close them"
            )
        prepared.bound = values

    def close(self, handle: bytes, session: Session) -> None:
        """Forget a statement; one that is not there is forgotten already."""
        found = self._known.get(handle)
        if found is not None and found.user == session.user:
            del self._known[handle]

    def _forget_idle(self) -> None:
        now_ns = self._clock.monotonic_ns()
        for handle in [
            key for key, each in self._known.items() if now_ns - each.used_ns > IDLE_SECONDS_MAX * 1_000_000_000
        ]:
            del self._known[handle]


def check_width(template: StatementTemplate, given: int) -> None:
    """Refuse rows that do not have a value for each place."""
    if given != template.count:
        raise InvalidArguments(f"the statement takes {template.count} values, {given} were given")
