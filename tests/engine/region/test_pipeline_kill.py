"""A process with many writes in flight is killed: what was acknowledged is there, and of each writer a prefix."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.engine import lives
from tests.engine.harness import read
from tests.engine.lives import PLAIN, wait_until

LIVES = 3
ACKNOWLEDGED_MIN = 60


def test_nothing_acknowledged_is_lost_by_a_kill_with_groups_in_flight(tmp_path: Path) -> None:
    notes = tmp_path / "acknowledged"
    for life in range(LIVES):
        before = notes.stat().st_size if notes.exists() else 0
        child = subprocess.Popen([sys.executable, "-m", "tests.engine.region.pipeline_child", str(tmp_path), str(life)])
        try:
            wait_until(
                lambda before=before: notes.exists() and notes.stat().st_size > before + 8 * ACKNOWLEDGED_MIN,  # type: ignore[misc]
                seconds=120,
            )
        finally:
            child.kill()
            child.wait()
    engine = lives.open_life(tmp_path)
    assert not engine.quarantined
    there = {(row["host"], row["ts"]) for row in read(engine, PLAIN)}
    engine.close(flush=False)
    # The last line may be torn.
    acknowledged = [line.split() for line in notes.read_text().splitlines(keepends=True) if line.endswith("\n")]
    assert len(acknowledged) >= LIVES * ACKNOWLEDGED_MIN
    assert {(host, int(at)) for host, at in acknowledged} <= there
    for writer in {host for host, _ in there}:
        times = sorted(at for host, at in there if host == writer)
        assert times == list(range(len(times)))
