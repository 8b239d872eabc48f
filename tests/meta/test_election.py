"""Elections of metadata servers, step by step with a clock of the test, and with threads."""

from __future__ import annotations

import threading

import pytest

from tsdb.clock import ManualClock
from tsdb.kv import DeleteKey, KvLease, KvUnavailable, Leadership, LeadershipLost, MemoryKv, PutKey
from tsdb.meta import LEADER, MetasrvElection

TTL = 10


class Store(MemoryKv):
    """A store in memory that renews leases only for servers that are reachable."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, keeps_leases=False)
        self.clock = clock
        self.granted: list[KvLease] = []

    def grant_lease(self, ttl_seconds: int, on_lost: object = None) -> KvLease:
        lease = super().grant_lease(ttl_seconds)
        self.granted.append(lease)
        return lease

    def renew(self) -> None:
        for lease in self.granted:
            lease.renew_once()


class Server:
    """A metadata server that writes down what it is told."""

    def __init__(self, store: MemoryKv, address: str) -> None:
        self.told: list[str] = []
        self.leaderships: list[Leadership] = []
        self.fails = False
        self.election = MetasrvElection(
            store,
            address=address,
            ttl_seconds=TTL,
            on_elected=self.lead,
            on_deposed=lambda: self.told.append("deposed"),
        )

    def lead(self, leadership: Leadership) -> None:
        self.told.append("elected")
        self.leaderships.append(leadership)
        if self.fails:
            raise RuntimeError("cannot lead")


@pytest.fixture
def store() -> Store:
    return Store(ManualClock())


def step(*servers: Server) -> None:
    for server in servers:
        server.election.step(0)


def test_the_first_server_leads_and_all_know_it(store: Store) -> None:
    one, two = Server(store, "one:3002"), Server(store, "two:3002")
    step(one, two, one, two)
    assert (one.told, two.told) == (["elected"], [])
    assert one.election.is_leader()
    assert [server.election.leader() for server in (one, two)] == ["one:3002", "one:3002"]
    assert two.election.candidates() == ["one:3002", "two:3002"]


def test_a_server_that_stops_makes_room_at_once(store: Store) -> None:
    one, two = Server(store, "one:3002"), Server(store, "two:3002")
    step(one, two)
    one.election.stop()
    step(two)
    assert (one.told, two.told) == (["elected", "deposed"], ["elected"])
    assert two.election.candidates() == ["two:3002"]


def test_a_leader_whose_lease_is_lost_steps_down_before_it_is_elected_again(store: Store) -> None:
    one, two = Server(store, "one:3002"), Server(store, "two:3002")
    step(one, two)
    store.clock.advance(seconds=TTL + 1)
    assert not one.election.is_leader()
    assert one.election.leader() is None
    step(two)
    assert two.told == ["elected"]
    with pytest.raises(LeadershipLost):
        one.leaderships[0].transact([], [PutKey("a", b"1")])
    step(one, one)
    assert one.told == ["elected", "deposed"]
    assert one.election.leader() == "two:3002"
    assert one.election.candidates() == ["one:3002", "two:3002"]
    assert two.leaderships[0].term > one.leaderships[0].term


def test_a_leader_whose_key_is_taken_away_steps_down(store: Store) -> None:
    """An operator may delete the key to have another leader."""
    one, two = Server(store, "one:3002"), Server(store, "two:3002")
    step(one, two)
    assert store.transact([], [DeleteKey(LEADER)])
    step(two, one)
    assert one.told == ["elected", "deposed"]
    assert two.told == ["elected"]


def test_a_leader_that_cannot_lead_lets_another(store: Store) -> None:
    one, two = Server(store, "one:3002"), Server(store, "two:3002")
    one.fails = True
    step(one, two)
    assert one.told == ["elected", "deposed"]
    assert two.told == ["elected"]


def test_renewed_leases_keep_the_leader(store: Store) -> None:
    one, two = Server(store, "one:3002"), Server(store, "two:3002")
    for _ in range(10):
        store.clock.advance(seconds=TTL - 1)
        store.renew()
        step(one, two)
    assert (one.told, two.told) == (["elected"], [])


def test_a_store_out_of_reach_is_survived(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Server(store, "one:3002")

    def fail(*_: object) -> None:
        raise KvUnavailable("out of reach")

    with monkeypatch.context() as patched:
        patched.setattr(store, "grant_lease", fail)
        step(one, one)
        assert one.told == []
    step(one)
    assert one.told == ["elected"]


def test_servers_with_threads_of_their_own_take_over_from_each_other() -> None:
    store = MemoryKv()
    servers = [Server(store, f"{number}:3002") for number in range(3)]
    for server in servers:
        server.election.start()
    elected = threading.Event()
    for _ in range(3):
        while not (leading := [server for server in servers if server.election.is_leader()]):
            elected.wait(0.01)
        assert len(leading) == 1
        leading[0].election.stop()
        assert leading[0].told == ["elected", "deposed"]
        servers.remove(leading[0])
    assert store.scan("") == []
    store.close()


def test_what_happened_before_the_election_does_not_depose_the_leader(store: Store) -> None:
    """The news of others who led for a moment may come after this server was elected."""
    one = Server(store, "one:3002")
    for _ in range(3):
        assert store.transact([], [PutKey(LEADER, b"two:3002")])
        assert store.transact([], [DeleteKey(LEADER)])
    one.election._is_known = True
    one.election._attempt()
    step(one, one)
    assert one.told == ["elected"]
    assert one.election.leader() == "one:3002"
