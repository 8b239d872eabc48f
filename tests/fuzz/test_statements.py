"""Hostile statements at random, from several connections, while another asks whether the server is well.

The server answers each of them: with rows, with a refusal that says what is wrong, or at its deadline; an internal
error is a failure. Whatever they ask for, `/health` answers and memory stays bounded. By default some seconds, so that
`make test` has it; `make fuzz` takes twice `TSDB_FUZZ_SECONDS`. The seed is printed; `TSDB_FUZZ_SEED` repeats a run.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen

import httpx
import psycopg
import pymysql
import pytest

from tests.fuzz.hostile_server import hostile_server, megabytes_of
from tests.fuzz.statements import FAMILIES, hostile
from tests.fuzz.test_ports import SECONDS, SEED, _port
from tests.server_process import ServerProcess
from tsdb.errors import WIRE, Status

CLIENTS = {"http": 3, "mysql": 1, "postgres": 1}
DEADLINE_SECONDS = 2
ANSWER_SECONDS = 60.0
"""How long an answer may take on a machine that stands still: the deadline, and what is left of planning."""
INTERNAL_CODES = frozenset({Status.UNKNOWN, Status.UNEXPECTED, Status.INTERNAL, Status.ILLEGAL_STATE})
SLOW_SECONDS = 1.0
SLOW_MAX = 3
"""How many checks of health in a minute may be slow although the machine was not."""
MEGABYTES_MORE = 1024
"""By how much the server and its workers may grow together; memory that they share counts once."""
SETTLE_SECONDS = 60.0
_SHOWN_CHARS = 200
# Prints how much longer than asked each sleep of 50 ms took: what the machine does to a process that does nothing.
_CONTROL = """
import sys, time
while True:
    before = time.monotonic()
    time.sleep(0.05)
    print(time.monotonic() - before - 0.05, flush=True)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with hostile_server(tmp_path_factory.mktemp("statements"), deadline_seconds=DEADLINE_SECONDS) as started:
        yield started
        assert "RecursionError" not in started.output


class Attack:
    """What all threads of a run share."""

    def __init__(self, server: ServerProcess, seconds: float) -> None:
        self.server = server
        self.deadline = time.monotonic() + seconds
        self.answers: Counter[str] = Counter()
        self.unanswered: list[str] = []
        self.internal: list[str] = []
        self.running: dict[str, str] = {}
        self.slow: list[str] = []
        self.stalls: list[float] = []

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.deadline or self.server.process.poll() is not None

    def shown(self) -> list[str]:
        """What runs now, as far as it fits on a screen."""
        return [text[:_SHOWN_CHARS] for text in list(self.running.values())]

    def run(self, name: str) -> None:
        """Send statements over one protocol, one after the other."""
        chance = random.Random(f"{SEED} {name}")
        send = {"http": self._http, "mysql": self._mysql, "postgres": self._postgres}[name.split()[0]]
        while not self.is_over:
            text = hostile(chance)
            self.running[name] = text
            try:
                self.answers[send(text)] += 1
            except httpx.TimeoutException:
                self.unanswered.append(text)
            except httpx.TransportError as error:
                print(f"{error!r} to {text[:_SHOWN_CHARS]}")
                self.answers[type(error).__name__] += 1
            self.running.pop(name)

    def _http(self, text: str) -> str:
        answer = httpx.post(f"{self.server.url}/v1/sql", data={"sql": text}, timeout=ANSWER_SECONDS)
        if answer.status_code >= 500 and answer.json()["code"] in INTERNAL_CODES:
            self.internal.append(f"{answer.text} to {text}")
        return str(answer.status_code)

    def _mysql(self, text: str) -> str:
        address = {"host": "127.0.0.1", "port": _port(self.server, "MySQL"), "user": "me", "database": "public"}
        try:
            with pymysql.connect(**address, read_timeout=ANSWER_SECONDS) as connection, connection.cursor() as cursor:
                cursor.execute(f"SET max_execution_time = {DEADLINE_SECONDS * 1000}")
                cursor.execute(text)
                cursor.fetchmany(10)
        except pymysql.MySQLError as error:
            if error.args[0] == WIRE[Status.INTERNAL].mysql_errno:
                self.internal.append(f"{error} to {text}")
            return f"mysql {error.args[0]}"
        return "mysql ok"

    def _postgres(self, text: str) -> str:
        address = f"host=127.0.0.1 port={_port(self.server, 'Postgres')} user=me dbname=public connect_timeout=30"
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute(f"SET statement_timeout = {DEADLINE_SECONDS * 1000}")
                connection.execute(text.encode()).fetchmany(10)
        except psycopg.Error as error:
            if error.sqlstate is None:
                print(f"{error!r} to {text[:_SHOWN_CHARS]}")
            if error.sqlstate == WIRE[Status.INTERNAL].sqlstate:
                self.internal.append(f"{error} to {text}")
            return f"postgres {error.sqlstate}"
        return "postgres ok"

    def watch_health(self) -> None:
        """Ask for health again and again; an answer is slow if a process that does nothing was not as slow."""
        with Popen([sys.executable, "-c", _CONTROL], stdout=PIPE) as control, httpx.Client(timeout=120) as client:
            assert control.stdout is not None
            reader = threading.Thread(target=self._read_control, args=(control.stdout,), daemon=True)
            reader.start()
            while not self.is_over:
                before, known = time.monotonic(), len(self.stalls)
                with suppress(httpx.TransportError):
                    client.get(f"{self.server.url}/health")
                seconds = time.monotonic() - before
                time.sleep(0.1)
                if seconds > SLOW_SECONDS and seconds > 4 * sum(self.stalls[known:]):
                    self.slow.append(f"{seconds:.1f} s while {self.shown()}")
            control.kill()

    def _read_control(self, lines: Iterator[bytes]) -> None:
        for line in lines:
            self.stalls.append(float(line))


