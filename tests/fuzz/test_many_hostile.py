"""Many hostile statements at once, over three protocols, some of them killed, and a worker that is killed by hand.

Every check of health and every small query is answered meanwhile, memory stays bounded, and nothing is left behind: no
statement, no worker, no file. Twelve statements from six connections in `make test`; a hundred from ten, again and
again, in `make fuzz`, where answers must also come soon: in 100 ms for health and a second for small queries, beyond
what a bare server on the same machine takes.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psycopg
import pymysql
import pytest

from tests.components.test_query_workers import children, descendants, wait_until
from tests.fuzz.hostile_server import hostile_server, megabytes_of
from tests.fuzz.latencies import CONTROL, Latencies, Times, sql_url
from tests.fuzz.test_ports import SECONDS, SEED
from tests.server_process import ServerProcess

IS_LONG = SECONDS > 10
ROUNDS = max(1, int(SECONDS // 60)) if IS_LONG else 1
STATEMENTS = 100 if IS_LONG else 12
CLIENTS = ("http", "http", "http", "http", "mysql", "mysql", "mysql", "postgres", "postgres", "postgres")
CLIENTS = CLIENTS if IS_LONG else CLIENTS[1:3] + CLIENTS[4:6] + CLIENTS[7:9]
DEADLINE_SECONDS = 2
HEALTH_SECONDS_MAX = 5.0
"""How long a check of health may take on a machine that runs other tests as well."""
SECONDS_MAX = {"health": 0.1, "small": 1.0}
"""How long answers may take in the long form, beyond what the machine takes."""
STALLS = 3
"""A request passes several threads and processes: a machine that holds up the control once may hold it up so often."""
ANSWER_SECONDS = 90.0
MEGABYTES_MORE = 1024
WORKERS = 2
SMALL = "SELECT count(*) FROM t WHERE v = 1"
JOIN = "SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND a.ts = b.ts"

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc"),
    pytest.mark.timeout(ROUNDS * STATEMENTS * 10 + 300),
]


def doubling(chance: random.Random) -> str:
    tables = [f"c{n} AS (SELECT a.i FROM c{n - 1} a, c{n - 1} b)" for n in range(1, chance.randrange(4, 12))]
    return f"WITH c0 AS (SELECT 1 AS i UNION ALL SELECT 2), {', '.join(tables)} SELECT count(*) FROM c{len(tables)}"


def growing(chance: random.Random) -> str:
    text = f"SELECT repeat('x', {chance.randrange(1000, 100_000)}) AS a FROM generate_series(1, 100000)"
    for number in range(chance.randrange(2, 12)):
        text = f"SELECT a || a AS a FROM ({text}) q{number}"
    return f"SELECT max(length(a)) FROM ({text}) z"


def tower(chance: random.Random) -> str:
    call = f"range(1, {chance.randrange(1000, 1_000_000)})"
    for _ in range(chance.randrange(1, 4)):
        call = f"array_concat({call}, {call})"
    return f"SELECT sum(array_length({call})) FROM generate_series(1, {chance.randrange(10, 100_000)})"


def crossing(_: random.Random) -> str:
    return (
        "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a.value * b.value < 0"
    )


FAMILIES = (doubling, growing, tower, crossing)


class Load:
    """What all threads of a run share."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.ports = {"mysql": server.port_of("MySQL"), "postgres": server.port_of("Postgres")}
        self.is_over = threading.Event()
        self.answers: Counter[str] = Counter()
        self.lost: list[str] = []
        self.times: dict[str, Times] = {}
        self.megabytes = 0.0

    def send(self, number: int, protocol: str, texts: list[str]) -> None:
        for text in texts:
            try:
                self.answers[f"{protocol} {getattr(self, f'_{protocol}')(text)}"] += 1
            except httpx.HTTPError as error:
                self.lost.append(f"client {number}: {error!r} to {text[:200]}")

    def _http(self, text: str) -> int:
        return httpx.post(f"{self.server.url}/v1/sql", data={"sql": text}, timeout=ANSWER_SECONDS).status_code

    def _mysql(self, text: str) -> str:
        address = {"host": "127.0.0.1", "port": self.ports["mysql"], "user": "me", "database": "public"}
        try:
            with pymysql.connect(**address, read_timeout=ANSWER_SECONDS) as connection, connection.cursor() as cursor:
                cursor.execute(f"SET max_execution_time = {DEADLINE_SECONDS * 1000}")
                cursor.execute(text)
                cursor.fetchall()
        except pymysql.MySQLError as error:
            return str(error.args[0])
        return "ok"

    def _postgres(self, text: str) -> str:
        address = f"host=127.0.0.1 port={self.ports['postgres']} user=me dbname=public connect_timeout=60"
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute(f"SET statement_timeout = {DEADLINE_SECONDS * 1000}")
                connection.execute(text.encode()).fetchall()
        except psycopg.Error as error:
            return str(error.sqlstate)
        return "ok"

    def kill_some(self) -> None:
        """Kill one statement after the other, in the order of the list."""
        text = "SELECT id FROM information_schema.process_list WHERE query LIKE '%1000000) a, gen%' LIMIT 1"
        while not self.is_over.wait(0.5):
            with suppress(httpx.HTTPError, KeyError, IndexError):
                found = httpx.post(f"{self.server.url}/v1/sql", data={"sql": text}, timeout=ANSWER_SECONDS).json()
                (statement,) = found["output"][0]["records"]["rows"][0]
                httpx.post(f"{self.server.url}/v1/sql", data={"sql": f"KILL '{statement}'"}, timeout=ANSWER_SECONDS)
                self.answers["killed"] += 1

    def watch_memory(self) -> None:
        while not self.is_over.wait(0.2):
            self.megabytes = max(self.megabytes, megabytes_of(self.server))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("many")
    with hostile_server(directory, deadline_seconds=DEADLINE_SECONDS, workers=WORKERS) as started:
        yield started
        processes = descendants(started.process.pid)
        started.stop()
        wait_until(lambda: not any(Path(f"/proc/{each}").exists() for each in processes))
        assert not list((directory / "data" / "spill").glob("**/*")), "the server left files behind"


