"""What every store of metadata promises, tested on each of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kv.etcd_process import EtcdProcess, connect
from tsdb.errors import Status
from tsdb.kv import (
    STORE_OPERATIONS_MAX,
    Absent,
    DeleteKey,
    Equals,
    KvClosed,
    KvStore,
    KvTooLarge,
    MemoryKv,
    Operation,
    PutKey,
    RevisionIs,
    SqliteKv,
    plan_sequence,
)


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def kv(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KvStore]:
    store: KvStore
    match request.param:
        case "memory":
            store = MemoryKv()
        case "sqlite":
            store = SqliteKv(tmp_path / "metadata.db")
        case _:
            etcd: EtcdProcess = request.getfixturevalue("etcd")
            store = connect(etcd.url)
    yield store
    store.close()


def put(kv: KvStore, *pairs: tuple[str, bytes]) -> None:
    assert kv.transact([], [PutKey(key, value) for key, value in pairs])


def test_what_was_put_is_found_and_what_was_deleted_is_not(kv: KvStore) -> None:
    put(kv, ("a", b"1"), ("b", b""))
    assert (kv.get("a"), kv.get("b"), kv.get("c")) == (b"1", b"", None)
    assert kv.transact([], [DeleteKey("a"), DeleteKey("never there")])
    assert kv.get("a") is None


def test_a_scan_gives_the_keys_with_a_prefix_in_order(kv: KvStore) -> None:
    put(kv, ("t/2", b"2"), ("t/10", b"10"), ("t", b"t"), ("t0", b"behind"), ("t/\U0010ffff", b"last"), ("s/1", b"s"))
    assert kv.scan("t/") == [("t/10", b"10"), ("t/2", b"2"), ("t/\U0010ffff", b"last")]
    assert [key for key, _ in kv.scan("")] == ["s/1", "t", "t/10", "t/2", "t/\U0010ffff", "t0"]


@pytest.mark.parametrize("compare", [Absent("a"), Equals("a", b"2"), Equals("b", b""), RevisionIs("a", 0)])
def test_a_comparison_that_does_not_hold_changes_nothing(kv: KvStore, compare: Absent | Equals | RevisionIs) -> None:
    put(kv, ("a", b"1"))
    revision = kv.revision("a")
    assert not kv.transact([Equals("a", b"1"), compare], [PutKey("a", b"3"), PutKey("c", b"3")])
    assert kv.scan("") == [("a", b"1")]
    assert kv.revision("a") == revision


def test_comparisons_that_hold_let_everything_happen(kv: KvStore) -> None:
    put(kv, ("a", b"1"))
    holding = [Equals("a", b"1"), Absent("b"), RevisionIs("a", kv.revision("a")), RevisionIs("b", 0)]
    assert kv.transact(holding, [DeleteKey("a"), PutKey("b", b"2")])
    assert kv.scan("") == [("b", b"2")]


def test_operations_on_the_same_key_count_as_the_last(kv: KvStore) -> None:
    put(kv, ("a", b"1"))
    twice: list[Operation] = [DeleteKey("a"), PutKey("a", b"2"), PutKey("b", b"1"), DeleteKey("b"), PutKey("a", b"3")]
    assert kv.transact([], twice)
    assert kv.scan("") == [("a", b"3")]


def test_a_transaction_without_operations_only_compares(kv: KvStore) -> None:
    put(kv, ("a", b"1"))
    assert kv.transact([Equals("a", b"1"), Absent("b")], [])
    assert not kv.transact([Equals("a", b"2")], [])


def test_a_key_that_went_and_came_back_does_not_look_unchanged(kv: KvStore) -> None:
    put(kv, ("a", b"1"))
    before = kv.revision("a")
    assert kv.transact([], [DeleteKey("a")])
    assert kv.revision("a") == 0
    put(kv, ("a", b"1"))
    assert not kv.transact([RevisionIs("a", before)], [PutKey("a", b"2")])


def test_a_transaction_larger_than_every_store_takes_is_refused(kv: KvStore) -> None:
    operations: list[Operation] = [PutKey(str(number), b"") for number in range(STORE_OPERATIONS_MAX + 1)]
    with pytest.raises(KvTooLarge):
        kv.transact([], operations)
    with pytest.raises(KvTooLarge):
        kv.transact([Absent("a")] * (STORE_OPERATIONS_MAX + 1), [])
    assert kv.scan("") == []
    assert kv.transact([], operations[1:])


def next_of_sequence(kv: KvStore, *, start: int) -> int:
    while True:
        number, compare, put = plan_sequence(kv, "seq", start=start)
        if kv.transact([compare], [put]):
            return number


def test_a_sequence_gives_each_number_once_to_any_number_of_threads(kv: KvStore) -> None:
    taken: list[int] = []

    def take() -> None:
        taken.extend(next_of_sequence(kv, start=1024) for _ in range(10))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1024, 1064))


def test_a_sequence_never_falls_behind_a_later_start(kv: KvStore) -> None:
    assert next_of_sequence(kv, start=1) == 1
    assert next_of_sequence(kv, start=100) == 100
    assert next_of_sequence(kv, start=1) == 101


def test_a_closed_store_says_so(kv: KvStore) -> None:
    kv.close()
    kv.close()
    with pytest.raises(KvClosed) as caught:
        kv.get("a")
    assert caught.value.status is Status.STORAGE_UNAVAILABLE
    with pytest.raises(KvClosed):
        kv.transact([], [PutKey("a", b"")])


_KEYS = st.text("ab/é￿\U0001f600", max_size=4)
_OPERATIONS = st.lists(
    st.one_of(st.builds(PutKey, _KEYS, st.binary(max_size=3)), st.builds(DeleteKey, _KEYS)), max_size=6
)


@given(st.lists(_OPERATIONS, max_size=6), _KEYS)
def test_all_stores_show_the_same_after_any_transactions(transactions: list[list[Operation]], prefix: str) -> None:
    memory, file = MemoryKv(), SqliteKv(":memory:")
    expected: dict[str, bytes] = {}
    for operations in transactions:
        assert memory.transact([], operations)
        assert file.transact([], operations)
        for operation in operations:
            if isinstance(operation, PutKey):
                expected[operation.key] = operation.value
            else:
                expected.pop(operation.key, None)
    shown = sorted(((k, v) for k, v in expected.items() if k.startswith(prefix)), key=lambda pair: pair[0].encode())
    assert memory.scan(prefix) == file.scan(prefix) == shown
    file.close()
