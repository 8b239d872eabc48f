"""Logins and TLS, by a server that knows nothing else; and a VictoriaMetrics that has two series."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme

from tests.cli.clients import sql, tsdb
from tests.server_process import ServerProcess

Answer = tuple[int, bytes]


@contextmanager
def _served(answer: Callable[[BaseHTTPRequestHandler], Answer], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status, body = answer(self)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        if tls is not None:
            listener.socket = tls.wrap_socket(listener.socket, server_side=True)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.server_address[1]}"
        listener.shutdown()


def _affected(_request: BaseHTTPRequestHandler) -> Answer:
    return 200, b'{"output":[{"affectedrows":1}],"execution_time_ms":1}'


def test_user_and_password_are_sent_and_a_refused_login_is_3() -> None:
    wanted = "Basic " + base64.b64encode("änn:s:cret".encode()).decode()

    def check(request: BaseHTTPRequestHandler) -> Answer:
        if request.headers.get("authorization") == wanted:
            return _affected(request)
        return 401, b'{"code":7002,"error":"Username and password does not match","execution_time_ms":0}'

    statement = ("-e", "CREATE DATABASE x")
    with _served(check) as url:
        assert tsdb(url, "cli", "-u", "änn", "-p", "s:cret", *statement).exit_code == 0
        assert tsdb(url.replace("http://", "http://%C3%A4nn:s%3Acret@"), "cli", *statement).exit_code == 0
        refused = tsdb(url, "cli", "-u", "änn", "--password", "wrong", *statement)
    assert refused.exit_code == 3
    assert "refused the login: Username and password does not match; see --user and --password" in refused.stderr
    assert "wrong" not in refused.stderr


def test_certificates_are_checked_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    statement = ("-e", "CREATE DATABASE x")
    with _served(_affected, context) as url:
        assert tsdb(url, "cli", "--ca-file", tmp_path / "ca.pem", *statement).exit_code == 0
        assert tsdb(url, "cli", "--insecure", *statement).exit_code == 0
        unknown = tsdb(url, "cli", *statement)
    assert unknown.exit_code == 3
    assert "is not trusted" in unknown.stderr
    assert "--ca-file" in unknown.stderr


@pytest.mark.parametrize("fails", [False, True])
def test_series_of_victoriametrics_come_window_by_window(server: ServerProcess, tmp_path: Path, fails: bool) -> None:
    """If the source breaks off, the import continues with the window that was not complete."""
    start, step = 1_700_000_000_000, 600_000
    asked: list[int] = []
    problems = [2] if fails else []

    def export(request: BaseHTTPRequestHandler) -> Answer:
        query = parse_qs(urlsplit(request.path).query)
        first, last = (round(float(query[name][0]) * 1000) for name in ("start", "end"))
        window = (first - start) // 3_600_000
        asked.append(window)
        if window in problems:
            problems.remove(window)
            return 500, b"out of memory"
        times = [at for at in range(start, start + 4 * 3_600_000, step) if first <= at <= last]
        lines = [
            json.dumps({"metric": {"__name__": metric, "i": str(i)}, "values": [i] * len(times), "timestamps": times})
            for i in range(3)
        ]
        return 200, "\n".join(lines).encode() + b"\n"

    metric = f"victoria_{'broken' if fails else 'whole'}"
    span = ("--start", str(start / 1000), "--end", str(start / 1000 + 4 * 3600 - 0.001), "--window", "1h")
    with _served(export) as url:
        options = ("--from-victoriametrics", url, *span, "--state", tmp_path / "state.json")
        result = tsdb(server, "import", *options)
        if fails:
            assert result.exit_code == 1
            assert "out of memory" in result.stderr
            result = tsdb(server, "import", *options)
        assert result.exit_code == 0, result.stderr
    assert asked == ([0, 1, 2, 2, 3] if fails else [0, 1, 2, 3])
    assert sql(server, f"SELECT count(*), sum(tsdb_value) FROM {metric}") == [[72, 72.0]]
