"""A copy of the metadata: what it shows, whom it tells, how it starts over."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsdb.errors import DeadlineExceeded
from tsdb.kv import (
    Absent,
    Compare,
    DeleteKey,
    Equals,
    KeyDeleted,
    KeyEvent,
    KeyPut,
    KvClosed,
    MemoryKv,
    MirrorKv,
    Operation,
    PutKey,
    WatchChanges,
    WatchReset,
)


class Watch:
    """A watch that shows what the test gives it."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self._given: list[WatchReset | WatchChanges] = []
        self._changed = threading.Condition()
        self._is_closed = False

    def give(self, found: WatchReset | WatchChanges) -> None:
        with self._changed:
            self._given.append(found)
            self._changed.notify()

    def wait(self, timeout_seconds: float) -> WatchReset | WatchChanges | None:
        with self._changed:
            self._changed.wait_for(lambda: self._given or self._is_closed, timeout_seconds)
            if self._is_closed:
                raise KvClosed
            return self._given.pop(0) if self._given else None

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()


def through(store: MemoryKv) -> MirrorKv:
    """A copy of a store in memory, which changes the store itself."""

    def transact(compares: Sequence[Compare], operations: Sequence[Operation]) -> int | None:
        return store.snapshot("").revision if store.transact(compares, operations) else None

    mirror = MirrorKv(store.watch("__"), transact)
    mirror.start(30)
    return mirror


@pytest.fixture
def store() -> Iterator[MemoryKv]:
    made = MemoryKv()
    made.transact([], [PutKey("__a/1", b"one"), PutKey("other", b"")])
    yield made
    made.close()


def test_reads_come_from_the_copy_and_own_changes_are_seen_at_once(store: MemoryKv) -> None:
    mirror = through(store)
    assert mirror.scan("") == [("__a/1", b"one")]
    for number in range(50):
        assert mirror.transact([], [PutKey("__a/2", str(number).encode())])
        assert mirror.get("__a/2") == str(number).encode()
    assert not mirror.transact([Absent("__a/2")], [PutKey("__a/2", b"x")])
    assert mirror.transact([Equals("__a/2", b"49")], [DeleteKey("__a/2")])
    assert mirror.get("__a/2") is None
    assert mirror.revision("__a/2") == 0
    assert mirror.revision("__a/1") > 0
    mirror.close()


def test_a_subscriber_has_seen_a_change_before_those_who_wait_for_it(store: MemoryKv) -> None:
    mirror = through(store)
    seen: dict[str, bytes | None] = {}
    mirror.subscribe(["__a/", "__b/"], seen.update)
    assert seen == {"__a/1": b"one"}
    for number in range(50):
        key = f"__b/{number}"
        mirror.transact([], [PutKey(key, b"x"), PutKey("__c/1", b"")])
        assert seen[key] == b"x"
    mirror.transact([], [DeleteKey("__a/1")])
    assert seen["__a/1"] is None
    assert "__c/1" not in seen
    mirror.close()


def test_a_subscriber_that_fails_does_not_stop_the_others(store: MemoryKv) -> None:
    mirror = through(store)
    calls: list[object] = []

    def fail(changed: object) -> None:
        calls.append(changed)
        if len(calls) > 1:
            raise RuntimeError("cannot follow")

    seen: dict[str, bytes | None] = {}
    mirror.subscribe(["__"], fail)
    mirror.subscribe(["__"], seen.update)
    mirror.transact([], [PutKey("__a/9", b"9")])
    assert seen["__a/9"] == b"9"
    assert len(calls) == 2
    mirror.close()


def test_when_the_watch_starts_over_subscribers_see_the_difference(store: MemoryKv) -> None:
    watch = Watch()
    watch.give(WatchReset(5, (("__a", b"1"), ("__b", b"2"), ("__c", b"3"))))
    mirror = MirrorKv(watch, lambda *_: None)
    mirror.start(30)
    told: list[dict[str, bytes | None]] = []
    mirror.subscribe([""], lambda changed: told.append(dict(changed)))
    watch.give(WatchReset(9, (("__a", b"1"), ("__b", b"new"), ("__d", b"4"))))
    mirror.wait_for(9, 30)
    assert told[1:] == [{"__b": b"new", "__c": None, "__d": b"4"}]
    assert mirror.scan("") == [("__a", b"1"), ("__b", b"new"), ("__d", b"4")]
    watch.give(WatchChanges(11, (KeyPut("__a", b"x", 10), KeyDeleted("__a", 11))))
    mirror.wait_for(11, 30)
    assert told[2:] == [{"__a": None}]
    mirror.close()


def test_a_copy_that_does_not_come_says_why() -> None:
    watch = Watch()
    watch.problem = "etcd is on fire"
    mirror = MirrorKv(watch, lambda *_: None)
    with pytest.raises(DeadlineExceeded, match="etcd is on fire"):
        mirror.start(0.05)
    mirror.close()
    with pytest.raises(KvClosed):
        mirror.wait_for(1, 30)


_KEYS = st.sampled_from(["__a", "__b", "__c"])
_STEPS = st.lists(st.tuples(_KEYS, st.none() | st.sampled_from([b"1", b"2"]), st.booleans()), max_size=20)


@given(_STEPS)
def test_a_subscriber_can_rebuild_the_store_from_what_it_is_told(steps: list[tuple[str, bytes | None, bool]]) -> None:
    """Some changes come as changes, others are only seen because the watch starts over."""
    watch = Watch()
    mirrored: dict[str, bytes] = {}
    mirror = MirrorKv(watch, lambda *_: None)
    watch.give(WatchReset(1, ()))
    mirror.start(30)
    rebuilt: dict[str, bytes] = {}

    def follow(changed: object) -> None:
        assert isinstance(changed, dict)
        for key, value in changed.items():
            if value is None:
                rebuilt.pop(key, None)
            else:
                rebuilt[key] = value

    mirror.subscribe(["__"], follow)
    for revision, (key, value, is_reset) in enumerate(steps, 2):
        event: KeyEvent = KeyDeleted(key, revision) if value is None else KeyPut(key, value, revision)
        if value is None:
            mirrored.pop(key, None)
        else:
            mirrored[key] = value
        if is_reset:
            watch.give(WatchReset(revision, tuple(sorted(mirrored.items()))))
        else:
            watch.give(WatchChanges(revision, (event,)))
        mirror.wait_for(revision, 30)
        assert rebuilt == mirrored == dict(mirror.scan(""))
    mirror.close()
