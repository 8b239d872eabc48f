"""Workers that many tests share: starting the process that they are forked from takes a second."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tsdb.query import _planner
from tsdb.query.planning import Job
from tsdb.query.workers import WorkerOptions, Workers
from tsdb.units import Size


class Shared:
    """A pool that outlives the databases that use it."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workers, name)

    def close(self) -> None:
        """Others use it."""


@cache
def shared_workers() -> Shared:
    spill_dir = Path(tempfile.mkdtemp(prefix="tsdb-workers-"))
    return Shared(Workers(2, WorkerOptions(Size(1 << 30), spill_dir, 2)))


def use_shared_workers(patch: pytest.MonkeyPatch, *, for_all: bool = False) -> None:
    """Let databases that are opened with workers have the shared ones; for all planned queries if so."""
    patch.setattr(_planner, "_workers", lambda _: shared_workers())
    if for_all:
        patch.setattr(Job, "is_harmless", property(lambda _: False))
