"""etcd that is killed, stopped, cut off or forgetful: nothing is lost, done twice or believed too long."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kv.etcd_process import (
    QUICK,
    RUNS_ALL,
    EtcdProcess,
    connect,
    new_prefix,
    only_slow,
    running_cluster,
    running_etcd,
)
from tests.kv.proxy import Proxy, running_proxy
from tsdb.kv import (
    Absent,
    CoordinationStore,
    Election,
    Equals,
    KeyPut,
    KvOutcomeUnknown,
    KvUnavailable,
    KvWatch,
    LeadershipLost,
    PutKey,
    PutLeased,
    WatchChanges,
    WatchReset,
)
from tsdb.telemetry import REGISTRY

PATIENCE = 60.0


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdProcess]:
    """An etcd that may be killed."""
    with running_etcd(tmp_path) as member:
        yield member


@pytest.fixture
def proxy(etcd: EtcdProcess) -> Iterator[Proxy]:
    with running_proxy(etcd.client_port) as running:
        yield running


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def restart(member: EtcdProcess) -> None:
    member.kill()
    member.start()
    member.wait_ready()


class Counting:
    """Threads that add to a counter, each time only if it is unchanged, and count what they were told was done."""

    def __init__(self, store: CoordinationStore, threads: int = 3) -> None:
        self.store = store
        self.done = 0
        self.unknown = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._progress = threading.Condition(self._lock)
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def wait_more(self, count: int) -> None:
        with self._lock:
            goal = self.done + count
            assert self._progress.wait_for(lambda: self.done >= goal, PATIENCE)

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def value(self) -> int:
        return int(self.store.get("counter") or b"0")

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._add()
            except KvOutcomeUnknown:
                with self._lock:
                    self.unknown += 1
            except KvUnavailable:
                continue

    def _add(self) -> None:
        found = self.store.get("counter")
        compare = Absent("counter") if found is None else Equals("counter", found)
        if self.store.transact([compare], [PutKey("counter", str(int(found or b"0") + 1).encode())]):
            with self._lock:
                self.done += 1
                self._progress.notify_all()


def values_until(watch: KvWatch, last: bytes) -> list[bytes]:
    """The values of a watch of one key, up to a value."""
    values: list[bytes] = []
    while not values or values[-1] != last:
        found = watch.wait(PATIENCE)
        assert found is not None, values[-3:]
        if isinstance(found, WatchReset):
            values += [value for _, value in found.pairs]
        else:
            values += [event.value for event in found.events if isinstance(event, KeyPut)]
    return values


def test_kills_lose_no_event_no_lease_and_no_transaction(own_etcd: EtcdProcess) -> None:
    store = connect(own_etcd.url)
    lease = store.grant_lease(60)
    assert store.transact([], [PutLeased("held", b"1", lease.id)])
    watch = store.watch("counter")
    assert watch.wait(PATIENCE) is not None
    counting = Counting(store)
    for _ in range(2):
        counting.wait_more(20)
        restart(own_etcd)
    counting.wait_more(20)
    counting.stop()
    assert counting.unknown == 0
    assert counting.value() == counting.done
    # Every value once, in order.
    assert values_until(watch, str(counting.done).encode()) == [str(each + 1).encode() for each in range(counting.done)]
    assert lease.is_alive()
    assert lease.renew_once()
    assert store.get("held") == b"1"
    store.close()


def test_a_transaction_that_is_done_but_whose_reply_is_lost_is_known_to_be_done(
    etcd: EtcdProcess, proxy: Proxy
) -> None:
    prefix = new_prefix()
    direct = connect(etcd.url, prefix=prefix)
    store = connect(proxy.url, prefix=prefix, tuning=replace(QUICK, attempt_seconds=0.3))
    assert store.transact([], [PutKey("a", b"1")])
    results: list[bool] = []
    proxy.lose_replies()
    working = threading.Thread(target=lambda: results.append(store.transact([Equals("a", b"1")], [PutKey("a", b"2")])))
    working.start()
    watch = direct.watch("a")
    values_until(watch, b"2")
    proxy.heal()
    working.join()
    # Without a witness the second attempt would find 2 where it expects 1, and say no.
    assert results == [True]
    assert direct.transact([Equals("a", b"2")], [PutKey("a", b"3")])
    store.close()
    direct.close()


def test_an_outcome_that_cannot_be_learnt_is_told_to_be_unknown(etcd: EtcdProcess, proxy: Proxy) -> None:
    prefix = new_prefix()
    direct = connect(etcd.url, prefix=prefix)
    store = connect(proxy.url, prefix=prefix, tuning=replace(QUICK, timeout_seconds=0.8, attempt_seconds=0.2))
    assert store.transact([], [PutKey("a", b"1")])
    proxy.lose_replies()
    unknown = sample("tsdb_etcd_unknown_outcomes_total")
    with pytest.raises(KvOutcomeUnknown, match="not known") as caught:
        store.transact([Equals("a", b"1")], [PutKey("a", b"2")])
    assert sample("tsdb_etcd_unknown_outcomes_total") == unknown + 1
    assert sample("tsdb_etcd_transactions_in_flight") == 0
    assert sample("tsdb_etcd_requests_total", method="Txn", outcome="transient") >= 2
    assert proxy.url in str(caught.value)
    with pytest.raises(KvUnavailable) as read:
        store.get("a")
    assert not isinstance(read.value, KvOutcomeUnknown)
    assert direct.get("a") == b"2"
    proxy.heal()
    assert store.transact([Equals("a", b"2")], [PutKey("a", b"3")])
    store.close()
    direct.close()


def test_a_transaction_that_was_not_sent_is_tried_again(proxy: Proxy) -> None:
    store = connect(proxy.url)
    assert store.transact([], [PutKey("a", b"1")])
    proxy.refuse()
    results: list[bool] = []
    working = threading.Thread(target=lambda: results.append(store.transact([], [PutKey("a", b"2")])))
    working.start()
    proxy.heal()
    working.join()
    assert results == [True]
    assert store.get("a") == b"2"
    store.close()


def test_connections_that_break_all_the_time_do_not_break_transactions_or_watches(proxy: Proxy) -> None:
    store = connect(proxy.url, tuning=replace(QUICK, attempt_seconds=0.5))
    watch = store.watch("counter")
    counting = Counting(store)
    for number in range(4):
        counting.wait_more(5)
        if number % 2:
            proxy.lose_replies()
            assert proxy.wait_lost(PATIENCE)
            proxy.heal()
        else:
            proxy.cut()
    counting.wait_more(5)
    counting.stop()
    assert proxy.accepted > 4
    assert counting.unknown == 0
    assert counting.value() == counting.done
    assert values_until(watch, str(counting.done).encode()) == [str(each + 1).encode() for each in range(counting.done)]
    store.close()


def test_a_connection_that_is_dead_without_being_closed_is_replaced(proxy: Proxy) -> None:
    store = connect(proxy.url, tuning=replace(QUICK, attempt_seconds=0.3))
    assert store.transact([], [PutKey("a", b"1")])
    proxy.silence()
    assert store.transact([Equals("a", b"1")], [PutKey("a", b"2")])
    assert store.get("a") == b"2"
    assert proxy.accepted == 2
    store.close()


@only_slow
def test_a_watch_notices_by_itself_that_its_connection_is_dead(etcd: EtcdProcess, proxy: Proxy) -> None:
    prefix = new_prefix()
    direct = connect(etcd.url, prefix=prefix)
    store = connect(proxy.url, prefix=prefix, tuning=replace(QUICK, ping_seconds=5.0, ping_timeout_seconds=1.0))
    watch = store.watch("a")
    assert isinstance(watch.wait(PATIENCE), WatchReset)
    for number in range(2):
        proxy.silence()
        assert direct.transact([], [PutKey("a", str(number).encode())])
        assert values_until(watch, str(number).encode()) == [str(number).encode()]
    store.close()
    direct.close()


def test_a_watch_whose_history_was_compacted_shows_everything_anew(etcd: EtcdProcess, proxy: Proxy) -> None:
    prefix = new_prefix()
    direct = connect(etcd.url, prefix=prefix)
    store = connect(proxy.url, prefix=prefix)
    assert direct.transact([], [PutKey("a", b"1"), PutKey("b", b"1")])
    watch = store.watch("")
    first = watch.wait(PATIENCE)
    assert isinstance(first, WatchReset)
    proxy.refuse()
    while watch.problem is None:
        assert watch.wait(0.01) is None
    assert "etcd failed" in watch.problem
    assert direct.transact([], [PutKey("a", b"2")])
    assert direct.transact([Absent("none")], [PutKey("c", b"1")])
    compacted = etcd.compact()
    resets = sample("tsdb_etcd_watch_resets_total")
    proxy.heal()
    found = watch.wait(PATIENCE)
    assert sample("tsdb_etcd_watch_resets_total") == resets + 1
    assert found == WatchReset(compacted, (("a", b"2"), ("b", b"1"), ("c", b"1")))
    assert direct.transact([], [PutKey("d", b"1")])
    later = watch.wait(PATIENCE)
    assert isinstance(later, WatchChanges)
    assert [event.key for event in later.events] == ["d"]
    assert watch.problem is None
    store.close()
    direct.close()


def test_a_watch_from_a_revision_that_is_forgotten_begins_with_everything(etcd: EtcdProcess) -> None:
    store = connect(etcd.url)
    assert store.transact([], [PutKey("a", b"1")])
    old = store.snapshot("").revision
    assert store.transact([], [PutKey("a", b"2")])
    etcd.compact()
    watch = store.watch("", after_revision=old - 1)
    found = watch.wait(PATIENCE)
    assert isinstance(found, WatchReset)
    assert found.pairs == (("a", b"2"),)
    store.close()


def test_an_idle_watch_follows_the_revision_of_other_keys(tmp_path: Path) -> None:
    """Otherwise a compaction of others' history would make it read everything anew."""
    with (
        running_etcd(tmp_path, options=["--experimental-watch-progress-notify-interval", "100ms"]) as member,
        running_proxy(member.client_port) as proxy,
    ):
        store = connect(proxy.url)
        watch = store.watch("mine")
        assert watch.wait(PATIENCE) is not None
        other = connect(member.url)
        for number in range(20):
            assert other.transact([], [PutKey("theirs", str(number).encode())])
        latest = store.snapshot("").revision
        while (watch._revision or 0) < latest:
            assert watch.wait(0.05) is None
        proxy.refuse()
        while watch.problem is None:
            assert watch.wait(0.01) is None
        member.compact()
        proxy.heal()
        assert store.transact([], [PutKey("mine", b"1")])
        found = watch.wait(PATIENCE)
        assert isinstance(found, WatchChanges)
        assert [event.key for event in found.events] == ["mine"]
        store.close()
        other.close()


