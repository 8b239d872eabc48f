"""Ingestion, deletes, retention, changes of tables and queries: results stay right, files and memory bounded.

`TSDB_SOAK_MINUTES` makes it long.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import pytest

from tests.server_process import running
from tests.soak.check import Reader
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
GROWTH_MAX = 1.3
"""What memory may grow by between the second quarter of the time and the last."""
STALL_SECONDS_MAX = 15.0
"""In which nobody gets an answer; a machine that has nothing else to do needs none. It is printed."""
COMPACTIONS = "SELECT state, count(*) FROM information_schema.compaction_history GROUP BY 1"


@pytest.mark.timeout(300 + 2 * 60 * MINUTES)
def test_tables_that_live_long(tmp_path: Path) -> None:
    with running("standalone", tmp_path, environment=SMALL) as server:
        life, memory, files = Life(server.url, SEED), list[int](), list[int]()
        reader = Reader(server.url)

        def watch() -> None:
            memory.append(resident_mb(server.process.pid))
            counts = reader.sql("SELECT sst_num FROM information_schema.region_statistics")
            files.append(max((count for (count,) in counts), default=0))

        life.run(60 * MINUTES or 8.0, watch)
        compactions = dict(map(tuple, reader.sql(COMPACTIONS)))
        reader.close()
        assert server.process.poll() is None
        assert "Traceback" not in server.output
    print(
        dict(life.done),
        f"stall={life.stall_seconds:.2f} s slowest",
        {kind: round(seconds, 2) for kind, seconds in life.slowest.items()},
        f"memory={memory[:: len(memory) // 12 or 1]} MB, files at most {max(files)}, {compactions}",
    )
    assert "failure" not in compactions
    assert all(life.done[kind] for kind in ("write", "delete", "ask_kept", "ask_expiring", "alter", "ask_changing"))
    assert max(files) <= FILES_MAX
    if MINUTES:
        quarter = len(memory) // 4
        assert median(memory[-quarter:]) <= GROWTH_MAX * median(memory[quarter : 2 * quarter])
        assert life.stall_seconds <= STALL_SECONDS_MAX
