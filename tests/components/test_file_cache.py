"""A database over a remote store: `storage.cache_path` and `storage.cache_capacity`, and the tables about caches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.store.faulty_store import FaultyStore
from tsdb.components._local import LocalDatabase, open_directory
from tsdb.components._stores import make_file_cache, with_cache
from tsdb.config import Component, load_config
from tsdb.database import Session
from tsdb.query import Affected
from tsdb.store import LocalStore, MemoryStore, file_cache_of
from tsdb.telemetry import REGISTRY

S3 = {"TYPE": "S3", "BUCKET": "b", "CACHE_CAPACITY": "1MB"}


def storage_of(root: Path, **keys: str) -> Any:
    """The storage section of a configuration in the environment."""
    keys = {"DATA_HOME": str(root), **keys}
    environment = {f"TSDB_STANDALONE__STORAGE__{key}": value for key, value in keys.items()}
    environment["TSDB_STANDALONE__WAL__DIR"] = str(root / "wal")
    return load_config(Component.STANDALONE, environment=environment).config.storage


@contextmanager
def opened(root: Path, remote: FaultyStore, **keys: str) -> Iterator[LocalDatabase]:
    storage = storage_of(root, **{**S3, **keys})
    store = with_cache(remote, make_file_cache(storage, [storage]))
    local = open_directory(root, store=store)
    try:
        yield local
    finally:
        local.close()


def run(local: LocalDatabase, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for output in local.database.execute(text, Session()):
        if not isinstance(output, Affected):
            rows += [row for batch in output for row in batch.to_pylist()]
    return rows


def fill(local: LocalDatabase) -> None:
    run(local, "CREATE TABLE cpu (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)")
    run(local, "INSERT INTO cpu VALUES ('a', 1, 1.5), ('b', 2, 2.0)")
    run(local, "ADMIN flush_table('cpu')")


def data_reads(remote: FaultyStore) -> list[str]:
    return [path for path in remote.read_paths if "/manifest/" not in path]


def test_tables_of_a_remote_store_are_read_from_the_file_cache(tmp_path: Path) -> None:
    remote = FaultyStore(MemoryStore())
    with opened(tmp_path, remote) as local:
        fill(local)
        assert run(local, "SELECT sum(v) AS s FROM cpu") == [{"s": 3.5}]
    with opened(tmp_path, remote, CACHE_PATH=str(tmp_path / "cache")) as local:
        assert run(local, "SELECT sum(v) AS s FROM cpu") == [{"s": 3.5}], "after a restart, too"
        assert not data_reads(remote), "the default is below data_home"
    with opened(tmp_path, remote, CACHE_PATH=str(tmp_path / "elsewhere")) as local:
        assert run(local, "SELECT sum(v) AS s FROM cpu") == [{"s": 3.5}]
        assert data_reads(remote)
        assert list((tmp_path / "elsewhere").rglob("*.parquet"))


def test_without_capacity_there_is_no_file_cache(tmp_path: Path) -> None:
    remote = FaultyStore(MemoryStore())
    with opened(tmp_path, remote, CACHE_CAPACITY="0") as local:
        fill(local)
        assert run(local, "SELECT sum(v) AS s FROM cpu") == [{"s": 3.5}]
        assert data_reads(remote)
        rows = run(local, "SELECT name, bytes FROM information_schema.cache_statistics")
        caches = {row["name"]: row for row in rows}
        assert "file" not in caches
        assert caches["page"]["bytes"] > 0, "the pages of a remote file are kept in memory"
    assert not (tmp_path / "cache").exists()


def test_local_files_have_no_file_cache(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    storage = storage_of(tmp_path, CACHE_PATH=str(tmp_path / "cache"))
    assert with_cache(store, make_file_cache(storage, [storage])) is store


def test_the_table_of_caches_shows_what_they_do(tmp_path: Path) -> None:
    remote = FaultyStore(MemoryStore())
    with opened(tmp_path, remote) as local:
        fill(local)
        run(local, "SELECT v FROM cpu")
        rows = run(local, "SELECT * FROM information_schema.cache_statistics")
        caches = {row["name"]: row for row in rows}
        of_rows = {"sst_meta", "vector", "page", "file"}
        assert set(caches) == of_rows | {"decoded_labels", "series_index", "series_register"}
        file = caches["file"]
        assert file["capacity"] == 1 << 20
        assert file["entries"] == 2
        assert 0 < file["bytes"] < 1 << 20
        assert file["hits"] > 0
        assert (file["misses"], file["evictions"], file["errors"], file["state"]) == (0, 0, 0, "on")
        assert file["since"] is not None
        assert caches["page"]["entries"] == 0, "what is in the file cache is not kept twice"
        assert REGISTRY.get_sample_value("tsdb_engine_cache_entries", {"cache": "file"}) == 2
        assert REGISTRY.get_sample_value("tsdb_engine_cache_capacity_bytes", {"cache": "file"}) == 1 << 20
        assert REGISTRY.get_sample_value("tsdb_engine_disk_free_bytes", {"directory": "cache"})


def test_a_cache_whose_disk_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = FaultyStore(MemoryStore())
    with opened(tmp_path, remote) as local:
        cache = file_cache_of(local.engine.context.store)
        assert cache is not None

        def fail(fd: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(cache.files, "fdatasync", fail)
        fill(local)
        assert run(local, "SELECT sum(v) AS s FROM cpu") == [{"s": 3.5}]
        (row,) = run(local, "SELECT * FROM information_schema.cache_statistics WHERE name = 'file'")
        assert row["state"] == "suspended"
        assert row["errors"] == 1
        assert "No space left" in row["reason"]
        assert "No space left" in row["last_error"]
        assert REGISTRY.get_sample_value("tsdb_engine_cache_suspended", {"cache": "file"}) == 1


def test_pages_of_local_files_are_left_to_the_system(tmp_path: Path) -> None:
    local = open_directory(tmp_path)
    try:
        fill(local)
        run(local, "SELECT v FROM cpu")
        (row,) = run(local, "SELECT * FROM information_schema.cache_statistics WHERE name = 'page'")
        assert (row["state"], row["bytes"], row["misses"]) == ("unused", 0, 0)
        assert "operating system" in row["reason"]
    finally:
        local.close()


def test_the_caches_of_promql_are_listed_too(tmp_path: Path) -> None:
    local = open_directory(tmp_path)
    try:
        fill(local)
        for _ in range(3):
            run(local, "TQL EVAL (0, 10, '5s') sum(cpu)")
        rows = run(local, "SELECT * FROM information_schema.cache_statistics WHERE name LIKE 'series%' ORDER BY name")
        assert [row["name"] for row in rows] == ["series_index", "series_register"]
        assert all(row["hits"] > 0 and row["misses"] > 0 and row["entries"] > 0 for row in rows)
        assert all(0 < row["bytes"] < row["capacity"] for row in rows)
    finally:
        local.close()