def test_a_store_that_was_replaced_is_noticed_by_watches_and_transactions(tmp_path: Path) -> None:
    """As after a restore from a backup: fewer revisions, other leases, no witnesses."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with running_etcd(tmp_path / "a") as old:
        store = connect(old.url)
        watch = store.watch("")
        for number in range(30):
            assert store.transact([], [PutKey("a", str(number).encode())])
        assert values_until(watch, b"29")
        old.kill()
        new = EtcdProcess(tmp_path / "b")
        new.client_port = old.client_port
        new.cluster = f"other={new.peer_url}"
        new.name = "other"
        try:
            new.start()
            new.wait_ready()
            assert store.transact([Absent("a")], [PutKey("a", b"new")])
            found = watch.wait(PATIENCE)
            assert isinstance(found, WatchReset)
            if not found.pairs:
                assert values_until(watch, b"new") == [b"new"]
            assert store.get("a") == b"new"
            store.close()
        finally:
            new.kill()


def test_a_lease_is_given_up_when_etcd_does_not_answer_for_its_time(own_etcd: EtcdProcess) -> None:
    store = connect(own_etcd.url, tuning=replace(QUICK, attempt_seconds=0.3))
    lost = threading.Event()
    leads = Election(store, "leader", candidate=b"me", ttl_seconds=2).campaign(PATIENCE, lambda _: lost.set())
    assert leads is not None
    own_etcd.send(signal.SIGSTOP)
    assert lost.wait(PATIENCE)
    assert not leads.is_held()
    with pytest.raises(LeadershipLost):
        leads.transact([], [PutKey("a", b"1")])
    own_etcd.send(signal.SIGCONT)
    again = Election(store, "leader", candidate=b"me again", ttl_seconds=60).campaign(PATIENCE)
    assert again is not None
    assert not store.transact([leads.proof], [PutKey("a", b"1")])
    assert again.transact([], [PutKey("a", b"2")])
    store.close()


CHILD = """
import sys
from tests.kv.etcd_process import connect
from tsdb.kv import Election, LeadershipLost, PutKey
store = connect(sys.argv[1], prefix=sys.argv[2])
leads = Election(store, "leader", candidate=b"child", ttl_seconds=2).campaign(60, lambda _: print("lost", flush=True))
print("leads" if leads.is_held() else "no", flush=True)
sys.stdin.readline()
print("held" if leads.is_held() else "not held", flush=True)
print("wrote" if store.transact([leads.proof], [PutKey("a", b"child")]) else "refused", flush=True)
"""


def test_a_leader_that_stood_still_cannot_write_when_it_wakes(etcd: EtcdProcess) -> None:
    prefix = new_prefix()
    store = connect(etcd.url, prefix=prefix)
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, etcd.url, prefix],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "leads\n"
        child.send_signal(signal.SIGSTOP)
        leads = Election(store, "leader", candidate=b"me", ttl_seconds=60).campaign(PATIENCE)
        assert leads is not None
        assert leads.transact([], [PutKey("a", b"me")])
        child.send_signal(signal.SIGCONT)
        child.stdin.write("\n")
        child.stdin.close()
        said = sorted(child.stdout.read().split("\n"))
    assert [line for line in said if line] == ["lost", "not held", "refused"]
    assert store.get("a") == b"me"
    store.close()


def leader_of(members: list[EtcdProcess]) -> EtcdProcess:
    store = connect(*(member.url for member in members))
    try:
        for _ in range(200):
            for member, status in zip(members, store.members(), strict=True):
                if status.is_leader and not status.problems:
                    return member
        raise AssertionError("no leader")
    finally:
        store.close()


def test_a_cluster_that_loses_its_leader_goes_on(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as members:
        store = connect(*(member.url for member in members))
        leads = Election(store, "leader", candidate=b"me", ttl_seconds=30).campaign(PATIENCE)
        assert leads is not None
        watch = store.watch("counter")
        counting = Counting(store)
        rounds: list[Callable[[EtcdProcess], None]] = [lambda member: member.kill()]
        if RUNS_ALL:
            rounds += [lambda member: member.kill(), lambda member: member.send(signal.SIGSTOP)] * 4
        for stop in rounds:
            counting.wait_more(10)
            victim = leader_of(members)
            stop(victim)
            counting.wait_more(10)
            victim.kill()
            victim.start()
            victim.wait_ready()
        counting.wait_more(10)
        counting.stop()
        assert counting.unknown == 0
        assert counting.value() == counting.done
        found = values_until(watch, str(counting.done).encode())
        assert found == [str(each + 1).encode() for each in range(counting.done)]
        assert leads.is_held()
        assert leads.transact([], [PutKey("a", b"1")])
        store.close()


def test_an_address_that_nobody_listens_on_is_passed_over(etcd: EtcdProcess) -> None:
    store = connect("http://127.0.0.1:1", etcd.url)
    assert store.transact([], [PutKey("a", b"1")])
    assert store.get("a") == b"1"
    dead, alive = store.members()
    assert (dead.version, alive.problems) == ("", ())
    assert dead.problems
    assert alive.version.startswith("3.")
    assert alive.is_leader
    assert alive.database_bytes > 0
    store.close()


def test_a_cluster_that_cannot_be_reached_is_told_with_its_address() -> None:
    store = connect("http://127.0.0.1:1", tuning=replace(QUICK, timeout_seconds=0.3))
    with pytest.raises(KvUnavailable, match=r"127\.0\.0\.1:1"):
        store.get("a")
    with pytest.raises(KvUnavailable, match=r"127\.0\.0\.1:1"):
        store.transact([], [PutKey("a", b"1")])
    with pytest.raises(KvUnavailable):
        store.grant_lease(10)
    store.close()


@only_slow
def test_many_kills_lose_nothing(own_etcd: EtcdProcess) -> None:
    store = connect(own_etcd.url)
    watch = store.watch("counter")
    counting = Counting(store, threads=6)
    for number in range(30):
        counting.wait_more(number % 7)
        restart(own_etcd)
    counting.wait_more(20)
    counting.stop()
    assert counting.unknown == 0
    assert counting.value() == counting.done
    assert values_until(watch, str(counting.done).encode()) == [str(each + 1).encode() for each in range(counting.done)]
    store.close()


@only_slow
def test_members_without_a_majority_are_told_and_come_back(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as members:
        store = connect(*(member.url for member in members), tuning=replace(QUICK, timeout_seconds=3.0))
        assert store.transact([], [PutKey("a", b"1")])
        watch = store.watch("a")
        assert isinstance(watch.wait(PATIENCE), WatchReset)
        for member in members[:2]:
            member.kill()
        with pytest.raises(KvUnavailable):
            store.get("a")
        with pytest.raises(KvUnavailable):
            store.transact([], [PutKey("a", b"2")])
        # The member that is left accepts connections; a watch must not wait there in silence.
        while watch.problem is None:
            assert watch.wait(0.05) is None
        for member in members[:2]:
            member.start()
        for member in members[:2]:
            member.wait_ready()
        value = store.get("a")
        assert value is not None
        assert store.transact([Equals("a", value)], [PutKey("a", b"3")])
        assert values_until(watch, b"3")[-1] == b"3"
        store.close()


@only_slow
@pytest.mark.parametrize("seed", range(3))
def test_random_faults_between_a_client_and_a_cluster_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with ExitStack() as stack:
        members = stack.enter_context(running_cluster(tmp_path))
        proxies = [stack.enter_context(running_proxy(member.client_port)) for member in members]
        tuning = replace(QUICK, timeout_seconds=4.0, attempt_seconds=0.4)
        store = connect(*(proxy.url for proxy in proxies), tuning=tuning)
        watch = store.watch("counter")
        counting = Counting(store, threads=4)
        for _ in range(25):
            proxy = chance.choice(proxies)
            getattr(proxy, chance.choice(["cut", "silence", "refuse", "lose_replies"]))()
            if chance.random() < 0.2:
                victim = chance.choice(members)
                restart(victim)
            if chance.random() < 0.7:
                chance.choice(proxies).heal()
            time.sleep(chance.random())
        for proxy in proxies:
            proxy.heal()
        counting.wait_more(20)
        counting.stop()
        # What is told to be unknown may have happened or not; nothing else is in doubt.
        last = counting.value()
        assert counting.done <= last <= counting.done + counting.unknown
        assert store.transact([], [PutKey("counter", b"end")])
        values = [int(value) for value in values_until(watch, b"end")[:-1]]
        assert values == list(range(values[0], last + 1))
        store.close()
