"""One query of the shortcut, from its request to the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from tsdb.engine.lending import Lender
from tsdb.errors import TsdbError
from tsdb.servers._failures import log_failure
from tsdb.servers.fast_workers import Encode, FastAnswer, Lent
from tsdb.servers.http.shortcut._heads import HeaderBlock
from tsdb.servers.http.shortcut._routes import ShortQuery, ShortRoute
from tsdb.servers.http.wire import (
    BODY_BYTES_MIN,
    CLIENT_GONE,
    HttpConnection,
    Response,
    ResponseEncoder,
    ShortExchange,
    compress,
)
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.http")


class QueryExchange(ShortExchange):
    """A query that waits for its answer, and then for its client to have it."""

    __slots__ = (
        "_accepted",
        "_connection",
        "_data",
        "_is_over",
        "_on_end",
        "_on_status",
        "_route",
        "_timer",
        "encode",
        "is_post",
        "query",
        "started",
    )

    def __init__(
        self,
        connection: HttpConnection,
        data: bytes,
        route: ShortRoute,
        query: ShortQuery,
        block: HeaderBlock,
        started: float,
        *,
        is_post: bool,
        seconds_max: float | None,
        on_end: Callable[[], None],
        on_status: Callable[[QueryExchange, int], None],
    ) -> None:
        """`on_end` is called when its query has ended, `on_status` when its client is answered."""
        self._connection = connection
        self._data = data
        self._route = route
        self._accepted = block.accepted
        self._on_end = on_end
        self._on_status = on_status
        self.query = query
        self.encode: Encode = query.encode
        self.started = started
        self.is_post = is_post
        self._is_over = False
        """Whether the client has been told that its time is up."""
        self._timer: asyncio.TimerHandle | None = None
        if seconds_max is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds_max, self._expire)

    @property
    def path(self) -> str:
        return self._route.path

    @property
    def is_wanted(self) -> bool:
        return not (self._is_over or self._connection.is_lost)

    def lend(self, lender: Lender) -> Lent | None:
        return self.query.lend(lender)

    def answered(self, answer: FastAnswer | None) -> None:
        """Send the answer; without one the application gets the request, unless it is known why there is none."""
        if self._timer is not None:
            self._timer.cancel()
        self._on_end()
        failure = self.query.failure
        try:
            self.query.end(is_answered=answer is not None and not self._is_over)
        except TsdbError as error:
            failure = error
        if self._is_over:
            return
        if failure is not None:
            self._send_error(failure)
        elif answer is None:
            self._connection.give_back(self._data, self.started)
        else:
            response = Response(answer.body)
            response.raw_headers = self.query.headers(self._elapsed_ms)
            self._send(response)

    def refuse(self, error: TsdbError) -> None:
        """Answer with an error instead of waiting any longer."""
        self._is_over = True
        self.answered(None)
        self._send_error(error)

    def _expire(self) -> None:
        """The time is up. If a worker computes the query, what it reads is kept until it has."""
        self._is_over = True
        self._send_now(self._route.timeout_response())

    @property
    def _elapsed_ms(self) -> int:
        return round((perf_counter() - self.started) * 1000)

    def _send_error(self, error: TsdbError) -> None:
        log_failure(_log, error, route=self.path)
        self._send(self._route.error_response(error, self._elapsed_ms))

    def _send(self, response: Response) -> None:
        if self._accepted is None or len(response.body) < BODY_BYTES_MIN:
            self._send_now(response)
        else:
            # More than a little is compressed on a thread.
            asyncio.get_running_loop().create_task(self._send_compressed(response, self._accepted))

    async def _send_compressed(self, response: Response, accepted: str) -> None:
        packed = await compress(response, accepted)
        assert isinstance(packed, Response), "an answer that is there is compressed as a whole"
        self._send_now(packed)

    def _send_now(self, response: Response) -> None:
        body = response.body
        encoder = ResponseEncoder(is_head=False, is_modern=True, is_kept=True)
        headers = [*response.raw_headers, (b"content-length", b"%d" % len(body))]
        ends = self._connection.is_ending
        head = encoder.head(response.status, headers, is_whole=True, ends_connection=ends)
        self._on_status(self, CLIENT_GONE if self._connection.is_lost else response.status)
        self._connection.answer_short(head + body)
