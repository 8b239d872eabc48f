"""Prometheus' HTTP API under `/v1/prometheus/api/v1`, and `/v1/promql`, which answers in the formats of `/v1/sql`.

Parameters come in the query string or in a form; the query string wins. What there is not (a metric, a label, a
database) gives an empty answer, as in Prometheus.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from time import perf_counter
from typing import Protocol, TypeVar

import orjson

from tsdb.errors import Cancelled, InvalidArguments, NotBrief, Unsupported
from tsdb.model import CATALOG, DEFAULT_DATABASE, MetricDescription
from tsdb.promql import Matcher, expr_to_json, format_query, matches, parse_promql, parse_selector
from tsdb.promql.evaluation import LOOKBACK_MS
from tsdb.query import Channel, Session, TableRecords
from tsdb.query.promql import (
    DATABASE_LABELS,
    FIELD_LABEL,
    MetricCatalog,
    Period,
    PromqlEngine,
    Span,
    find_series,
    is_metric,
    label_names,
    metric_names,
    rows_of,
    split_matchers,
    value_columns,
)
from tsdb.servers._brief import BriefQuestions, BriefTurn
from tsdb.servers._prometheus_json import Timings, encode_answer
from tsdb.servers._prometheus_parameters import check_span, parse_step_ms, parse_time_ms, prometheus_error_body
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http._formats import FormatOptions
from tsdb.servers.http._ingest import find_header
from tsdb.servers.http._messages import JSON, AnyResponse, Params, Request, Response
from tsdb.servers.http._prometheus_metadata import describe_metrics
from tsdb.servers.http._sql import answer_headers, read_compression, read_epoch, read_form, read_format
from tsdb.units import Duration

PREFIX = "/v1/prometheus/api/v1"
THREADS_MAX = 16
"""How many queries run at the same time; further ones wait."""

_NOTHING: dict[str, object] = {
    "query_exemplars": [],
    "rules": {"groups": []},
    "alerts": {"alerts": []},
    "alertmanagers": {"activeAlertmanagers": [], "droppedAlertmanagers": []},
    "targets": {"activeTargets": [], "droppedTargets": []},
    "targets/metadata": [],
    "scrape_pools": {"scrapePools": []},
}
"""What is always empty, because nothing is scraped and no rule is evaluated here; clients ask all the same."""

_DAY_MS = 86_400_000
_NS_PER_MS = 1_000_000
_CATALOGS = (CATALOG, "greptime")
_ESCAPE = re.compile(r"__|_([0-9a-fA-F]{1,5})_")
_T = TypeVar("_T")


class PromqlDatabase(Protocol):
    """What these routes need of the database."""

    @property
    def promql(self) -> PromqlEngine:
        """What answers PromQL."""

    def has_database(self, name: str) -> bool:
        """Tell whether a session may choose this database."""

    def running_promql(
        self, text: str, session: Session, span: Span | None = None
    ) -> AbstractContextManager[Callable[[], None]]:
        """Show a query in the process list while it runs; what is entered raises when it was killed."""

    def metric_descriptions(self, database: str) -> Mapping[str, tuple[MetricDescription, ...]]:
        """Return what metrics said about themselves, the newest first."""


class PrometheusApiRoutes:
    """What the routes share. `close` it when the server has stopped."""

    def __init__(
        self, app: HttpApp, database: PromqlDatabase, build: dict[str, str], *, threads_max: int = THREADS_MAX
    ) -> None:
        self._app = app
        self._brief = BriefQuestions()
        self._database = database
        self._build = build
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix="tsdb-promql")

    def close(self) -> None:
        """Let the threads end; what they are doing is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def query(self, request: Request) -> AnyResponse:
        """Evaluate at one time."""
        ask = await self._ask(request)
        text = ask.require("query")
        span = Span.instant(ask.time("time", ask.now_ms), ask.lookback())
        return await self._answer(ask, text, span, is_range=False)

    async def query_range(self, request: Request) -> AnyResponse:
        """Evaluate at each step."""
        ask = await self._ask(request)
        text = ask.require("query")
        span = read_span(ask)
        return await self._answer(ask, text, span, is_range=True)

    async def _answer(self, ask: _Ask, text: str, span: Span, *, is_range: bool) -> Response:
        limit, has_stats, asked = ask.limit(), bool(ask.find("stats")), perf_counter()

        def evaluate(check: Callable[[], None]) -> bytes:
            started = perf_counter()
            answer = self._database.promql.run(text, ask.session, span, check)
            clock = Timings(started - asked, perf_counter() - started) if has_stats else None
            return encode_answer(answer, is_range=is_range, series_max=limit, timings=clock)

        facts = ask.session.database, span.end_ms - span.start_ms, span.step_ms
        turn = self._brief.turn(self._app.in_flight, text, *facts)
        return Response(await self._run(self._shown(ask, text, span, evaluate), turn), content_type=JSON)

    def _shown(
        self, ask: _Ask, text: str, span: Span, evaluate: Callable[[Callable[[], None]], bytes]
    ) -> Callable[[Callable[[], None]], bytes]:
        """Let a query be seen, and stopped, in the process list."""

        def work(check: Callable[[], None]) -> bytes:
            with self._database.running_promql(text, ask.session, span) as check_killed:

                def check_both() -> None:
                    check()
                    check_killed()

                return evaluate(check_both)

        return work

    async def labels(self, request: Request) -> AnyResponse:
        """List the names of labels."""
        ask = await self._ask(request)
        selectors, period, limit = ask.selectors(), ask.period(), ask.limit()

        def work(check: Callable[[], None]) -> list[str]:
            source = self._database.promql.source(ask.session, check)
            if selectors:
                table = find_series(source, selectors, period)
                found = {name for name, column in table.columns.items() if column.codes.any()}
            else:
                found = set(label_names(source))
            return sorted({"__name__", *found})[:limit]

        return _success(await self._run(work))

    async def label_values(self, request: Request) -> AnyResponse:
        """List the values of a label."""
        ask = await self._ask(request)
        name = request.path.removeprefix(f"{PREFIX}/label/")
        if not name.endswith("/values") or name == "/values":
            raise InvalidArguments("expected the path label/<name>/values")
        name = decode_name(name.removesuffix("/values"))
        selectors, period, limit = ask.selectors(), ask.period(), ask.limit()

        def work(check: Callable[[], None]) -> list[str]:
            source = self._database.promql.source(ask.session, check)
            if name == "__name__":
                names = [each for matchers in selectors for each in matchers if each.name == "__name__"]
                return metric_names(source, names)[:limit]
            if name in DATABASE_LABELS:
                return _databases_with(source.catalog, selectors)[:limit]
            if name == FIELD_LABEL:
                return _fields(source.catalog, ask.session, selectors)[:limit]
            chosen = selectors or [(Matcher("__name__", "!=", ""),)]
            column = find_series(source, chosen, period).column(name)
            used = {column.values[code] for code in set(column.codes.tolist()) if code}
            return sorted(used)[:limit]

        return _success(await self._run(work))

    async def series(self, request: Request) -> AnyResponse:
        """List series."""
        ask = await self._ask(request)
        selectors, period, limit = ask.selectors(), ask.period(), ask.limit()
        if not selectors:
            raise Unsupported("match[] parameter is required")

        def work(check: Callable[[], None]) -> list[dict[str, str]]:
            table = find_series(self._database.promql.source(ask.session, check), selectors, period)
            return table.take(table.order()[:limit]).dicts()

        return _success(await self._run(work))

    async def metadata(self, request: Request) -> AnyResponse:
        """Describe metrics."""
        ask = await self._ask(request)
        metric, limit, limit_per_metric = ask.find("metric"), ask.limit(), ask.limit("limit_per_metric")

        def work(check: Callable[[], None]) -> dict[str, list[dict[str, str]]]:
            catalog, database = self._database.promql.source(ask.session, check).catalog, ask.session.database
            if catalog.find_database(database) is None:
                return {}
            return describe_metrics(
                self._database.metric_descriptions(database),
                [table.name for table in catalog.tables(database) if is_metric(table)],
                metric=metric,
                limit=limit,
                limit_per_metric=limit_per_metric,
            )

        return _success(await self._run(work))

    async def format_query(self, request: Request) -> AnyResponse:
        """Lay a query out."""
        ask = await self._ask(request)
        text = ask.require("query")
        return _success(await self._run(lambda _: format_query(parse_promql(text))))

    async def parse_query(self, request: Request) -> AnyResponse:
        """Show the syntax tree of a query."""
        ask = await self._ask(request)
        text = ask.require("query")
        return _success(await self._run(lambda _: expr_to_json(parse_promql(text))))

    async def build_info(self, request: Request) -> AnyResponse:
        """Tell what server this is."""
        return _success(self._build)

    async def nothing(self, request: Request) -> AnyResponse:
        """Tell that there is none of what this server does not have."""
        return _success(_NOTHING[request.path.removeprefix(f"{PREFIX}/")])

    async def promql(self, request: Request) -> AnyResponse:
        """Answer a range query in the formats of `/v1/sql`."""
        started = perf_counter()
        ask = _Ask(self._database, request, Params([]))
        missing = [name for name in ("query", "start", "end", "step") if request.query.get(name) is None]
        if missing:
            return Response.text(f"Failed to deserialize query string: missing field `{missing[0]}`\n", status=400)
        text, span = ask.require("query"), read_span(ask)
        chosen = read_format(request.query.get("format"))

        def elapsed_ms() -> int:
            return round((perf_counter() - started) * 1000)

        options = FormatOptions(
            elapsed_ms,
            None,
            read_epoch(request.query, Params([])),
            read_compression(request.query),
            ask.session.time_zone,
        )

        def work(check: Callable[[], None]) -> bytes:
            engine = self._database.promql
            rows = TableRecords(rows_of(engine, text, engine.source(ask.session, check), span))
            return b"".join(chosen.encode(iter([rows]), options))

        body = await self._run(self._shown(ask, text, span, work))
        return Response(body, content_type=chosen.content_type, headers=answer_headers(chosen, elapsed_ms()))

    async def alive(self, request: Request) -> AnyResponse:
        """Clients ask whether there is a server."""
        return Response.text("")

    async def _ask(self, request: Request) -> _Ask:
        form = await read_form(request)
        if form is None:
            raise InvalidArguments("the body of a POST to this path must be a form")
        return _Ask(self._database, request, form)

    async def _run(self, work: Callable[[Callable[[], None]], _T], turn: BriefTurn | None = None) -> _T:
        """Work on a thread; when the request is cancelled, so is the work at its next step.

        In its `turn`, a brief question is answered right here.
        """
        if turn is not None and turn.is_brief:
            with suppress(NotBrief):
                return turn.run(work)
        stopped = threading.Event()

        def check() -> None:
            if stopped.is_set():
                raise Cancelled("the query was cancelled")

        def timed() -> tuple[_T, float]:
            started = perf_counter()
            return work(check), perf_counter() - started

        try:
            done, seconds = await asyncio.get_running_loop().run_in_executor(self._pool, timed)
        except asyncio.CancelledError:
            stopped.set()
            raise
        if turn is not None:
            turn.note(seconds)
        return done


