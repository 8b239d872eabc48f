"""`/v1/sql`: statements in a parameter, results in one of several formats.

Each request is its own session: `USE` and `SET` last until its end. A parameter of the query string takes precedence
over one of the form. The database comes from the parameter `db`, else from a header, else it is `public`; only the one
of the parameter must exist.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterator
from functools import partial
from time import perf_counter
from typing import TypeVar

from tsdb.catalog import DatabaseNotFound
from tsdb.database import DatabaseGate, DatabasePort, resolve_database
from tsdb.errors import InvalidArguments
from tsdb.model import DEFAULT_DATABASE, InvalidTimeZone, canonical_zone
from tsdb.query import Affected, Channel, Output, Session, WriteToken
from tsdb.servers._inline import Candidate, InlinePolicy, start_watch
from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._steps import StepPool
from tsdb.servers.fast_workers import FastAnswer, FastWorkers
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http.shortcut import QueryShortcut
from tsdb.servers.http.sql._answers import AnswerEncoder, answer_headers
from tsdb.servers.http.sql._formats import TABLE_BYTES_MAX, FormatOptions
from tsdb.servers.http.sql._parameters import (
    Format,
    find,
    read_compression,
    read_epoch,
    read_form,
    read_format,
    read_limit,
    require_sql,
)
from tsdb.servers.http.sql._repeated import PATH, RepeatedSql
from tsdb.servers.http.sql._work import ResponseWork
from tsdb.servers.http.wire import FORM, AnyResponse, Params, Request, Response, find_header
from tsdb.sql import Dialect, format_statement, parse, to_json
from tsdb.sql.lexer import skip_blanks, statement_end

_T = TypeVar("_T")

THREADS_MAX = 32
"""How many requests execute or encode at the same time; further ones wait."""

_SELECT_CHARS = len("select")


class SqlRoutes:
    """The state of the routes. `close` it when the server has stopped."""

    def __init__(
        self,
        app: HttpApp,
        gate: DatabaseGate,
        *,
        default_timezone: str,
        threads_max: int,
        inline: InlinePolicy,
        table_bytes_max: int,
        scheduler: QueryScheduler,
        fast_workers: FastWorkers | None,
    ) -> None:
        self._table_bytes_max = table_bytes_max
        self._app = app
        self._inline = inline
        self._gate = gate
        self._default_zone = canonical_zone(default_timezone)
        self._pool = StepPool("http-sql", threads_max, scheduler=scheduler)
        self._fast_workers = fast_workers
        if fast_workers is not None:
            repeated = RepeatedSql(gate, inline, self._make_session, table_bytes_max=table_bytes_max)
            QueryShortcut.of(app, fast_workers).add(repeated)

    def close(self) -> None:
        """Stop the threads without waiting for running work."""
        self._pool.close()

    def rehearse(self, database: DatabasePort, text: str, session: Session, seconds_max: float) -> None:
        """Answer a query on a thread of the scheduler and throw the answer away.

        From any thread but the event loop, before there are clients.
        """
        chosen, options = read_format(None), FormatOptions(lambda: 0, time_zone=session.time_zone)
        pieces = _make_pieces(database, text, session, chosen, options, [])

        def answer() -> float:
            seconds = start_watch()
            deque(pieces, maxlen=0)
            return seconds()

        taken = self._pool.submit(lambda work: work(), answer).result(seconds_max)
        candidate = self._inline.candidate(True, text, session.database, session.time_zone, chosen.name)
        if candidate is not None:
            candidate.note(taken)

    async def execute(self, request: Request) -> AnyResponse:
        """Answer a request for statements."""
        started = perf_counter()
        form = await read_form(request)
        if form is None:
            return _unsupported_media_type()
        limit = read_limit(request.query)
        text = require_sql(request.query, form)
        database = self._gate.database
        session = self._make_session(request, form, database)
        chosen = read_format(find("format", request.query, form))

        def elapsed_ms() -> int:
            return round((perf_counter() - started) * 1000)

        options = FormatOptions(
            elapsed_ms,
            limit,
            read_epoch(request.query, form),
            read_compression(request.query),
            session.time_zone,
            self._table_bytes_max,
        )
        affected: list[int] = []
        pieces = partial(_make_pieces, database, text, session, chosen, options, affected)
        session.token = WriteToken()
        work = ResponseWork(
            self._pool,
            pieces,
            partial(database.cancel, session),
            token=session.token,
            candidate=self._candidate(request, text, session, chosen),
            elsewhere=self._elsewhere(
                database, text, session, AnswerEncoder.of(chosen, options, started), request.seconds_max
            ),
            seconds_max=request.seconds_max,
        )
        try:
            return await work.respond(
                content_type=chosen.content_type,
                headers=lambda: [*answer_headers(chosen, elapsed_ms()), *_affected_header(affected)],
                is_packed=chosen.is_packed(options),
            )
        except asyncio.CancelledError:
            if session.token.has_begun:
                request.token = session.token
            raise

    def _candidate(self, request: Request, text: str, session: Session, chosen: Format) -> Candidate | None:
        """Only queries may run inline: writes wait for the disk, however fast that is most of the time."""
        if text[:_SELECT_CHARS].lower() != "select" or ";" in text[:-1]:
            return None
        is_alone = request.is_alone and self._app.in_flight == 1
        return self._inline.candidate(is_alone, text, session.database, session.time_zone, chosen.name)

    def _elsewhere(
        self, database: DatabasePort, text: str, session: Session, encode: AnswerEncoder, seconds_max: float | None
    ) -> Callable[[Hashable], Awaitable[FastAnswer | None]] | None:
        """Return what has a query answered by a fast worker."""
        if self._fast_workers is None:
            return None
        return partial(
            self._fast_workers.answer,
            start=lambda: next(database.execute(text, session)),
            encode=encode,
            seconds_max=seconds_max,
        )

    async def parse(self, request: Request) -> Response:
        """Answer with the statements of a text as JSON."""
        form = await read_form(request)
        if form is None:
            return _unsupported_media_type()
        statements = await self._run(_parse, require_sql(request.query, form))
        return Response.json(statements)

    async def format(self, request: Request) -> Response:
        """Answer with a text in its usual layout."""
        form = await read_form(request)
        if form is None:
            return _unsupported_media_type()
        formatted = await self._run(format_statement, require_sql(request.query, form))
        return Response.json({"formatted": formatted})

    async def _run(self, function: Callable[[str], object], text: str) -> object:
        # A text may be megabytes long, too much for the event loop.
        return await self._pool.run(partial(function, text))

    def _make_session(self, request: Request, form: Params, database: DatabasePort) -> Session:
        return Session(
            channel=Channel.HTTP,
            database=_choose_database(request, form, database),
            time_zone=self._choose_zone(request),
            user=request.user,
            identity=request.identity,
            client=request.client_host or "",
        )

    def _choose_zone(self, request: Request) -> str:
        # Clients send what their system calls its zone; one that we do not know is not worth a refusal.
        try:
            return canonical_zone(find_header(request, "timezone") or self._default_zone)
        except InvalidTimeZone:
            return self._default_zone


def sql_routes(
    app: HttpApp,
    gate: DatabaseGate,
    *,
    default_timezone: str = "UTC",
    threads_max: int = THREADS_MAX,
    inline: InlinePolicy | None = None,
    table_bytes_max: int = TABLE_BYTES_MAX,
    scheduler: QueryScheduler | None = None,
    fast_workers: FastWorkers | None = None,
) -> SqlRoutes:
    """Add `/v1/sql` and what belongs to it. The result is to be closed after the server has stopped."""
    policy = inline or InlinePolicy()
    routes = SqlRoutes(
        app,
        gate,
        default_timezone=default_timezone,
        threads_max=threads_max,
        inline=policy,
        table_bytes_max=table_bytes_max,
        scheduler=scheduler or QueryScheduler(),
        fast_workers=fast_workers,
    )
    app.add(PATH, routes.execute, methods=("GET", "POST"))
    app.add("/v1/sql/parse", routes.parse, methods=("GET", "POST"))
    app.add("/v1/sql/format", routes.format, methods=("GET", "POST"))
    return routes


def _make_pieces(
    database: DatabasePort, text: str, session: Session, chosen: Format, options: FormatOptions, affected: list[int]
) -> Generator[bytes, None, None]:
    """Run statements and encode their results; `affected` gets the row count of a format for one answer."""
    if not chosen.has_many:
        _refuse_many(text, chosen.name)
    outputs = database.execute(text, session)
    try:
        yield from chosen.encode(outputs if chosen.has_many else _noting_affected(outputs, affected), options)
    finally:
        if isinstance(outputs, Generator):
            outputs.close()


def _noting_affected(outputs: Iterator[Output], affected: list[int]) -> Iterator[Output]:
    for output in outputs:
        if isinstance(output, Affected):
            affected.append(output.rows)
        yield output


def _affected_header(affected: list[int]) -> list[tuple[str, str]]:
    """Not every format has a place for the number; the others have it in a header."""
    return [("x-tsdb-affected-rows", str(rows)) for rows in affected]


def _choose_database(request: Request, form: Params, database: DatabasePort) -> str:
    wanted = find("db", request.query, form)
    if wanted:
        name = resolve_database(wanted, database)
        if not database.has_database(name):
            raise DatabaseNotFound(wanted)
        return name
    return resolve_database(find_header(request, "db-name") or DEFAULT_DATABASE, database)


def _parse(text: str) -> list[object]:
    return [to_json(each.statement) for each in parse(text, Dialect.GENERIC)]


def _unsupported_media_type() -> Response:
    return Response.text(f"the Content-Type of a POST to this path must be {FORM}\n", status=415)


def _count_statements(text: str) -> int:
    """How many statements a text has, without reading them: what is wrong with them comes up when they run."""
    count = at = 0
    while (at := skip_blanks(text, at, Dialect.GENERIC)) < len(text):
        end = statement_end(text, at, Dialect.GENERIC)
        count += end > at
        at = end + 1
    return count


def _refuse_many(text: str, format_name: str) -> None:
    """Refuse several statements before any of them has run."""
    if _count_statements(text) > 1:
        raise InvalidArguments(f"cannot output multi-statements result in {format_name} format")
