"""Common to the routes of Prometheus' HTTP API: parameters and threads.

Parameters come from the query string or a form; the query string takes precedence.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Hashable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TypeVar

import orjson

from tsdb.database import DatabaseGate, DatabasePort, resolve_database
from tsdb.engine.lending import Lender
from tsdb.errors import Cancelled, InvalidArguments
from tsdb.model import DEFAULT_DATABASE, Matcher
from tsdb.promql import parse_selector
from tsdb.promql.evaluation import LOOKBACK_MS
from tsdb.query import Channel, Session
from tsdb.query.promql import LendablePromql, LentPromql, Period, QueryTimes, SharedTables, make_lendable
from tsdb.servers._inline import Candidate, SoftDeadlineExceeded
from tsdb.servers._prometheus_parameters import check_span, parse_step_ms, parse_time_ms
from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._steps import StepPool
from tsdb.servers.fast_workers import Encode, FastAnswer, FastWorkers
from tsdb.servers.http.sql import read_form
from tsdb.servers.http.wire import JSON, Params, Request, Response, find_header
from tsdb.units import Duration

_DAY_MS = 86_400_000
_NS_PER_MS = 1_000_000
_T = TypeVar("_T")


class PromqlWork:
    """The threads on which the routes work. `close` it when the server has stopped."""

    def __init__(
        self,
        gate: DatabaseGate,
        threads_max: int,
        scheduler: QueryScheduler,
        fast_workers: FastWorkers | None = None,
    ) -> None:
        self.gate = gate
        self.threads_max = threads_max
        self._fast_workers = fast_workers
        self._tables = SharedTables()
        self._pool = StepPool("promql", threads_max, scheduler=scheduler)

    @property
    def database(self) -> DatabasePort:
        return self.gate.database

    @property
    def now_ms(self) -> int:
        return self.database.promql.clock.now_ns() // _NS_PER_MS

    def close(self) -> None:
        """Stop the threads without waiting for running work."""
        self._pool.close()

    async def ask(self, request: Request) -> Ask:
        form = await read_form(request)
        if form is None:
            raise InvalidArguments("the body of a POST to this path must be a form")
        return Ask(self.database, request, form)

    def shown(
        self,
        ask: Ask,
        text: str,
        evaluate: Callable[[Callable[[], None]], _T],
        span: QueryTimes | None = None,
    ) -> Callable[[Callable[[], None]], _T]:
        """Register a query in the process list, where it can be killed."""

        def work(check: Callable[[], None]) -> _T:
            with self.database.running_promql(text, ask.session, span) as check_killed:

                def check_both() -> None:
                    check()
                    check_killed()

                return evaluate(check_both)

        return work

    async def find(self, ask: Ask, what: str, find: Callable[[Callable[[], None]], _T]) -> _T:
        """Find what there is of series; it is shown, killed and cancelled as a query is."""
        work = self.shown(ask, ask.describe(what), find)
        return await self.run(work, seconds_max=ask.seconds_max, session=ask.session)

    def elsewhere(
        self, ask: Ask, text: str, span: QueryTimes, encode: Encode
    ) -> Callable[[Hashable], Awaitable[FastAnswer | None]] | None:
        """Return what has a query answered by a fast worker."""
        if self._fast_workers is None:
            return None
        return partial(
            self._fast_workers.answer,
            start=lambda: self.begin_lent(ask.session, text, span),
            encode=encode,
            seconds_max=ask.seconds_max,
        )

    def begin_lent(self, session: Session, text: str, span: QueryTimes) -> LentWork:
        """Show a query in the process list and take what it reads; SoftDeadlineExceeded if it cannot be lent."""
        with ExitStack() as stack:
            check = stack.enter_context(self.database.running_promql(text, session, span))
            source = self.database.promql.source(session, check)
            query = make_lendable(text, source, span, self._tables)
            if query is None:
                raise SoftDeadlineExceeded
            stack.callback(query.close)
            return LentWork(query, source.check, stack.pop_all())

    async def run(
        self,
        work: Callable[[Callable[[], None]], _T],
        candidate: Candidate | None = None,
        seconds_max: float | None = None,
        elsewhere: Callable[[Hashable], Awaitable[tuple[_T, float] | None]] | None = None,
        session: Session | None = None,
    ) -> _T:
        """Run a query; it gets what it is to call at each step, which raises when the request was cancelled.

        What a query of `session` has asked other nodes for ends at once then.
        """
        stopped = threading.Event()

        def check() -> None:
            if stopped.is_set():
                raise Cancelled("the query was cancelled")

        def cancel() -> None:
            stopped.set()
            if session is not None:
                self.database.cancel(session)

        return await self._pool.run(
            lambda: work(check),
            cancel=cancel,
            candidate=candidate,
            seconds_max=seconds_max,
            elsewhere=elsewhere,
        )


class LentWork:
    """A query that a fast worker evaluates: shown in the process list, and its regions held, until it has."""

    def __init__(self, query: LendablePromql, check: Callable[[], None], held: ExitStack) -> None:
        self._query = query
        self._check = check
        self._held = held

    def lend(self, lender: Lender) -> LentPromql | None:
        return self._query.lend(lender)

    def end_lent(self, *, is_answered: bool) -> None:
        """Let go of everything; raises if the query was killed in the meantime, or is past its deadline."""
        if not is_answered:
            self.close()
            return
        with self._held:
            self._check()

    def close(self) -> None:
        """The query has no answer, and is not counted: it runs again, or its client has left."""
        with suppress(SoftDeadlineExceeded), self._held:
            raise SoftDeadlineExceeded


class Ask:
    """The parameters of a request."""

    def __init__(self, database: DatabasePort, request: Request, form: Params) -> None:
        self._query, self._form = request.query, form
        self.is_alone = request.is_alone
        self._request_seconds = request.seconds_max
        self.now_ms = database.promql.clock.now_ns() // _NS_PER_MS
        self.session = make_session(database, request, self.find("db"), self._timeout())

    def _timeout(self) -> Duration | None:
        text = self.find("timeout")
        return Duration(parse_step_ms("timeout", text) * _NS_PER_MS) if text else None

    @property
    def seconds_max(self) -> float | None:
        """How long the query may take, None if that is not limited."""
        own = self.session.timeout
        return min((each for each in (self._request_seconds, own and own.seconds) if each), default=None)

    def find(self, name: str) -> str | None:
        found = self._query.get(name)
        return found if found is not None else self._form.get(name)

    def require(self, name: str) -> str:
        found = self.find(name)
        if found is None:
            raise InvalidArguments(f"the parameter {name} is required")
        return found

    def time(self, name: str, default: int | None = None) -> int:
        text = self.find(name)
        if text is None or text == "":
            if default is None:
                raise InvalidArguments(f"the parameter {name} is required")
            return default
        return parse_time_ms(name, text)

    def lookback(self) -> int:
        text = self.find("lookback") or self.find("lookback_delta")
        return parse_step_ms("lookback", text) if text else LOOKBACK_MS

    def selectors(self) -> list[tuple[Matcher, ...]]:
        return [parse_selector(text).matchers for text in self._selector_texts()]

    def _selector_texts(self) -> list[str]:
        return [*self._query.get_all("match[]"), *self._form.get_all("match[]")]

    def describe(self, what: str) -> str:
        """Return what is asked for, as lists of running queries show it."""
        return " ".join([what, *self._selector_texts()])

    def period(self) -> Period:
        end = self.time("end", self.now_ms)
        return Period(self.time("start", end - _DAY_MS), end)

    def limit(self, name: str = "limit") -> int | None:
        text = self.find(name)
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise InvalidArguments(f"the parameter {name} must be a number, received {text!r}")
        return int(text) or None


def make_session(
    database: DatabasePort, request: Request, wanted: str | None, timeout: Duration | None = None
) -> Session:
    """Return the session of a client that wants a database by a parameter, or by a header."""
    name = wanted or find_header(request, "db-name") or DEFAULT_DATABASE
    return Session(
        channel=Channel.HTTP,
        database=resolve_database(name, database),
        user=request.user,
        identity=request.identity,
        client=request.client_host or "",
        timeout=timeout,
    )


def read_span(ask: Ask) -> QueryTimes:
    """Read start, end and step of a range query."""
    start, end = ask.time("start"), ask.time("end")
    step = parse_step_ms("step", ask.require("step"))
    return check_span(QueryTimes(start, end, step, ask.lookback()))


def success(data: object) -> Response:
    return Response(orjson.dumps({"status": "success", "data": data}), content_type=JSON)
