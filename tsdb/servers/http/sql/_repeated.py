"""Queries that dashboards repeat: from the bytes of a request to the answer, without the layers between.

    bytes ─▶ headers as before? ─▶ parameters ─▶ a known shape? ─┬─▶ turn of a fast worker ─┬─▶ head and body
                                                                 └─▶ here, for one client  ─┘

A query of a known shape takes half a millisecond to compute, and as long in the layers that a request goes
through: a task, timeouts, the session, the planner, the streaming of the answer. Nearly all of that comes to the
same for each request of a client, so the shortcut keeps it:

- What a block of headers says (who asks, which time zone, which codings are accepted) is read once for each block.
- The session is made once for each client, block and database.
- A query that has no answer when `http.timeout` is over is answered without one, and refused at once if its turn would
  come later. What a worker declines is left to the application with the time that is left.
- Everything else is as ever. Rights, the table and its snapshot are looked up for each query (`find_repeated`), and it
  is in the process list. Whatever is unusual is left to the application, with the bytes as they came.

A client that is alone is answered inline, sooner than any worker could do it, by the rules for all queries that run
inline (`tsdb/servers/_inline.py`). docs/decisions/0013-fast-workers.md has the measurements.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import perf_counter
from typing import NamedTuple

from tsdb.auth import Authenticator, AuthError
from tsdb.database import DatabaseGate, DatabasePort, NotReady, RepeatedQuery
from tsdb.engine.lending import Lender
from tsdb.errors import Busy, Status, TsdbError
from tsdb.query import Session
from tsdb.servers._inline import Candidate, InlinePolicy, SoftDeadlineExceeded
from tsdb.servers.fast_workers import ANSWER_BYTES_MAX, Encode, FastAnswer, FastWorkers, Lent
from tsdb.servers.http._app import TIMED_OUT
from tsdb.servers.http._auth import read_credentials
from tsdb.servers.http._errors import error_response, full_error_body, plain_error_response
from tsdb.servers.http.sql._answers import AnswerEncoder, raw_answer_headers
from tsdb.servers.http.sql._parameters import FORM, Format, read_format
from tsdb.servers.http.wire import (
    BODY_BYTES_MIN,
    CLIENT_GONE,
    BadHead,
    Head,
    HttpConnection,
    Message,
    Params,
    Request,
    Response,
    ResponseEncoder,
    ShortExchange,
    compress,
    parse_head,
    route_meter,
)
from tsdb.telemetry import get_logger, is_tracing

PATH = "/v1/sql"
REQUEST_BYTES_MAX = 16 << 10
"""A larger request is left to the application."""
BLOCKS_MAX = 512
"""How many blocks of headers are known; the oldest is forgotten."""
BLOCK_BYTES_MAX = 4 << 10
"""A longer block of headers is left to the application."""
SESSIONS_MAX = 8
"""How many sessions are kept for a connection."""

_POST, _GET = b"POST /v1/sql", b"GET /v1/sql"
_VERSION = b" HTTP/1.1"
_PARAMETERS = frozenset({"sql", "db", "format"})
_UNUSUAL = frozenset(
    {b"expect", b"transfer-encoding", b"content-encoding", b"upgrade", b"x-tsdb-timeout", b"x-greptime-timeout"}
)
"""Headers of requests that are left to the application."""

_log = get_logger("tsdb.http")

MakeSession = Callable[[Request, Params, DatabasePort], Session]


class _Block(NamedTuple):
    """What a block of headers says."""

    length: int
    is_form: bool
    """Whether a body, if there is one, has parameters."""
    accepted: str | None
    credentials: tuple[str, str] | None


class RepeatedQueries:
    """The shortcut for `/v1/sql`. Used on the event loop alone."""

    def __init__(
        self,
        gate: DatabaseGate,
        authenticator: Authenticator,
        fast_workers: FastWorkers,
        inline: InlinePolicy,
        make_session: MakeSession,
        *,
        others: Callable[[], int],
        table_bytes_max: int,
        timeout_seconds: float,
    ) -> None:
        """`others` tells how many requests are in progress."""
        self._gate = gate
        self._authenticator = authenticator
        self._inline = inline
        self._others = others
        self._workers = fast_workers
        self._make_session = make_session
        self._table_bytes_max = table_bytes_max
        self.seconds_max = timeout_seconds or None
        """How long a request may take."""
        self._database: DatabasePort
        self._blocks: OrderedDict[bytes, _Block | None] = OrderedDict()
        self._get, self._post = route_meter("GET", PATH), route_meter("POST", PATH)
        self.in_flight = 0

    def take(self, connection: HttpConnection, data: bytes) -> bool:
        """Take a request if it is a query of a known shape; False leaves it to the application."""
        is_post = data.startswith(_POST)
        if not (is_post or data.startswith(_GET)) or len(data) > REQUEST_BYTES_MAX or is_tracing():
            return False
        is_alone = connection.note_request() and not self._others()
        started = perf_counter()
        end = data.find(b"\r\n\r\n")
        line_end = data.find(b"\r\n", 0, end + 2)
        encoded = _query_of(data[len(_POST if is_post else _GET) : line_end])
        if end < 0 or encoded is None:
            return False
        headers = data[line_end:end]
        block = self._blocks.get(headers) or self._read_block(headers, data)
        if block is None or len(data) != end + 4 + block.length or (block.length and not is_post):
            return False
        wanted = _read_parameters(encoded, data[end + 4 :] if is_post and block.is_form else b"")
        if wanted is None or (is_post and not block.is_form):
            return False
        session = self._session_of(connection, data, headers, block, wanted)
        if session is None:
            return False
        candidate = None
        if is_alone:
            facts = session.database, session.time_zone, wanted.format.name
            candidate = self._inline.candidate(is_alone, wanted.text, *facts)
            if candidate is None or not candidate.is_inline:
                return False
        query = self._find(wanted, session)
        if query is None:
            return False
        answer = None
        if candidate is not None:
            answer = self._compute(candidate, query, self.encoder_of(wanted, session, started))
            if answer is None:
                return False
        exchange = RepeatedExchange(self, connection, data, query, block, wanted, started, is_post=is_post)
        connection.begin_short(exchange)
        self.in_flight += 1
        if answer is not None:
            exchange.answered(answer)
            return True
        try:
            if not self._workers.submit(query.key, exchange, self.seconds_max):
                exchange.answered(None)
        except Busy as error:
            exchange.refuse(error)
        return True

    def _compute(self, candidate: Candidate, query: RepeatedQuery, encode: Encode) -> FastAnswer | None:
        """Compute a query here and now; without an answer it has ended, and the application gets the request."""
        try:
            return candidate.run(lambda: _encoded(encode(query.start())))
        except (Exception, SoftDeadlineExceeded) as error:  # noqa: BLE001
            # Whatever it is, the application meets it too, and reports it.
            _log.debug("a repeated query is left to the application", reason=repr(error))
            with suppress(TsdbError):
                self._database.end_repeated(query, is_answered=False)
            return None

    def _read_block(self, headers: bytes, data: bytes) -> _Block | None:
        """Read a block of headers that is not known, or that is unusual."""
        if headers in self._blocks or len(headers) > BLOCK_BYTES_MAX:
            return None
        try:
            head = parse_head(data)
        except BadHead:
            return None
        if head is None:
            return None
        block = self._blocks[headers] = _block_of(head, needs_login=self._authenticator.is_enabled)
        if len(self._blocks) > BLOCKS_MAX:
            self._blocks.popitem(last=False)
        return block

    def _session_of(
        self, connection: HttpConnection, data: bytes, headers: bytes, block: _Block, wanted: _Wanted
    ) -> Session | None:
        """Return the session of a request; None if its client has to log in first."""
        try:
            database = self._database = self._gate.database
            identity = None
            if self._authenticator.is_enabled:
                if block.credentials is None:
                    return None
                user, password = block.credentials
                identity = self._authenticator.recall_password(user, password, client=connection.client_host)
                if identity is None:
                    return None
            kept = headers, wanted.database
            session = connection.kept.get(kept)
            if session is None:
                session = self._session(connection, data, wanted, database)
                if len(connection.kept) >= SESSIONS_MAX:
                    connection.kept.clear()
                connection.kept[kept] = session
            if identity is not None:
                session.identity, session.user = identity, identity.name
            return session
        except (NotReady, AuthError, TsdbError):
            # Whatever it is, the application meets it too, and reports it.
            return None

    def _find(self, wanted: _Wanted, session: Session) -> RepeatedQuery | None:
        """Return the query of a request if its shape is known."""
        try:
            return self._database.find_repeated(wanted.text, session)
        except TsdbError:
            # As above.
            return None

    def _session(self, connection: HttpConnection, data: bytes, wanted: _Wanted, database: DatabasePort) -> Session:
        head = parse_head(data)
        assert head is not None, "the same bytes were read before"
        chosen = Params([] if wanted.database is None else [("db", wanted.database)])
        return self._make_session(_request_of(head, connection.client_host), chosen, database)

    def end(self, exchange: RepeatedExchange, *, is_answered: bool) -> None:
        """End the query of an exchange; raises if it was killed meanwhile."""
        self.in_flight -= 1
        self._database.end_repeated(exchange.query, is_answered=is_answered)

    def note(self, exchange: RepeatedExchange, status: int) -> None:
        """Count an answer."""
        meter = self._post if exchange.is_post else self._get
        meter.observe(status, perf_counter() - exchange.started)

    def encoder_of(self, wanted: _Wanted, session: Session, started: float) -> AnswerEncoder:
        return AnswerEncoder(wanted.format.encode, started, None, None, None, session.time_zone, self._table_bytes_max)


class RepeatedExchange(ShortExchange):
    """One query, from its request to the answer."""

    __slots__ = (
        "_accepted",
        "_connection",
        "_data",
        "_format",
        "_is_over",
        "_owner",
        "_timer",
        "encode",
        "is_post",
        "query",
        "started",
    )

    def __init__(
        self,
        owner: RepeatedQueries,
        connection: HttpConnection,
        data: bytes,
        query: RepeatedQuery,
        block: _Block,
        wanted: _Wanted,
        started: float,
        *,
        is_post: bool,
    ) -> None:
        self._owner = owner
        self._connection = connection
        self._data = data
        self._format = wanted.format
        self._accepted = block.accepted
        self.query = query
        self.started = started
        self.is_post = is_post
        self.encode: Encode = owner.encoder_of(wanted, query.session, started)
        self._is_over = False
        """Whether the client has been told that its time is up."""
        self._timer: asyncio.TimerHandle | None = None
        if owner.seconds_max is not None:
            self._timer = asyncio.get_running_loop().call_later(owner.seconds_max, self._expire)

    @property
    def is_wanted(self) -> bool:
        return not (self._is_over or self._connection.is_lost)

    def lend(self, lender: Lender) -> Lent | None:
        return self.query.lend(lender)

    def answered(self, answer: FastAnswer | None) -> None:
        """Send the answer; without one the application gets the request."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._owner.end(self, is_answered=answer is not None and not self._is_over)
            if self._is_over:
                return
            if answer is None:
                self._connection.give_back(self._data, self.started)
                return
            response = Response(answer.body)
            response.raw_headers = raw_answer_headers(self._format, self._elapsed_ms)
        except TsdbError as error:
            if self._is_over:
                return
            response = error_response(error, self._elapsed_ms, full_error_body)
        if self._accepted is None or len(response.body) < BODY_BYTES_MIN:
            self._send(response)
        else:
            # More than a little is compressed on a thread.
            asyncio.get_running_loop().create_task(self._send_compressed(response, self._accepted))

    def refuse(self, error: TsdbError) -> None:
        """Answer with an error instead of waiting any longer."""
        self._is_over = True
        self.answered(None)
        self._send(error_response(error, self._elapsed_ms, full_error_body))

    def _expire(self) -> None:
        """The time is up. If a worker computes the query, what it reads is kept until it has."""
        self._is_over = True
        self._send(plain_error_response(408, Status.DEADLINE_EXCEEDED, TIMED_OUT, full_error_body))

    @property
    def _elapsed_ms(self) -> int:
        return round((perf_counter() - self.started) * 1000)

    async def _send_compressed(self, response: Response, accepted: str) -> None:
        packed = await compress(response, accepted)
        assert isinstance(packed, Response), "an answer that is there is compressed as a whole"
        self._send(packed)

    def _send(self, response: Response) -> None:
        body = response.body
        encoder = ResponseEncoder(is_head=False, is_modern=True, is_kept=True)
        headers = [*response.raw_headers, (b"content-length", b"%d" % len(body))]
        ends = self._connection.is_ending
        head = encoder.head(response.status, headers, is_whole=True, ends_connection=ends)
        self._owner.note(self, CLIENT_GONE if self._connection.is_lost else response.status)
        self._connection.answer_short(head + body)


