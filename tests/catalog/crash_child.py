"""The process that dies: lives the life of a catalog, and notes each step that is acknowledged."""

from __future__ import annotations

import os
from pathlib import Path

from tests.catalog.worlds import LIFE, World
from tsdb.store._crash import ENVIRONMENT_VARIABLE, arm_from_environment


def live(root: str, place: str, first: int) -> None:
    """Live from a step on until the process passes `place`."""
    world = World.open(Path(root))
    _arm(place)
    acknowledged = os.open(Path(root) / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for step in LIFE[first:]:
        step(world)
        os.write(acknowledged, b".")


def start(root: str, place: str) -> None:
    """Open what an earlier process left."""
    _arm(place)
    World.open(Path(root))


def acknowledged(root: Path) -> int:
    path = root / "acknowledged"
    return path.stat().st_size if path.exists() else 0


def _arm(place: str) -> None:
    os.environ[ENVIRONMENT_VARIABLE] = place
    arm_from_environment()
