"""What large queries leave with the threads of DataFusion goes back to the system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tsdb.query import QueryEngineOptions
from tsdb.query.planning import Contexts
from tsdb.units import Size

PROGRAM = """
import numpy as np, pyarrow as pa
from datafusion import SessionContext
from tsdb.processes.resident import resident_bytes
from tsdb.query.planning._idle_memory import return_idle_memory

context = SessionContext()
values = np.random.default_rng(1).integers(0, 100, (4, 500_000))
table = pa.table({name: each for name, each in zip("abcd", values)})
context.register_record_batches("t", [table.to_batches(8192)])
context.sql("SELECT count(*) FROM t").collect()
before = resident_bytes()
for _ in range(6):
    context.sql("SELECT a, b, c, d, count(*) FROM t GROUP BY 1, 2, 3, 4 LIMIT 5").collect()
left = resident_bytes() - before
for _ in range(30):
    return_idle_memory(2)
    if resident_bytes() - before < left * 0.6:
        break
print(left >> 20, resident_bytes() - before >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_return_most_of_what_they_have_kept() -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "TOKIO_WORKER_THREADS": "2"},
    )
    left, kept = map(int, process.stdout.split())
    assert left > 30, "otherwise there is nothing to return"
    assert kept < left * 0.6, (left, kept)


@pytest.mark.parametrize(
    ("mib", "reads_remotely", "threads"),
    [(0, False, 32), (64, False, 4), (64, True, 32), (320, False, 10), (4096, False, 32)],
)
def test_with_little_memory_there_are_fewer_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mib: int, reads_remotely: bool, threads: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.delenv("TOKIO_WORKER_THREADS", raising=False)
    options = QueryEngineOptions(
        memory_bytes=Size(mib << 20), spill_dir=tmp_path / "spill", reads_remotely=reads_remotely
    )
    Contexts(options)
    assert os.environ.pop("TOKIO_WORKER_THREADS") == str(threads)
