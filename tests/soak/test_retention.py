"""Ingestion, deletes, retention, changes of tables and queries: results stay right, files and memory bounded.

`TSDB_SOAK_MINUTES` makes it long. From ten minutes on, memory must be flat and nobody may wait, except for the machine:
what a control beside the server waits for as well does not count.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

import pytest

from tests.server_process import running
from tests.soak.check import Reader
from tests.soak.control import watching
from tests.soak.crowd import resident_mb
from tests.soak.retention import Life

MINUTES = float(os.environ.get("TSDB_SOAK_MINUTES", "0"))
SEED = int(os.environ.get("TSDB_SOAK_SEED", "1"))
ENGINE = "TSDB_STANDALONE__REGION_ENGINE__0__MITO"
SMALL = {
    **{f"{ENGINE}__{name}_CACHE_SIZE": "32MB" for name in ("SST_META", "VECTOR", "PAGE")},
    f"{ENGINE}__AUTO_FLUSH_INTERVAL": "5s",
}
FILES_MAX = 100
"""Of one region: what has expired is removed, and what is old is compacted."""
LONG_MINUTES = 10.0
WARM_UP_SECONDS = 240.0
"""After which as many rows go as come."""
GROWTH_MAX = 1.1
"""What memory may grow by from the first half of the time after that to the second."""
STALL_SECONDS_MAX = 2.0
"""In which nobody gets an answer, without what the machine stood still."""
COMPACTIONS = "SELECT state, count(*) FROM information_schema.compaction_history GROUP BY 1"


@pytest.mark.timeout(300 + 2 * 60 * MINUTES)
def test_tables_that_live_long(tmp_path: Path) -> None:
    with running("standalone", tmp_path, environment=SMALL) as server, watching() as control:
        life, memory, files = Life(server.url, SEED), list[int](), list[int]()
        reader, started = Reader(server.url), time.monotonic()

        def watch() -> None:
            memory.append(resident_mb(server.process.pid))
            counts = reader.sql("SELECT sst_num FROM information_schema.region_statistics")
            files.append(max((count for (count,) in counts), default=0))

        life.run(60 * MINUTES or 8.0, watch)
        compactions = dict(map(tuple, reader.sql(COMPACTIONS)))
        reader.close()
        assert server.process.poll() is None
        assert "Traceback" not in server.output
    stalls = [(end - start, end - start - control.still_within((start, end))) for start, end in life.stalls]
    still = control.still_within((started, time.monotonic()))
    print(
        dict(life.done),
        "stalls over a second, and without what the machine stood still:",
        [(round(seconds, 2), round(own, 2)) for seconds, own in stalls],
        f"the machine stood still for {still:.0f} s; slowest",
        {kind: round(seconds, 2) for kind, seconds in life.slowest.items()},
        f"memory={memory[:: len(memory) // 12 or 1]} MB, files at most {max(files)}, {compactions}",
    )
    assert "failure" not in compactions
    assert all(life.done[kind] for kind in ("write", "delete", "ask_kept", "ask_expiring", "alter", "ask_changing"))
    assert max(files) <= FILES_MAX
    if MINUTES >= LONG_MINUTES:
        assert max((own for _, own in stalls), default=0.0) <= STALL_SECONDS_MAX
        warm = memory[int(len(memory) * WARM_UP_SECONDS / (60 * MINUTES)) :]
        half = len(warm) // 2
        assert median(warm[half:]) <= GROWTH_MAX * median(warm[:half])