def _databases_with(catalog: MetricCatalog, selectors: list[tuple[Matcher, ...]]) -> list[str]:
    """Return the databases that hold a metric."""
    names = [each for matchers in selectors for each in matchers if each.name == "__name__"]
    found = []
    for database in catalog.databases():
        tables = [table.name for table in catalog.tables(database.name) if not table.is_physical]
        if not names or any(all(matches(each, table) for each in names) for table in tables):
            found.append(database.name)
    return sorted(found)


def _fields(catalog: MetricCatalog, session: Session, selectors: list[tuple[Matcher, ...]]) -> list[str]:
    """Return the fields of the tables that selectors name, of all without one."""
    chosen = [split_matchers(matchers, session.database) for matchers in selectors]
    found: set[str] = set()
    for table in catalog.tables(session.database) if catalog.find_database(session.database) else ():
        if table.is_physical:
            continue
        if not chosen or any(all(matches(each, table.name) for each in one.names) for one in chosen):
            found.update(column.name for column in value_columns(table))
    return sorted(found)


class _Ask:
    """The parameters of a request."""

    def __init__(self, database: PromqlDatabase, request: Request, form: Params) -> None:
        self._query, self._form = request.query, form
        self.now_ms = database.promql.clock.now_ns() // _NS_PER_MS
        wanted = self.find("db") or find_header(request, "db-name") or DEFAULT_DATABASE
        catalog, dash, name = wanted.partition("-")
        if dash and catalog in _CATALOGS and not database.has_database(wanted):
            wanted = name
        self.session = Session(
            channel=Channel.HTTP,
            database=wanted,
            user=request.user,
            identity=request.identity,
            client=request.client_host or "",
            timeout=self._timeout(),
        )

    def _timeout(self) -> Duration | None:
        text = self.find("timeout")
        return Duration(parse_step_ms("timeout", text) * _NS_PER_MS) if text else None

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


