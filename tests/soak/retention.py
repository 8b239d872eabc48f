"""Tables that live for a long time, in short: rows come, are deleted and expire, and the tables change meanwhile.

Each client has a host of its own in each table and knows exactly which rows it should see. Other clients write to the
same files at the same time; flushes, compactions and the removal of expired files go on below.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import numpy as np

from tests.soak.check import Reader
from tests.soak.control import Span

CLIENTS = 6
ROWS = 300
"""Of each write."""
TTL_SECONDS = 60
SLACK_MS = 3000
"""What is so close to the age of its end is not asked for: the clock of the server runs on."""
PAST_MS = 200 * 1000
"""How far back rows that are kept reach."""
STALL_SECONDS_MIN = 1.0
TABLES = (
    f"CREATE TABLE expiring (host STRING, ts TIMESTAMP TIME INDEX, v BIGINT, PRIMARY KEY (host))"
    f" WITH (ttl = '{TTL_SECONDS}s', 'compaction.twcs.time_window' = '20s')",
    "CREATE TABLE kept (host STRING, ts TIMESTAMP TIME INDEX, v BIGINT, PRIMARY KEY (host))",
    "CREATE TABLE changing (host STRING, ts TIMESTAMP TIME INDEX, v BIGINT, PRIMARY KEY (host))",
)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Life:
    """What all clients did and saw."""

    url: str
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    """How long the slowest answer of each kind took, in seconds."""
    stalls: list[Span] = field(default_factory=list)
    """Times of more than a second in which nobody got an answer."""
    failures: list[AssertionError | httpx.HTTPError] = field(default_factory=list)

    def run(self, seconds: float, watch: Callable[[], None]) -> None:
        """Let everybody work for so long; `watch` is called every few seconds."""
        reader = Reader(self.url)
        for statement in TABLES:
            reader.sql(statement)
        reader.close()
        self._lock = threading.Lock()
        self._answered = time.monotonic()
        self._until = self._answered + seconds
        clients: list[Client] = [
            *(Client(self, number) for number in range(CLIENTS)),
            *(Changer(self, number) for number in range(CLIENTS, CLIENTS + 2)),
        ]
        threads = [threading.Thread(target=self._live, args=(client,), daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        while time.monotonic() < self._until and not self.failures:
            watch()
            time.sleep(min(2.0, seconds / 4))
        for thread in threads:
            thread.join(300)
        if self.failures:
            raise self.failures[0]

    def _live(self, client: Client) -> None:
        try:
            while time.monotonic() < self._until and not self.failures:
                client.step()
        except (AssertionError, httpx.HTTPError) as error:
            self.failures.append(error)
        finally:
            client.close()

    def note(self, kind: str, started: float) -> None:
        now = time.monotonic()
        with self._lock:
            self.done[kind] += 1
            self.slowest[kind] = max(self.slowest.get(kind, 0.0), now - started)
            if now - self._answered > STALL_SECONDS_MIN:
                self.stalls.append((self._answered, now))
            self._answered = now


class Client:
    """Writes, deletes and asks; one request at a time."""

    def __init__(self, life: Life, number: int) -> None:
        self.host = f"h{number}"
        self._life = life
        self._chance = random.Random(life.seed * 1000 + number)
        self._reader = Reader(life.url)
        self._writer = httpx.Client(base_url=life.url, timeout=120, trust_env=False)
        self._kept: dict[int, int] = {}
        self._expiring: dict[int, int] = {}
        self._steps = [
            *3 * [self._write],
            *2 * [self._ask_expiring],
            *2 * [self._ask_kept],
            self._delete,
            self._ask_all,
        ]

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def step(self) -> None:
        act = self._chance.choice(self._steps)
        started = time.monotonic()
        act()
        self._life.note(act.__name__.lstrip("_"), started)

    def _write(self) -> None:
        """The same rows to two tables; some of them again, with another value."""
        start = now_ms() - self._chance.randrange(20_000)
        rows = {start + 7 * each: self._chance.randrange(1000) for each in range(ROWS)}
        lines = [
            f"{table},host={self.host} v={value}i {at}" for table in ("expiring", "kept") for at, value in rows.items()
        ]
        self._send(lines)
        self._expiring |= rows
        self._kept |= rows
        oldest = now_ms() - 2 * TTL_SECONDS * 1000
        if len(self._expiring) > 20 * ROWS:
            self._expiring = {at: value for at, value in self._expiring.items() if at > oldest}

    def _send(self, lines: list[str]) -> None:
        answer = self._writer.post("/v1/influxdb/write?db=public&precision=ms", content="\n".join(lines))
        assert answer.status_code == 204, answer.text

    def _delete(self) -> None:
        """Delete everything that is old, and some of what is not."""
        oldest = now_ms() - PAST_MS
        start = now_ms() - self._chance.randrange(60_000)
        end = start + self._chance.randrange(1, 2000)
        self._reader.sql(
            f"DELETE FROM kept WHERE host = '{self.host}' AND (ts < {oldest}::TIMESTAMP_MS"
            f" OR (ts >= {start}::TIMESTAMP_MS AND ts < {end}::TIMESTAMP_MS))"
        )
        self._kept = {at: value for at, value in self._kept.items() if at >= oldest and not start <= at < end}

    def _ask_kept(self) -> None:
        start = now_ms() - self._chance.randrange(2 * PAST_MS)
        end = start + self._chance.randrange(1, PAST_MS)
        self._check("kept", self._kept, start, end)

    def _ask_expiring(self) -> None:
        """What is not expired is there, what is expired is not."""
        expired = now_ms() - TTL_SECONDS * 1000
        gone = self._reader.sql(
            f"SELECT count(*) FROM expiring WHERE host = '{self.host}' AND ts < {expired}::TIMESTAMP_MS"
        )
        assert gone == [[0]], f"{gone} rows of {self.host} are there that have expired"
        start = expired + SLACK_MS + self._chance.randrange(TTL_SECONDS * 900)
        self._check("expiring", self._expiring, start, start + self._chance.randrange(1, TTL_SECONDS * 1000))

    def _ask_all(self) -> None:
        """Something large, that a worker process plans and runs."""
        rows = self._reader.sql(
            "SELECT a.host, count(*) FROM kept a JOIN (SELECT DISTINCT host FROM kept) b ON a.host = b.host GROUP BY 1"
        )
        found = dict(map(tuple, rows))
        assert found.get(self.host, 0) == len(self._kept), (self.host, found, len(self._kept))

    def _check(self, table: str, rows: dict[int, int], start: int, end: int) -> None:
        times = np.fromiter(rows.keys(), dtype=np.int64, count=len(rows))
        values = np.fromiter(rows.values(), dtype=np.int64, count=len(rows))[(times >= start) & (times < end)]
        expected = [len(values), *((int(values.sum()), int(values.max())) if len(values) else (None, None))]
        (found,) = self._reader.sql(
            f"SELECT count(*), sum(v), max(v) FROM {table} WHERE host = '{self.host}'"
            f" AND ts >= {start}::TIMESTAMP_MS AND ts < {end}::TIMESTAMP_MS"
        )
        assert found == expected, f"{table} of {self.host} from {start} to {end}: {found}, expected {expected}"


class Changer(Client):
    """Changes a table again and again, and sees what it wrote by the definition of the moment."""

    def __init__(self, life: Life, number: int) -> None:
        super().__init__(life, number)
        self._column = f"c{number}"
        self._has_column = False
        self._rows: dict[int, int] = {}
        self._steps = [*4 * [self._write_changing], self._alter, *3 * [self._ask_changing]]
        if number == CLIENTS:
            self._steps.append(self._retain)

    def _write_changing(self) -> None:
        start = now_ms() - self._chance.randrange(5000)
        rows = {start + 11 * each: self._chance.randrange(1000) for each in range(ROWS)}
        self._send([f"changing,host={self.host} v={value}i {at}" for at, value in rows.items()])
        oldest = now_ms() - 100_000
        self._rows = {at: value for at, value in (self._rows | rows).items() if at > oldest}

    def _alter(self) -> None:
        if self._has_column:
            self._reader.sql(f"ALTER TABLE changing DROP COLUMN {self._column}")
        else:
            self._reader.sql(f"ALTER TABLE changing ADD COLUMN {self._column} BIGINT DEFAULT 7")
        self._has_column = not self._has_column

    def _retain(self) -> None:
        """A shorter TTL takes effect at once; then it is longer again, and nobody needs what is gone."""
        seconds = self._chance.choice([90, 120, 150])
        self._reader.sql(f"ALTER TABLE changing SET 'ttl' = '{seconds}s'")
        expired = now_ms() - seconds * 1000
        (gone,) = self._reader.sql(f"SELECT count(*) FROM changing WHERE ts < {expired}::TIMESTAMP_MS")
        assert gone == [0], f"{gone} rows are there that have expired"

    def _ask_changing(self) -> None:
        start = now_ms() - 80_000
        self._check("changing", self._rows, start, now_ms() + 10_000)
        if self._has_column:
            text = f"SELECT count(*), sum({self._column}) FROM changing WHERE host = '{self.host}'"
            ((rows, total),) = self._reader.sql(f"{text} AND ts >= {start}::TIMESTAMP_MS")
            assert (total or 0) == 7 * rows, (rows, total)
