"""The process that dies: lives the scripted life, step after step, and notes each one that is acknowledged."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tests.engine import lives
from tsdb.store._crash import ENVIRONMENT_VARIABLE, arm_from_environment
from tsdb.units import Size


def live(root: str, place: str) -> None:
    """Live until the process passes `place`; "" never ends it."""
    _arm(place)
    engine = lives.open_life(Path(root))
    acknowledged = os.open(_promises(Path(root)), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for step in lives.scripted():
        step.run(engine)
        os.write(acknowledged, b".")


def start(root: str, place: str) -> None:
    """Open what an earlier process left, with so little memory that the replay has to flush."""
    _arm(place)
    options = replace(lives.OPTIONS, global_write_buffer_size=Size(1000), global_write_buffer_reject_size=Size(1 << 20))
    engine = lives.open_life(Path(root), options=options)
    lives.settle(engine)


def acknowledged(root: Path) -> int:
    """How many steps were acknowledged."""
    path = _promises(root)
    return path.stat().st_size if path.exists() else 0


def _promises(root: Path) -> Path:
    return root / "acknowledged"


def _arm(place: str) -> None:
    os.environ[ENVIRONMENT_VARIABLE] = place
    arm_from_environment()
