"""Which of several metadata servers leads, and what happens when that changes.

    candidate ─▶ the key is free ─▶ on_elected ─▶ leads ─▶ lease lost, key gone, or stop ─▶ on_deposed ─▶ candidate

- `on_elected` and `on_deposed` are called in turns, on one thread, and the second ends before the server may be elected
  again: it has to stop everything that only a leader does. While it works others may lead already; what it still
  writes is refused, if it writes by `Leadership.transact`.
- All servers register themselves under a lease, so that clients can find those that do not lead.
- A store that cannot be reached is no reason to end: the server tries again with each step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tsdb.kv import (
    CoordinationStore,
    Election,
    KvClosed,
    KvLease,
    KvUnavailable,
    Leadership,
    LeaseLost,
    PutLeased,
)
from tsdb.telemetry import get_logger

LEADER = "__metasrv_election"
CANDIDATES = "__metasrv_election_candidates/"

_LOG = get_logger(__name__)
_STEP_SECONDS = 0.2
_STOP_SECONDS_MAX = 30.0


class MetasrvElection:
    """One server's part in the election."""

    def __init__(
        self,
        store: CoordinationStore,
        *,
        address: str,
        ttl_seconds: int,
        on_elected: Callable[[Leadership], None],
        on_deposed: Callable[[], None],
    ) -> None:
        """`address` is where clients reach this server. `ttl_seconds` is how long a leader that is gone is missed."""
        self._store = store
        self._address = address.encode()
        self._ttl_seconds = ttl_seconds
        self._on_elected = on_elected
        self._on_deposed = on_deposed
        self._election = Election(store, LEADER, candidate=self._address, ttl_seconds=ttl_seconds)
        self._watch = self._election.observe()
        self._registered: KvLease | None = None
        self._leadership: Leadership | None = None
        self._leader: bytes | None = None
        self._is_known = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metasrv-election", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Step down and take no more part."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS_MAX)
        self._step_down()
        self._watch.close()
        if self._registered is not None:
            self._registered.revoke()

    def is_leader(self) -> bool:
        return self._leadership is not None and self._leadership.is_held()

    def leader(self) -> str | None:
        """The address of the server that leads, as far as this one knows; None if none is known to."""
        leader = self._leader
        if leader is None or (leader == self._address and not self.is_leader()):
            return None
        return leader.decode()

    def candidates(self) -> list[str]:
        """The addresses of all servers, the leader included."""
        return [value.decode() for _, value in self._store.scan(CANDIDATES)]

    def step(self, timeout_seconds: float) -> None:
        """Wait for news of the election and act on it. Called by the thread, and by tests."""
        try:
            self._register()
            self._listen(timeout_seconds)
            if self._leadership is not None and not self._is_confirmed():
                self._step_down()
            if self._leadership is None and self._is_known and self._leader is None:
                self._attempt()
        except KvClosed:
            raise
        except (KvUnavailable, LeaseLost) as error:
            _LOG.warning("the election is disturbed", error=str(error))
            if not self.is_leader():
                self._step_down()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.step(_STEP_SECONDS)
            except KvClosed:
                return

    def _register(self) -> None:
        if self._registered is not None and self._registered.is_alive():
            return
        lease = self._store.grant_lease(self._ttl_seconds)
        try:
            self._store.transact([], [PutLeased(CANDIDATES + self._address.decode(), self._address, lease.id)])
        except BaseException:
            lease.revoke()
            raise
        self._registered = lease

    def _listen(self, timeout_seconds: float) -> None:
        while (found := self._watch.wait(timeout_seconds)) is not None:
            timeout_seconds = 0.0
            # What was before this server was elected can come late.
            if self._leadership is None or found.revision >= self._leadership.term:
                self._leader = found.candidate
                self._is_known = True

    def _is_confirmed(self) -> bool:
        """Whether the lease is valid and the key still exists."""
        assert self._leadership is not None
        return self._leadership.is_held() and self._leader == self._address

    def _attempt(self) -> None:
        leadership = self._election.attempt()
        if leadership is None:
            return
        _LOG.info("this server leads", address=self._address.decode(), term=leadership.term)
        self._leadership = leadership
        self._leader = self._address
        try:
            self._on_elected(leadership)
        except Exception:  # noqa: BLE001 - whatever prevents this server from leading, another may be able to
            _LOG.exception("this server was elected and cannot lead")
            self._step_down()

    def _step_down(self) -> None:
        leadership, self._leadership = self._leadership, None
        if leadership is None:
            return
        _LOG.info("this server is no longer the leader", address=self._address.decode(), term=leadership.term)
        try:
            self._on_deposed()
        except Exception:  # noqa: BLE001 - others lead already or soon, whatever this server could not end
            _LOG.exception("this server could not end what a leader does")
        leadership.resign()
