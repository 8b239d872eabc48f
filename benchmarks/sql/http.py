"""SQL over HTTP, end to end: a server process of its own, asked by one client on one connection.

3.4 M rows of host metrics (4,000 hosts, ten tags, ten fields, every 100 s of a day) are loaded first. A figure is the
median of many requests, with the best of the whole answer for the large one.
"""

from __future__ import annotations

import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np
import pyarrow as pa

import tsdb
from benchmarks import Measurement
from tests.server_process import running

HOSTS = 4000
STEPS = 864
STEP_MS = 100_000
START_MS = 1_700_000_000_000
TAGS = ("hostname", "region", "datacenter", "rack", "os", "arch", "team", "service", "service_version", "environment")
FIELDS = tuple(f"usage_{number}" for number in range(10))
STEPS_PER_BATCH = 12
LARGE_ROWS = 170_000


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        load(directory / "data")
        with running("standalone", directory) as server:
            client = Client(server.url)
            point = (
                "SELECT ts, usage_0, usage_1 FROM cpu WHERE hostname = 'host_1234' "
                f"AND ts >= {START_MS} AND ts < {START_MS + 3_600_000}"
            )
            assert len(client.ask(point)["output"][0]["records"]["rows"]) == 36
            yield client.median("one series, one hour", lambda: client.ask(point), repeats=300)
            groups = (
                "SELECT hostname, date_bin(INTERVAL '1 hour', ts) AS hour, avg(usage_0) FROM cpu "
                f"WHERE ts < {START_MS + 12 * 3_600_000} GROUP BY hostname, hour"
            )
            yield client.median(
                "mean of a field by host and hour, 48,000 groups", lambda: client.ask(groups), repeats=5
            )
            client.ask(
                "CREATE TABLE i (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, a DOUBLE, b DOUBLE, c BIGINT)"
            )
            # Ready-made: encoding a form in Python took the client 7 ms.
            bodies = [urlencode({"sql": insert_text(number)}) for number in range(60)]
            yield client.median(
                "INSERT of 1,000 rows x 5 values",
                lambda: client.post(bodies.pop()),
                repeats=60,
                amount=1000,
                unit="rows",
            )
            large = f"SELECT * FROM cpu LIMIT {LARGE_ROWS}"
            yield client.best("170,000 rows x 21 columns as JSON", lambda: client.send(large), LARGE_ROWS)
            yield client.best("the same as Arrow", lambda: client.send(large, "&format=arrow"), LARGE_ROWS)
            yield client.best("the same as CSV", lambda: client.send(large, "&format=csv"), LARGE_ROWS)


def load(directory: Path) -> None:
    random = np.random.default_rng(1)
    with tsdb.connect(directory) as db:
        tags = {"hostname": [f"host_{number}" for number in range(HOSTS)]}
        for at, tag in enumerate(TAGS[1:]):
            tags[tag] = [f"{tag}_{number % (7 * at + 3)}" for number in range(HOSTS)]
        for step in range(0, STEPS, STEPS_PER_BATCH):
            rows = HOSTS * STEPS_PER_BATCH
            times = START_MS + np.repeat(np.arange(step, step + STEPS_PER_BATCH), HOSTS) * STEP_MS
            columns = {tag: pa.array(values * STEPS_PER_BATCH) for tag, values in tags.items()}
            columns["ts"] = pa.array(times, pa.timestamp("ms"))
            columns |= {field: pa.array((random.random(rows) * 100).round(2)) for field in FIELDS}
            db.write("cpu", pa.table(columns), tags=TAGS)


def insert_text(number: int) -> str:
    rows = [
        f"('host_{row % 100}', {START_MS + number * 1000 + row}, {row / 7:.4f}, {row / 3:.2f}, {row})"
        for row in range(1000)
    ]
    return "INSERT INTO i VALUES " + ", ".join(rows)


class Client:
    """One connection, kept alive."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def send(self, text: str, parameters: str = "") -> bytes:
        return self.post(urlencode({"sql": text}), parameters)

    def post(self, body: str, parameters: str = "") -> bytes:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        self._connection.request("POST", f"/v1/sql?db=public{parameters}", body, headers)
        answer = self._connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data[:500]
        return data

    def ask(self, text: str) -> dict[str, list[dict[str, dict[str, list[object]]]]]:
        answer: dict[str, list[dict[str, dict[str, list[object]]]]] = json.loads(self.send(text))
        return answer

    def median(
        self, what: str, work: Callable[[], object], *, repeats: int, amount: float = 1, unit: str = "answers"
    ) -> Measurement:
        return Measurement(what, statistics.median(times_of(work, repeats)), amount, unit)

    def best(self, what: str, work: Callable[[], object], amount: float) -> Measurement:
        return Measurement(what, min(times_of(work, 7)), amount, "rows")


def times_of(work: Callable[[], object], repeats: int) -> list[float]:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return taken
