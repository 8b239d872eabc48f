"""What workers are forked from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tsdb.processes.fork_server import Forker
from tsdb.servers.fast_workers import _worker


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    forker = Forker(["tsdb.servers.fast_workers", "tsdb.servers.http"])
    yield forker
    forker.close()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may stand still for seconds."""
    monkeypatch.setattr(_worker, "HANGS_SECONDS", 60.0)
