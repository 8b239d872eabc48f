"""The application that handles every HTTP request, as an ASGI callable.

For each request, in this order: find the route; start the timeout and watch for a disconnect; authenticate, and refuse
a body that is declared too large, both before reading any of it; run the handler; send its response or the response to
its error; count.

- An error of `tsdb.errors` is mapped by the table there; anything else is a bug: 500, and the traceback in the log.
- On timeout the handler is cancelled and the client gets 408, or the status of the route; the response to a write
  reports what was written. On disconnect the handler is cancelled and nothing is sent. A cancellation from outside is
  never swallowed.
- A response that is ready before the whole body was read is sent at once; the rest of the body is discarded for a
  while.
- Once a response has begun, an error can only cut it short: the connection is closed before the end of the body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from time import perf_counter

from tsdb.auth import Authenticator, AuthError
from tsdb.errors import DeadlineExceeded, InvalidArguments, Status, TsdbError
from tsdb.query import WriteToken
from tsdb.servers._failures import log_failure
from tsdb.servers.http._auth import PUBLIC_ENDPOINTS, HttpAuth, auth_error_response, check_rights
from tsdb.servers.http._errors import (
    RETRY_AFTER_SECONDS,
    ErrorBody,
    ErrorStatus,
    error_response,
    full_error_body,
    internal_error_response,
    plain_error_response,
    wire_status,
)
from tsdb.servers.http._guard import Interruption, RequestGuard, Timeouts
from tsdb.servers.http._router import Handler, Miss, Route, Router
from tsdb.servers.http.wire import (
    BEGUN,
    CLIENT_GONE,
    BodyMemory,
    ClientDisconnected,
    Receive,
    Reply,
    Request,
    Scope,
    Send,
    Shortcut,
    StreamingResponse,
    count_in_flight,
    route_meter,
)
from tsdb.telemetry import TraceSpan, begin_trace, fail_span, get_logger, is_tracing, parse_traceparent
from tsdb.units import Duration

_log = get_logger("tsdb.http")

LINGER_SECONDS_MAX = 2.0
"""How long a client may go on sending a body after it has its answer."""

TIMED_OUT = (
    "the request took longer than it may and was stopped; raise http.timeout, or send the header x-tsdb-timeout: 120s"
)
STOPPING = "the server is stopping; try again when it has restarted"

PROBES = frozenset({"/health", "/ready", "/metrics"})
"""What is asked all the time and is no work: it is traced only if its sender traces it."""

_SECONDS_MIN = 1e-3
"""What is left to a request at least that has already taken some of its time."""
_TIMEOUT_HEADERS = (b"x-tsdb-timeout", b"x-greptime-timeout")


class HttpApp:
    """Routes, and what all of them have in common. `body_limit` in bytes and `timeout` are off when 0."""

    def __init__(
        self,
        *,
        body_limit: int,
        bodies: BodyMemory | None = None,
        timeout: Duration,
        authenticator: Authenticator | None = None,
        public_endpoints: Iterable[str] = PUBLIC_ENDPOINTS,
        linger_seconds_max: float = LINGER_SECONDS_MAX,
    ) -> None:
        self._linger_seconds_max = linger_seconds_max
        self.authenticator = authenticator or Authenticator()
        self._auth = HttpAuth(self.authenticator, frozenset(public_endpoints))
        self._body_limit = body_limit
        self.bodies = bodies or BodyMemory()
        self.timeout_seconds = timeout.seconds
        """How long a request may take that does not say so itself; 0 for any time."""
        self._router = Router()
        self._timeouts = Timeouts()
        self.shortcut: Shortcut | None = None
        """Answers some requests in the application's place."""
        count_in_flight(self)

    def add(
        self,
        path: str,
        handler: Handler,
        *,
        methods: Iterable[str] = ("GET",),
        error_body: ErrorBody = full_error_body,
        timeout_status: int = 408,
        has_timeout: bool = True,
        error_status: ErrorStatus = wire_status,
    ) -> None:
        """Let `handler` answer these methods of a path, or of all below one that ends with `*`; HEAD comes with GET."""
        for method in methods:
            meter = route_meter(method, path)
            route = Route(path, handler, error_body, timeout_status, has_timeout, meter, error_status)
            self._router.add(path, method, route)

    def add_aliases(self, aliases: Iterable[tuple[str, str]]) -> None:
        """Add aliases of paths; a path with its own route is never an alias."""
        for alias, path in aliases:
            self._router.add_alias(alias, path)

    @property
    def in_flight(self) -> int:
        """How many requests are being worked on."""
        return len(self._timeouts) + (0 if self.shortcut is None else self.shortcut.in_flight)

    def close(self) -> None:
        """Stop the threads that check passwords."""
        self._auth.close()

    def interrupt_requests(self) -> None:
        """Cancel all work in progress, because the server stops: 503 for answers that have not begun."""
        self._timeouts.interrupt_all(Interruption.SHUTDOWN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started: float = scope.get(BEGUN) or perf_counter()
        method: str = scope["method"]
        path = self._router.resolve(scope["path"])
        if path is not scope["path"]:
            scope = {**scope, "path": path}
        route = self._router.find(method, path)
        reply = Reply(send, is_head=method == "HEAD")
        status = CLIENT_GONE
        try:
            span = _begin_trace(route, scope) if is_tracing() else None
            if span is None:
                await self._serve(route, scope, receive, reply, started)
            else:
                with span:
                    await self._serve(route, scope, receive, reply, started)
                    span.set({"http.response.status_code": reply.status or CLIENT_GONE})
            status = reply.status or CLIENT_GONE
        finally:
            route.meter.observe(status, (reply.ended or perf_counter()) - started)

    async def _serve(self, route: Route | Miss, scope: Scope, receive: Receive, reply: Reply, started: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        request = Request(scope, receive, body_limit=self._body_limit, bodies=self.bodies)
        if b"accept-encoding" in request.raw_headers:
            reply.accepted = ",".join(request.headers.get_all("accept-encoding"))
        guard = self._timeouts.enter(task, request)
        try:
            if isinstance(route, Miss):
                await reply.send(route.response)
            else:
                await self._answer(route, request, guard, reply, started)
            if not request.is_body_complete:
                await _linger(request, self._linger_seconds_max)
        except asyncio.CancelledError:
            if not guard.claim():
                raise
            await self._answer_interrupted(guard.reason, route, request.token, reply, started)
        finally:
            request.release_body()
            self._timeouts.leave(guard)

    async def _answer(self, route: Route, request: Request, guard: RequestGuard, reply: Reply, started: float) -> None:
        try:
            timeout_seconds = self._choose_timeout(route, request)
            if timeout_seconds and request.is_handed_on:
                timeout_seconds = max(timeout_seconds - (perf_counter() - started), _SECONDS_MIN)
            guard.start_clock(timeout_seconds)
            request.seconds_max = timeout_seconds or None
            if self.authenticator.is_enabled and not await self._identify(route, request, reply, started):
                return
            check_rights(request)
            request.check_declared_length()
            if request.has_large_body:
                await request.reserve_body()
            response = await route.handler(request)
            if isinstance(response, StreamingResponse):
                guard.watch()
            await reply.send(response)
        except ClientDisconnected:
            _log.debug("the client went away before its request was complete", route=route.pattern)
        except TsdbError as error:
            await self._answer_error(error, route, reply, started)
        except Exception as error:  # noqa: BLE001 - the last resort between a bug in a handler and the client
            _log.exception("a request failed unexpectedly", method=request.method, route=route.pattern)
            fail_span(error)
            if not reply.is_started:
                await reply.send(internal_error_response(_elapsed_ms(started), route.error_body))

    async def _identify(self, route: Route, request: Request, reply: Reply, started: float) -> bool:
        """Find out who sent a request; if that is not proved, answer so and return False."""
        try:
            request.identity = await self._auth.identify(request)
        except AuthError as error:
            _log.debug("a request was refused", route=route.pattern, status=error.status.title)
            await reply.send(auth_error_response(error, _elapsed_ms(started)))
            return False
        return True

    def _choose_timeout(self, route: Route, request: Request) -> float:
        if not route.has_timeout:
            return 0.0
        for name in _TIMEOUT_HEADERS:
            value = request.raw_headers.get(name)
            if value is not None:
                return _parse_timeout(name.decode("ascii"), value.decode("latin-1"))
        return self.timeout_seconds

    async def _answer_interrupted(
        self,
        reason: Interruption | None,
        route: Route | Miss,
        token: WriteToken | None,
        reply: Reply,
        started: float,
    ) -> None:
        _log.debug("a request was interrupted", route=route.pattern, reason=reason.value if reason else "")
        if reply.is_started or reason is Interruption.DISCONNECT:
            return
        make_body = route.error_body if isinstance(route, Route) else full_error_body
        if reason is Interruption.TIMEOUT and isinstance(route, Route):
            if route.error_status is not wire_status:
                await reply.send(error_response(DeadlineExceeded(TIMED_OUT), 0, make_body, route.error_status))
                return
            message = TIMED_OUT if token is None else f"{TIMED_OUT}; {token.describe()}"
            await reply.send(plain_error_response(route.timeout_status, Status.DEADLINE_EXCEEDED, message, make_body))
            return
        message = STOPPING if token is None else f"{STOPPING}; {token.describe()}"
        headers = [("retry-after", str(RETRY_AFTER_SECONDS))]
        await reply.send(plain_error_response(503, Status.SUSPENDED, message, make_body, headers))

    async def _answer_error(self, error: TsdbError, route: Route, reply: Reply, started: float) -> None:
        log_failure(_log, error, route=route.pattern)
        fail_span(error)
        if not reply.is_started:
            await reply.send(error_response(error, _elapsed_ms(started), route.error_body, route.error_status))


def _begin_trace(route: Route | Miss, scope: Scope) -> TraceSpan | None:
    """Begin the trace of a request, or continue that of its sender."""
    found = {key: value for key, value in scope["headers"] if key in (b"traceparent", b"tracestate")}
    sender = None
    if b"traceparent" in found:
        state = found.get(b"tracestate", b"").decode("latin-1")
        sender = parse_traceparent(found[b"traceparent"].decode("latin-1"), state)
    if sender is None and route.pattern in PROBES:
        return None
    method: str = scope["method"]
    attributes = {"protocol": "http", "http.request.method": method, "http.route": route.pattern}
    return begin_trace(f"{method} {route.pattern}", sender, attributes=attributes)


def _parse_timeout(name: str, text: str) -> float:
    try:
        return Duration.parse(text).seconds
    except ValueError as error:
        raise InvalidArguments(f"the header {name}: {error}") from error


async def _linger(request: Request, seconds_max: float) -> None:
    """Read, for a while, what a client still sends after it has its response.

    Closing a connection on which bytes wait to be read resets it, and the reset destroys the answer on its
    way to a client that sends first and reads afterwards, as most do.
    """
    # Errors of a body that is discarded do not matter.
    with suppress(TimeoutError, InvalidArguments):
        async with asyncio.timeout(seconds_max):
            await request.discard_body()


def _elapsed_ms(started: float) -> int:
    return round((perf_counter() - started) * 1000)
