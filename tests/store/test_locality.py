"""Which objects are files of this machine, also when several stores are behind one and some have a file cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsdb.store import (
    CachedStore,
    FileCache,
    LocalStore,
    MemoryStore,
    RoutedStore,
    distrust,
    file_cache_of,
    is_local,
    local_copy,
    unrouted,
)

CONTENT = b"a data file"


@pytest.fixture
def cache(tmp_path: Path) -> FileCache:
    return FileCache(tmp_path / "cache", 1 << 20)


@pytest.fixture
def store(tmp_path: Path, cache: FileCache) -> RoutedStore:
    cached = CachedStore(MemoryStore(), cache, "cold", keeps=lambda path: True)
    others = {"cold": cached, "near": LocalStore(tmp_path / "near"), "far": MemoryStore()}
    return RoutedStore(LocalStore(tmp_path / "data"), others)


@pytest.mark.parametrize("start", ["", "@near/", "@cold/"])
def test_a_file_is_found_under_its_path_in_its_own_store(store: RoutedStore, start: str) -> None:
    path = f"{start}data/1/a.parquet"
    store.put(path, CONTENT)
    assert store.get(path) == CONTENT
    assert is_local(store, path)
    copy = local_copy(store, [path])
    assert copy is not None
    assert (Path(copy.root) / unrouted(path)).read_bytes() == CONTENT


def test_an_object_of_a_remote_store_without_a_cache_is_no_file(store: RoutedStore) -> None:
    store.put("@far/data/1/a.parquet", CONTENT)
    assert not is_local(store, "@far/data/1/a.parquet")
    assert local_copy(store, ["@far/data/1/a.parquet"]) is None
    assert not distrust(store, "@far/data/1/a.parquet")


def test_the_cache_of_any_store_is_found(store: RoutedStore, cache: FileCache) -> None:
    assert file_cache_of(store) is cache
    assert file_cache_of(RoutedStore(MemoryStore(), {})) is None


def test_a_copy_that_is_wrong_is_read_from_its_store(store: RoutedStore, cache: FileCache) -> None:
    path = "@cold/data/1/a.parquet"
    store.put(path, CONTENT)
    assert store.get(path) == CONTENT
    copy = local_copy(store, [path])
    assert copy is not None
    (Path(copy.root) / unrouted(path)).write_bytes(b"a wrong one")
    assert distrust(store, path)
    assert not is_local(store, path)
    assert store.get(path) == CONTENT
