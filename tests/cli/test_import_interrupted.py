"""An import that is interrupted, killed, or meets a server with problems: every row is there in the end."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.clients import sql, tsdb, tsdb_process
from tests.server_process import ServerProcess
from tsdb.cli.server import parse_address
from tsdb.cli.transfer._batches import LinesBatch
from tsdb.cli.transfer._import import Importer, ImportLimits
from tsdb.cli.transfer._progress import SizeUnit, showing
from tsdb.cli.transfer._send import BatchWriter, ImportStopped
from tsdb.cli.transfer._source import Piece
from tsdb.cli.transfer._state import ImportState, StateFile

ROWS = int(os.environ.get("TSDB_IMPORT_ROWS", "250000"))
SECONDS_MAX = 60.0
LIMIT_SECONDS = max(300, ROWS // 1000)
"""A thousand rows a second, as the machine may have other work to do."""


def _csv(path: Path, rows: int) -> Path:
    with path.open("w") as file:
        file.write("host,ts,n,text\n")
        for start in range(0, rows, 10_000):
            numbers = range(start, min(rows, start + 10_000))
            file.writelines(f'h{n % 50},{1_700_000_000_000 + n},{n},"row, {n}"\n' for n in numbers)
    return path


class EndedEarly(Exception):
    """The machine stood still, and the import came to its end meanwhile."""


def with_more_and_more(rows: int, check: Callable[[int, str], None]) -> None:
    """Check with so many rows, and with twice as many in another table if the import cannot be interrupted in time."""
    for attempt in range(4):
        try:
            return check(rows << attempt, f"_{attempt}")
        except EndedEarly:
            continue
    raise AssertionError("the import always ends before it can be interrupted")


@pytest.mark.timeout(LIMIT_SECONDS)
def test_an_import_that_is_interrupted_and_killed_continues_and_has_exactly_the_rows(
    server: ServerProcess, tmp_path: Path
) -> None:
    with_more_and_more(ROWS, lambda rows, suffix: _interrupt(server, tmp_path, rows, f"many{suffix}"))


def _interrupt(server: ServerProcess, tmp_path: Path, rows: int, table: str) -> None:
    path, state = _csv(tmp_path / f"{table}.csv", rows), tmp_path / f"{table}.json"
    options = (path, "--tags", "host", "--time-format", "ms", "--state", state, "--in-flight", "2")
    behind = 0
    for number in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
        with tsdb_process(server, "import", *options) as process:
            behind = _wait_for_progress(state, behind, process.poll)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        if process.returncode == 0:
            raise EndedEarly
        assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130), errors.decode()
        kept = json.loads(state.read_text())
        assert kept["position"]["offset"] >= behind
        behind = kept["position"]["offset"]
        ((found,),) = sql(server, f"SELECT count(*) FROM {table}")
        assert int(str(found)) >= kept["rows"], "acknowledged rows are there"
    last = tsdb(server, "import", *options)
    assert last.exit_code == 0, last.stderr
    assert "continues after" in last.stderr
    assert not state.exists()
    assert sql(server, f"SELECT count(*), sum(n), count(DISTINCT text) FROM {table}") == [
        [rows, rows * (rows - 1) // 2, rows]
    ]


def _wait_for_progress(state: Path, behind: int, poll: object) -> int:
    """Wait until more was acknowledged than before."""
    assert callable(poll)
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            found = json.loads(state.read_text())["position"].get("offset", 0)
            if found > behind:
                return int(found)
        if poll() is not None:
            raise EndedEarly
        time.sleep(0.01)
    raise AssertionError("no progress")


def test_a_state_of_another_file_is_not_used(server: ServerProcess, tmp_path: Path) -> None:
    path, state = tmp_path / "changing.csv", tmp_path / "state.json"
    path.write_text("k,ts,v\na,2024-01-01,1\nb,2024-01-01,bad\n")
    options = (path, "--tags", "k", "--types", "v:double", "--state", state)
    assert tsdb(server, "import", *options).exit_code == 1
    kept = json.loads(state.read_text())
    kept["position"] = {"offset": path.stat().st_size, "line": 4}
    state.write_text(json.dumps(kept))
    path.write_text("k,ts,v\na,2024-01-01,1\nb,2024-01-01,2\n")
    result = tsdb(server, "import", *options)
    assert result.exit_code == 0
    assert "source or options have changed since it was interrupted" in result.stderr
    assert sql(server, "SELECT k FROM changing ORDER BY k") == [["a"], ["b"]]


def test_restart_begins_again(server: ServerProcess, tmp_path: Path) -> None:
    with_more_and_more(60_000, lambda rows, suffix: _begin_again(server, tmp_path, rows, f"again{suffix}"))


def _begin_again(server: ServerProcess, tmp_path: Path, rows: int, table: str) -> None:
    path, state = _csv(tmp_path / f"{table}.csv", rows), tmp_path / f"{table}.json"
    options = (path, "--tags", "host", "--time-format", "ms", "--state", state)
    with tsdb_process(server, "import", *options, "--in-flight", "1") as process:
        _wait_for_progress(state, 0, process.poll)
        process.kill()
        process.communicate()
    sql(server, f"TRUNCATE TABLE {table}")
    result = tsdb(server, "import", *options, "--restart")
    assert result.exit_code == 0
    assert sql(server, f"SELECT count(*) FROM {table}") == [[rows]]


class _Receiver:
    """A server with problems: it answers what a test tells it to, and remembers the lines it acknowledged."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.problems: list[str] = []
        self.requests = 0
        self.gate = threading.Event()
        self.gate.set()
        self.lock = threading.Lock()

    def take(self, body: bytes) -> str:
        with self.lock:
            self.requests += 1
            problem = self.problems.pop(0) if self.problems else ""
        if problem == "wait":
            self.gate.wait(60)
            problem = ""
        if not problem or problem == "forget":
            with self.lock:
                self.lines += body.splitlines()
        return problem


