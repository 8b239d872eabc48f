"""Worker processes of a server as it is started by users."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.server_process import ServerProcess, running

JOIN = (
    "SELECT count(*) FROM information_schema.tables a JOIN information_schema.tables b ON a.table_name = b.table_name"
)
ENDLESS = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a.value * b.value < 0"


def children(process: int) -> list[int]:
    """Return the processes that a process has started, by whichever of its threads."""
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(each) for each in path.read_text().split()]
    return found


def descendants(process: int) -> list[int]:
    own = children(process)
    return own + [deeper for each in own for deeper in children(each)]


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(6000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come to that within a minute")


def answer(server: ServerProcess, text: str) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=120)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_workers_as_are_configured(tmp_path: Path, count: int) -> None:
    with running("standalone", tmp_path, environment={"TSDB_STANDALONE__QUERY__WORKERS": str(count)}) as server:
        assert answer(server, JOIN).status_code == 200
        # The process that workers are forked from is one more.
        wait_until(lambda: len(descendants(server.process.pid)) == (count + 1 if count else 0))
        own = os.getpriority(os.PRIO_PROCESS, server.process.pid)
        workers = [each for parent in children(server.process.pid) for each in children(parent)]
        assert [os.getpriority(os.PRIO_PROCESS, each) for each in workers] == [min(own + 10, 19)] * count, (
            "the server comes first"
        )


def test_no_worker_outlives_a_server_that_was_killed(tmp_path: Path) -> None:
    environment = {"TSDB_STANDALONE__QUERY__WORKERS": "2", "TSDB_STANDALONE__HTTP__TIMEOUT": "60s"}
    with running("standalone", tmp_path, environment=environment) as server:
        assert answer(server, JOIN).status_code == 200
        wait_until(lambda: len(descendants(server.process.pid)) == 3)
        processes = descendants(server.process.pid)

        def ask() -> None:
            with pytest.raises(httpx.TransportError):
                answer(server, ENDLESS)

        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: "generate_series(1, 100000)" in answer(server, "SHOW PROCESSLIST").text)
        os.kill(server.process.pid, signal.SIGKILL)
        thread.join(60)
        wait_until(lambda: not any(Path(f"/proc/{each}").exists() for each in processes))


def test_statements_at_their_deadline_leave_the_server_well(tmp_path: Path) -> None:
    environment = {"TSDB_STANDALONE__QUERY__WORKERS": "2", "TSDB_STANDALONE__HTTP__TIMEOUT": "1s"}
    with running("standalone", tmp_path, environment=environment) as server:
        wait_until(lambda: answer(server, JOIN).status_code == 200)
        statuses: list[int] = []
        threads = [
            threading.Thread(target=lambda: statuses.append(answer(server, ENDLESS).status_code)) for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert statuses == [408] * 6
        assert ENDLESS not in answer(server, "SHOW PROCESSLIST").text
        wait_until(lambda: answer(server, JOIN).status_code == 200)


def test_workers_that_are_killed_cost_their_own_queries_and_nobody_else_notices(tmp_path: Path) -> None:
    kills, each_asks = 2, 6
    with running("standalone", tmp_path, environment={"TSDB_STANDALONE__QUERY__WORKERS": "2"}) as server:
        expected = answer(server, JOIN).json()["output"]
        wait_until(lambda: len(descendants(server.process.pid)) == 3)

        def workers() -> set[int]:
            return {each for parent in children(server.process.pid) for each in children(parent)}

        def ask(_: int) -> list[object]:
            with httpx.Client(timeout=120) as client:
                answers = [client.post(f"{server.url}/v1/sql", data={"sql": JOIN}) for _ in range(each_asks)]
            return [each.json().get("output", each.status_code) for each in answers]

        with ThreadPoolExecutor(8) as clients:
            asked = [clients.submit(ask, number) for number in range(8)]
            for _ in range(kills):
                before = workers()
                with suppress(ProcessLookupError):
                    os.kill(min(before), signal.SIGKILL)
                wait_until(lambda before=before: len(workers()) == 2 and workers() != before)  # type: ignore[misc]
            found = [output for each in asked for output in each.result(120)]
        lost = [each for each in found if each != expected]
        assert len(found) == 8 * each_asks
        assert len(lost) <= kills, lost


def test_small_queries_of_many_clients_run_in_fast_workers(tmp_path: Path) -> None:
    environment = {"TSDB_STANDALONE__QUERY__WORKERS": "2"}
    with running("standalone", tmp_path, environment=environment) as server, ThreadPoolExecutor(8) as clients:
        answer(server, "CREATE TABLE cpu (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE)")

        def count(host: int) -> str:
            return answer(server, f"SELECT count(v) AS n FROM cpu WHERE host = 'h{host}'").text

        def answered() -> float:
            metrics = httpx.get(f"{server.url}/metrics").text
            return sum(
                float(line.split()[-1])
                for line in metrics.splitlines()
                if line.startswith('tsdb_servers_fast_queries_total{outcome="answered"}')
            )

        rows = 0
        while answered() < 100:
            rows += 1
            texts = [f"INSERT INTO cpu VALUES ({rows}, 'h{host}', 1)" for host in range(8)]
            done = clients.map(partial(answer, server), texts)
            assert [each.status_code for each in done] == [200] * 8
            for text in clients.map(count, list(range(8)) * 4):
                assert f'"rows":[[{rows}]]' in text, "what is acknowledged is visible"
        names = [Path(f"/proc/{each}/comm").read_text().strip() for each in descendants(server.process.pid)]
        assert sorted(names) == ["tsdb-fast", "tsdb-fast", "tsdb-fork", "tsdb-worker", "tsdb-worker"]


def test_damage_that_a_fast_worker_finds_is_shown_by_the_server(tmp_path: Path) -> None:
    text = "SELECT host, max(v) AS v FROM cpu GROUP BY host ORDER BY host"
    with running("standalone", tmp_path) as server, ThreadPoolExecutor(8) as clients:
        answer(server, "CREATE TABLE cpu (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE)")
        rows = ", ".join(f"({number}, 'h{number % 7}', {number / 3})" for number in range(5000))
        assert answer(server, f"INSERT INTO cpu VALUES {rows}").json()["output"] == [{"affectedrows": 5000}]
        answer(server, "ADMIN FLUSH_TABLE('cpu')")
        expected = answer(server, text).json()["output"]
        (file,) = (tmp_path / "data").glob("data/**/*.parquet")
        content = bytearray(file.read_bytes())
        footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        content[4:footer] = bytes(each ^ 0xFF for each in content[4:footer])
        file.write_bytes(content)

        def is_known() -> bool:
            # The server answers from what it has decoded; a worker reads the file.
            for asked in [clients.submit(answer, server, text) for _ in range(16)]:
                assert asked.result().json()["output"] == expected
            states = answer(server, "SELECT state FROM information_schema.ssts_manifest").json()
            return bool(states["output"][0]["records"]["rows"] == [["quarantined"]])

        wait_until(is_known)
        assert "a data file is quarantined" in "".join(each.read_text() for each in (tmp_path / "logs").glob("*"))
