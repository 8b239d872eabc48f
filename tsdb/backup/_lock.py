"""The lock of a destination: one backup or prune at a time, also of several servers.

It is an object with the owner and the time of its last renewal. An owner that was killed renews it no more: after
`EXPIRY` others may take it, and at once if they can see that its process is gone. A process that stood still for that
long finds the lock gone before it publishes anything.
"""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tsdb.backup._errors import BackupFailed, RepositoryInUse
from tsdb.backup._layout import LOCK
from tsdb.backup._repository import Repository
from tsdb.clock import Clock, SystemClock
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.store import ObjectExists, ObjectNotFound, StoreError
from tsdb.telemetry import get_logger
from tsdb.units import Duration

EXPIRY = Duration.of_seconds(120)
RENEW_SECONDS = 20.0
_TOKEN_BYTES = 16

_held: set[str] = set()
"""The tokens of all locks of this process."""

_log = get_logger("tsdb.backup")


class RepositoryLock:
    """Held while something in a destination is written or deleted."""

    def __init__(
        self, repository: Repository, purpose: str, *, clock: Clock | None = None, ids: Ids = SYSTEM_IDS
    ) -> None:
        self._repository = repository
        self._path = repository.path(LOCK)
        self._clock = clock or SystemClock()
        self.token = ids.token(_TOKEN_BYTES)
        """What nobody else's lock holds."""
        self._purpose = purpose
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="tsdb-backup-lock", daemon=True)

    def __enter__(self) -> Self:
        """Take the lock; RepositoryInUse if another process has it."""
        try:
            self._repository.store.put_if_absent(self._path, self._content())
        except ObjectExists:
            self._take_expired()
        _held.add(self.token)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        _held.discard(self.token)
        try:
            if self._is_own():
                self._repository.delete(LOCK)
        except StoreError as failure:
            _log.warning("the lock of a destination was not removed; it expires", path=self._path, error=failure)

    def check(self) -> None:
        """Raise BackupFailed if another process has taken the lock meanwhile."""
        if not self._is_own():
            raise BackupFailed(
                "another process has taken the lock of the destination", place=self._repository.place, hint="try again"
            )

    def _take_expired(self) -> None:
        found = read_lock(self._repository)
        if found is not None:
            age_ms = self._now_ms() - int(found["renewed_ms"])
            if age_ms < EXPIRY // 1_000_000 and not _is_gone(found):
                raise RepositoryInUse(
                    f"a {found['purpose']} of {found['owner']} is using the destination",
                    place=self._repository.place,
                    hint=f"wait until it ends; a lock that is not renewed for {EXPIRY} is void",
                )
            _log.warning("an expired lock of a destination is taken over", owner=found["owner"], age_ms=age_ms)
        self._repository.store.put(self._path, self._content())
        self.check()

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            try:
                if self._is_own():
                    self._repository.store.put(self._path, self._content())
            except StoreError as error:
                _log.warning("the lock of a destination was not renewed", path=self._path, error=error)

    def _is_own(self) -> bool:
        return is_locked_by(self._repository, self.token)

    def _content(self) -> bytes:
        return orjson.dumps(
            {
                "token": self.token,
                "owner": f"{socket.gethostname()}, process {os.getpid()}",
                "purpose": self._purpose,
                "renewed_ms": self._now_ms(),
                "machine": _machine(),
                "process": os.getpid(),
            }
        )

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000


def is_locked_by(repository: Repository, token: str) -> bool:
    """Whether a destination, as this process sees it, has the lock with a token."""
    found = read_lock(repository)
    return found is not None and found["token"] == token


def read_lock(repository: Repository) -> dict[str, Any] | None:
    """Return the owner of the lock of a destination; None if there is none."""
    try:
        found = orjson.loads(repository.store.get(repository.path(LOCK)))
    except ObjectNotFound:
        return None
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not found.keys() >= {"token", "owner", "purpose", "renewed_ms"}:
        return {"token": "", "owner": "an unknown process", "purpose": "change", "renewed_ms": 0}
    return found


def _machine() -> str:
    """Return what processes share that see each other: one boot of a kernel, one namespace; "" if that is unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _is_gone(found: dict[str, Any]) -> bool:
    """Whether the owner of a lock is a process of this machine that has ended."""
    process = found.get("process")
    if not _machine() or found.get("machine") != _machine() or not isinstance(process, int):
        return False
    if process == os.getpid():
        return found["token"] not in _held
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