def test_many_hostile_statements_at_once_cost_nobody_an_answer(server: ServerProcess) -> None:
    chance = random.Random(SEED)
    print(f"TSDB_FUZZ_SEED={SEED}")
    before = megabytes_of(server)
    for _ in range(ROUNDS):
        load = run_load(server, [chance.choice(FAMILIES)(chance) for _ in range(STATEMENTS)])
        print(f"{load.answers}, MB {before:.0f} -> {load.megabytes:.0f}")
        for name, times in load.times.items():
            print(f"{name}: {times}")
        assert load.lost == []
        assert sum(load.answers.values()) - load.answers["killed"] == STATEMENTS
        check_times(load.times)
        assert load.megabytes - before <= MEGABYTES_MORE
    wait_until(lambda: not running_statements(server))
    wait_until(lambda: len(descendants(server.process.pid)) == WORKERS + 1)
    wait_until(lambda: not spilled_files(server))


def check_times(times: dict[str, Times]) -> None:
    """What the machine takes is what the control does, which answers at once."""
    assert all(each.seconds for each in times.values())
    assert max(times["health"].seconds) <= HEALTH_SECONDS_MAX
    if not IS_LONG:
        return
    for name, most in SECONDS_MAX.items():
        for share in (0.5, 0.99):
            machine = STALLS * times[CONTROL].quantile(share)
            assert times[name].quantile(share) <= most + machine, f"{name}, {share}"


def run_load(server: ServerProcess, texts: list[str]) -> Load:
    load = Load(server)
    shares = [texts[number :: len(CLIENTS)] for number in range(len(CLIENTS))]
    clients = [
        threading.Thread(target=load.send, args=(number, protocol, share), daemon=True)
        for number, (protocol, share) in enumerate(zip(CLIENTS, shares, strict=True))
    ]
    watchers = [threading.Thread(target=each, daemon=True) for each in (load.kill_some, load.watch_memory)]
    latencies = Latencies({"health": f"{server.url}/health", "small": sql_url(server.url, SMALL, patience="60s")})
    try:
        for thread in (*clients, *watchers):
            thread.start()
        for thread in clients:
            thread.join(STATEMENTS * ANSWER_SECONDS)
        load.is_over.set()
        for thread in watchers:
            thread.join(ANSWER_SECONDS * 2)
        load.times = latencies.stop()
    finally:
        latencies.kill()
    load.lost += [f"{name}: {each}" for name, times in load.times.items() for each in times.lost]
    return load


def running_statements(server: ServerProcess) -> list[object]:
    text = "SELECT query FROM information_schema.process_list WHERE query NOT LIKE '%process_list%'"
    answer = httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=ANSWER_SECONDS).json()
    return list(answer["output"][0]["records"]["rows"])


def spilled_files(server: ServerProcess) -> list[Path]:
    home = server.output_file.parent / "data" / "spill"
    return [each for each in home.glob("**/*") if each.is_file()]


def test_a_worker_that_is_killed_costs_one_query_at_most(server: ServerProcess) -> None:
    wait_until(lambda: len(descendants(server.process.pid)) == WORKERS + 1)
    patient = {"x-tsdb-timeout": "60s"}
    codes: Counter[int] = Counter()
    for number in range(20):
        if number in (5, 10):
            workers = [each for parent in children(server.process.pid) for each in children(parent)]
            with suppress(ProcessLookupError, IndexError):  # it may have ended meanwhile
                os.kill(workers[0], signal.SIGKILL)
        answer = httpx.post(f"{server.url}/v1/sql", data={"sql": JOIN}, headers=patient, timeout=ANSWER_SECONDS)
        codes[answer.status_code] += 1
    assert codes[200] >= 18, codes
    wait_until(lambda: len(descendants(server.process.pid)) == WORKERS + 1)
