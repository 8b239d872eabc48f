"""What every object store does, whichever it is."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.services import S3Server
from tsdb.store import (
    CachedStore,
    FileCache,
    InvalidPath,
    InvalidRange,
    LocalStore,
    MemoryStore,
    ObjectExists,
    ObjectNotFound,
    ObjectStore,
    OverlayStore,
    RoutedStore,
    StoreMisconfigured,
    all_stores,
    everywhere,
    free_bytes,
    routed_path,
    unrouted,
)


@pytest.fixture(params=["local", "memory", "overlay", "routed", "cached", "cached, but full", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "s3":
        s3: S3Server = request.getfixturevalue("s3_server")
        return s3.store()
    if request.param.startswith("cached"):
        cache = FileCache(tmp_path / "cache", 4 if "full" in request.param else 1 << 20)
        return CachedStore(MemoryStore(), cache, keeps=lambda path: True)
    if request.param == "routed":
        return RoutedStore(MemoryStore(), {"cold": MemoryStore()})
    if request.param == "overlay":
        return OverlayStore(MemoryStore(), MemoryStore())
    return LocalStore(tmp_path / "root") if request.param == "local" else MemoryStore()


def paths(store: ObjectStore, prefix: str = "", start_after: str | None = None) -> list[str]:
    return [meta.path for meta in store.list(prefix, start_after)]


def test_what_was_put_is_got_and_replaced_by_the_next_put(store: ObjectStore) -> None:
    store.put("a/b/c", b"first")
    assert store.get("a/b/c") == b"first"
    store.put("a/b/c", [b"sec", memoryview(b"o"), pa.py_buffer(b"nd")])
    assert store.get("a/b/c") == b"second"
    assert store.head("a/b/c").size_bytes == 6
    assert store.head("a/b/c").modified_ns > 0


def test_put_if_absent_keeps_the_first_object(store: ObjectStore) -> None:
    store.put_if_absent("manifest/1", b"mine")
    with pytest.raises(ObjectExists, match="manifest/1"):
        store.put_if_absent("manifest/1", b"yours")
    assert store.get("manifest/1") == b"mine"
    assert paths(store) == ["manifest/1"]


def test_of_many_that_put_if_absent_one_wins(store: ObjectStore) -> None:
    won = []

    def race(number: int) -> None:
        try:
            store.put_if_absent("epoch/7", str(number).encode())
        except ObjectExists:
            return
        won.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.get("epoch/7") == str(won[0]).encode()


def test_a_range_must_lie_within_the_object(store: ObjectStore) -> None:
    store.put("x", b"0123456789")
    assert store.get_range("x", 3, 4) == b"3456"
    assert store.get_range("x", 10, 0) == b""
    for offset, length in ((8, 3), (11, 0), (-1, 2)):
        with pytest.raises(InvalidRange, match="size_bytes: 10"):
            store.get_range("x", offset, length)


def test_a_missing_object_is_named(store: ObjectStore) -> None:
    store.put("dir/file", b"")
    for path in ("nothing", "dir", "dir/file/below"):
        for call in (store.get, store.head, store.open_input):
            with pytest.raises(ObjectNotFound, match=path):
                call(path)
        with pytest.raises(ObjectNotFound):
            store.get_range(path, 0, 1)


def test_deleting_is_idempotent(store: ObjectStore) -> None:
    store.put("a/b", b"x")
    for _ in range(2):
        store.delete("a/b")
    store.delete("never/was")
    assert paths(store) == []


def test_a_prefix_ends_at_a_slash(store: ObjectStore) -> None:
    for path in ("data/1/x", "data/1/y/z", "data/10/x", "data/1-old"):
        store.put(path, b"x")
    assert paths(store, "data/1") == ["data/1/x", "data/1/y/z"]
    assert paths(store, "data/1/") == ["data/1/x", "data/1/y/z"]
    assert paths(store, "nowhere") == []
    store.delete_prefix("data/1")
    store.delete_prefix("data/1")
    assert paths(store) == ["data/1-old", "data/10/x"]
    store.delete_prefix("")
    assert paths(store) == []
    store.put("data/1/x", b"again")
    assert paths(store) == ["data/1/x"]


_components = st.text("ab-.0", min_size=1, max_size=3).filter(lambda text: text not in (".", ".."))


@settings(max_examples=40, deadline=None)
@given(
    names=st.sets(st.lists(_components, min_size=1, max_size=3).map("/".join), max_size=8),
    start_after=st.lists(_components, min_size=1, max_size=3).map("/".join),
)
def test_lists_are_sorted_by_path_and_can_start_anywhere(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], start_after: str
) -> None:
    # On a file system, a path cannot be an object and hold others at the same time.
    names = {name for name in names if not any(other.startswith(f"{name}/") for other in names)}
    for store in (LocalStore(tmp_path_factory.mktemp("list")), MemoryStore()):
        for name in names:
            store.put(name, b"x")
        assert paths(store) == sorted(names)
        assert paths(store, "", start_after) == sorted(name for name in names if name > start_after)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "a//b", "../x", "a/../b", "a/.", "a/", "a\0b", "a.tmp-1"])
def test_paths_that_could_leave_the_root_are_refused(store: ObjectStore, path: str) -> None:
    for call in (store.get, store.head, store.delete, store.open_input):
        with pytest.raises(InvalidPath):
            call(path)
    for put in (store.put, store.put_if_absent):
        with pytest.raises(InvalidPath):
            put(path, b"")
    with pytest.raises(InvalidPath), store.writer(path):
        pass


def test_a_prefix_that_could_leave_the_root_is_refused(store: ObjectStore) -> None:
    with pytest.raises(InvalidPath):
        list(store.list("../x"))
    with pytest.raises(InvalidPath):
        store.delete_prefix("..")


def test_a_writer_shows_its_object_only_when_it_is_complete(store: ObjectStore) -> None:
    with store.writer("big", buffer_bytes=4) as sink:
        for part in (b"a", b"bcdefgh", b"ij", b"", b"k"):
            assert sink.write(part) == len(part)
        assert sink.tell() == 11
        assert paths(store) == []
    assert store.get("big") == b"abcdefghijk"


def test_a_writer_that_raises_leaves_nothing(store: ObjectStore) -> None:
    def write_half() -> None:
        with store.writer("big") as sink:
            sink.write(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_half()
    assert paths(store) == []


def test_parquet_goes_in_and_out(store: ObjectStore) -> None:
    table = pa.table({"ts": [1, 2, 3], "value": [0.5, None, 2.5]})
    with store.writer("1.parquet", buffer_bytes=64) as sink, pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
    with store.open_input("1.parquet") as source:
        assert pq.read_table(source).equals(table)


def test_an_overlay_changes_nothing_below() -> None:
    below, above = MemoryStore(), MemoryStore()
    for name in ("a/1", "a/2", "b/1", "b/2"):
        below.put(name, name.encode())
    overlay = OverlayStore(below, above)
    overlay.put("a/1", b"new")
    overlay.put("c", b"c")
    overlay.delete("a/2")
    overlay.delete_prefix("b")
    with pytest.raises(ObjectExists):
        overlay.put_if_absent("a/1", b"newer")
    overlay.put_if_absent("b/1", b"again")
    assert {path: overlay.get(path) for path in paths(overlay)} == {"a/1": b"new", "b/1": b"again", "c": b"c"}
    for gone in ("a/2", "b/2"):
        with pytest.raises(ObjectNotFound):
            overlay.get(gone)
    assert {path: below.get(path) for path in paths(below)} == {
        name: name.encode() for name in ("a/1", "a/2", "b/1", "b/2")
    }


def test_paths_lead_to_the_store_that_they_name() -> None:
    default, cold = MemoryStore(), MemoryStore()
    store = RoutedStore(default, {"cold": cold})
    assert routed_path("Cold", "data/1") == "@cold/data/1"
    assert unrouted("@cold/data/1") == "data/1"
    assert unrouted(routed_path(None, "data/1")) == "data/1"
    for path in ("0/x", "data/1/a", "@cold/data/1/b", "@cold/data/2/c", "data/2/d"):
        store.put(path, path.encode())
    assert [paths(each) for each in all_stores(store)] == [["0/x", "data/1/a", "data/2/d"], ["data/1/b", "data/2/c"]]
    assert paths(store) == ["0/x", "@cold/data/1/b", "@cold/data/2/c", "data/1/a", "data/2/d"]
    assert paths(store, "", "@cold/data/1/b") == ["@cold/data/2/c", "data/1/a", "data/2/d"]
    assert paths(store, "", "a") == ["data/1/a", "data/2/d"]
    assert paths(store, "@cold") == paths(store, "@cold/data") == ["@cold/data/1/b", "@cold/data/2/c"]
    assert paths(store, "@cold/data", "@cold/data/1/b") == ["@cold/data/2/c"]
    assert everywhere(store, "data") == ["@cold/data", "data"]
    assert store.head("@cold/data/1/b").path == "@cold/data/1/b"
    with store.open_input("@cold/data/1/b") as source:
        assert source.read() == store.get_range("@cold/data/1/b", 0, 14) == b"@cold/data/1/b"
    store.delete_prefix("@cold/data/1")
    assert paths(cold) == ["data/2/c"]


def test_a_path_to_a_store_that_is_not_configured_says_which(tmp_path: Path) -> None:
    store = RoutedStore(LocalStore(tmp_path), {"warm": MemoryStore()})
    for call in (store.get, store.head, store.open_input, store.delete, lambda path: list(store.list(path))):
        with pytest.raises(StoreMisconfigured, match=r"'cold' is not configured.*there are: warm"):
            call("@cold/data/1")
    store.put("data/1", b"x")
    assert store.get("data/1") == b"x"
    assert free_bytes(store, "data/1") is not None
    assert free_bytes(store, "@warm/data/1") is None
    assert free_bytes(store, "@cold/data/1") is None
