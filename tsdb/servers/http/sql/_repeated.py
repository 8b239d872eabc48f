"""`/v1/sql` for the shortcut: queries that a plan is known for, from the text to the body of the answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from tsdb.database import DatabaseGate, DatabasePort, RepeatedQuery
from tsdb.engine.lending import Lender
from tsdb.errors import Status, TsdbError
from tsdb.query import Session
from tsdb.servers._inline import Candidate, InlinePolicy
from tsdb.servers.fast_workers import ANSWER_BYTES_MAX, Encode, Lent
from tsdb.servers.http._app import TIMED_OUT
from tsdb.servers.http._errors import error_response, full_error_body, plain_error_response
from tsdb.servers.http.sql._answers import AnswerEncoder, raw_answer_headers
from tsdb.servers.http.sql._parameters import Format, read_format
from tsdb.servers.http.wire import Params, Request, Response

PATH = "/v1/sql"
_PARAMETERS = frozenset({"sql", "db", "format"})

MakeSession = Callable[[Request, Params, DatabasePort], Session]


class _Wanted(NamedTuple):
    """What a request asks for."""

    text: str
    database: str | None
    format: Format


class RepeatedSql:
    """The queries of `/v1/sql` that a plan is known for."""

    path = PATH

    def __init__(
        self, gate: DatabaseGate, inline: InlinePolicy, make_session: MakeSession, *, table_bytes_max: int
    ) -> None:
        self._gate = gate
        self._inline = inline
        self._make_session = make_session
        self._table_bytes_max = table_bytes_max

    def read(self, parameters: Mapping[str, str]) -> _Wanted | None:
        if not parameters.keys() <= _PARAMETERS:
            return None
        text, database = parameters.get("sql", ""), parameters.get("db")
        if text[: len("select")].lower() != "select" or ";" in text or database == "":
            return None
        return _Wanted(text, database, read_format(parameters.get("format")))

    def make_session(self, request: Request, wanted: _Wanted) -> Session:
        chosen = Params([] if wanted.database is None else [("db", wanted.database)])
        return self._make_session(request, chosen, self._gate.database)

    def candidate(self, wanted: _Wanted, session: Session) -> Candidate | None:
        return self._inline.candidate(True, wanted.text, session.database, session.time_zone, wanted.format.name)

    def find(self, wanted: _Wanted, session: Session, started: float) -> _Query | None:
        database = self._gate.database
        found = database.find_repeated(wanted.text, session)
        if found is None:
            return None
        encode = wanted.format.encode
        encoder = AnswerEncoder(encode, started, None, None, None, session.time_zone, self._table_bytes_max)
        return _Query(database, found, wanted.format, encoder)

    def error_response(self, error: TsdbError, elapsed_ms: int) -> Response:
        return error_response(error, elapsed_ms, full_error_body)

    def timeout_response(self) -> Response:
        return plain_error_response(408, Status.DEADLINE_EXCEEDED, TIMED_OUT, full_error_body)


class _Query:
    """One query."""

    __slots__ = ("_database", "_format", "_repeated", "encode", "failure")

    def __init__(self, database: DatabasePort, repeated: RepeatedQuery, chosen: Format, encode: Encode) -> None:
        self._database = database
        self._repeated = repeated
        self._format = chosen
        self.encode = encode
        self.failure: TsdbError | None = None

    @property
    def key(self) -> Hashable:
        return self._repeated.key

    def compute(self) -> bytes:
        found: list[bytes] = []
        size = 0
        for piece in self.encode(self._repeated.start()):
            found.append(piece)
            size += len(piece)
            if size > ANSWER_BYTES_MAX:
                raise ValueError("the answer is large")
        return b"".join(found)

    def lend(self, lender: Lender) -> Lent | None:
        return self._repeated.lend(lender)

    def end(self, *, is_answered: bool) -> None:
        self._database.end_repeated(self._repeated, is_answered=is_answered)

    def headers(self, elapsed_ms: int) -> list[tuple[bytes, bytes]]:
        return raw_answer_headers(self._format, elapsed_ms)
