"""Every protocol at once, on a server that is killed again and again: nothing that was acknowledged is lost.

`TSDB_SOAK_MINUTES` makes it long, `TSDB_SOAK_SEED` makes it go another way.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.soak.drive import Plan, Soak

MINUTES = float(os.environ.get("TSDB_SOAK_MINUTES", "0"))
SEED = int(os.environ.get("TSDB_SOAK_SEED", "1"))
SHORT = Plan(seconds=10, lives_min=3, life_seconds=(2.0, 4.0), pause_seconds=0.05, seed=SEED)


def make_plan() -> Plan:
    if not MINUTES:
        return SHORT
    return Plan(seconds=60 * MINUTES, lives_min=3, life_seconds=(3.0, 150.0), pause_seconds=0.5, seed=SEED)


@pytest.mark.timeout(300 + 2 * 60 * MINUTES)
def test_what_was_acknowledged_by_any_protocol_survives_every_kill(tmp_path: Path) -> None:
    report = Soak(tmp_path, make_plan()).run()
    print(report)
    assert report.lives >= 3
    assert report.rows > 0
    assert report.reads > 0
