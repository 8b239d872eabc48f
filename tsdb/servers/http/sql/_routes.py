"""`/v1/sql`: statements in a parameter, results in one of several formats.

Each request is its own session: `USE` and `SET` last until its end. A parameter of the query string takes precedence
over one of the form. The database comes from the parameter `db`, else from a header, else it is `public`; only the one
of the parameter must exist.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final, Literal, NamedTuple, TypeVar

from tsdb.catalog import DatabaseNotFound
from tsdb.database import DatabaseGate, DatabasePort, resolve_database
from tsdb.errors import InvalidArguments
from tsdb.model import DEFAULT_DATABASE, InvalidTimeZone, canonical_zone
from tsdb.query import Affected, Channel, Output, Records, Session, WriteToken
from tsdb.servers._inline import Candidate, InlinePolicy
from tsdb.servers._scheduler import QueryScheduler
from tsdb.servers._steps import StepPool
from tsdb.servers.fast_workers import FastAnswer, FastWorkers
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http.sql._arrow import encode_arrow
from tsdb.servers.http.sql._formats import (
    TABLE_BYTES_MAX,
    Encoder,
    Epoch,
    FormatOptions,
    encode_influxdb_v1,
    encode_json,
    encode_tsdb_v1,
)
from tsdb.servers.http.sql._text import (
    encode_csv,
    encode_csv_with_names,
    encode_csv_with_names_and_types,
    encode_null,
    encode_table,
)
from tsdb.servers.http.sql._work import ResponseWork
from tsdb.servers.http.wire import JSON, TEXT, AnyResponse, Params, Request, Response, find_header
from tsdb.sql import Dialect, format_statement, parse, to_json
from tsdb.sql.lexer import skip_blanks, statement_end

_T = TypeVar("_T")

THREADS_MAX = 32
"""How many requests execute or encode at the same time; further ones wait."""

_FORM = "application/x-www-form-urlencoded"
_CSV = "text/csv; charset=utf-8"
_EPOCHS: Final[dict[str, Epoch]] = {"ns": "ns", "u": "us", "us": "us", "µ": "us", "ms": "ms", "s": "s"}
_COMPRESSIONS: Final[dict[str, Literal["zstd", "lz4"]]] = {"zstd": "zstd", "lz4": "lz4"}
_LIMIT_DIGITS_MAX = 18
_SELECT_CHARS = len("select")


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how clients name it, what its bytes are, and whether it can carry more than one answer."""

    name: str
    content_type: str
    encode: Encoder
    has_many: bool = False

    def is_packed(self, options: FormatOptions) -> bool:
        """Whether its bytes are compressed already."""
        return self.name == "arrow" and options.compression is not None

    @property
    def older_name(self) -> str:
        """As clients that were made for another server call it."""
        return "greptimedb_v1" if self.name == "tsdb_v1" else self.name


_TSDB_V1 = Format("tsdb_v1", JSON, encode_tsdb_v1, has_many=True)
FORMATS: dict[str, Format] = {
    "tsdb_v1": _TSDB_V1,
    "greptimedb_v1": _TSDB_V1,
    "influxdb_v1": Format("influxdb_v1", JSON, encode_influxdb_v1, has_many=True),
    "csv": Format("csv", _CSV, encode_csv),
    "csvwithnames": Format("csv", _CSV, encode_csv_with_names),
    "csvwithnamesandtypes": Format("csv", _CSV, encode_csv_with_names_and_types),
    "table": Format("table", TEXT, encode_table),
    "arrow": Format("arrow", "application/arrow", encode_arrow),
    "json": Format("json", JSON, encode_json),
    "null": Format("null", TEXT, encode_null),
}


