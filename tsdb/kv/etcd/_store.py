"""Metadata in etcd."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tsdb.clock import Clock, SystemClock
from tsdb.ids import SYSTEM_IDS, Ids
from tsdb.kv._coordination import KvEntry, SharedOperation, WatchReset
from tsdb.kv._errors import LeaseLost
from tsdb.kv._leases import KvLease
from tsdb.kv._protocol import Compare, check_size
from tsdb.kv.etcd import etcd_pb2 as pb
from tsdb.kv.etcd._client import EtcdClient
from tsdb.kv.etcd._members import EtcdMember, ask_members
from tsdb.kv.etcd._methods import LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_REVOKE
from tsdb.kv.etcd._reads import find_key, read_snapshot
from tsdb.kv.etcd._requests import Keyspace
from tsdb.kv.etcd._settings import EtcdSettings, EtcdTuning
from tsdb.kv.etcd._transactions import Transactions
from tsdb.kv.etcd._watch import EtcdWatch


class EtcdKv:
    """A cluster of etcd as a `CoordinationStore`. Nothing is connected before the first call."""

    def __init__(
        self,
        settings: EtcdSettings,
        *,
        tuning: EtcdTuning | None = None,
        clock: Clock | None = None,
        ids: Ids = SYSTEM_IDS,
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        self._client = EtcdClient(settings, tuning or EtcdTuning(), self._clock)
        self._keyspace = Keyspace(settings.key_prefix)
        self._transactions = Transactions(self._client, self._keyspace, ids, self._witness_lease_id)
        self._lock = threading.Lock()
        self._witness_lock = threading.Lock()
        self._witness_lease: KvLease | None = None
        self._leases: list[KvLease] = []
        self._watches: list[EtcdWatch] = []

    def get(self, key: str) -> bytes | None:
        found = self.find(key)
        return None if found is None else found.value

    def revision(self, key: str) -> int:
        found = self.find(key)
        return 0 if found is None else found.revision

    def find(self, key: str) -> KvEntry | None:
        return find_key(self._client, self._keyspace, key)

    def scan(self, prefix: str) -> list[tuple[str, bytes]]:
        return list(self.snapshot(prefix).pairs)

    def snapshot(self, prefix: str) -> WatchReset:
        return read_snapshot(self._client, self._keyspace, prefix)

    def transact(self, compares: Sequence[Compare], operations: Sequence[SharedOperation]) -> bool:
        check_size(compares, operations)
        return self._transactions.run(compares, operations) if operations else self._transactions.check(compares)

    def grant_lease(self, ttl_seconds: int, on_lost: Callable[[KvLease], None] | None = None) -> KvLease:
        asked_ns = self._clock.monotonic_ns()
        request = pb.LeaseGrantRequest(ttl=ttl_seconds)
        granted = self._client.call(LEASE_GRANT, request, self._client.tuning.timeout_seconds)
        lease = KvLease(
            granted.id,
            ttl_seconds=granted.ttl,
            granted_ns=asked_ns,
            clock=self._clock,
            server=self,
            on_lost=on_lost,
        )
        with self._lock:
            self._leases = [each for each in self._leases if each.is_alive()] + [lease]
        lease.keep()
        return lease

    def renew_lease(self, lease_id: int, timeout_seconds: float) -> float | None:
        request = pb.LeaseKeepAliveRequest(id=lease_id)
        return self._client.call(LEASE_KEEP_ALIVE, request, timeout_seconds).ttl or None

    def revoke_lease(self, lease_id: int) -> None:
        try:
            request = pb.LeaseRevokeRequest(id=lease_id)
            self._client.call(LEASE_REVOKE, request, self._client.tuning.timeout_seconds)
        except LeaseLost:
            # It has ended already, or an earlier attempt ended it whose reply was lost.
            return

    def watch(self, prefix: str, *, after_revision: int | None = None) -> EtcdWatch:
        watch = EtcdWatch(self._client, self._keyspace, prefix, after_revision)
        with self._lock:
            self._watches = [each for each in self._watches if not each.is_closed] + [watch]
        return watch

    def members(self) -> list[EtcdMember]:
        """What each address says of itself."""
        return ask_members(self._client)

    def close(self) -> None:
        """Close everything. Leases are not revoked: what they hold stays until they expire.

        Calls that are under way raise `KvClosed`; a transaction among them may have happened.
        """
        with self._lock:
            leases, watches = self._leases, self._watches
            self._leases, self._watches = [], []
        if self._witness_lease is not None:
            self._witness_lease.revoke()
        for lease in leases:
            lease.abandon()
        self._client.close()
        for watch in watches:
            watch.close()

    def _witness_lease_id(self, doubtful_id: int) -> int:
        """Return the lease of witnesses, a new one if the last has ended; etcd is asked about one that is in doubt."""
        with self._witness_lock:
            lease = self._witness_lease
            if lease is not None and lease.id == doubtful_id:
                lease.renew_once()
            if lease is None or not lease.is_alive():
                lease = self.grant_lease(self._client.tuning.witness_ttl_seconds)
                self._witness_lease = lease
            return lease.id