@contextmanager
def _receiver() -> Iterator[tuple[_Receiver, str]]:
    receiver = _Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path.startswith("/v1/sql"):
                self._answer(200, b"")  # the first question: is there a server?
                return
            problem = receiver.take(body)
            if problem in ("drop", "forget"):
                self.close_connection = True  # as if it had crashed before, or after, it wrote
            elif problem:
                self._answer(503, b'{"error":"busy"}', ("Retry-After", "0"))
            else:
                self._answer(204, b"")

        def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield receiver, f"http://127.0.0.1:{listener.server_address[1]}"
        listener.shutdown()


def _line_file(path: Path, rows: int) -> list[bytes]:
    lines = [b"m,h=%d v=%di %d" % (n % 10, n, n) for n in range(rows)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return lines


def test_busy_and_crashing_servers_get_everything(tmp_path: Path) -> None:
    path = tmp_path / "x.lp"
    lines = _line_file(path, 150_000)
    with _receiver() as (receiver, url):
        receiver.problems = ["busy", "drop", "", "forget", "busy", "drop"]
        result = tsdb(url, "import", path, "--no-resume")
    assert result.exit_code == 0, result.stderr
    assert set(receiver.lines) == set(lines)
    assert receiver.requests > 6


def test_a_server_that_stays_away_ends_the_import_which_keeps_its_place(tmp_path: Path) -> None:
    path, state = tmp_path / "x.lp", tmp_path / "state.json"
    lines = _line_file(path, 150_000)
    with _receiver() as (receiver, url):
        receiver.problems = ["", *["drop"] * 1000]
        options = (path, "--state", state, "--in-flight", "1", "--retry-for", "0.3")
        result = tsdb(url, "import", *options)
        assert result.exit_code == 1
        assert "was lost" in result.stderr
        offset = json.loads(state.read_text())["position"]["offset"]
        acknowledged = path.read_bytes()[:offset].splitlines()
        assert acknowledged
        assert set(acknowledged) <= set(receiver.lines)
        receiver.problems = []
        assert tsdb(url, "import", *options).exit_code == 0
    assert set(receiver.lines) == set(lines)


def test_the_position_never_passes_what_is_not_acknowledged(tmp_path: Path) -> None:
    path, state = tmp_path / "x.lp", tmp_path / "state.json"
    _line_file(path, 200_000)
    with _receiver() as (receiver, url):
        receiver.gate.clear()
        receiver.problems = ["wait"]  # the first request stays unanswered while others overtake it
        with tsdb_process(url, "import", path, "--state", state, "--in-flight", "3") as process:
            deadline = time.monotonic() + SECONDS_MAX
            while len(receiver.lines) < 20_000 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.kill()
            process.communicate()
        assert len(receiver.lines) >= 20_000
        assert json.loads(state.read_text())["position"] == {}
        receiver.gate.set()


def test_a_write_whose_answer_does_not_come_ends_when_the_import_is_stopped() -> None:
    with _receiver() as (receiver, url), ThreadPoolExecutor(1) as pool:
        receiver.gate.clear()
        receiver.problems = ["wait"]
        writer = BatchWriter(parse_address(url))
        write = pool.submit(writer.write, LinesBatch("public", "ns", [b"m v=1"], "x.lp", [1]), rejected_max=0)
        deadline = time.monotonic() + SECONDS_MAX
        while not receiver.requests and time.monotonic() < deadline:
            time.sleep(0.01)
        writer.stop()
        with pytest.raises(ImportStopped):
            write.result(SECONDS_MAX / 2)
        receiver.gate.set()


class _SlowSource:
    """Has one piece, and goes on only when that one is in the state, or after a long time."""

    name = "slow"
    unit: SizeUnit = "steps"
    size: int | None = None

    def __init__(self, state: Path) -> None:
        self._state = state
        self.seen: dict[str, Any] = {}

    def identity(self) -> list[object]:
        return ["slow"]

    def prepare(self, extra: dict[str, Any]) -> dict[str, Any]:
        return extra

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        yield Piece([], {"piece": 1}, 1)
        deadline = time.monotonic() + SECONDS_MAX
        while not self.seen and time.monotonic() < deadline:
            self.seen = json.loads(self._state.read_text())["position"]
            time.sleep(0.01)


def test_what_was_acknowledged_is_in_the_state_before_a_slow_source_goes_on(tmp_path: Path) -> None:
    source, file = _SlowSource(tmp_path / "state"), StateFile(tmp_path / "state")
    with showing(source.name, source.size, is_quiet=True) as view:
        Importer(parse_address("http://127.0.0.1:1"), source, ImportState("x"), file, ImportLimits(), view).run()
    assert source.seen == {"piece": 1}


class _WatchedFile(StateFile):
    """Interrupts the main thread twice while another one saves, and tells whether two ever saved at once."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_interrupting = threading.Event()
        self.saving: list[str] = []
        self.is_shared = False

    def save(self, state: ImportState) -> None:
        self.saving.append(threading.current_thread().name)
        self.is_shared = self.is_shared or len(self.saving) > 1
        if threading.current_thread() is not threading.main_thread() and not self.is_interrupting.is_set():
            self.is_interrupting.set()
            for _ in range(2):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                time.sleep(0.2)
        super().save(state)
        self.saving.pop()


class _EndingSource(_SlowSource):
    """Has one piece, and comes to its end while the state is saved."""

    def __init__(self, file: _WatchedFile) -> None:
        super().__init__(file.path)
        self._is_interrupting = file.is_interrupting

    def pieces(self, position: dict[str, Any]) -> Iterator[Piece]:
        yield Piece([], {"piece": 1}, 1)
        assert self._is_interrupting.wait(SECONDS_MAX)


def test_an_import_that_is_interrupted_twice_does_not_save_its_state_twice_at_once(tmp_path: Path) -> None:
    file = _WatchedFile(tmp_path / "state")
    with showing("x", None, is_quiet=True) as view:
        importer = Importer(
            parse_address("http://127.0.0.1:1"), _EndingSource(file), ImportState("x"), file, ImportLimits(), view
        )
        with pytest.raises(KeyboardInterrupt):
            importer.run()
    assert not file.is_shared
    assert json.loads(file.path.read_text())["position"] == {"piece": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
