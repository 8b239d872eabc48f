"""The soak: a server that lives many lives under the writes of every protocol, and must keep each promise.

    start (other options each time) ─▶ compare with the ledgers ─▶ writers and readers ─▶ kill -9 at any moment ─▶ …

Some lives end before the server is ready, so that recovery is interrupted too, and some by SIGTERM. The write buffer
is small, so that flushes, purges of the log and checkpoints of manifests are always under way; `sync_write` is true in
half of the lives. While the server runs, a reader asks by SQL and PromQL for rows that were acknowledged before it
asked, and the memory of the server is measured.
"""

from __future__ import annotations

import random
import re
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.server_process import ServerProcess, spawn
from tests.soak.check import Reader, check_all, check_exactly
from tests.soak.requests import CREATE, NEVER_SEEN, PROTOCOLS, ROWS, Protocol, refused, short_lived, time_of
from tests.soak.writer import Doors, Writer, wait_idle

MEMORY_BYTES_MAX = 1 << 30
"""What the server may take with the options of the soak: a write buffer of at most 64 MB until writes are rejected,
caches of 192 MB, and the rest for the process itself and its queries."""
READY_SECONDS_MAX = 120.0
"""How long a start may take, on a machine that does other things too."""

_STANDALONE = "TSDB_STANDALONE__"
_MITO = f"{_STANDALONE}REGION_ENGINE__0__MITO__"


@dataclass(frozen=True)
class Plan:
    """How long, how often, how fast."""

    seconds: float
    lives_min: int
    """There are so many lives, even if they take longer."""
    life_seconds: tuple[float, float]
    pause_seconds: float
    """Between two requests of a writer."""
    seed: int


@dataclass
class Report:
    """What was seen."""

    lives: int = 0
    killed_while_starting: int = 0
    stopped: int = 0
    rows: int = 0
    requests: int = 0
    doubtful: int = 0
    reads: int = 0
    memory_bytes: int = 0
    ready_seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        slowest = max(self.ready_seconds, default=0.0)
        return (
            f"{self.lives} lives ({self.killed_while_starting} killed while starting, {self.stopped} stopped by "
            f"SIGTERM), {self.requests} requests acknowledged, {self.doubtful} left in doubt, {self.rows} rows, "
            f"{self.reads} reads while writing, memory at most {self.memory_bytes >> 20} MiB, "
            f"ready after at most {slowest:.1f} s"
        )


