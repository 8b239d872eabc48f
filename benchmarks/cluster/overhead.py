"""What a frontend and two datanodes cost: CPU for each ingested row, and the latency of a point query.

Both have their data on the local disk. The table has two partitions, one on each datanode. CPU is that of all
processes of the database, the metadata server included. A standalone server does the same: both run at the same time
and are asked in turn, since a shared machine has other speeds from one minute to the next.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks import Measurement
from tests.cluster.running import Shape, running_cluster
from tests.server_process import running

HOSTS, TIMES, BODY_ROWS = 1000, 1440, 5000
BODIES_IN_TURN = 4
POINTS_BEFORE, POINTS = 100, 1000
TABLE = (
    "CREATE TABLE cpu (host STRING, ts TIMESTAMP(9) TIME INDEX, user DOUBLE, system DOUBLE, idle DOUBLE, "
    "PRIMARY KEY (host)) "
    "PARTITION ON COLUMNS (host) (host < 'h0500', host >= 'h0500')"
)


def main() -> Iterator[Measurement]:
    with standalone() as (alone, alone_pids), cluster() as (shared, shared_pids):
        systems = [
            System("standalone", httpx.Client(base_url=alone, timeout=120), alone_pids),
            System("frontend and two datanodes", httpx.Client(base_url=shared, timeout=120), shared_pids),
        ]
        for each in systems:
            each.client.post("/v1/sql", data={"sql": TABLE}).raise_for_status()
        yield from ingest(systems)
        for each in systems:
            each.client.post("/v1/sql", data={"sql": "ADMIN flush_table('cpu')"}).raise_for_status()
        yield from ask(systems)


@dataclass(frozen=True)
class System:
    """What is measured."""

    name: str
    client: httpx.Client
    pids: Sequence[int]


@contextmanager
def standalone() -> Iterator[tuple[str, list[int]]]:
    with tempfile.TemporaryDirectory() as directory, running("standalone", Path(directory)) as server:
        yield server.url, [server.process.pid]


@contextmanager
def cluster() -> Iterator[tuple[str, list[int]]]:
    with tempfile.TemporaryDirectory() as directory, running_cluster(Path(directory), Shape(datanodes=2)) as found:
        yield found.url, [node.running.process.pid for node in found.nodes]


def ingest(systems: Sequence[System]) -> Iterator[Measurement]:
    bodies = list(make_bodies())
    seconds = dict.fromkeys((each.name for each in systems), 0.0)
    for start in range(0, len(bodies), BODIES_IN_TURN):
        for each in systems:
            before = cpu_seconds(each.pids)
            for body in bodies[start : start + BODIES_IN_TURN]:
                each.client.post("/v1/influxdb/write", content=body).raise_for_status()
            # The first bodies meet code that has not run before.
            seconds[each.name] += cpu_seconds(each.pids) - before if start else 0
    for name, taken in seconds.items():
        yield Measurement(f"{name}: CPU of ingestion", taken, (len(bodies) - BODIES_IN_TURN) * BODY_ROWS, "rows")


def make_bodies() -> Iterator[bytes]:
    lines: list[str] = []
    for at in range(TIMES):
        for host in range(HOSTS):
            lines.append(f"cpu,host=h{host:04} user={host}.5,system={at}.25,idle={at + host}.5 {at * 10_000_000_000}")
            if len(lines) == BODY_ROWS:
                yield "\n".join(lines).encode()
                lines = []


def ask(systems: Sequence[System]) -> Iterator[Measurement]:
    """A client alone: rows of one host in a short time."""
    taken: dict[str, list[float]] = {each.name: [] for each in systems}
    for at in range(POINTS_BEFORE + POINTS):
        host, since = f"h{at * 7 % HOSTS:04}", at % 200 * 10_000_000_000
        sql = f"SELECT ts, user FROM cpu WHERE host = '{host}' AND ts >= {since} LIMIT 5"
        for each in systems:
            started = time.perf_counter()
            each.client.post("/v1/sql", data={"sql": sql}).raise_for_status()
            taken[each.name].append(time.perf_counter() - started)
    for name, seconds in taken.items():
        yield Measurement(f"{name}: a point query, median", statistics.median(seconds[POINTS_BEFORE:]), 1, "queries")


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time of processes and of the processes below them."""
    ticks = 0
    for pid in descendants(pids):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / 100


def descendants(pids: Sequence[int]) -> list[int]:
    found = list(pids)
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found
