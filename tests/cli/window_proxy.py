"""Stands between an export and a server, and answers as many windows as a test allows; the next one only in part."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tests.server_process import ServerProcess

SECONDS_MAX = 60.0


class WindowProxy:
    """A proxy whose answers to windows can be counted, dropped and held."""

    def __init__(self) -> None:
        self.url = ""
        self.windows = 0
        """How many windows were asked for."""
        self.answered_max: int | None = None
        """How many of them are answered; None for all."""
        self.holds = False
        """Whether the next one stays open, instead of being broken off."""
        self.in_part = threading.Event()
        """Set when a window was answered in part."""
        self.released = threading.Event()

    def allow(self, windows: int | None, *, holds: bool = False) -> None:
        """Count from here on."""
        self.windows, self.answered_max, self.holds = 0, windows, holds
        self.in_part.clear()

    def is_allowed(self) -> bool:
        self.windows += 1
        return self.answered_max is None or self.windows <= self.answered_max


@contextmanager
def proxy_of(server: ServerProcess) -> Iterator[WindowProxy]:
    """Run a proxy of a server."""
    proxy = WindowProxy()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kept = ("content-type", "x-tsdb-timezone")
            headers = {name: value for name, value in self.headers.items() if name.lower() in kept}
            answer = httpx.post(server.url + self.path, content=body, headers=headers, timeout=SECONDS_MAX)
            is_window = b"SELECT+%2A+FROM" in body and b"%3C%3D" in body  # <=
            is_whole = not is_window or proxy.is_allowed()
            self.send_response(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content if is_whole else answer.content[: len(answer.content) // 2])
            if not is_whole:
                self.wfile.flush()
                proxy.in_part.set()
                if proxy.holds:
                    proxy.released.wait(SECONDS_MAX)
                self.close_connection = True

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        proxy.url = f"http://127.0.0.1:{listener.server_address[1]}"
        try:
            yield proxy
        finally:
            proxy.released.set()
            listener.shutdown()
