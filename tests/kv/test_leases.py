"""Leases by a clock that the test moves: when their holder gives up, and what the store does then."""

from __future__ import annotations

import pytest

from tests.kv.campaign import campaign
from tsdb.clock import ManualClock
from tsdb.kv import Election, KvLease, KvUnavailable, LeadershipLost, LeaseLost, MemoryKv, PutKey, PutLeased


class Store(MemoryKv):
    """A store in memory that can be out of reach for those who renew."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, keeps_leases=False)
        self.clock = clock
        self.is_reachable = True
        self.delay_seconds = 0.0

    def renew_lease(self, lease_id: int, timeout_seconds: float) -> float | None:
        if not self.is_reachable:
            self.clock.advance(seconds=timeout_seconds)
            raise KvUnavailable("out of reach")
        found = super().renew_lease(lease_id, timeout_seconds)
        self.clock.advance(seconds=self.delay_seconds)
        return found


@pytest.fixture
def store() -> Store:
    return Store(ManualClock())


def test_a_lease_that_is_renewed_lives_on(store: Store) -> None:
    lease = store.grant_lease(10)
    assert store.transact([], [PutLeased("a", b"1", lease.id)])
    for _ in range(20):
        store.clock.advance(seconds=9)
        assert lease.renew_once()
        assert lease.remaining_seconds() == 10
    assert store.get("a") == b"1"


def test_a_lease_that_is_not_renewed_ends_for_its_holder_and_in_the_store(store: Store) -> None:
    lost: list[KvLease] = []
    lease = store.grant_lease(10, lost.append)
    assert store.transact([], [PutLeased("a", b"1", lease.id), PutKey("b", b"1")])
    store.clock.advance(seconds=9.999)
    assert lease.is_alive()
    assert store.get("a") == b"1"
    store.clock.advance(seconds=0.001)
    assert not lease.is_alive()
    assert store.scan("") == [("b", b"1")]
    assert not lease.renew_once()
    assert not lease.renew_once()
    assert lost == [lease]
    with pytest.raises(LeaseLost):
        store.transact([], [PutLeased("a", b"2", lease.id)])


def test_failures_to_renew_are_survived_until_the_time_is_over(store: Store) -> None:
    lost: list[KvLease] = []
    lease = store.grant_lease(10, lost.append)
    store.is_reachable = False
    assert lease.renew_once()
    assert lease.remaining_seconds() == 5
    store.is_reachable = True
    assert lease.renew_once()
    assert lease.remaining_seconds() == 10
    store.is_reachable = False
    assert lease.renew_once()
    assert lease.renew_once()
    assert not lease.renew_once()
    assert lost == [lease]


def test_the_time_of_the_holder_begins_when_the_renewal_is_sent(store: Store) -> None:
    lease = store.grant_lease(10)
    store.delay_seconds = 4.0
    assert lease.renew_once()
    assert lease.remaining_seconds() == 6


def test_a_lease_never_comes_back_to_life(store: Store) -> None:
    """The reply to a renewal may come when the holder has already seen that its time is over."""
    lost: list[KvLease] = []
    lease = store.grant_lease(10, lost.append)
    store.clock.advance(seconds=8)
    store.delay_seconds = 3.0
    assert not lease.renew_once()
    assert not lease.is_alive()
    assert lost == [lease]


def test_what_fails_after_a_loss_does_not_hide_it(store: Store) -> None:
    def fail(_: KvLease) -> None:
        raise RuntimeError("not prepared for this")

    lease = store.grant_lease(10, fail)
    store.clock.advance(seconds=11)
    assert not lease.renew_once()
    assert not lease.is_alive()


def test_a_leader_that_stood_still_steps_down_by_itself(store: Store) -> None:
    leads = campaign(Election(store, "leader", candidate=b"first", ttl_seconds=10), 1)
    assert leads is not None
    store.clock.advance(seconds=11)
    assert not leads.is_held()
    follows = campaign(Election(store, "leader", candidate=b"second", ttl_seconds=10), 1)
    assert follows is not None
    with pytest.raises(LeadershipLost):
        leads.transact([], [PutKey("a", b"1")])
    assert follows.transact([], [PutKey("a", b"2")])
