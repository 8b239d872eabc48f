"""What the shortcut needs of a route whose queries it answers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Protocol

from tsdb.engine.lending import Lender
from tsdb.errors import TsdbError
from tsdb.query import Session
from tsdb.servers._inline import Candidate
from tsdb.servers.fast_workers import Encode, Lent
from tsdb.servers.http.wire import Request, Response


class Requested(Protocol):
    """What the parameters of a request ask for."""

    @property
    def database(self) -> str | None:
        """The database that they name."""


class ShortQuery(Protocol):
    """One query. It is computed here or lent, at most once, and ended."""

    encode: Encode
    failure: TsdbError | None
    """Why it has no answer, if its client is to be told; without it the application gets the request."""

    @property
    def key(self) -> Hashable:
        """What it has in common with others of its shape."""

    def compute(self) -> bytes:
        """Return its answer, computed here and now; whatever it raises, there is none."""

    def lend(self, lender: Lender) -> Lent | None:
        """It is its turn: return what a worker needs; None if it has to be computed here."""

    def end(self, *, is_answered: bool) -> None:
        """Let go of everything; TsdbError if it was killed meanwhile."""

    def headers(self, elapsed_ms: int) -> list[tuple[bytes, bytes]]:
        """Return the headers that describe an answer."""


class ShortRoute(Protocol):
    """A route whose queries are repeated. What raises TsdbError leaves the request to the application."""

    path: str

    def read(self, parameters: Mapping[str, str]) -> Any | None:
        """Return what a request wants (`Requested`); None if that is not a plain query."""

    def make_session(self, request: Request, wanted: Any) -> Session:
        """Return the session of a client that sends such headers."""

    def candidate(self, wanted: Any, session: Session) -> Candidate | None:
        """Return how a query of a client that is alone is run; None for one that never runs inline."""

    def find(self, wanted: Any, session: Session, started: float) -> ShortQuery | None:
        """Return the query of a request if its shape is known."""

    def error_response(self, error: TsdbError, elapsed_ms: int) -> Response:
        """Return the answer to a query that has failed."""

    def timeout_response(self) -> Response:
        """Return the answer to a query that has used up its time."""
