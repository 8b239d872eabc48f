"""Common to the routes of Prometheus' HTTP API: parameters and threads.

Parameters come from the query string or a form; the query string takes precedence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import orjson

from tsdb.database import DatabaseGate, DatabasePort, resolve_database
from tsdb.errors import Cancelled, InvalidArguments
from tsdb.model import DEFAULT_DATABASE, Matcher
from tsdb.promql import parse_selector
from tsdb.promql.evaluation import LOOKBACK_MS
from tsdb.query import Channel, Session
from tsdb.query.promql import Period, QueryTimes
from tsdb.servers._inline import Candidate
from tsdb.servers._prometheus_parameters import check_span, parse_step_ms, parse_time_ms
from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._steps import StepPool
from tsdb.servers.http._ingest import find_header
from tsdb.servers.http._messages import JSON, Params, Request, Response
from tsdb.servers.http._sql import read_form
from tsdb.units import Duration

_DAY_MS = 86_400_000
_NS_PER_MS = 1_000_000
_T = TypeVar("_T")


class PromqlWork:
    """The threads on which the routes work. `close` it when the server has stopped."""

    def __init__(self, gate: DatabaseGate, threads_max: int, scheduler: QueryScheduler) -> None:
        self.gate = gate
        self.threads_max = threads_max
        self._pool = StepPool("promql", threads_max, scheduler=scheduler)

    @property
    def database(self) -> DatabasePort:
        return self.gate.database

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
        evaluate: Callable[[Callable[[], None]], bytes],
        span: QueryTimes | None = None,
    ) -> Callable[[Callable[[], None]], bytes]:
        """Register a query in the process list, where it can be killed."""

        def work(check: Callable[[], None]) -> bytes:
            with self.database.running_promql(text, ask.session, span) as check_killed:

                def check_both() -> None:
                    check()
                    check_killed()

                return evaluate(check_both)

        return work

    async def run(
        self,
        work: Callable[[Callable[[], None]], _T],
        candidate: Candidate | None = None,
        seconds_max: float | None = None,
    ) -> _T:
        """Run a query; it gets what it is to call at each step, which raises when the request was cancelled."""
        stopped = threading.Event()

        def check() -> None:
            if stopped.is_set():
                raise Cancelled("the query was cancelled")

        return await self._pool.run(
            lambda: work(check), cancel=stopped.set, candidate=candidate, seconds_max=seconds_max
        )


class Ask:
    """The parameters of a request."""

    def __init__(self, database: DatabasePort, request: Request, form: Params) -> None:
        self._query, self._form = request.query, form
        self.is_alone = request.is_alone
        self._request_seconds = request.seconds_max
        self.now_ms = database.promql.clock.now_ns() // _NS_PER_MS
        wanted = self.find("db") or find_header(request, "db-name") or DEFAULT_DATABASE
        self.session = Session(
            channel=Channel.HTTP,
            database=resolve_database(wanted, database),
            user=request.user,
            identity=request.identity,
            client=request.client_host or "",
            timeout=self._timeout(),
        )

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
        texts = [*self._query.get_all("match[]"), *self._form.get_all("match[]")]
        return [parse_selector(text).matchers for text in texts]

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


def read_span(ask: Ask) -> QueryTimes:
    """Read start, end and step of a range query."""
    start, end = ask.time("start"), ask.time("end")
    step = parse_step_ms("step", ask.require("step"))
    return check_span(QueryTimes(start, end, step, ask.lookback()))


def success(data: object) -> Response:
    return Response(orjson.dumps({"status": "success", "data": data}), content_type=JSON)
