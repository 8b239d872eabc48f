"""Pausing schema changes for a moment, for a backup of the cluster.

    hold ─▶ earlier changes complete ─▶ held, at a revision of the metadata ─▶ release, or timeout

A hold takes its turn in the queue of changes, so that none is in progress while it lasts. It expires, because the
requester may have died. `release` returns whether it lasted until then, under the same leader; otherwise tables may
have changed, and the captured state is unusable.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tsdb.catalog import Catalog
from tsdb.errors import Busy, DeadlineExceeded, InvalidArguments
from tsdb.meta._leader_kv import LeaderKv
from tsdb.meta._procedures import Procedures

HOLD_SECONDS_MAX = 20.0
HOLDS_MAX = 8
"""How many may be held or wait for their turn."""
_LOOK_SECONDS = 0.5
_TOKEN = re.compile(r"[0-9a-f]{16,64}")


@dataclass(slots=True)
class _Hold:
    revision: int | None = None
    is_over: bool = False
    released: threading.Event = field(default_factory=threading.Event)


class TableHolds:
    """The holds of one leadership."""

    def __init__(
        self,
        procedures: Procedures,
        kv: LeaderKv,
        recovered: Callable[[], Catalog],
        stopped: threading.Event,
        *,
        seconds_max: float = HOLD_SECONDS_MAX,
    ) -> None:
        """`recovered` waits for the catalog; LeadershipLost if there will be none."""
        self._procedures = procedures
        self._kv = kv
        self._recovered = recovered
        self._stopped = stopped
        self._seconds_max = seconds_max
        self._lock = threading.Lock()
        self._holds: dict[str, _Hold] = {}

    def hold(self, token: str) -> int | None:
        """Let a hold have its turn; return the revision of the metadata from when on it holds, None until then."""
        if _TOKEN.fullmatch(token) is None:
            raise InvalidArguments("a hold is called by 16 to 64 hexadecimal digits", token=token)
        with self._lock:
            found = self._holds.get(token)
            if found is not None:
                return found.revision
            if self._procedures.find(_procedure(token)) is not None:
                raise DeadlineExceeded(f"the hold is over: it lasts {self._seconds_max:g} s at most", token=token)
            if len(self._holds) >= HOLDS_MAX:
                raise Busy(f"{HOLDS_MAX} backups already block schema changes", hint="try again later")
            hold = self._holds[token] = _Hold()
        try:
            self._procedures.submit(_procedure(token), "hold_tables", "backup", lambda: self._keep(token, hold))
        except BaseException:
            self._forget(token)
            raise
        return hold.revision

    def release(self, token: str) -> bool:
        """End a hold; return whether no table can have changed since it began."""
        hold = self._forget(token)
        if hold is None:
            return False
        try:
            # A server that does not lead any more holds nobody back.
            self._kv.transact([], [])
            return hold.revision is not None and not hold.is_over
        finally:
            hold.released.set()

    def _keep(self, token: str, hold: _Hold) -> None:
        try:
            with self._recovered().held():
                if hold.released.is_set():
                    return
                self._kv.transact([], [])
                hold.revision = self._kv.version()
                waited = 0.0
                while waited < self._seconds_max and not self._stopped.is_set():
                    if hold.released.wait(_LOOK_SECONDS):
                        return
                    waited += _LOOK_SECONDS
                # Before changes go on.
                hold.is_over = True
        finally:
            hold.is_over = hold.is_over or hold.revision is None
            self._forget(token)

    def _forget(self, token: str) -> _Hold | None:
        with self._lock:
            return self._holds.pop(token, None)


def _procedure(token: str) -> str:
    return f"hold-{token}"
