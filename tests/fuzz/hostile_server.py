"""A server of 1 GiB with the tables of hostile statements, and the memory that it and its workers take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests import server_process
from tests.components.test_query_workers import descendants
from tests.fuzz.statements import SETUP
from tests.server_process import ServerProcess, running


@contextmanager
def hostile_server(directory: Path, *, deadline_seconds: int, workers: int | None = None) -> Iterator[ServerProcess]:
    environment = {"TSDB_STANDALONE__HTTP__TIMEOUT": f"{deadline_seconds}s"}
    if workers is not None:
        environment["TSDB_STANDALONE__QUERY__WORKERS"] = str(workers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_process, "TSDB", (sys.executable, "-m", "tests.fuzz.small_server"))
        process = running("standalone", directory, environment=environment)
        started = process.__enter__()
    try:
        for text in SETUP:
            patient = {"x-tsdb-timeout": "120s"}
            answer = httpx.post(f"{started.url}/v1/sql", data={"sql": text}, headers=patient, timeout=120)
            assert answer.status_code == 200, answer.text
        yield started
    finally:
        process.__exit__(None, None, None)


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