def read_span(ask: _Ask) -> Span:
    """Read start, end and step of a range query."""
    start, end = ask.time("start"), ask.time("end")
    step = parse_step_ms("step", ask.require("step"))
    return check_span(Span(start, end, step, ask.lookback()))


def decode_name(text: str) -> str:
    """Read the name of a label in a path: `U__` begins one in which `_2e_` stands for a dot and `__` for `_`."""
    if not text.startswith("U__"):
        return text
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "_", text[3:])


def _success(data: object) -> Response:
    return Response(orjson.dumps({"status": "success", "data": data}), content_type=JSON)


def prometheus_api_routes(
    app: HttpApp, database: PromqlDatabase, build: dict[str, str] | None = None, *, threads_max: int = THREADS_MAX
) -> PrometheusApiRoutes:
    """Add Prometheus' HTTP API. The result is to be closed after the server has stopped."""
    routes = PrometheusApiRoutes(app, database, build or {}, threads_max=threads_max)
    both, get = ("GET", "POST"), ("GET",)
    for path, handler, methods in (
        ("query", routes.query, both),
        ("query_range", routes.query_range, both),
        ("labels", routes.labels, both),
        ("series", routes.series, both),
        ("metadata", routes.metadata, get),
        ("format_query", routes.format_query, both),
        ("parse_query", routes.parse_query, both),
        ("status/buildinfo", routes.build_info, get),
        *((path, routes.nothing, both) for path in _NOTHING),
    ):
        app.add(f"{PREFIX}/{path}", handler, methods=methods, error_body=prometheus_error_body)
    app.add_prefix(f"{PREFIX}/label/", routes.label_values, methods=both, error_body=prometheus_error_body)
    app.add("/v1/promql", routes.promql, methods=both)
    for path in ("/v1/prometheus", "/v1/prometheus/"):
        app.add(path, routes.alive, methods=get)
    return routes