def _encoded(pieces: Iterable[bytes]) -> FastAnswer:
    """Return an answer from its pieces, if it is small."""
    found: list[bytes] = []
    size = 0
    for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise ValueError("the answer is large")
    return FastAnswer(b"".join(found), 0.0)


class _Wanted(NamedTuple):
    """What a request asks for."""

    text: str
    database: str | None
    format: Format


def _query_of(rest: bytes) -> bytes | None:
    """Return the query string of a request line behind its path; None if it is not that of the path."""
    if not rest.endswith(_VERSION):
        return None
    target = rest[: -len(_VERSION)]
    if not target:
        return b""
    return target[1:] if target[:1] == b"?" and target.isascii() and b" " not in target else None


def _read_parameters(query: bytes, form: bytes) -> _Wanted | None:
    """Return what the parameters ask for; None if that is not a plain query."""
    try:
        pairs = [*(Params.parse(query) if query else ()), *(Params.parse(form) if form else ())]
        found = dict(pairs)
        if len(found) != len(pairs) or not found.keys() <= _PARAMETERS:
            return None
        text, database = found.get("sql", ""), found.get("db")
        if text[: len("select")].lower() != "select" or ";" in text or database == "":
            return None
        return _Wanted(text, database, read_format(found.get("format")))
    except TsdbError:
        return None


def _block_of(head: Head, *, needs_login: bool) -> _Block | None:
    """Return what a block of headers says; None if it says anything unusual."""
    named = dict(head.headers)
    is_twice = len(named) < len(head.headers)
    if (
        is_twice
        or not (head.is_kept and head.is_modern)
        or head.length is None
        or not named.keys().isdisjoint(_UNUSUAL)
    ):
        return None
    kind = named.get(b"content-type")
    is_form = kind is None or kind.partition(b";")[0].strip().lower() == FORM.encode()
    accepted = named.get(b"accept-encoding")
    credentials = None
    if needs_login:
        try:
            credentials = read_credentials(_request_of(head, ""))
        except AuthError:
            return None
    return _Block(head.length, is_form, None if accepted is None else accepted.decode("latin-1"), credentials)


def _request_of(head: Head, client: str) -> Request:
    """Return a request for those who look at its headers."""
    scope = {
        "method": head.method,
        "path": head.path,
        "query_string": b"",
        "headers": head.headers,
        "client": (client, ""),
    }
    return Request(scope, _receive_nothing, body_limit=0)


async def _receive_nothing() -> Message:
    return {"type": "http.disconnect"}
