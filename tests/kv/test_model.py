"""Random operations on etcd and on the store in memory: both answer the same, and show the same changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count, groupby

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.kv.etcd_process import RUNS_ALL, EtcdProcess, connect
from tsdb.kv import (
    Absent,
    Compare,
    CoordinationStore,
    DeleteKey,
    Equals,
    KeyEvent,
    KeyPut,
    KvLease,
    KvWatch,
    LeaseLost,
    MemoryKv,
    PutKey,
    PutLeased,
    RevisionIs,
    SharedOperation,
    WatchChanges,
)

EXAMPLES = 400 if RUNS_ALL else 15
PATIENCE = 60.0

KEYS = st.sampled_from(["", "a", "a/1", "a/2", "b", "é", "\U0001f600"])
VALUES = st.sampled_from([b"", b"1", b"2"])


@dataclass
class Side:
    """A store, and what is only its own: numbers of leases and revisions."""

    store: CoordinationStore
    leases: list[KvLease] = field(default_factory=list)
    revisions: list[int] = field(default_factory=lambda: [0])
    watches: list[KvWatch] = field(default_factory=list)

    def compare(self, draft: tuple[str, str, bytes, int]) -> Compare:
        kind, key, value, number = draft
        if kind == "absent":
            return Absent(key)
        if kind == "equals":
            return Equals(key, value)
        return RevisionIs(key, self.revisions[number % len(self.revisions)])

    def operation(self, draft: tuple[str, str, bytes, int]) -> SharedOperation:
        kind, key, value, number = draft
        if kind == "delete":
            return DeleteKey(key)
        if kind == "put" or not self.leases:
            return PutKey(key, value)
        return PutLeased(key, value, self.leases[number % len(self.leases)].id)

    def lease_number(self, lease_id: int) -> int:
        return [0, *(lease.id for lease in self.leases)].index(lease_id)


COMPARES = st.lists(
    st.tuples(st.sampled_from(["absent", "equals", "revision"]), KEYS, VALUES, st.integers(0, 20)), max_size=2
)
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "leased", "delete"]), KEYS, VALUES, st.integers(0, 20)), max_size=4
)


def described(events: list[KeyEvent]) -> list[list[tuple[str, bytes | None]]]:
    """Events by transaction, without the numbers of revisions."""
    return [
        [(event.key, event.value if isinstance(event, KeyPut) else None) for event in group]
        for _, group in groupby(events, key=lambda event: event.revision)
    ]


class StoresAgree(RuleBasedStateMachine):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.sides = [Side(MemoryKv()), Side(connect(url))]
        self.marks = count()

    @rule(compares=COMPARES, operations=OPERATIONS)
    def transact(
        self, compares: list[tuple[str, str, bytes, int]], operations: list[tuple[str, str, bytes, int]]
    ) -> None:
        answers: list[bool | str] = []
        for side in self.sides:
            try:
                answers.append(
                    side.store.transact(
                        [side.compare(each) for each in compares], [side.operation(each) for each in operations]
                    )
                )
            except LeaseLost:
                answers.append("lease lost")
        assert answers[0] == answers[1]

    @rule(key=KEYS)
    def remember_revision(self, key: str) -> None:
        for side in self.sides:
            side.revisions.append(side.store.revision(key))
        assert [bool(side.revisions[-1]) for side in self.sides] in ([True, True], [False, False])

    @rule()
    def grant(self) -> None:
        for side in self.sides:
            side.leases.append(side.store.grant_lease(60))

    @rule(number=st.integers(0, 20))
    def revoke(self, number: int) -> None:
        for side in self.sides:
            if side.leases:
                side.leases[number % len(side.leases)].revoke()

    @rule(prefix=st.sampled_from(["", "a", "a/"]))
    def watch(self, prefix: str) -> None:
        if len(self.sides[0].watches) < 3:
            resets = []
            for side in self.sides:
                side.watches.append(side.store.watch(prefix))
                resets.append(side.watches[-1].wait(PATIENCE))
            first, second = resets
            assert first is not None
            assert second is not None
            assert first.pairs == second.pairs  # type: ignore[union-attr]

    @rule()
    def compare_watches(self) -> None:
        """Changes up to a mark that all watches see."""
        mark = f"a/mark{next(self.marks)}"
        for side in self.sides:
            assert side.store.transact([], [PutKey(mark, b"")])
            assert side.store.transact([], [DeleteKey(mark)])
        for first, second in zip(self.sides[0].watches, self.sides[1].watches, strict=True):
            assert described(self.read(first, mark)) == described(self.read(second, mark))

    def read(self, watch: KvWatch, mark: str) -> list[KeyEvent]:
        events: list[KeyEvent] = []
        while not any(event.key == mark and not isinstance(event, KeyPut) for event in events):
            found = watch.wait(PATIENCE)
            assert isinstance(found, WatchChanges)
            assert found.revision == found.events[-1].revision
            events += found.events
        assert [event.revision for event in events] == sorted(event.revision for event in events)
        return events

    @rule(prefix=KEYS)
    def scan(self, prefix: str) -> None:
        assert self.sides[0].store.scan(prefix) == self.sides[1].store.scan(prefix)

    @invariant()
    def entries_agree(self) -> None:
        memory, etcd = ([side.store.find(key) for key, _ in side.store.scan("")] for side in self.sides)
        assert [entry and (entry.value, self.sides[0].lease_number(entry.lease_id)) for entry in memory] == [
            entry and (entry.value, self.sides[1].lease_number(entry.lease_id)) for entry in etcd
        ]
        orders = [
            sorted(range(len(entries)), key=lambda index: (entries[index].revision, index))  # type: ignore[union-attr]
            for entries in (memory, etcd)
        ]
        assert orders[0] == orders[1]

    def teardown(self) -> None:
        for side in self.sides:
            for lease in side.leases:
                lease.revoke()
            side.store.close()


def test_etcd_and_memory_answer_the_same(etcd: EtcdProcess) -> None:
    run_state_machine_as_test(
        lambda: StoresAgree(etcd.url), settings=settings(max_examples=EXAMPLES, stateful_step_count=20, deadline=None)
    )
