"""What only files have: durability, leftovers of crashes, disks that fail."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import FaultyFiles, FullDisk, PowerLossFiles
from tsdb.errors import Status
from tsdb.store import LocalStore, ObjectNotFound, StoreError, StoreFull, on_crash_point


def objects(root: Path) -> dict[str, bytes]:
    store = LocalStore(root)
    return {meta.path: store.get(meta.path) for meta in store.list("")}


def test_what_a_put_returned_for_survives_a_power_loss(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    files = PowerLossFiles(root)
    store = LocalStore(root, files=files)
    store.put("a/b/c", b"one")
    store.put("a/b/c", b"two")
    store.put_if_absent("a/d/e", b"three")
    with store.writer("f") as sink:
        sink.write(b"four")
    store.put("gone", b"five")
    store.delete("gone")
    files.survive(tmp_path / "after")
    assert objects(tmp_path / "after") == {"a/b/c": b"two", "a/d/e": b"three", "f": b"four"}


@pytest.mark.parametrize("absent", [False, True])
def test_a_power_loss_during_a_put_leaves_the_old_object_or_the_new_one(tmp_path: Path, absent: bool) -> None:
    root = tmp_path / "root"
    root.mkdir()
    LocalStore(root).put("other", b"x")
    if not absent:
        LocalStore(root).put("a", b"old")
    files = PowerLossFiles(root)
    store = LocalStore(root, files=files)
    seen: list[str] = []

    def lose_power(name: str) -> None:
        seen.append(name)
        files.survive(tmp_path / name)

    with on_crash_point(lose_power):
        if absent:
            store.put_if_absent("a", b"new")
        else:
            store.put("a", b"new")
    assert len(seen) == 3
    for name in seen:
        LocalStore(tmp_path / name).sweep_temporary()
        assert objects(tmp_path / name) in (
            [{"other": b"x"}, {"other": b"x", "a": b"new"}]
            if absent
            else [{"other": b"x", "a": b"old"}, {"other": b"x", "a": b"new"}]
        )


@pytest.mark.parametrize("point", ["store.put.before_sync", "store.put.before_rename", "store.put.after_rename"])
def test_a_process_that_dies_during_a_put_leaves_the_old_object_or_the_new_one(tmp_path: Path, point: str) -> None:
    script = "import sys; from tsdb.store import LocalStore; LocalStore(sys.argv[1]).put('a', b'new')"
    LocalStore(tmp_path).put("a", b"old")
    environment = {**os.environ, "TSDB_CRASH_POINT": point}
    child = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment, check=False)
    assert child.returncode == 137
    assert objects(tmp_path) == {"a": b"new" if point.endswith("after_rename") else b"old"}
    swept = LocalStore(tmp_path).sweep_temporary()
    assert swept == (0 if point.endswith("after_rename") else 1)
    assert os.listdir(tmp_path) == ["a"]


def test_temporary_files_are_never_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("dir/a", b"x")
    (tmp_path / "dir" / "a.tmp-0123").write_bytes(b"half")
    assert [meta.path for meta in store.list("")] == ["dir/a"]
    assert store.sweep_temporary() == 1
    assert os.listdir(tmp_path / "dir") == ["a"]


def test_a_full_disk_is_told_and_leaves_the_old_object(tmp_path: Path) -> None:
    files = FullDisk()
    store = LocalStore(tmp_path, files=files)
    store.put("a", b"old")
    files.budget = 3
    with pytest.raises(StoreFull, match="cannot write: No space left on device") as caught:
        store.put("a", b"larger than three")
    assert caught.value.status is Status.RUNTIME_RESOURCES_EXHAUSTED
    assert str(tmp_path / "a") in str(caught.value)
    assert objects(tmp_path) == {"a": b"old"}
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("operation", ["open", "write", "fsync", "rename", "fsync_dir"])
def test_an_error_of_the_disk_names_the_object_and_what_was_done(tmp_path: Path, operation: str) -> None:
    files = FaultyFiles()
    store = LocalStore(tmp_path, files=files)
    files.fail(operation, errno.EIO)
    with pytest.raises(StoreError, match=r"cannot write: Input/output error \(path: .*a\)"):
        store.put("a", b"x")
    assert not [name for name in os.listdir(tmp_path) if ".tmp-" in name]


def test_an_error_of_reading_is_wrapped_too(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = LocalStore(tmp_path, files=files)
    store.put("a", b"x")
    files.fail("pread", errno.EIO)
    with pytest.raises(StoreError, match=r"cannot read: Input/output error \(path: a\)"):
        store.get("a")


def test_short_writes_are_continued(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.shorten_writes(3)
    store = LocalStore(tmp_path, files=files)
    store.put("a", b"0123456789")
    assert store.get("a") == b"0123456789"


def test_errors_of_the_block_are_not_mistaken_for_errors_of_the_store(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(FileNotFoundError), store.writer("a"):
        raise FileNotFoundError(errno.ENOENT, "somebody else's file")
    with pytest.raises(ObjectNotFound):
        store.get("a")


def test_a_file_in_the_way_of_a_directory_is_an_error(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a", b"x")
    with pytest.raises(StoreError, match="cannot write"):
        store.put("a/b", b"y")
