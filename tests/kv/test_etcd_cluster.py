"""Several members of etcd, of which some are killed, stopped or cut off."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kv.campaign import campaign
from tests.kv.counting import PATIENCE, Counting, restart, values_until, watch_counter
from tests.kv.etcd_process import (
    QUICK,
    RUNS_ALL,
    EtcdProcess,
    connect,
    only_slow,
    running_cluster,
)
from tests.proxy import running_proxy
from tsdb.kv import (
    Election,
    Equals,
    KvUnavailable,
    PutKey,
    WatchReset,
)


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
        leads = campaign(Election(store, "leader", candidate=b"me", ttl_seconds=30), PATIENCE)
        assert leads is not None
        watch = watch_counter(store)
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
        watch = watch_counter(store)
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
        assert values == list(range(1, last + 1))
        store.close()
