"""`tsdb import` from a real Prometheus and a real VictoriaMetrics: all samples, also if the import is killed midway."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tests.cli.clients import sql, tsdb, tsdb_process
from tests.clients.programs import WAIT_SECONDS_MAX, find_program, free_port, program, wait_json
from tests.differential.prometheus_process import running_prometheus
from tests.server_process import ServerProcess
from tsdb.cli.transfer._samples import encode_labels, encode_points

STEP_MS, SAMPLES, HOSTS = 30_000, 360, 8
SLICE = 60
"""How many samples of each series one request has: receivers want all series to go on together."""
END_MS = int(time.time() * 1000) // STEP_MS * STEP_MS
START_MS = END_MS - (SAMPLES - 1) * STEP_MS
TIMES = np.arange(START_MS, END_MS + 1, STEP_MS)
ODD_VALUES = np.array([np.inf, -np.inf, -1.5, 0.25, 12345.5, 1e6])
"""VictoriaMetrics keeps the values of a block with one exponent, so these are not too far apart."""
SPAN = ("--start", f"{START_MS / 1000:.3f}", "--end", f"{END_MS / 1000:.3f}", "--window", "20m")

Samples = dict[tuple[str, ...], dict[int, float]]


def _series() -> Iterator[tuple[dict[str, str], npt.NDArray[np.float64]]]:
    """Two metrics of several hosts, and one with values that not every format has."""
    for host in range(HOSTS):
        for number, name in enumerate(("loaded_total", "loaded_ratio")):
            values = (np.arange(SAMPLES) * (host + 1) + number / 4).astype(np.float64)
            yield {"__name__": name, "host": f"h-{host}", "text": 'a "quoted" \\ ü', "job": "load"}, values
    yield {"__name__": "loaded_odd", "host": "h-0"}, np.resize(ODD_VALUES, SAMPLES)


def _load(url: str) -> None:
    """Write all series by remote write, one stretch of time after the other."""
    series = list(_series())
    for first in range(0, SAMPLES, SLICE):
        part = slice(first, first + SLICE)
        body = b"".join(
            _field(encode_labels(labels) + encode_points(TIMES[part], values[part])) for labels, values in series
        )
        headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
        packed = pa.Codec("snappy").compress(body, asbytes=True)
        answer = httpx.post(f"{url}/api/v1/write", content=packed, headers=headers, timeout=WAIT_SECONDS_MAX)
        assert answer.status_code in (200, 204), answer.text


def _field(content: bytes) -> bytes:
    length, size = bytearray(), len(content)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return b"\x0a" + bytes([*length, size]) + content


def _expected(name: str) -> Samples:
    return {
        (labels["host"], labels["text"], labels["job"]): dict(zip(TIMES.tolist(), values.tolist(), strict=True))
        for labels, values in _series()
        if labels["__name__"] == name
    }


def _check(server: ServerProcess, database: str) -> None:
    """All samples of all series have arrived, with their labels, times and values, and no others."""
    for name in ("loaded_total", "loaded_ratio"):
        found: Samples = {}
        rows = sql(server, f"SELECT host, text, job, tsdb_timestamp, tsdb_value FROM {name}", database)
        assert len(rows) == HOSTS * SAMPLES
        for *labels, at, value in rows:
            found.setdefault(tuple(map(str, labels)), {})[int(str(at))] = float(str(value))
        assert found == _expected(name)
    texts = sql(server, "SELECT CAST(tsdb_value AS STRING) FROM loaded_odd ORDER BY tsdb_timestamp", database)
    assert [float(str(text)) for (text,) in texts] == np.resize(ODD_VALUES, SAMPLES).tolist()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    find_program("prometheus")
    with running_prometheus(tmp_path_factory.mktemp("prometheus")) as url:
        _load(url)
        yield url


@pytest.fixture(scope="module")
def victoria(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("victoria")
    address = f"127.0.0.1:{free_port()}"
    arguments = (f"-httpListenAddr={address}", f"-storageDataPath={directory / 'data'}", "-retentionPeriod=12")
    with program(directory, "victoria-metrics", *arguments):
        url = f"http://{address}"
        wait_json(f"{url}/api/v1/status/tsdb", {}, ("status",))
        _load(url)
        httpx.get(f"{url}/internal/force_flush", timeout=WAIT_SECONDS_MAX).raise_for_status()
        yield url


@pytest.mark.parametrize("source", ["prometheus", "victoria"])
def test_everything_of_another_server_is_imported(
    source: str, server: ServerProcess, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = request.getfixturevalue(source)
    database = f"from_{source}"
    sql(server, f"CREATE DATABASE {database}")
    result = tsdb(server, "import", *_options(source, url), "-d", database, "--state", tmp_path / "state.json")
    assert result.exit_code == 0, result.stderr
    _check(server, database)
    again = tsdb(server, "import", *_options(source, url), "-d", database, "--no-resume")
    assert again.exit_code == 0, again.stderr
    _check(server, database)


@pytest.mark.parametrize("source", ["prometheus", "victoria"])
def test_an_import_that_was_killed_continues_where_it_was(
    source: str, server: ServerProcess, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url, state = request.getfixturevalue(source), tmp_path / "state.json"
    database = f"resumed_{source}"
    sql(server, f"CREATE DATABASE {database}")
    with _holding(url, held_from=4) as (between, proxy):
        options = (*_options(source, proxy), "-d", database, "--state", str(state))
        with tsdb_process(server, "import", *options) as process:
            assert between.held.wait(WAIT_SECONDS_MAX), "the source is not asked"
            _wait_for_position(state)
            process.kill()
            process.communicate()
        (done,) = json.loads(state.read_text())["position"].values()
        between.gate.set()
        asked = between.asked
        result = tsdb(server, "import", *options)
    assert result.exit_code == 0, result.stderr
    assert "continues after" in result.stderr
    assert done > 0
    assert between.asked - asked == _requests(source) - done, "what was acknowledged is not read again"
    _check(server, database)


def _requests(source: str) -> int:
    """How often the source is asked in all: for each window, of Prometheus for each metric in it."""
    windows = -(-(END_MS - START_MS + 1) // (20 * 60_000))
    return windows * (3 if source == "prometheus" else 1)


def _options(source: str, url: str) -> tuple[str, ...]:
    if source == "prometheus":
        return ("--from-prometheus", url, "--match", '{__name__=~"loaded_.*"}', *SPAN)
    return ("--from-victoriametrics", url, "--match", '{__name__=~"loaded_.*"}', *SPAN)


def _wait_for_position(state: Path) -> None:
    """Wait until something of the import was acknowledged."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        with suppress(FileNotFoundError, json.JSONDecodeError):
            if any(json.loads(state.read_text())["position"].values()):
                return
        assert time.monotonic() < deadline, "nothing was acknowledged"
        time.sleep(0.01)


class _Between:
    """Counts the requests for samples, and holds them back from one on until the gate is open."""

    def __init__(self, held_from: int) -> None:
        self.held_from = held_from
        self.asked = 0
        self.held = threading.Event()
        self.gate = threading.Event()


@contextmanager
def _holding(url: str, *, held_from: int) -> Iterator[tuple[_Between, str]]:
    """A server between the import and its source."""
    between = _Between(held_from)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.path.partition("?")[0] in ("/api/v1/read", "/api/v1/export"):
                between.asked += 1
                if between.asked >= between.held_from and not between.gate.is_set():
                    between.held.set()
                    between.gate.wait(2 * WAIT_SECONDS_MAX)
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")
            }
            answer = httpx.request(self.command, url + self.path, content=body, headers=headers, timeout=60)
            with suppress(OSError):
                self.send_response(answer.status_code)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield between, f"http://127.0.0.1:{listener.server_address[1]}"
        finally:
            between.gate.set()
            listener.shutdown()
