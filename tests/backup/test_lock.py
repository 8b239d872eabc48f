"""One backup or prune at a time in a destination, by any server or command."""

from __future__ import annotations

import subprocess
import sys

import orjson
import pytest

from tsdb.backup import BackupFailed, Repository, RepositoryLock
from tsdb.backup._errors import RepositoryInUse
from tsdb.backup._lock import EXPIRY
from tsdb.clock import ManualClock
from tsdb.store import MemoryStore


def _renew_as(repository: Repository, **changes: object) -> None:
    """Let the lock look as if another process had it."""
    found = orjson.loads(repository.store.get("lock"))
    repository.store.put("lock", orjson.dumps({**found, **changes}))


def test_a_lock_is_taken_once_and_again_after_its_end() -> None:
    repository = Repository(MemoryStore())
    with (
        RepositoryLock(repository, "backup"),
        pytest.raises(RepositoryInUse, match="a backup of"),
        RepositoryLock(repository, "prune"),
    ):
        pass
    with RepositoryLock(repository, "prune") as lock:
        lock.check()
    assert list(repository.store.list("")) == []


def test_a_lock_that_is_not_renewed_expires_and_its_owner_notices() -> None:
    repository, clock = Repository(MemoryStore()), ManualClock(10**18)
    with RepositoryLock(repository, "backup", clock=clock) as first:
        clock.advance(seconds=EXPIRY.seconds + 1)
        with RepositoryLock(repository, "prune", clock=clock) as second:
            with pytest.raises(BackupFailed, match="has taken the lock"):
                first.check()
            second.check()


def test_the_lock_of_a_process_that_has_ended_is_void() -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    repository = Repository(MemoryStore())
    with RepositoryLock(repository, "backup"):
        _renew_as(repository, token="other", process=int(ended.stdout))
        with RepositoryLock(repository, "prune"):
            pass


def test_the_lock_of_a_process_of_another_machine_is_kept() -> None:
    repository = Repository(MemoryStore())
    with RepositoryLock(repository, "backup"):
        _renew_as(repository, token="other", process=1 << 30, machine="elsewhere")
        with pytest.raises(RepositoryInUse), RepositoryLock(repository, "prune"):
            pass
