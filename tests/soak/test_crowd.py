"""Sixty-four connections that ask, four that write and four that leave: every answer is right, and memory stays flat.

`TSDB_SOAK_MINUTES` makes it long; then two seconds never pass in which nobody gets an answer, beyond what the machine
stands still.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from statistics import median

import pytest

from tests.server_process import running
from tests.soak.control import watching
from tests.soak.crowd import Crowd, resident_mb

MINUTES = float(os.environ.get("TSDB_SOAK_MINUTES", "0"))
SEED = int(os.environ.get("TSDB_SOAK_SEED", "1"))
SMALL_CACHES = {
    f"TSDB_STANDALONE__REGION_ENGINE__0__MITO__{name}_CACHE_SIZE": "32MB" for name in ("SST_META", "VECTOR", "PAGE")
}
"""They are full before the first quarter of the time is over: the data grows, and what is kept of it does not."""
GROWTH_MAX = 1.3
"""What memory may grow by between the second quarter of the time and the last."""
STALL_SECONDS_MAX = 2.0


@pytest.mark.timeout(300 + 2 * 60 * MINUTES)
def test_a_crowd_gets_right_answers(tmp_path: Path) -> None:
    with running("standalone", tmp_path, environment=SMALL_CACHES) as server, watching() as control:
        crowd, memory = Crowd(server.url, SEED), list[int]()
        asyncio.run(crowd.run(60 * MINUTES or 6.0, lambda: memory.append(resident_mb(server.process.pid))))
        asyncio.run(crowd.check_all())
        assert server.process.poll() is None
        assert "Traceback" not in server.output
    stalls = [end - start - control.still_within((start, end)) for start, end in crowd.stalls]
    print(
        dict(crowd.answers),
        f"left={crowd.left} stalls {[round(end - start, 2) for start, end in crowd.stalls]} s, of the server alone",
        [round(seconds, 2) for seconds in stalls],
        "slowest",
        {kind: round(seconds, 2) for kind, seconds in crowd.slowest.items()},
        f"memory={memory[:: len(memory) // 8 or 1]} MB",
    )
    assert all(crowd.answers[kind] for kind in ("count", "minutes", "last", "promql", "join", "write"))
    if MINUTES:
        quarter = len(memory) // 4
        assert max(stalls, default=0.0) <= STALL_SECONDS_MAX
        assert median(memory[-quarter:]) <= GROWTH_MAX * median(memory[quarter : 2 * quarter])
