"""How many requests to the object store a flush and a compaction need; docs/cluster.md computes their cost with them.

A server with its files in S3, by moto, and a log of its own on the local disk: all requests are those of data files.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks import Measurement
from tests.server_process import running
from tests.store.services import running_s3

REGIONS, FLUSHES = 10, 4
TABLE = "CREATE TABLE t{0} (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host))"
REQUESTS = "SELECT purpose, operation, sum(requests) FROM information_schema.storage_requests GROUP BY 1, 2"


def main() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as name, running_s3() as s3:
        environment = s3.environment(s3.new_root(), Path(name) / "wal")
        with (
            running("standalone", Path(name), environment=environment) as server,
            httpx.Client(base_url=server.url, timeout=120) as client,
        ):
            for number in range(REGIONS):
                ask(client, TABLE.format(number))
            for at in range(FLUSHES):
                for number in range(REGIONS):
                    rows = ", ".join(f"('h{host}', {at * 1000 + host}, 1)" for host in range(100))
                    ask(client, f"INSERT INTO t{number} VALUES {rows}")
                yield measured(client, f"flushes, number {at + 1}", "flush_table")
            yield measured(client, f"compactions of {FLUSHES} files", "compact_table")


def measured(client: httpx.Client, what: str, function: str) -> Measurement:
    """Do something with each table, and print the requests of one."""
    before, started = requests(client), time.perf_counter()
    for number in range(REGIONS):
        ask(client, f"ADMIN {function}('t{number}')")
    seconds = time.perf_counter() - started
    found = requests(client) - before
    shown = ", ".join(f"{count / REGIONS:g} {operation} ({purpose})" for (purpose, operation), count in found.items())
    print(f"  {what}: each {shown}")
    return Measurement(what, seconds, REGIONS, "regions")


def requests(client: httpx.Client) -> Counter[tuple[str, str]]:
    """All requests until now, by purpose and operation."""
    return Counter({(purpose, operation): count for purpose, operation, count in ask(client, REQUESTS)})


def ask(client: httpx.Client, text: str) -> list[list[object]]:
    answer = client.post("/v1/sql", data={"sql": text}).raise_for_status().json()
    output = answer["output"][0]
    return output["records"]["rows"] if "records" in output else []
