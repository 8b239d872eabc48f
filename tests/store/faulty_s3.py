"""S3 with faults: a server that hands requests on to another one, and answers some as a service in trouble does."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import urlsplit

from tests.store.services import S3Server

_SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
_ERROR = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>We encountered an error.</Message></Error>"
_SKEWED = (
    b"<?xml version='1.0'?><Error><Code>RequestTimeTooSkewed</Code>"
    b"<Message>The difference between the request time and the current time is too large.</Message></Error>"
)
_SKEW_MAX = timedelta(minutes=15)
"""What S3 accepts."""
_NOT_HANDED_ON = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})
_TIMEOUT_SECONDS = 60


class Fate(Enum):
    """What becomes of a request."""

    ANSWERED = "answered"
    SLOW_DOWN = "503"
    FAILED = "500"
    SKEWED = "403"
    UNHEARD = "the connection ends before the request had an effect"
    LOST = "the connection ends after it had one"
    CUT = "half of what is read arrives"


_REFUSALS = {Fate.SLOW_DOWN: (503, _SLOW_DOWN), Fate.FAILED: (500, _ERROR), Fate.SKEWED: (403, _SKEWED)}


class FaultyS3:
    """What becomes of requests, told by the test. Thread-safe."""

    def __init__(self, behind: S3Server) -> None:
        self.behind = behind
        self.refused = 0
        """Requests that were answered with 503 SlowDown."""
        self.slow_down_share = 0.0
        """How many of all requests are refused: 1.0 for each of them."""
        self.shares: dict[Fate, float] = {}
        """How many of all requests have another fate than an answer."""
        self.delay_seconds = 0.0
        """How long every request waits."""
        self.clock_ahead = timedelta()
        """How far the clock of the service is ahead of that of its clients."""
        self.met: set[Fate] = set()
        """What has happened to requests so far."""
        self.ignores_conditions = False
        """Objects that are to be created only once are overwritten."""
        self._random = random.Random(7)
        self._lock = threading.Lock()

    def heal(self) -> None:
        """No more faults."""
        self.shares, self.slow_down_share, self.delay_seconds, self.clock_ahead = {}, 0.0, 0.0, timedelta()

    def fate_of(self, command: str, date: str) -> Fate:
        """Decide about a request; `date` is the time at which it was signed, as S3 writes it."""
        with self._lock:
            fate = self._draw(command, date)
            self.met.add(fate)
            self.refused += fate is Fate.SLOW_DOWN
            return fate

    def _draw(self, command: str, date: str) -> Fate:
        if self.clock_ahead and date:
            signed = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            if abs(datetime.now(UTC) + self.clock_ahead - signed) > _SKEW_MAX:
                return Fate.SKEWED
        number = self._random.random()
        for fate, share in {Fate.SLOW_DOWN: self.slow_down_share, **self.shares}.items():
            number -= share
            if number < 0:
                return Fate.ANSWERED if fate is Fate.CUT and command != "GET" else fate
        return Fate.ANSWERED


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, and the one to the service that it has for itself."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    """Head and body of an answer leave together: alone, the second would wait for the client's word of the first."""
    faults: FaultyS3
    _behind: http.client.HTTPConnection | None = None

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        time.sleep(self.faults.delay_seconds)
        fate = self.faults.fate_of(self.command, self.headers.get("x-amz-date", ""))
        if fate in _REFUSALS:
            status, content = _REFUSALS[fate]
            self._reply(status, [("content-type", "application/xml")], content)
            return
        if fate is Fate.UNHEARD:
            self.close_connection = True
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_HANDED_ON}
        if self.faults.ignores_conditions:
            headers = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
        answer = self._ask(body, headers)
        content = answer.read()
        if fate is Fate.LOST:
            self.close_connection = True
            return
        found = [(name, value) for name, value in answer.getheaders() if name.lower() not in _NOT_HANDED_ON]
        whole = answer.getheader("content-length") if self.command == "HEAD" else str(len(content))
        if fate is Fate.CUT:
            content = content[: len(content) // 2]
            self.close_connection = True
        self._reply(answer.status, found, content, length=whole)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _hand_on

    def _ask(self, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        if self._behind is None:
            address = urlsplit(self.faults.behind.endpoint)
            self._behind = http.client.HTTPConnection(
                cast(str, address.hostname), address.port, timeout=_TIMEOUT_SECONDS
            )
        self._behind.request(self.command, self.path, body, headers)
        return self._behind.getresponse()

    def _reply(self, status: int, headers: list[tuple[str, str]], body: bytes, *, length: str | None = None) -> None:
        # `send_response` would add headers of its own.
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("content-length", str(len(body)) if length is None else length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def finish(self) -> None:
        super().finish()
        if self._behind is not None:
            self._behind.close()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """A client that is killed ends its connection in the middle."""


@contextmanager
def faulty_s3(behind: S3Server) -> Iterator[tuple[FaultyS3, S3Server]]:
    """Run a server before another one; yields its faults, and itself as a service."""
    faults = FaultyS3(behind)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"faults": faults}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield faults, S3Server(f"http://127.0.0.1:{server.server_address[1]}", behind.process, behind.roots)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
