"""Watches of an etcd that is cut off, forgetful or another one: no change is missed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.kv.counting import PATIENCE, sample, values_until
from tests.kv.etcd_process import (
    QUICK,
    EtcdProcess,
    connect,
    new_prefix,
    only_slow,
    running_etcd,
)
from tests.proxy import Proxy, running_proxy
from tsdb.kv import (
    Absent,
    CoordinationStore,
    KeyEvent,
    KeyPut,
    KvOutcomeUnknown,
    PutKey,
    WatchChanges,
    WatchReset,
)


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


def test_changes_that_need_several_messages_come_whole(etcd: EtcdProcess) -> None:
    """etcd splits a reply that is too large, here of five transactions, into fragments."""
    store = connect(etcd.url)
    start = store.snapshot("").revision
    for number in range(5):
        values = [PutKey(f"{number}/{each}", bytes([each]) * 250_000) for each in range(4)]
        assert store.transact([], values)
    watch = store.watch("", after_revision=start)
    events: list[KeyEvent] = []
    while len(events) < 20:
        found = watch.wait(PATIENCE)
        assert isinstance(found, WatchChanges)
        assert len(found.events) % 4 == 0
        events += found.events
    assert [event.key for event in events] == [f"{number}/{each}" for number in range(5) for each in range(4)]
    assert all(isinstance(event, KeyPut) and len(event.value) == 250_000 for event in events)
    assert watch.wait(0) is None
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


def put_first(store: CoordinationStore) -> None:
    """A change that was sent to the old etcd may be in doubt for ever; the next one is not."""
    try:
        assert store.transact([Absent("a")], [PutKey("a", b"new")])
    except KvOutcomeUnknown:
        assert store.transact([Absent("a")], [PutKey("a", b"new")])


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
            put_first(store)
            found = watch.wait(PATIENCE)
            assert isinstance(found, WatchReset)
            if not found.pairs:
                assert values_until(watch, b"new") == [b"new"]
            assert store.get("a") == b"new"
            store.close()
        finally:
            new.kill()
