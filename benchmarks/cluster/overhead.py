"""What a frontend and two datanodes cost: CPU for each ingested row, and the latency of a point query.

Both have their data on the local disk. The table has two partitions, one on each datanode. CPU is that of all
processes of the database, the metadata server included.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks import Measurement
from tests.cluster.running import Shape, running_cluster
from tests.server_process import running

HOSTS, TIMES, BODY_ROWS = 1000, 1440, 5000
POINTS = 400
TABLE = (
    "CREATE TABLE cpu (host STRING, ts TIMESTAMP(9) TIME INDEX, user DOUBLE, system DOUBLE, idle DOUBLE, "
    "PRIMARY KEY (host)) "
    "PARTITION ON COLUMNS (host) (host < 'h0500', host >= 'h0500')"
)


def main() -> Iterator[Measurement]:
    for name, serve in (("standalone", standalone), ("frontend and two datanodes", cluster)):
        with serve() as (url, pids), httpx.Client(base_url=url, timeout=120) as client:
            client.post("/v1/sql", data={"sql": TABLE}).raise_for_status()
            yield from ingest(client, pids, name)
            yield from ask(client, name)


@contextmanager
def standalone() -> Iterator[tuple[str, list[int]]]:
    with tempfile.TemporaryDirectory() as directory, running("standalone", Path(directory)) as server:
        yield server.url, [server.process.pid]


@contextmanager
def cluster() -> Iterator[tuple[str, list[int]]]:
    with tempfile.TemporaryDirectory() as directory, running_cluster(Path(directory), Shape(datanodes=2)) as found:
        yield found.url, [node.running.process.pid for node in found.nodes]


def ingest(client: httpx.Client, pids: Sequence[int], name: str) -> Iterator[Measurement]:
    bodies = list(make_bodies())
    for body in bodies[:4]:
        client.post("/v1/influxdb/write", content=body).raise_for_status()
    before = cpu_seconds(pids)
    for body in bodies[4:]:
        client.post("/v1/influxdb/write", content=body).raise_for_status()
    yield Measurement(f"{name}: CPU of ingestion", cpu_seconds(pids) - before, (len(bodies) - 4) * BODY_ROWS, "rows")


def make_bodies() -> Iterator[bytes]:
    lines: list[str] = []
    for at in range(TIMES):
        for host in range(HOSTS):
            lines.append(f"cpu,host=h{host:04} user={host}.5,system={at}.25,idle={at + host}.5 {at * 10_000_000_000}")
            if len(lines) == BODY_ROWS:
                yield "\n".join(lines).encode()
                lines = []


def ask(client: httpx.Client, name: str) -> Iterator[Measurement]:
    """A client alone: rows of one host in a short time."""
    taken = []
    for at in range(POINTS + 50):
        host, since = f"h{at * 7 % HOSTS:04}", at % 200 * 10_000_000_000
        sql = f"SELECT ts, user FROM cpu WHERE host = '{host}' AND ts >= {since} LIMIT 5"
        started = time.perf_counter()
        client.post("/v1/sql", data={"sql": sql}).raise_for_status()
        taken.append(time.perf_counter() - started)
    yield Measurement(f"{name}: a point query, median", statistics.median(taken[50:]), 1, "queries")


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
