"""A server of at most 1 GiB with the tables of hostile statements, and the memory that it and its workers take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.components.test_query_workers import descendants
from tests.fuzz.statements import SETUP
from tests.server_process import ServerProcess, running


@contextmanager
def hostile_server(directory: Path, *, deadline_seconds: int, workers: int | None = None) -> Iterator[ServerProcess]:
    environment = {
        "TSDB_STANDALONE__HTTP__TIMEOUT": f"{deadline_seconds}s",
        "TSDB_STANDALONE__MEMORY__LIMIT": "1GB",
    }
    if workers is not None:
        environment["TSDB_STANDALONE__QUERY__WORKERS"] = str(workers)
    with running("standalone", directory, environment=environment) as server:
        for text in SETUP:
            patient = {"x-tsdb-timeout": "120s"}
            answer = httpx.post(f"{server.url}/v1/sql", data={"sql": text}, headers=patient, timeout=120)
            assert answer.status_code == 200, answer.text
        yield server


def megabytes_of(server: ServerProcess) -> float:
    """Return the memory of the server and its workers: of pages that several have, each has its share."""
    processes = [server.process.pid, *descendants(server.process.pid)]
    return sum(proportional_kilobytes(each) for each in processes) / 1024


def proportional_kilobytes(process: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
