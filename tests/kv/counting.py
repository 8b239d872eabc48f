"""Counting under faults: what a store told its users, to be compared with what it holds and what its watches showed."""

from __future__ import annotations

import threading

from tests.kv.etcd_process import (
    EtcdProcess,
)
from tsdb.kv import (
    Absent,
    CoordinationStore,
    Equals,
    KeyPut,
    KvOutcomeUnknown,
    KvUnavailable,
    KvWatch,
    PutKey,
    WatchReset,
)
from tsdb.telemetry import REGISTRY

PATIENCE = 60.0


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def restart(member: EtcdProcess) -> None:
    member.kill()
    member.start()
    member.wait_ready()


def watch_counter(store: CoordinationStore) -> KvWatch:
    """Watch the counter from before it is there."""
    watch = store.watch("counter")
    first = watch.wait(PATIENCE)
    assert isinstance(first, WatchReset)
    assert first.pairs == ()
    return watch


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
