"""S3 with faults: a server that hands requests on to another one, and answers some as a service in trouble does."""

from __future__ import annotations

import http.client
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import urlsplit

from tests.store.services import S3Server

_SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
_NOT_HANDED_ON = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})
_TIMEOUT_SECONDS = 60


class FaultyS3:
    """What becomes of requests, told by the test. Thread-safe."""

    def __init__(self, behind: S3Server) -> None:
        self.behind = behind
        self.refused = 0
        """Requests that were answered with 503 SlowDown."""
        self.slow_down_share = 0.0
        """How many of all requests are refused: 1.0 for each of them."""
        self.ignores_conditions = False
        """Objects that are to be created only once are overwritten."""
        self._random = random.Random(7)
        self._lock = threading.Lock()

    def refuses(self) -> bool:
        with self._lock:
            is_refused = self._random.random() < self.slow_down_share
            self.refused += is_refused
            return is_refused


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, and the one to the service that it has for itself."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    """Head and body of an answer leave together: alone, the second would wait for the client's word of the first."""
    faults: FaultyS3
    _behind: http.client.HTTPConnection | None = None

    def _hand_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.faults.refuses():
            self._reply(503, [("content-type", "application/xml")], _SLOW_DOWN)
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_HANDED_ON}
        if self.faults.ignores_conditions:
            headers = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
        answer = self._ask(body, headers)
        found = [(name, value) for name, value in answer.getheaders() if name.lower() not in _NOT_HANDED_ON]
        self._reply(answer.status, found, answer.read(), length=answer.getheader("content-length"))

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
        is_head = self.command == "HEAD"
        if status not in (204, 304):
            self.send_header("content-length", length or "0" if is_head else str(len(body)))
        self.end_headers()
        if not is_head:
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