def test_the_same_seed_gives_the_same_statements() -> None:
    one, two = random.Random(7), random.Random(7)
    assert [hostile(one) for _ in range(50)] == [hostile(two) for _ in range(50)]
    assert all(family(random.Random(1)) for family in FAMILIES)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads memory in /proc")
@pytest.mark.timeout(SECONDS * 3 + 300)
def test_hostile_statements_leave_the_server_answering_and_its_memory_bounded(server: ServerProcess) -> None:
    seconds = max(SECONDS * 2, 4.0)
    print(f"TSDB_FUZZ_SEED={SEED}")
    before, peak = megabytes_of(server), 0.0
    attack = Attack(server, seconds)
    names = [f"{protocol} {number}" for protocol, count in CLIENTS.items() for number in range(count)]
    threads = [threading.Thread(target=attack.run, args=(name,), daemon=True) for name in names]
    threads.append(threading.Thread(target=attack.watch_health, daemon=True))
    for thread in threads:
        thread.start()
    while not attack.is_over:
        megabytes = megabytes_of(server)
        if megabytes > max(peak, before + MEGABYTES_MORE):
            print(f"{megabytes:.0f} MB while {attack.shown()}")
        peak = max(peak, megabytes)
        time.sleep(0.2)
    for thread in threads:
        thread.join(ANSWER_SECONDS * 2)
    print(f"{attack.answers}, MB {before:.0f} -> {peak:.0f}, slow: {attack.slow}")
    assert server.process.poll() is None, f"the server has ended, seed {SEED}\n{server.output[-4000:]}"
    assert attack.unanswered == []
    assert attack.internal == [], f"seed {SEED}"
    assert len(attack.slow) <= SLOW_MAX * max(seconds / 60, 1)
    assert peak - before <= MEGABYTES_MORE
    _check_serves_again(server)


def _check_serves_again(server: ServerProcess) -> None:
    """What was given up ends, and queries are answered."""
    deadline = time.monotonic() + SETTLE_SECONDS
    text = "SELECT count(*) FROM t a JOIN t b ON a.k = b.k AND a.ts = b.ts"
    while (answer := httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=60)).status_code != 200:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.5)
