"""PromQL for the shortcut: queries of dashboards, from their text to the body of the answer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial
from typing import NamedTuple

from tsdb.engine.lending import Lender
from tsdb.errors import DeadlineExceeded, TsdbError
from tsdb.promql.evaluation import LOOKBACK_MS
from tsdb.query import Session
from tsdb.query.promql import QueryTimes
from tsdb.servers._inline import Candidate, InlinePolicy, SoftDeadlineExceeded
from tsdb.servers._prometheus_errors import prometheus_error_body, prometheus_error_status
from tsdb.servers._prometheus_json import encode_answer, encode_pieces
from tsdb.servers._prometheus_parameters import check_span, parse_step_ms, parse_time_ms
from tsdb.servers.fast_workers import Encode, Lent, on_event_loop
from tsdb.servers.http._app import TIMED_OUT
from tsdb.servers.http._errors import error_response
from tsdb.servers.http.prometheus._ask import LentWork, PromqlWork, make_session
from tsdb.servers.http.wire import JSON, Request, Response

_RANGE = frozenset({"query", "start", "end", "step", "db"})
_INSTANT = frozenset({"query", "time", "db"})
_HEADERS = [(b"content-type", JSON.encode())]


class _Wanted(NamedTuple):
    """What a request asks for."""

    text: str
    database: str | None
    span: QueryTimes


class RepeatedPromql:
    """The queries of `query` or `query_range`."""

    def __init__(self, path: str, work: PromqlWork, inline: InlinePolicy, *, is_range: bool) -> None:
        self.path = path
        self._work = work
        self._inline = inline
        self._is_range = is_range
        self._encode: Encode = partial(encode_pieces, is_range=is_range, series_max=None)

    def read(self, parameters: Mapping[str, str]) -> _Wanted | None:
        text, database = parameters.get("query"), parameters.get("db")
        if not text or database == "" or not parameters.keys() <= (_RANGE if self._is_range else _INSTANT):
            return None
        span = self._read_range(parameters) if self._is_range else self._read_instant(parameters)
        return None if span is None else _Wanted(text, database, span)

    def _read_range(self, parameters: Mapping[str, str]) -> QueryTimes | None:
        start, end, step = parameters.get("start"), parameters.get("end"), parameters.get("step")
        if not (start and end and step):
            return None
        times = parse_time_ms("start", start), parse_time_ms("end", end)
        return check_span(QueryTimes(*times, parse_step_ms("step", step), LOOKBACK_MS))

    def _read_instant(self, parameters: Mapping[str, str]) -> QueryTimes:
        text = parameters.get("time")
        return QueryTimes.instant(parse_time_ms("time", text) if text else self._work.now_ms, LOOKBACK_MS)

    def make_session(self, request: Request, wanted: _Wanted) -> Session:
        return make_session(self._work.database, request, wanted.database)

    def candidate(self, wanted: _Wanted, session: Session) -> Candidate | None:
        return self._inline.candidate(True, wanted.text, *query_facts(wanted.span, session))

    def find(self, wanted: _Wanted, session: Session, started: float) -> _Query | None:
        key = self._inline.key_of(wanted.text, *query_facts(wanted.span, session))
        if key is None:
            return None
        return _Query(self._work, wanted, session, key, self._encode, is_range=self._is_range)

    def error_response(self, error: TsdbError, elapsed_ms: int) -> Response:
        return error_response(error, elapsed_ms, prometheus_error_body, prometheus_error_status)

    def timeout_response(self) -> Response:
        return self.error_response(DeadlineExceeded(TIMED_OUT), 0)


class _Query:
    """One query. Its errors are counted where they are raised, so that they are its answer."""

    __slots__ = ("_is_range", "_lent", "_session", "_wanted", "_work", "encode", "failure", "key")

    def __init__(
        self, work: PromqlWork, wanted: _Wanted, session: Session, key: Hashable, encode: Encode, *, is_range: bool
    ) -> None:
        self._work = work
        self._wanted = wanted
        self._session = session
        self._is_range = is_range
        self._lent: LentWork | None = None
        self.key = key
        self.encode = encode
        self.failure: TsdbError | None = None

    def compute(self) -> bytes:
        database, (text, _, span) = self._work.database, self._wanted
        try:
            with database.running_promql(text, self._session, span) as check:
                answer = database.promql.run(text, self._session, span, check)
                return encode_answer(answer, is_range=self._is_range)
        except TsdbError as error:
            self.failure = error
            raise

    def lend(self, lender: Lender) -> Lent | None:
        text, _, span = self._wanted
        try:
            self._lent = on_event_loop(lambda: self._work.begin_lent(self._session, text, span))
            return self._lent.lend(lender)
        except SoftDeadlineExceeded:
            return None
        except TsdbError as error:
            self.failure = error
            return None

    def end(self, *, is_answered: bool) -> None:
        lent, self._lent = self._lent, None
        if lent is not None:
            lent.end_lent(is_answered=is_answered)

    def headers(self, elapsed_ms: int) -> list[tuple[bytes, bytes]]:
        return [*_HEADERS]


def query_facts(span: QueryTimes, session: Session) -> tuple[Hashable, ...]:
    """Return what queries of one text have to have in common to take equally long."""
    return session.database, span.end_ms - span.start_ms, span.step_ms
