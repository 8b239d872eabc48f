"""What every store that processes share promises: leases, watches, elections. Tested on each of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.kv.campaign import campaign
from tests.kv.etcd_process import EtcdProcess, connect
from tsdb.kv import (
    Absent,
    CoordinationStore,
    DeleteKey,
    Election,
    KeyDeleted,
    KeyEvent,
    KeyPut,
    KvClosed,
    KvLease,
    KvWatch,
    LeaderChange,
    LeadershipLost,
    LeaseLost,
    MemoryKv,
    PutKey,
    PutLeased,
    WatchChanges,
    WatchReset,
)
from tsdb.kv._memory_watch import BACKLOG_MAX

PATIENCE = 30.0
TTL = 5


@pytest.fixture(params=["memory", "etcd"])
def store(request: pytest.FixtureRequest) -> Iterator[CoordinationStore]:
    if request.param == "memory":
        opened: CoordinationStore = MemoryKv()
    else:
        etcd: EtcdProcess = request.getfixturevalue("etcd")
        opened = connect(etcd.url)
    yield opened
    opened.close()


def expect_reset(watch: KvWatch) -> WatchReset:
    found = watch.wait(PATIENCE)
    assert isinstance(found, WatchReset)
    return found


def expect_changes(watch: KvWatch) -> WatchChanges:
    found = watch.wait(PATIENCE)
    assert isinstance(found, WatchChanges)
    return found


def expect_events(watch: KvWatch, count: int) -> list[KeyEvent]:
    """Several transactions may come together."""
    events: list[KeyEvent] = []
    while len(events) < count:
        events += expect_changes(watch).events
    return events


def test_a_watch_begins_with_what_is_there_and_shows_every_change(store: CoordinationStore) -> None:
    assert store.transact([], [PutKey("a/1", b"1"), PutKey("b", b"")])
    watch = store.watch("a/")
    assert expect_reset(watch).pairs == (("a/1", b"1"),)
    assert store.transact([], [PutKey("a/2", b"2"), PutKey("b", b"2"), DeleteKey("a/1"), DeleteKey("a/none")])
    assert store.transact([], [PutKey("b", b"3")])
    assert store.transact([], [PutKey("a/2", b"4")])
    events = expect_events(watch, 3)
    one, two = events[0].revision, events[2].revision
    assert events == [KeyPut("a/2", b"2", one), KeyDeleted("a/1", one), KeyPut("a/2", b"4", two)]
    assert store.revision("a/2") == two > one
    assert watch.wait(0) is None
    watch.close()


def test_a_watch_behind_the_revision_of_a_snapshot_misses_nothing(store: CoordinationStore) -> None:
    assert store.transact([], [PutKey("a", b"1")])
    seen = store.snapshot("")
    watch = store.watch("", after_revision=seen.revision)
    assert store.transact([], [PutKey("b", b"2")])
    assert [event.key for event in expect_changes(watch).events] == ["b"]


def test_a_watch_shows_the_keys_of_the_store_and_no_others(store: CoordinationStore) -> None:
    watch = store.watch("")
    assert expect_reset(watch).pairs == ()
    assert store.transact([Absent("a")], [PutKey("a", b"1")])
    assert not store.transact([Absent("a")], [PutKey("a", b"1")])
    assert store.transact([], [DeleteKey("a")])
    put, deleted = expect_events(watch, 2)
    assert (put.key, deleted.key) == ("a", "a")
    assert isinstance(deleted, KeyDeleted)
    assert watch.wait(0) is None


def test_a_closed_watch_says_so(store: CoordinationStore) -> None:
    watch = store.watch("a")
    expect_reset(watch)
    watch.close()
    with pytest.raises(KvClosed):
        watch.wait(0)
    other = store.watch("a")
    expect_reset(other)
    store.close()
    with pytest.raises(KvClosed):
        other.wait(PATIENCE)


def test_a_reader_that_is_slow_gets_the_last_state_of_every_key(store: CoordinationStore) -> None:
    """Changes that pile up are held back or replaced by everything there is; what a reader keeps ends up the same."""
    watch = store.watch("")
    count = BACKLOG_MAX + 100 if isinstance(store, MemoryKv) else 200
    for number in range(count):
        assert store.transact([], [PutKey(f"k{number % 7}", str(number).encode())])
    copy: dict[str, bytes] = {}
    while (found := watch.wait(PATIENCE)) is not None:
        if isinstance(found, WatchReset):
            copy = dict(found.pairs)
        else:
            for event in found.events:
                assert isinstance(event, KeyPut)
                copy[event.key] = event.value
        if copy.get(f"k{(count - 1) % 7}") == str(count - 1).encode():
            break
    assert sorted(copy.items()) == store.scan("")


def test_a_lease_is_renewed_by_itself(store: CoordinationStore) -> None:
    lease = store.grant_lease(TTL)
    assert lease.ttl_seconds >= TTL
    assert store.transact([], [PutLeased("a", b"1", lease.id)])
    before = lease.remaining_seconds()
    while lease.remaining_seconds() <= before:
        before = lease.remaining_seconds()
        assert not lease.wait_end(0.05)
    assert lease.is_alive()
    found = store.find("a")
    assert found is not None
    assert (found.value, found.lease_id) == (b"1", lease.id)


def test_keys_go_with_their_lease_in_one_change(store: CoordinationStore) -> None:
    lost: list[KvLease] = []
    lease = store.grant_lease(60, lost.append)
    assert store.transact([], [PutLeased("b", b"1", lease.id), PutLeased("a", b"1", lease.id), PutKey("c", b"1")])
    assert store.transact([], [PutLeased("d", b"1", lease.id)])
    assert store.transact([], [PutKey("d", b"is nobody's now")])
    watch = store.watch("")
    expect_reset(watch)
    lease.revoke()
    lease.revoke()
    changes = expect_changes(watch)
    assert changes.events == (KeyDeleted("a", changes.revision), KeyDeleted("b", changes.revision))
    assert [key for key, _ in store.scan("")] == ["c", "d"]
    assert not lease.is_alive()
    assert lost == []


def test_a_put_under_a_lease_that_has_ended_changes_nothing(store: CoordinationStore) -> None:
    lease = store.grant_lease(60)
    lease.revoke()
    with pytest.raises(LeaseLost):
        store.transact([], [PutKey("a", b"1"), PutLeased("b", b"1", lease.id)])
    assert store.scan("") == []
    assert store.transact([], [PutKey("a", b"1")])


def test_a_put_under_a_lease_that_does_not_count_is_not_looked_at(store: CoordinationStore) -> None:
    lease = store.grant_lease(60)
    lease.revoke()
    assert store.transact([], [PutLeased("a", b"1", lease.id), PutKey("a", b"2")])
    assert store.get("a") == b"2"


def test_leases_are_lost_when_their_store_is_closed(store: CoordinationStore) -> None:
    lost = threading.Event()
    lease = store.grant_lease(60, lambda _: lost.set())
    store.close()
    assert lost.wait(PATIENCE)
    assert not lease.is_alive()


def test_one_candidate_leads_and_the_next_follows_when_it_resigns(store: CoordinationStore) -> None:
    first = Election(store, "leader", candidate=b"first", ttl_seconds=60)
    second = Election(store, "leader", candidate=b"second", ttl_seconds=60)
    observed = second.observe()
    nobody = observed.wait(PATIENCE)
    assert nobody is not None
    assert nobody.candidate is None
    leads = campaign(first, PATIENCE)
    assert leads is not None
    assert leads.is_held()
    assert observed.wait(PATIENCE) == LeaderChange(b"first", leads.term)
    assert campaign(second, 0.2) is None
    assert second.leader() == b"first"

    elected: list[object] = []
    waiting = threading.Thread(target=lambda: elected.append(campaign(second, PATIENCE)))
    waiting.start()
    leads.resign()
    waiting.join()
    (follows,) = elected
    assert follows is not None
    assert not leads.is_held()
    assert second.leader() == b"second"
    assert follows.term > leads.term  # type: ignore[attr-defined]


def test_a_leader_of_the_past_cannot_change_anything(store: CoordinationStore) -> None:
    leads = campaign(Election(store, "leader", candidate=b"first", ttl_seconds=60), PATIENCE)
    assert leads is not None
    assert leads.transact([Absent("a")], [PutKey("a", b"1")])
    assert not leads.transact([Absent("a")], [PutKey("a", b"2")])
    assert leads.is_held()
    # It does not know yet: its lease lives, and only the key is gone.
    assert store.transact([], [DeleteKey("leader")])
    follows = campaign(Election(store, "leader", candidate=b"second", ttl_seconds=60), PATIENCE)
    assert follows is not None
    assert leads.is_held()
    with pytest.raises(LeadershipLost):
        leads.transact([], [PutKey("a", b"from the past")])
    assert not leads.is_held()
    assert store.get("a") == b"1"
    assert follows.transact([], [PutKey("a", b"2")])
    assert not store.transact([leads.proof], [PutKey("a", b"3")])


def test_of_many_candidates_exactly_one_leads_at_a_time(store: CoordinationStore) -> None:
    terms: list[int] = []

    def take_turns(number: int) -> None:
        election = Election(store, "leader", candidate=str(number).encode(), ttl_seconds=60)
        for _ in range(3):
            leads = campaign(election, PATIENCE)
            assert leads is not None
            found = int(store.get("counter") or b"0")
            assert leads.transact([], [PutKey("counter", str(found + 1).encode())])
            terms.append(leads.term)
            leads.resign()

    threads = [threading.Thread(target=take_turns, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get("counter") == b"12"
    assert terms == sorted(set(terms))