class AnswerEncoder(NamedTuple):
    """Encodes the rows of one query in a format; it can travel to a process of this machine."""

    encode: Encoder
    started: float
    """On the clock that all processes share."""
    limit: int | None
    epoch: Epoch | None
    compression: Literal["zstd", "lz4"] | None
    time_zone: str
    table_bytes_max: int

    @classmethod
    def of(cls, chosen: Format, options: FormatOptions, started: float) -> AnswerEncoder:
        return cls(
            chosen.encode,
            started,
            options.limit,
            options.epoch,
            options.compression,
            options.time_zone,
            options.table_bytes_max,
        )

    def __call__(self, records: Records) -> Iterator[bytes]:
        options = FormatOptions(
            lambda: round((perf_counter() - self.started) * 1000),
            self.limit,
            self.epoch,
            self.compression,
            self.time_zone,
            self.table_bytes_max,
        )
        return self.encode(iter([records]), options)


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

    def close(self) -> None:
        """Stop the threads without waiting for running work."""
        self._pool.close()

    def rehearse(self, database: DatabasePort, text: str, session: Session, seconds_max: float) -> None:
        """Answer a query on a thread of the scheduler and throw the answer away; from any thread but the event loop."""
        options = FormatOptions(lambda: 0, time_zone=session.time_zone)
        pieces = _make_pieces(database, text, session, read_format(None), options, [])
        self._pool.submit(lambda work: work(), partial(deque, pieces, maxlen=0)).result(seconds_max)

    async def execute(self, request: Request) -> AnyResponse:
        """FastAnswer a request for statements."""
        started = perf_counter()
        form = await read_form(request)
        if form is None:
            return _unsupported_media_type()
        limit = _read_limit(request.query)
        text = _require_sql(request.query, form)
        database = self._gate.database
        session = self._make_session(request, form, database)
        chosen = read_format(_find("format", request.query, form))

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
            elsewhere=self._elsewhere(database, text, session, AnswerEncoder.of(chosen, options, started)),
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
        self, database: DatabasePort, text: str, session: Session, encode: AnswerEncoder
    ) -> Callable[[Hashable], Awaitable[FastAnswer | None]] | None:
        """Return what has a query answered by a fast worker."""
        if self._fast_workers is None:
            return None
        return partial(self._fast_workers.answer, start=lambda: next(database.execute(text, session)), encode=encode)

    async def parse(self, request: Request) -> Response:
        """FastAnswer with the statements of a text as JSON."""
        form = await read_form(request)
        if form is None:
            return _unsupported_media_type()
        statements = await self._run(_parse, _require_sql(request.query, form))
        return Response.json(statements)

    async def format(self, request: Request) -> Response:
        """FastAnswer with a text in its usual layout."""
        form = await read_form(request)
        if form is None:
            return _unsupported_media_type()
        formatted = await self._run(format_statement, _require_sql(request.query, form))
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
    app.add("/v1/sql", routes.execute, methods=("GET", "POST"))
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
    wanted = _find("db", request.query, form)
    if wanted:
        name = resolve_database(wanted, database)
        if not database.has_database(name):
            raise DatabaseNotFound(wanted)
        return name
    return resolve_database(find_header(request, "db-name") or DEFAULT_DATABASE, database)


def _parse(text: str) -> list[object]:
    return [to_json(each.statement) for each in parse(text, Dialect.GENERIC)]


async def read_form(request: Request) -> Params | None:
    """Return the parameters of a POST's body, none for another method; None if the body is no form."""
    if request.method != "POST":
        return Params([])
    content_type = request.headers.get("content-type")
    if content_type is not None and content_type.partition(";")[0].strip().lower() != _FORM:
        return None
    return Params.parse(await request.body())


def _unsupported_media_type() -> Response:
    return Response.text(f"the Content-Type of a POST to this path must be {_FORM}\n", status=415)


def _find(name: str, query: Params, form: Params) -> str | None:
    found = query.get(name)
    return found if found is not None else form.get(name)


def _require_sql(query: Params, form: Params) -> str:
    text = _find("sql", query, form)
    if text is None:
        raise InvalidArguments("sql parameter is required.")
    return text


def _read_limit(query: Params) -> int | None:
    text = query.get("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _LIMIT_DIGITS_MAX):
        raise InvalidArguments(f"the parameter limit must be a number of rows, received {text!r}")
    return int(text)


def read_format(name: str | None) -> Format:
    """Return the format of a name; without one it is tsdb_v1."""
    return _TSDB_V1 if not name else _choose("format", name, FORMATS)


def read_epoch(query: Params, form: Params) -> Epoch | None:
    text = _find("epoch", query, form)
    return None if not text else _choose("epoch", text, _EPOCHS)


def read_compression(query: Params) -> Literal["zstd", "lz4"] | None:
    text = query.get("compression")
    return None if not text else _choose("compression", text, _COMPRESSIONS)


def _choose(parameter: str, text: str, known: Mapping[str, _T]) -> _T:
    """Return what a value of a parameter stands for."""
    found = known.get(text.lower())
    if found is None:
        names = ", ".join(known)
        raise InvalidArguments(f"the parameter {parameter} is one of {names}; received {text[:40]!r}")
    return found


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


def answer_headers(chosen: Format, elapsed_ms: int) -> list[tuple[str, str]]:
    return [
        ("x-tsdb-format", chosen.name),
        ("x-greptime-format", chosen.older_name),
        ("x-tsdb-execution-time", str(elapsed_ms)),
        ("x-greptime-execution-time", str(elapsed_ms)),
    ]
