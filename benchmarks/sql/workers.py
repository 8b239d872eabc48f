"""Planned queries in worker processes beside the same ones in the server process: what the detour costs and brings.

Two servers with the same million rows, one with `query.workers = 0`, are asked in turn over HTTP. The goals: at most
1.1 times the time and 2 ms, for small results and for one of five million values; with two cores, two clients get more
answers than one; a worker whose query is killed is gone and replaced within 100 ms.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median

import httpx

from benchmarks import Measurement
from tests.components.test_query_workers import ENDLESS, children
from tests.server_process import ServerProcess, running

ROUNDS = 15
ROWS = 1_000_000
KILLS = 10
RATE_SECONDS = 4.0
WORKERS = {"in the server": "0", "2 workers": "2"}
_SECONDS_MAX = 120.0
_CLIENT = httpx.Client(timeout=_SECONDS_MAX)

SMALL = {
    "join of two small tables": "SELECT count(*) FROM few a JOIN few b ON a.host = b.host",
    "window over 100 rows": "SELECT host, sum(v) OVER (PARTITION BY g ORDER BY host) FROM few ORDER BY 1",
    "join with a million rows": "SELECT few.g, avg(many.v0) FROM many JOIN few ON few.host = many.host GROUP BY 1",
    "subquery over a million rows": "SELECT count(*) FROM many WHERE v0 > (SELECT avg(v1) FROM many)",
}
LARGE = "SELECT m.v0, m.v1, m.v2, m.v3, m.v4 FROM many m JOIN few ON few.host = m.host"
BUSY = "SELECT count(DISTINCT a.v0 + b.v) FROM many a JOIN few b ON a.host = b.host"


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        servers = {what: start(Path(name) / count, count, stack) for what, count in WORKERS.items()}
        for what, text in SMALL.items():
            yield from compare(what, text, servers)
        yield from compare("5 million values, Arrow", LARGE, servers, form="arrow")
        for what, server in servers.items():
            for clients in (1, 2):
                seconds, count = rate(server, clients)
                name = f"long queries, {clients} clients, {what}: {count / seconds:.1f} a second"
                yield Measurement(name, seconds / count, 1, "queries")
        yield from kill(servers["2 workers"])


def start(directory: Path, workers: str, stack: ExitStack) -> ServerProcess:
    directory.mkdir()
    server = stack.enter_context(
        running("standalone", directory, environment={"TSDB_STANDALONE__QUERY__WORKERS": workers})
    )
    fields = [f"v{number} DOUBLE" for number in range(5)]
    run(server, "CREATE TABLE few (host STRING PRIMARY KEY, ts TIMESTAMP(3) TIME INDEX, g BIGINT, v DOUBLE)")
    run(server, f"CREATE TABLE many (host STRING PRIMARY KEY, ts TIMESTAMP(3) TIME INDEX, {', '.join(fields)})")
    run(
        server,
        "INSERT INTO few SELECT 'h' || value, arrow_cast(value, 'Timestamp(Millisecond, None)'), value % 7, "
        "value * 0.5 FROM generate_series(0, 99)",
    )
    values = ", ".join(f"value % {1000 + number} * 0.5" for number in range(5))
    run(
        server,
        "INSERT INTO many SELECT 'h' || (value % 100), arrow_cast(value * 1000, 'Timestamp(Millisecond, None)'), "
        f"{values} FROM generate_series(0, {ROWS - 1})",
    )
    run(server, "ADMIN flush_table('many')")
    return server


def compare(what: str, text: str, servers: dict[str, ServerProcess], form: str = "json") -> Iterator[Measurement]:
    """Ask a text in turn, again and again, and compare medians with those of the first server."""
    seconds: dict[str, list[float]] = {name: [] for name in servers}
    answers = {name: run(server, text, form) for name, server in servers.items()}
    rows = {len(answer) if form == "arrow" else answer.count(b"[") for answer in answers.values()}
    assert len(rows) == 1, f"answers differ: {rows}"
    for _ in range(ROUNDS):
        for name, server in servers.items():
            seconds[name].append(took(lambda server=server: run(server, text, form)))  # type: ignore[misc]
    first = median(next(iter(seconds.values())))
    for name, own in seconds.items():
        more = (median(own) - first) * 1e3
        yield Measurement(f"{what}, {name}: {median(own) / first:.2f}, {more:+.1f} ms", median(own), 1, "queries")


def rate(server: ServerProcess, clients: int) -> tuple[float, int]:
    """Return for how long clients have asked, and how many answers they got."""
    counts = [0] * clients
    began = time.perf_counter()

    def ask(client: int) -> None:
        while time.perf_counter() - began < RATE_SECONDS:
            run(server, BUSY)
            counts[client] += 1

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(ask, range(clients)))
    return time.perf_counter() - began, sum(counts)


def kill(server: ServerProcess) -> Iterator[Measurement]:
    """Kill endless queries that keep both workers busy, and measure until they are gone and replaced."""
    gone, replaced = [], []
    for _ in range(KILLS):
        threads = [threading.Thread(target=ask_endless, args=(server,), daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        ids = wait_for(lambda: running_ids(server) if len(running_ids(server)) == 2 else None)
        before = workers_of(server)
        began = time.perf_counter()
        for each in ids:
            run(server, f"KILL '{each}'")
        wait_for(lambda before=before: not before & workers_of(server))  # type: ignore[misc]
        gone.append(time.perf_counter() - began)
        run(server, SMALL["join of two small tables"])
        replaced.append(time.perf_counter() - began)
        for thread in threads:
            thread.join(_SECONDS_MAX)
    for what, seconds in (("both are gone", gone), ("a query has been answered by another", replaced)):
        worst = max(seconds) * 1e3
        yield Measurement(f"two killed workers: {what} (at most {worst:.0f} ms)", median(seconds), 1, "times")


def running_ids(server: ServerProcess) -> list[str]:
    text = "SELECT id FROM information_schema.process_list WHERE query LIKE '%b.value < 0%' AND query NOT LIKE '%LIKE%'"
    answer = _CLIENT.post(f"{server.url}/v1/sql", data={"sql": text}).json()
    return [row[0] for row in answer["output"][0]["records"]["rows"]]


def workers_of(server: ServerProcess) -> set[int]:
    forked = [worker for parent in children(server.process.pid) for worker in children(parent)]
    return {worker for worker in forked if "tsdb-fast" not in name_of(worker)}


def name_of(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text()
    return ""


def wait_for(found: Callable[[], object]) -> object:
    deadline = time.monotonic() + _SECONDS_MAX
    while not (value := found()):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return value


def ask_endless(server: ServerProcess) -> None:
    with suppress(httpx.HTTPError):
        _CLIENT.post(f"{server.url}/v1/sql", data={"sql": ENDLESS})


def run(server: ServerProcess, text: str, form: str = "json") -> bytes:
    answer = _CLIENT.post(f"{server.url}/v1/sql", params={"format": form}, data={"sql": text})
    if answer.status_code != 200:
        raise RuntimeError(f"{answer.status_code} {answer.text[:300]} to {text[:100]}")
    return answer.content


def took(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