class Soak:
    """One data directory and everybody who works on it."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        self._directory = directory
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._doors = Doors()
        self._gate = threading.Event()
        self._end = threading.Event()
        self.report = Report()
        named = [(f"{each.name}_{number}", each) for each in PROTOCOLS for number in range(2)]
        pause = plan.pause_seconds
        self._writers = [
            Writer(name, protocol, self._doors, pause_seconds=pause, seed=self._random.randrange(1 << 30))
            for name, protocol in [*named, ("telnet", None)]
        ]
        # Nothing of these is ever seen: rows that have expired when they come, requests that are refused.
        self._unseen = [
            Writer(make.__name__, Protocol(make.__name__, make, ()), self._doors, pause_seconds=pause, seed=0)
            for make in (short_lived, refused)
        ]

    def run(self) -> Report:
        threads = [threading.Thread(target=each.run, args=(self._gate, self._end)) for each in self._everybody]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + self._plan.seconds
        try:
            while time.monotonic() < deadline or self.report.lives < self._plan.lives_min:
                self._live()
            self._finish()
        finally:
            self._end.set()
            for thread in threads:
                thread.join(90)
        self.report.requests = sum(each.ledger.acknowledged for each in self._writers)
        self.report.doubtful = sum(len(each.ledger.doubtful) for each in self._writers)
        return self.report

    @property
    def _everybody(self) -> list[Writer]:
        return [*self._writers, *self._unseen]

    def _start(self) -> ServerProcess:
        return spawn("standalone", self._directory, environment=self._options())

    def _options(self) -> dict[str, str]:
        """Options that a user could have, other ones for each life."""
        choose = self._random.choice
        buffer_kb = choose([256, 1024, 4096, 16_384])
        return {
            f"{_STANDALONE}WAL__SYNC_WRITE": choose(["true", "false"]),
            f"{_STANDALONE}WAL__FILE_SIZE": choose(["256KB", "1MB", "4MB"]),
            f"{_STANDALONE}WAL__PURGE_THRESHOLD": choose(["1MB", "8MB"]),
            f"{_STANDALONE}WAL__PURGE_INTERVAL": "1s",
            f"{_MITO}GLOBAL_WRITE_BUFFER_SIZE": f"{buffer_kb}KB",
            f"{_MITO}GLOBAL_WRITE_BUFFER_REJECT_SIZE": f"{4 * buffer_kb}KB",
            f"{_MITO}SST_META_CACHE_SIZE": "64MB",
            f"{_MITO}VECTOR_CACHE_SIZE": "64MB",
            f"{_MITO}PAGE_CACHE_SIZE": "64MB",
            f"{_MITO}AUTO_FLUSH_INTERVAL": choose(["2s", "30s"]),
            f"{_MITO}MANIFEST_CHECKPOINT_DISTANCE": choose(["2", "10"]),
            f"{_MITO}NUM_WORKERS": choose(["1", "2", "8"]),
        }

    def _live(self) -> None:
        """One life, from start to end."""
        server = self._start()
        self.report.lives += 1
        try:
            if self.report.lives > 1 and self._random.random() < 0.15:
                self.report.killed_while_starting += 1
                self._end.wait(self._random.uniform(0.3, 3.0))
                server.process.kill()
                server.process.wait()
                return
            self._begin(server)
            self._use(server, self._random.uniform(*self._plan.life_seconds))
            if self._random.random() < 0.15:
                self.report.stopped += 1
                server.process.send_signal(signal.SIGTERM)
                server.process.wait(timeout=90)
        finally:
            self._doors.url = self._doors.telnet = None
            server.process.kill()
            server.process.wait()

    def _begin(self, server: ServerProcess) -> None:
        """Wait until the server is ready, compare what it has, let the writers in."""
        started = time.monotonic()
        server.wait_ready(READY_SECONDS_MAX)
        self.report.ready_seconds.append(time.monotonic() - started)
        wait_idle(self._everybody, self._gate)
        reader = Reader(server.url)
        try:
            for statement in CREATE:
                reader.sql(statement)
            self.report.rows = check_all(reader, self._writers)
            self._check_unseen(reader)
        finally:
            reader.close()
        self._measure(server)
        self._doors.url = server.url
        found = re.search(r"^  OpenTSDB +(\S+):(\d+)$", server.output, flags=re.MULTILINE)
        assert found is not None, server.output
        self._doors.telnet = found[1], int(found[2])
        self._gate.set()

    def _use(self, server: ServerProcess, seconds: float) -> None:
        """Read while the writers write."""
        deadline = time.monotonic() + seconds
        reader = Reader(server.url)
        try:
            while (left := deadline - time.monotonic()) > 0:
                self._read(reader, self._random.choice(self._writers))
                self._measure(server)
                for writer in self._everybody:
                    assert writer.fault is None, writer.fault
                assert server.process.poll() is None, f"the server ended by itself:\n{server.output[-4000:]}"
                self._end.wait(min(left, 0.5))
        finally:
            reader.close()

    def _read(self, reader: Reader, writer: Writer) -> None:
        """What was acknowledged before the question is in the answer."""
        promised = writer.ledger.acknowledged * ROWS
        for table in writer.protocol.tables if writer.protocol else ():
            if promised:
                text = f'SELECT count(*) FROM "{table.name}" WHERE "{table.writer}" = \'{writer.name}\''
                ((count,),) = reader.sql(text)
                assert count >= promised, f"{writer.name}: {count} rows of {promised} in {table.name}"
                self.report.reads += 1
        if promised and writer.protocol and writer.protocol.name.startswith("remote_write"):
            expression = f'sum(count_over_time(soak_rw_a{{w="{writer.name}"}}[30d]))'
            samples = reader.promql(expression, time_of(writer.ledger.following * ROWS + 10_000) / 1000)
            assert samples >= promised, f"{writer.name}: {samples} samples of {promised}"
            self.report.reads += 1

    def _check_unseen(self, reader: Reader) -> None:
        """Nothing that expired or was refused may be seen."""
        tables = reader.tables()
        if "soak_ttl" in tables:
            assert reader.sql("SELECT count(*) FROM soak_ttl") == [[0]]
        for table in NEVER_SEEN:
            if table.name in tables:
                rows = reader.sql(f"SELECT count(*) FROM {table.name} WHERE w IN ('refused', 'x')")
                assert rows == [[0]], f"{table.name} has rows of requests that were refused"

    def _measure(self, server: ServerProcess) -> None:
        status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
        self.report.memory_bytes = max(self.report.memory_bytes, int(status.split("VmHWM:")[1].split()[0]) << 10)
        assert self.report.memory_bytes < MEMORY_BYTES_MAX, f"{self.report.memory_bytes >> 20} MiB of memory"

    def _finish(self) -> None:
        """Compare every single row, after a last start."""
        server = self._start()
        try:
            self._begin(server)
            wait_idle(self._everybody, self._gate)
            reader = Reader(server.url)
            try:
                check_all(reader, self._writers)
                self._check_unseen(reader)
                self.report.rows = check_exactly(reader, self._writers)
            finally:
                reader.close()
        except httpx.TransportError as error:
            raise AssertionError(f"the server does not answer: {error!r}\n{server.output[-4000:]}") from error
        finally:
            server.process.kill()
            server.process.wait()
