"""Election of one leader among processes that share a store.

The leader is the one whose lease holds the key of the election, which is created only if it is absent. When the lease
ends the store deletes the key, and the others, who watch it, try again.

A leader can be wrong about itself: it may stand still between looking at its clock and acting. So everything that only
a leader may change is changed by `Leadership.transact`, whose comparison with the revision of the key is evaluated by
the store together with the change: a leader of the past cannot write, however late its request arrives.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tsdb.kv._coordination import CoordinationStore, KeyDeleted, KvWatch, PutLeased, SharedOperation, WatchReset
from tsdb.kv._errors import KvOutcomeUnknown, LeadershipLost, LeaseLost
from tsdb.kv._leases import KvLease
from tsdb.kv._protocol import Absent, Compare, RevisionIs


class Leadership:
    """Proof of having been elected, as long as the lease lives."""

    def __init__(self, store: CoordinationStore, key: str, lease: KvLease, revision: int) -> None:
        self.proof: Compare = RevisionIs(key, revision)
        """Holds in a transaction exactly as long as this leader leads."""
        self.term = revision
        """Larger for every later leader."""
        self._store = store
        self._key = key
        self._lease = lease
        self._has_resigned = threading.Event()

    def is_held(self) -> bool:
        """Whether this leader may act, as far as it can know by itself."""
        return self._lease.is_alive() and not self._has_resigned.is_set()

    def transact(self, compares: Sequence[Compare], operations: Sequence[SharedOperation]) -> bool:
        """Change something as the leader; raise `LeadershipLost`, changing nothing, if another may lead."""
        if not self.is_held():
            raise LeadershipLost("this process is no longer the leader", key=self._key)
        if self._store.transact([self.proof, *compares], operations):
            return True
        if self._store.revision(self._key) != self.term:
            self.resign()
            raise LeadershipLost("this process is no longer the leader", key=self._key)
        return False

    def resign(self) -> None:
        """Let others lead at once. If the store cannot be reached, they can when the lease has expired."""
        self._has_resigned.set()
        self._lease.revoke()


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """The leader (None: there is none) at a revision."""

    candidate: bytes | None
    revision: int


class Election:
    """One candidate's view of an election."""

    def __init__(self, store: CoordinationStore, key: str, *, candidate: bytes, ttl_seconds: int) -> None:
        """`candidate` describes the leader to others, such as its address."""
        self._store = store
        self._key = key
        self._candidate = candidate
        self._ttl_seconds = ttl_seconds

    def leader(self) -> bytes | None:
        """The leader, None if there is none."""
        return self._store.get(self._key)

    def observe(self) -> LeaderWatch:
        """Watch who leads."""
        return LeaderWatch(self._store.watch(self._key), self._key)

    def attempt(self, on_lost: Callable[[KvLease], None] | None = None) -> Leadership | None:
        """Take the key if it is free; return None if it is not.

        `on_lost` is called once, on a thread of the store, when the lease of the leader is lost.
        """
        if self._store.get(self._key) is not None:
            return None
        lease = self._store.grant_lease(self._ttl_seconds, on_lost)
        try:
            self._store.transact([Absent(self._key)], [PutLeased(self._key, self._candidate, lease.id)])
        except (KvOutcomeUnknown, LeaseLost):
            # Whose lease the key has tells below, and a lease that is revoked cannot come to hold it later.
            pass
        except BaseException:
            lease.revoke()
            raise
        return self._judge(lease)

    def _judge(self, lease: KvLease) -> Leadership | None:
        """Look whether the key is held by a lease; if not, it never will be."""
        try:
            found = self._store.find(self._key)
        except BaseException:
            lease.revoke()
            raise
        if found is None or found.lease_id != lease.id:
            lease.revoke()
            return None
        return Leadership(self._store, self._key, lease, found.revision)


class LeaderWatch:
    """Who leads, and who leads next."""

    def __init__(self, watch: KvWatch, key: str) -> None:
        self._watch = watch
        self._key = key

    def wait(self, timeout_seconds: float) -> LeaderChange | None:
        """Return who leads now, None if nothing changed in this time. A leader of a short time may be left out."""
        deadline = time.monotonic() + timeout_seconds
        while (found := self._watch.wait(max(0.0, deadline - time.monotonic()))) is not None:
            if isinstance(found, WatchReset):
                return LeaderChange(dict(found.pairs).get(self._key), found.revision)
            mine = [event for event in found.events if event.key == self._key]
            if mine:
                last = mine[-1]
                return LeaderChange(None if isinstance(last, KeyDeleted) else last.value, last.revision)
        return None

    def close(self) -> None:
        self._watch.close()
