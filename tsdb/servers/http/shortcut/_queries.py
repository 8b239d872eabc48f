"""The way of a request through the shortcut, until its query has its turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple

from tsdb.auth import Authenticator, AuthError
from tsdb.database import NotReady
from tsdb.errors import Busy, TsdbError
from tsdb.query import Session
from tsdb.servers._inline import Candidate, SoftDeadlineExceeded
from tsdb.servers.fast_workers import FastAnswer, FastWorkers
from tsdb.servers.http._app import HttpApp
from tsdb.servers.http.shortcut._exchange import QueryExchange
from tsdb.servers.http.shortcut._heads import HeaderBlock, HeaderBlocks, request_of
from tsdb.servers.http.shortcut._routes import ShortQuery, ShortRoute
from tsdb.servers.http.wire import HttpConnection, Params, RouteMeter, parse_head, route_meter
from tsdb.telemetry import get_logger, is_tracing

REQUEST_BYTES_MAX = 16 << 10
"""A larger request is left to the application."""
SESSIONS_MAX = 8
"""How many sessions are kept for a connection."""

_VERSION = b"HTTP/1.1"

_log = get_logger("tsdb.http")


class _Target(NamedTuple):
    """A route and the method by which it is asked."""

    route: ShortRoute
    is_post: bool
    meter: RouteMeter


class QueryShortcut:
    """The shortcut of an application. Used on the event loop alone."""

    def __init__(
        self,
        authenticator: Authenticator,
        fast_workers: FastWorkers,
        *,
        others: Callable[[], int],
        timeout_seconds: float,
    ) -> None:
        """`others` tells how many requests are in progress."""
        self._authenticator = authenticator
        self._workers = fast_workers
        self._others = others
        self.seconds_max = timeout_seconds or None
        """How long a request may take."""
        self._blocks = HeaderBlocks(needs_login=authenticator.is_enabled)
        self._targets: dict[tuple[bytes, bytes], _Target] = {}
        self.in_flight = 0

    @classmethod
    def of(cls, app: HttpApp, fast_workers: FastWorkers) -> QueryShortcut:
        """Return the shortcut of an application; it is made when the first route needs it."""
        if app.shortcut is None:
            app.shortcut = cls(
                app.authenticator, fast_workers, others=lambda: app.in_flight, timeout_seconds=app.timeout_seconds
            )
        assert isinstance(app.shortcut, cls)
        return app.shortcut

    def add(self, route: ShortRoute) -> None:
        """Answer the queries of a route."""
        for method in ("GET", "POST"):
            target = _Target(route, method == "POST", route_meter(method, route.path))
            self._targets[method.encode(), route.path.encode()] = target

    def take(self, connection: HttpConnection, data: bytes) -> bool:
        """Take a request if it is a query of a known shape; False leaves it to the application."""
        method, _, rest = data[: data.find(b"\r\n")].partition(b" ")
        address, _, version = rest.rpartition(b" ")
        path, _, encoded = address.partition(b"?")
        target = self._targets.get((method, path))
        if target is None or version != _VERSION or len(data) > REQUEST_BYTES_MAX or is_tracing():
            return False
        is_alone = connection.note_request() and not self._others()
        started = perf_counter()
        end = data.find(b"\r\n\r\n")
        if end < 0 or not encoded.isascii() or b" " in encoded:
            return False
        headers = data[data.find(b"\r\n") : end]
        block = self._blocks.find(headers, data)
        if block is None or len(data) != end + 4 + block.length or (block.length and not target.is_post):
            return False
        if target.is_post and not block.is_form:
            return False
        route = target.route
        wanted = _read(route, encoded, data[end + 4 :] if target.is_post else b"")
        if wanted is None:
            return False
        session = self._session_of(connection, data, headers, block, route, wanted)
        if session is None:
            return False
        candidate = None
        if is_alone:
            candidate = route.candidate(wanted, session)
            if candidate is None or not candidate.is_inline:
                return False
        query = _find(route, wanted, session, started)
        if query is None:
            return False
        answer = None
        if candidate is not None:
            answer = _compute(candidate, query)
            if answer is None and query.failure is None:
                with suppress(TsdbError):
                    query.end(is_answered=False)
                return False
        exchange = QueryExchange(
            connection,
            data,
            route,
            query,
            block,
            started,
            is_post=target.is_post,
            seconds_max=self.seconds_max,
            on_end=self._end,
            on_status=self.note,
        )
        connection.begin_short(exchange)
        self.in_flight += 1
        if candidate is not None:
            exchange.answered(answer)
            return True
        try:
            if not self._workers.submit(query.key, exchange, self.seconds_max):
                exchange.answered(None)
        except Busy as error:
            exchange.refuse(error)
        return True

    def _session_of(
        self,
        connection: HttpConnection,
        data: bytes,
        headers: bytes,
        block: HeaderBlock,
        route: ShortRoute,
        wanted: Any,
    ) -> Session | None:
        """Return the session of a request; None if its client has to log in first."""
        try:
            identity = None
            if self._authenticator.is_enabled:
                if block.credentials is None:
                    return None
                user, password = block.credentials
                identity = self._authenticator.recall_password(user, password, client=connection.client_host)
                if identity is None:
                    return None
            kept = route, headers, wanted.database
            session = connection.kept.get(kept)
            if session is None:
                head = parse_head(data)
                assert head is not None, "the same bytes were read before"
                session = route.make_session(request_of(head, connection.client_host), wanted)
                if len(connection.kept) >= SESSIONS_MAX:
                    connection.kept.clear()
                connection.kept[kept] = session
            if identity is not None:
                session.identity, session.user = identity, identity.name
            return session
        except (NotReady, AuthError, TsdbError):
            # Whatever it is, the application meets it too, and reports it.
            return None

    def _end(self) -> None:
        self.in_flight -= 1

    def note(self, exchange: QueryExchange, status: int) -> None:
        """Count an answer."""
        method = b"POST" if exchange.is_post else b"GET"
        meter = self._targets[method, exchange.path.encode()].meter
        meter.observe(status, perf_counter() - exchange.started)


def _read(route: ShortRoute, query: bytes, form: bytes) -> Any | None:
    """Return what the parameters of a request ask for; None if that is not a plain query."""
    try:
        pairs = [*(Params.parse(query) if query else ()), *(Params.parse(form) if form else ())]
        found = dict(pairs)
        return route.read(found) if len(found) == len(pairs) else None
    except TsdbError:
        return None


def _find(route: ShortRoute, wanted: Any, session: Session, started: float) -> ShortQuery | None:
    """Return the query of a request if its shape is known."""
    try:
        return route.find(wanted, session, started)
    except (NotReady, TsdbError):
        # Whatever it is, the application meets it too, and reports it.
        return None


def _compute(candidate: Candidate, query: ShortQuery) -> FastAnswer | None:
    """Compute a query here and now."""
    try:
        return FastAnswer(candidate.run(query.compute), 0.0)
    except (Exception, SoftDeadlineExceeded) as error:  # noqa: BLE001
        # Whatever it is, the application meets it too, and reports it, unless the query has kept it for its client.
        _log.debug("a repeated query is left to the application", reason=repr(error))
        return None
