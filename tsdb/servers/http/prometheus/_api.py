"""Prometheus' HTTP API under `/v1/prometheus/api/v1`, and `/v1/promql`, which answers in the formats of `/v1/sql`.

This module has the query endpoints; the rest is in `_prometheus_listings`, `_prometheus_status` and
`_prometheus_federate`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter

from tsdb.database import DatabaseGate
from tsdb.promql import expr_to_json, format_query, parse_promql
from tsdb.query import TableRecords
from tsdb.query.promql import QueryTimes, rows_of
from tsdb.servers._inline import InlinePolicy
from tsdb.servers._prometheus_errors import prometheus_error_body, prometheus_error_status
from tsdb.servers._prometheus_json import Timings, encode_answer, encode_pieces
from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers.fast_workers import FastWorkers
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http.prometheus._ask import Ask, PromqlWork, read_span, success
from tsdb.servers.http.prometheus._federate import FederationRoutes
from tsdb.servers.http.prometheus._listings import ListingRoutes
from tsdb.servers.http.prometheus._repeated import RepeatedPromql, query_facts
from tsdb.servers.http.prometheus._status import ServerFacts, StatusRoutes
from tsdb.servers.http.shortcut import QueryShortcut
from tsdb.servers.http.sql import FormatOptions, answer_headers, read_compression, read_epoch, read_format
from tsdb.servers.http.wire import JSON, AnyResponse, Params, Request, Response

PREFIX = "/v1/prometheus/api/v1"
THREADS_MAX = 16
"""How many queries run at the same time; further ones wait."""


class PrometheusApiRoutes:
    """The routes that evaluate queries. `close` them when the server has stopped."""

    def __init__(self, app: HttpApp, work: PromqlWork, inline: InlinePolicy) -> None:
        self._app = app
        self.inline = inline
        self._work = work

    def close(self) -> None:
        """Stop the threads without waiting for running work."""
        self._work.close()

    async def query(self, request: Request) -> AnyResponse:
        """Evaluate at one time."""
        ask = await self._work.ask(request)
        text = ask.require("query")
        span = QueryTimes.instant(ask.time("time", ask.now_ms), ask.lookback())
        return await self._answer(ask, text, span, is_range=False)

    async def query_range(self, request: Request) -> AnyResponse:
        """Evaluate at each step."""
        ask = await self._work.ask(request)
        text = ask.require("query")
        span = read_span(ask)
        return await self._answer(ask, text, span, is_range=True)

    async def _answer(self, ask: Ask, text: str, span: QueryTimes, *, is_range: bool) -> Response:
        limit, has_stats, received = ask.limit(), bool(ask.find("stats")), perf_counter()

        def evaluate(check: Callable[[], None]) -> bytes:
            started = perf_counter()
            answer = self._work.database.promql.run(text, ask.session, span, check)
            clock = Timings(started - received, perf_counter() - started) if has_stats else None
            return encode_answer(answer, is_range=is_range, series_max=limit, timings=clock)

        facts = query_facts(span, ask.session)
        candidate = self.inline.candidate(ask.is_alone and self._app.in_flight == 1, text, *facts)
        shown = self._work.shown(ask, text, evaluate, span)
        # Statistics of a query are those of this process.
        encode = None if has_stats else partial(encode_pieces, is_range=is_range, series_max=limit)
        elsewhere = None if encode is None else self._work.elsewhere(ask, text, span, encode)
        body = await self._work.run(shown, candidate, ask.seconds_max, elsewhere, ask.session)
        return Response(body, content_type=JSON)

    async def format_query(self, request: Request) -> AnyResponse:
        """Lay a query out."""
        ask = await self._work.ask(request)
        text = ask.require("query")
        return success(await self._work.run(lambda _: format_query(parse_promql(text))))

    async def parse_query(self, request: Request) -> AnyResponse:
        """Show the syntax tree of a query."""
        ask = await self._work.ask(request)
        text = ask.require("query")
        return success(await self._work.run(lambda _: expr_to_json(parse_promql(text))))

    async def promql(self, request: Request) -> AnyResponse:
        """Answer a range query in the formats of `/v1/sql`."""
        started = perf_counter()
        ask = Ask(self._work.database, request, Params([]))
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
            engine = self._work.database.promql
            rows = TableRecords(rows_of(engine, text, engine.source(ask.session, check), span))
            return b"".join(chosen.encode(iter([rows]), options))

        body = await self._work.run(
            self._work.shown(ask, text, work, span), seconds_max=ask.seconds_max, session=ask.session
        )
        return Response(
            body,
            content_type=chosen.content_type,
            headers=answer_headers(chosen, elapsed_ms()),
            is_packed=chosen.is_packed(options),
        )

    async def alive(self, request: Request) -> AnyResponse:
        """Clients ask whether there is a server."""
        return Response.text("")


def prometheus_api_routes(
    app: HttpApp,
    gate: DatabaseGate,
    facts: ServerFacts | None = None,
    *,
    threads_max: int = THREADS_MAX,
    inline: InlinePolicy | None = None,
    scheduler: QueryScheduler | None = None,
    fast_workers: FastWorkers | None = None,
) -> PrometheusApiRoutes:
    """Add Prometheus' HTTP API. The result is to be closed after the server has stopped."""
    work = PromqlWork(gate, threads_max, scheduler or QueryScheduler(), fast_workers)
    routes, listings = PrometheusApiRoutes(app, work, inline or InlinePolicy()), ListingRoutes(work, PREFIX)
    status = StatusRoutes(work, facts or ServerFacts())
    both, get = ("GET", "POST"), ("GET",)
    if fast_workers is not None:
        shortcut = QueryShortcut.of(app, fast_workers)
        for name in ("query", "query_range"):
            is_range = name == "query_range"
            shortcut.add(RepeatedPromql(f"{PREFIX}/{name}", work, routes.inline, is_range=is_range))
    add = partial(app.add, error_body=prometheus_error_body, error_status=prometheus_error_status)
    for path, handler, methods in (
        ("query", routes.query, both),
        ("query_range", routes.query_range, both),
        ("labels", listings.labels, both),
        ("series", listings.series, both),
        ("metadata", listings.metadata, get),
        ("format_query", routes.format_query, both),
        ("parse_query", routes.parse_query, both),
        *((path, handler, get) for path, handler in status.handlers()),
        *((path, handler, both) for path, handler in status.empty_handlers()),
    ):
        add(f"{PREFIX}/{path}", handler, methods=methods)
    add(f"{PREFIX}/label/*", listings.label_values, methods=both)
    add("/v1/prometheus/federate", FederationRoutes(work).federate, methods=both)
    app.add("/v1/promql", routes.promql, methods=both)
    for path in ("/v1/prometheus", "/v1/prometheus/"):
        app.add(path, routes.alive, methods=get)
    return routes
