"""A standalone server whose bucket is in trouble: writes go on into its log until the buffer is full, nothing that was
acknowledged is lost, and everything is in the bucket when that answers again.

The server is a process of its own, and so is the service; between them is one that spoils requests.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.lives import wait_until
from tests.server_process import ServerProcess, spawn
from tests.store.faulty_s3 import Fate, FaultyS3, faulty_s3
from tests.store.services import S3Server

pytestmark = [
    pytest.mark.skipif(os.environ.get("TSDB_OBJECTS") != "all", reason="takes a minute: make objects runs it"),
    pytest.mark.timeout(900),
]
ROWS = 500
"""Of one write."""
ENGINE = "TSDB_STANDALONE__REGION_ENGINE__0__MITO__"
SMALL = {
    f"{ENGINE}GLOBAL_WRITE_BUFFER_SIZE": "400KiB",
    f"{ENGINE}GLOBAL_WRITE_BUFFER_REJECT_SIZE": "800KiB",
    "TSDB_STANDALONE__STORAGE__CACHE_CAPACITY": "0",
}
"""A buffer that is soon full, and no file cache: every read of a file is a request."""
BUSY = (429, 503)
START_SECONDS_MAX = 240
"""A start that is refused has asked several times before, with pauses."""


class World:
    """A server, the service behind it, and what was written."""

    def __init__(self, faults: FaultyS3, service: S3Server, root: str, directory: Path) -> None:
        self.faults = faults
        self._environment = {**service.environment(root, directory / "wal"), **SMALL}
        self._directory = directory
        self.server: ServerProcess
        self.acknowledged: set[int] = set()
        self.sent = 0

    @contextmanager
    def serving(self) -> Iterator[ServerProcess]:
        server = self.server = spawn("standalone", self._directory, environment=self._environment)
        try:
            server.wait_ready(START_SECONDS_MAX)
            yield server
        finally:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()

    def refused_start(self) -> str:
        """Start a server that is going to refuse that, and return what it says."""
        server = spawn("standalone", self._directory, environment=self._environment)
        assert server.process.wait(timeout=START_SECONDS_MAX) == 1
        return server.output

    def sql(self, text: str) -> Any:
        answer = httpx.post(f"{self.server.url}/v1/sql", data={"sql": text}, timeout=120).json()
        assert "output" in answer, (text, answer)
        output = answer["output"][0]
        return output["records"]["rows"] if "records" in output else output["affectedrows"]

    def write(self) -> httpx.Response:
        """Write rows of one host, which no other write has."""
        number, self.sent = self.sent, self.sent + 1
        lines = "\n".join(f"cpu,host=h{number} v={row}i {number * ROWS + row}" for row in range(ROWS))
        answer = httpx.post(f"{self.server.url}/v1/influxdb/write?precision=ms", content=lines, timeout=120)
        if answer.status_code == 204:
            self.acknowledged.add(number)
        return answer

    def fill(self, writes_max: int = 200) -> httpx.Response:
        """Write until that is refused."""
        for _ in range(writes_max):
            answer = self.write()
            if answer.status_code != 204:
                return answer
        raise AssertionError("no write was refused")

    def check(self) -> None:
        """Every write is there as a whole if it was acknowledged, and as a whole or not at all otherwise."""
        found = self.sql("SELECT host, count(*), sum(v) FROM cpu GROUP BY host")
        total = sum(range(ROWS))
        assert [row for row in found if row[1:] != [ROWS, total]] == []
        there = {int(host.removeprefix("h")) for host, *_ in found}
        assert self.acknowledged <= there <= set(range(self.sent))

    def flush(self) -> None:
        self.sql("ADMIN FLUSH_TABLE('cpu')")

    def buffered(self) -> int:
        ((size,),) = self.sql("SELECT sum(memtable_size) FROM information_schema.region_statistics")
        return int(size)


@pytest.fixture
def world(s3_server: S3Server, tmp_path: Path) -> Iterator[World]:
    with faulty_s3(s3_server) as (faults, service):
        yield World(faults, service, s3_server.new_root(), tmp_path)


def begin(world: World) -> None:
    """Have rows in the bucket and in memory."""
    assert world.write().status_code == 204
    world.flush()
    assert world.write().status_code == 204
    world.check()


def check_recovered(world: World) -> None:
    """With the bucket back, all is flushed, and a server reads it there, verified and merged."""
    assert world.write().status_code == 204
    world.flush()
    wait_until(lambda: world.buffered() == 0, 60)
    world.check()
    assert world.server.stop(signal.SIGKILL) != 0
    with world.serving() as server:
        world.check()
        world.sql("ADMIN COMPACT_TABLE('cpu')")
        ((told,),) = world.sql("ADMIN VERIFY_TABLE('cpu')")
        assert told.startswith("ok: ")
        assert ", 0 damaged, " in told
        world.check()
        assert server.stop() == 0
    assert "Traceback" not in server.output


OUTAGES: dict[str, Callable[[FaultyS3], object]] = {
    "500": lambda faults: faults.shares.update({Fate.FAILED: 1.0}),
    "503": lambda faults: faults.shares.update({Fate.SLOW_DOWN: 1.0}),
    "no answer": lambda faults: faults.shares.update({Fate.UNHEARD: 1.0}),
    "a wrong clock": lambda faults: setattr(faults, "clock_ahead", timedelta(hours=1)),
}


@pytest.mark.parametrize("is_killed", [False, True], ids=["goes on", "is killed"])
@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
def test_while_the_bucket_refuses_everything_writes_go_on_until_the_buffer_is_full(
    world: World, outage: Callable[[FaultyS3], object], is_killed: bool
) -> None:
    with world.serving():
        begin(world)
        outage(world.faults)
        refusal = world.fill()
        assert refusal.status_code in BUSY, refusal.text
        assert "buffer" in refusal.text
        assert world.buffered() >= 400 << 10
        if is_killed:
            assert world.server.stop(signal.SIGKILL) != 0
            said = world.refused_start()
            assert "storage default: cannot" in said
            assert "Traceback" not in said
        world.faults.heal()
        if not is_killed:
            # Nobody asks for it: the server finds out by itself.
            wait_until(lambda: world.write().status_code == 204, 120)
            check_recovered(world)
    if is_killed:
        with world.serving():
            check_recovered(world)


TROUBLES: dict[str, Callable[[FaultyS3], object]] = {
    "replies that are lost": lambda faults: faults.shares.update({Fate.LOST: 0.3}),
    "reads that are cut short": lambda faults: faults.shares.update({Fate.CUT: 0.3}),
    "a slow service": lambda faults: setattr(faults, "delay_seconds", 0.3),
    "everything at times": lambda faults: faults.shares.update(
        {Fate.LOST: 0.1, Fate.CUT: 0.1, Fate.FAILED: 0.1, Fate.SLOW_DOWN: 0.1, Fate.UNHEARD: 0.1}
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_a_bucket_in_trouble_makes_nothing_wrong(world: World, trouble: Callable[[FaultyS3], object]) -> None:
    with world.serving():
        begin(world)
        trouble(world.faults)
        for number in range(30):
            world.write()
            if number % 5 == 4:
                query = "SELECT host, count(*), sum(v) FROM cpu GROUP BY host"
                answer = httpx.post(f"{world.server.url}/v1/sql", data={"sql": query}, timeout=120)
                if answer.status_code == 200:
                    world.check()
                else:
                    assert answer.json()["code"] == 5000, answer.text
        assert len(world.acknowledged) > 10
        assert world.server.stop(signal.SIGKILL) != 0
    world.faults.heal()
    with world.serving():
        check_recovered(world)


def test_a_clock_that_is_wrong_is_told_at_the_start(world: World) -> None:
    world.faults.clock_ahead = timedelta(hours=1)
    said = world.refused_start()
    assert "the clock of this machine is wrong (RequestTimeTooSkewed)" in said
    assert "set the clock of this machine, for example with NTP" in said
    assert world.faults.met == {Fate.SKEWED}
