"""Leases as their holder sees them, the same for every store.

A lease has a thread that renews it three times in its time to live. Whether it is alive is decided by the local
monotonic clock alone: a process that stood still sees at once, when it wakes, that its time is over, whatever its
threads have had time to do.

The holder's time begins when a renewal is sent, the store's when it arrives, so that the holder gives up first. Clocks
that run at different rates, or a step between the check and its effect, can still let a holder act too late: what must
not happen twice is a transaction with a comparison (see `_election.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from tsdb.clock import Clock
from tsdb.kv._errors import KvClosed, KvUnavailable
from tsdb.telemetry import get_logger

_LOG = get_logger(__name__)
_RENEWALS_PER_TTL = 3
_RETRIES_PER_TTL = 20


class LeaseServer(Protocol):
    """What a store does for the holder of a lease."""

    def renew_lease(self, lease_id: int, timeout_seconds: float) -> float | None:
        """Return the new time to live in seconds, None if there is no such lease."""
        ...

    def revoke_lease(self, lease_id: int) -> None: ...


class KvLease:
    """A promise of the store to keep some keys until they are deleted or the lease is not renewed in time."""

    def __init__(
        self,
        lease_id: int,
        *,
        ttl_seconds: float,
        granted_ns: int,
        clock: Clock,
        server: LeaseServer,
        on_lost: Callable[[KvLease], None] | None,
    ) -> None:
        """`granted_ns` is the local time at which the lease was asked for."""
        self.id = lease_id
        self.ttl_seconds = ttl_seconds
        self._clock = clock
        self._server = server
        self._on_lost = on_lost
        self._expires_ns = granted_ns + round(ttl_seconds * 1e9)
        self._is_failing = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def is_alive(self) -> bool:
        return not self._ended.is_set() and self.remaining_seconds() > 0

    def remaining_seconds(self) -> float:
        """How long the store keeps the lease at least, by the local clock."""
        return (self._expires_ns - self._clock.monotonic_ns()) / 1e9

    def wait_end(self, timeout_seconds: float) -> bool:
        """Wait until the lease is lost or revoked; return whether it is."""
        return self._ended.wait(timeout_seconds) or not self.is_alive()

    def revoke(self) -> None:
        """End the lease and delete its keys. If the store cannot be reached, they go when the time is over."""
        if self._end():
            try:
                self._server.revoke_lease(self.id)
            except KvUnavailable as error:
                _LOG.warning("a lease was not revoked, its keys stay until it expires", lease=self.id, error=str(error))

    def abandon(self) -> None:
        """Stop renewing because the store is closing; the holder is notified that the lease is lost."""
        self._lose("the store was closed")

    def keep(self) -> None:
        """Renew the lease from now on, on a thread of its own."""
        self._thread = threading.Thread(target=self._run, name=f"kv-lease-{self.id:x}", daemon=True)
        self._thread.start()

    def renew_once(self) -> bool:
        """Renew the lease now; return whether it may live on."""
        sent_ns = self._clock.monotonic_ns()
        remaining = (self._expires_ns - sent_ns) / 1e9
        if remaining <= 0:
            self._lose("it was not renewed in time")
            return False
        try:
            ttl = self._server.renew_lease(self.id, min(remaining, self.ttl_seconds / 2))
        except KvClosed:
            self._lose("the store was closed")
            return False
        except KvUnavailable as error:
            self._is_failing = True
            _LOG.warning("a lease could not be renewed", lease=self.id, remaining=remaining, error=str(error))
            return True
        if ttl is None:
            self._lose("the store does not know it any more")
            return False
        if self.remaining_seconds() <= 0:
            # The holder may have seen it dead already: it never comes back to life.
            self._lose("the reply came too late")
            return False
        self._is_failing = False
        self._expires_ns = sent_ns + round(ttl * 1e9)
        return True

    def _run(self) -> None:
        while not self._ended.wait(self._pause_seconds()):
            if not self.renew_once():
                return

    def _pause_seconds(self) -> float:
        pause = self.ttl_seconds / (_RETRIES_PER_TTL if self._is_failing else _RENEWALS_PER_TTL)
        return max(0.0, min(pause, self.remaining_seconds()))

    def _lose(self, reason: str) -> None:
        if not self._end():
            return
        _LOG.warning("a lease is lost", lease=self.id, reason=reason)
        if self._on_lost is not None:
            try:
                self._on_lost(self)
            except Exception:  # noqa: BLE001 - the callback is not ours; its failure must not hide the loss
                _LOG.exception("what follows the loss of a lease failed", lease=self.id)

    def _end(self) -> bool:
        """Mark the lease as ended; return whether this call did it."""
        with self._lock:
            was_ended = self._ended.is_set()
            self._ended.set()
            return not was_ended
