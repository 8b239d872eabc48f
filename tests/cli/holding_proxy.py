"""Stands between a transfer and a server: a test says how many answers pass, and whether the next is held or dropped.

What is counted are the windows of an export and the INSERTs of an import. The server has done all of them; their
answers arrive, arrive in part, or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tests.server_process import ServerProcess

SECONDS_MAX = 60.0


class _Gate:
    """What held answers wait for."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.drops = False


class HoldingProxy:
    """Counts requests and decides about their answers."""

    def __init__(self) -> None:
        self.url = ""
        self.requests = 0
        """How many were counted since the last `allow`."""
        self.in_part = threading.Event()
        """Set when an answer was dropped or is held."""
        self._allowed: int | None = None
        self._holds = False
        self._gate = _Gate()
        self._lock = threading.Lock()

    def allow(self, answers: int | None, *, holds: bool = False) -> None:
        """Let so many answers pass from now on, those that are held included; None is all of them."""
        with self._lock:
            self.requests, self._allowed, self._holds = 0, answers, holds
            self._open()

    def drop(self) -> None:
        """Forget the answers that are held, as their client is gone, and let all others pass."""
        with self._lock:
            self._gate.drops = True
            self.requests, self._allowed = 0, None
            self._open()

    def _open(self) -> None:
        self._gate.opened.set()
        self._gate = _Gate()
        self.in_part.clear()

    def passes(self) -> bool:
        """Count a request; whether its answer is sent as a whole, at once or after it was held."""
        while True:
            with self._lock:
                self.requests += 1
                if self._allowed is None or self.requests <= self._allowed:
                    return True
                gate = self._gate
                self.in_part.set()
                if not self._holds:
                    return False
            if not gate.opened.wait(SECONDS_MAX) or gate.drops:
                return False


@contextmanager
def proxy_of(server: ServerProcess) -> Iterator[HoldingProxy]:
    """Run a proxy of a server."""
    proxy = HoldingProxy()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kept = ("content-type", "x-tsdb-timezone")
            headers = {name: value for name, value in self.headers.items() if name.lower() in kept}
            answer = httpx.post(server.url + self.path, content=body, headers=headers, timeout=SECONDS_MAX)
            half = len(answer.content) // 2
            with suppress(OSError):  # the client may be dead by now
                self.send_response(answer.status_code)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content[:half])
                self.wfile.flush()
                if not _is_counted(body) or proxy.passes():
                    self.wfile.write(answer.content[half:])
                else:
                    self.close_connection = True

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        proxy.url = f"http://127.0.0.1:{listener.server_address[1]}"
        try:
            yield proxy
        finally:
            proxy.drop()
            listener.shutdown()


def _is_counted(body: bytes) -> bool:
    is_window = b"SELECT+%2A+FROM" in body and b"%3C%3D" in body  # <=
    return is_window or body.startswith(b"sql=INSERT")
