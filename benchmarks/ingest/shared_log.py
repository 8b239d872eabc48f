"""Ingestion with the log in an object store: `acknowledge = "store"` against `"local"` and a log that is not shared.

Eight connections send bodies of line protocol to a server whose storage is S3, by the emulator moto, which runs on the
same machine and takes its share of it. Then one client writes single rows with pauses: what it waits for is one request
to the store and what the server adds to it.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np

from benchmarks import Measurement
from benchmarks.ingest.line import ROWS, make_bodies
from tests.server_process import ServerProcess, running
from tests.store.services import S3Server, running_s3

CONNECTIONS = 8
BODIES = 96
WARM = 8
SPARSE = 30
PAUSE_SECONDS = 0.15
_SHARED = "TSDB_STANDALONE__WAL__SHARED__"


def main() -> Iterator[Measurement]:
    bodies = make_bodies(BODIES + WARM)
    with running_s3() as s3:
        for acknowledge in ("none", "local", "store"):
            yield from ingest(s3, bodies, acknowledge)


def ingest(s3: S3Server, bodies: list[bytes], acknowledge: str) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as directory:
        environment = s3.environment(s3.new_root(), Path(directory) / "wal")
        if acknowledge != "none":
            environment |= {f"{_SHARED}ENABLE": "true", f"{_SHARED}ACKNOWLEDGE": acknowledge}
        with running("standalone", Path(directory), environment=environment) as server:
            send_all(server, bodies[:WARM])
            started = time.perf_counter()
            send_all(server, bodies[WARM:])
            seconds = time.perf_counter() - started
            yield Measurement(f"{CONNECTIONS} connections, acknowledge = {acknowledge}", seconds, BODIES * ROWS, "rows")
            waited, puts = sparse(server)
            print(
                f"  {acknowledge}: a single row after {np.median(waited) * 1e3:.1f} ms (median), "
                f"requests of the log took {puts * 1e3:.1f} ms on average"
            )


def send_all(server: ServerProcess, bodies: list[bytes]) -> None:
    queue = iter(bodies)
    lock = threading.Lock()

    def work() -> None:
        with httpx.Client(timeout=120) as client:
            while True:
                with lock:
                    body = next(queue, None)
                if body is None:
                    return
                client.post(f"{server.url}/v1/influxdb/write", content=body).raise_for_status()

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def sparse(server: ServerProcess) -> tuple[list[float], float]:
    """Write single rows, one at a time; return what each took, and what requests to the store took meanwhile."""
    before = put_seconds(server)
    waited = []
    with httpx.Client(timeout=60) as client:
        for number in range(SPARSE):
            time.sleep(PAUSE_SECONDS)
            started = time.perf_counter()
            client.post(f"{server.url}/v1/influxdb/write", content=f"one v={number} {number + 1}").raise_for_status()
            waited.append(time.perf_counter() - started)
    count, seconds = (after - then for after, then in zip(put_seconds(server), before, strict=True))
    return waited, seconds / count if count else 0.0


def put_seconds(server: ServerProcess) -> tuple[float, float]:
    """How many objects of the log were stored, and the time that took."""
    text = server.get("/metrics").text
    found = [re.search(rf"^tsdb_wal_shared_put_seconds_{what} (\S+)", text, re.MULTILINE) for what in ("count", "sum")]
    count, total = (float(each[1]) if each else 0.0 for each in found)
    return count, total
