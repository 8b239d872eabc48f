"""etcd that is killed or cut off: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kv.counting import PATIENCE, Counting, sample, values_until, watch_counter
from tests.kv.etcd_process import (
    QUICK,
    EtcdProcess,
    connect,
    new_prefix,
    only_slow,
    running_cluster,
)
from tests.proxy import Proxy
from tsdb.kv import (
    CoordinationStore,
    Equals,
    KvOutcomeUnknown,
    KvUnavailable,
    PutKey,
    PutLeased,
)


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[EtcdProcess]]:
    """Three members that may be killed together.

    A member that is alone acknowledges what it has not written yet (etcd before 3.5.5), and loses it when it is killed.
    """
    with running_cluster(tmp_path) as members:
        yield members


def test_kills_lose_no_event_no_lease_and_no_transaction(members: list[EtcdProcess]) -> None:
    with closing(connect(*(member.url for member in members))) as store:
        lease = store.grant_lease(60)
        assert store.transact([], [PutLeased("held", b"1", lease.id)])
        count_through_kills(store, members, kills=[20, 20])
        assert lease.is_alive()
        assert lease.renew_once()
        assert store.get("held") == b"1"


def count_through_kills(store: CoordinationStore, members: list[EtcdProcess], *, kills: Iterable[int]) -> None:
    """Kill all members each time the counter has grown by so much; every value is seen once, in order."""
    watch, counting = watch_counter(store), Counting(store)
    for more in kills:
        counting.wait_more(more)
        for member in members:
            member.kill()
        for member in members:
            member.start()
        for member in members:
            member.wait_ready()
    counting.wait_more(20)
    counting.stop()
    last = counting.value()
    # All members may be away for longer than a transaction waits to learn its outcome, if the machine stands still.
    assert counting.done <= last <= counting.done + counting.unknown
    assert values_until(watch, str(last).encode()) == [str(each + 1).encode() for each in range(last)]


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


def wait_reachable(store: CoordinationStore) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            store.get("a")
        except KvUnavailable:
            continue
        return
    raise AssertionError("the store does not answer again")


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
    wait_reachable(store)
    assert direct.transact([Equals("a", b"2")], [PutKey("a", b"3")])
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
    watch = watch_counter(store)
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
def test_many_kills_lose_nothing(members: list[EtcdProcess]) -> None:
    with closing(connect(*(member.url for member in members))) as store:
        count_through_kills(store, members, kills=[number % 7 for number in range(30)])
