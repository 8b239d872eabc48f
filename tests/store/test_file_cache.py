"""The file cache: what is read often is local, never more than the capacity, and a broken disk costs only speed."""

from __future__ import annotations

import errno
import gc
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.lives import wait_until
from tests.faults import FaultyFiles, FullDisk
from tests.store.faulty_store import FaultyStore
from tsdb.clock import ManualClock
from tsdb.store import (
    CachedStore,
    DirectoryInUse,
    FileCache,
    Files,
    InvalidRange,
    MemoryStore,
    ObjectNotFound,
    StoreError,
    is_local,
    local_copy,
)
from tsdb.store.file_cache import INDEX_SHARE, SUSPENDED_SECONDS, CacheEntries, CacheEntry, _cached_store, _fills
from tsdb.telemetry import CacheState

KIB = 1 << 10


def content_of(size: int, seed: int = 1) -> bytes:
    """What looks like a data file of this size."""
    return b"PAR1" + bytes((seed + at) % 251 for at in range(size - 8)) + b"PAR1"


class World:
    """A cached store over a faulty one in memory; the cache can be closed and opened again."""

    def __init__(self, root: Path, capacity: int = 64 * KIB, files: Files | None = None) -> None:
        self.root = root
        self.capacity = capacity
        self.files = files
        self.clock = ManualClock(10**18)
        self.remote = FaultyStore(MemoryStore())
        self.open()

    def open(self) -> None:
        self.cache = FileCache(self.root / "cache", self.capacity, files=self.files, clock=self.clock, free_bytes_min=0)
        self.store = CachedStore(self.remote, self.cache)

    def restart(self) -> None:
        self.cache.close()
        self.open()

    def local_files(self) -> dict[str, int]:
        base = self.root / "cache" / "files" / "default"
        return {str(file.relative_to(base)): file.stat().st_size for file in base.rglob("*") if file.is_file()}

    def reads(self) -> int:
        return self.remote.calls["get"] + self.remote.calls["get_range"]

    def put_remote(self, path: str, data: bytes) -> None:
        self.remote.inner.put(path, data)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_is_written_is_read_without_the_store(world: World) -> None:
    data = content_of(5000)
    with world.store.writer("data/a.parquet", 1000) as sink:
        for start in range(0, len(data), 700):
            sink.write(data[start : start + 700])
    world.store.put("data/index/a.idx", b"blobTSDBIDX1")
    assert world.remote.inner.get("data/a.parquet") == data
    assert world.store.get("data/a.parquet") == data
    assert world.store.get_range("data/a.parquet", 10, 90) == data[10:100]
    assert world.store.open_input("data/a.parquet").read_at(50, 4000) == data[4000:4050]
    assert world.store.get("data/index/a.idx") == b"blobTSDBIDX1"
    assert world.reads() == 0
    statistics = world.cache.statistics()
    assert (statistics.hits, statistics.misses, statistics.entries) == (4, 0, 2)
    assert statistics.bytes == 5012 == sum(world.local_files().values())


def test_manifests_are_never_local(world: World) -> None:
    world.store.put_if_absent("data/manifest/1.json", b"{}")
    world.store.put("data/manifest/_last_checkpoint", b"{}")
    assert world.store.get("data/manifest/1.json") == b"{}"
    assert world.reads() == 1
    assert not world.local_files()


def test_a_small_object_is_downloaded_by_the_first_read_of_a_part_of_it(world: World) -> None:
    data = content_of(9000)
    world.put_remote("data/a.parquet", data)
    assert world.store.get_range("data/a.parquet", 8000, 1000) == data[8000:]
    assert world.store.get_range("data/a.parquet", 0, 4) == b"PAR1"
    with pytest.raises(InvalidRange):
        world.store.get_range("data/a.parquet", 8999, 2)
    assert world.reads() == 1
    assert world.local_files() == {"data/a.parquet": 9000}


def test_many_who_miss_a_small_object_download_it_once(world: World) -> None:
    data = content_of(9000)
    world.put_remote("data/a.parquet", data)
    world.store.head("data/a.parquet")
    gate = world.remote.block()
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(world.store.get_range("data/a.parquet", 5, 10))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(30)
    assert found == [data[5:15]] * 8
    assert world.reads() == 1


def test_a_download_that_ends_right_after_a_miss_is_not_repeated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    data = content_of(9000)
    world.put_remote("data/a.parquet", data)
    read = world.cache.read

    def miss_while_another_downloads(key: str, *part: int) -> bytes | None:
        monkeypatch.setattr(world.cache, "read", read)
        found = read(key, *part)
        world.store.get("data/a.parquet")
        return found

    monkeypatch.setattr(world.cache, "read", miss_while_another_downloads)
    assert world.store.get_range("data/a.parquet", 5, 10) == data[5:15]
    assert world.reads() == 1


def test_a_large_object_is_read_in_parts_and_downloaded_in_the_background(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cached_store, "SMALL_BYTES_MAX", 1000)
    monkeypatch.setattr(_cached_store, "PIECE_BYTES", 4000)
    data = content_of(9000)
    world.put_remote("data/a.parquet", data)
    for turn in range(1, _fills.READS_MIN):
        assert world.store.get_range("data/a.parquet", turn, 10) == data[turn : turn + 10]
    assert world.reads() == _fills.READS_MIN - 1
    assert world.store.open_input("data/a.parquet").read_at(10, 100) == data[100:110]
    wait_until(lambda: world.store.fills.is_idle)
    assert world.local_files() == {"data/a.parquet": 9000}
    reads = world.reads()
    assert reads == _fills.READS_MIN + 3, "the fourth read, and three pieces"
    assert world.store.get("data/a.parquet") == data
    assert world.reads() == reads


def test_a_large_object_that_is_opened_and_read_once_is_not_downloaded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cached_store, "SMALL_BYTES_MAX", 1000)
    data = content_of(9000)
    world.put_remote("data/a.parquet", data)
    assert world.store.open_input("data/a.parquet").read() == data
    assert world.store.fills.is_idle
    assert not world.local_files()


def test_a_large_object_of_which_much_is_read_at_once_is_downloaded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cached_store, "SMALL_BYTES_MAX", 1000)
    world.put_remote("data/a.parquet", content_of(9000))
    world.store.get_range("data/a.parquet", 0, 3000)
    wait_until(lambda: world.store.fills.is_idle and bool(world.local_files()))


def test_the_least_recently_used_goes_first(world: World) -> None:
    for name in "abcdef":
        world.put_remote(f"data/{name}.parquet", content_of(10 * KIB))
        world.store.get_range(f"data/{name}.parquet", 0, 4)
    world.store.get_range("data/a.parquet", 0, 4)
    world.put_remote("data/g.parquet", content_of(10 * KIB))
    world.store.get_range("data/g.parquet", 0, 4)
    assert {path[5] for path in world.local_files()} == set("acdefg")
    assert world.cache.statistics().evictions == 1


def test_new_files_outlive_what_is_only_read_until_they_take_half_of_the_capacity(world: World) -> None:
    world.store.put("data/new.parquet", content_of(10 * KIB))
    for turn in range(20):
        world.put_remote(f"data/{turn}.parquet", content_of(10 * KIB))
        world.store.get_range(f"data/{turn}.parquet", 0, 4)
    assert "data/new.parquet" in world.local_files()
    for turn in range(4):
        world.store.put(f"data/newer{turn}.parquet", content_of(10 * KIB))
    for turn in range(20, 30):
        world.put_remote(f"data/{turn}.parquet", content_of(10 * KIB))
        world.store.get_range(f"data/{turn}.parquet", 0, 4)
    left = set(world.local_files())
    assert "data/new.parquet" not in left
    assert {"data/newer1.parquet", "data/newer2.parquet", "data/newer3.parquet"} <= left


def index_of(size: int) -> bytes:
    """What looks like an index file of this size."""
    return bytes(size - 8) + b"TSDBIDX1"


def test_data_files_do_not_push_out_index_files_within_their_share(world: World) -> None:
    # A fifth of 64 KiB.
    for name in "abc":
        world.put_remote(f"data/index/{name}.idx", index_of(4 * KIB))
        world.store.get_range(f"data/index/{name}.idx", 0, 4)
    for turn in range(20):
        world.put_remote(f"data/{turn}.parquet", content_of(10 * KIB))
        world.store.get_range(f"data/{turn}.parquet", 0, 4)
    left = world.local_files()
    assert {f"data/index/{name}.idx" for name in "abc"} <= set(left)
    assert sum(left.values()) <= world.capacity
    assert "data/19.parquet" in left


def test_index_files_beyond_their_share_are_files_like_others(world: World) -> None:
    for number in range(12):
        world.put_remote(f"data/index/{number}.idx", index_of(4 * KIB))
        world.store.get_range(f"data/index/{number}.idx", 0, 4)
    for turn in range(20):
        world.put_remote(f"data/{turn}.parquet", content_of(10 * KIB))
        world.store.get_range(f"data/{turn}.parquet", 0, 4)
    left = world.local_files()
    assert {path for path in left if path.endswith(".idx")} == {f"data/index/{number}.idx" for number in (9, 10, 11)}
    assert sum(left.values()) <= world.capacity


def test_index_files_shrink_with_the_cache_when_the_disk_gets_full(tmp_path: Path) -> None:
    files = FaultyFiles()
    world = World(tmp_path, files=files)
    for name in "abc":
        world.put_remote(f"data/index/{name}.idx", index_of(4 * KIB))
        world.store.get_range(f"data/index/{name}.idx", 0, 4)
    files.free = -10 * KIB
    world.put_remote("data/index/d.idx", index_of(KIB))
    world.store.get_range("data/index/d.idx", 0, 4)
    assert sum(world.local_files().values()) <= 2 * KIB


def test_what_is_larger_than_the_cache_passes_it_by(world: World) -> None:
    world.store.put("data/a.parquet", content_of(10 * KIB))
    large = content_of(65 * KIB)
    with world.store.writer("data/b.parquet") as sink:
        sink.write(large)
    assert world.store.get("data/b.parquet") == large
    assert set(world.local_files()) == {"data/a.parquet"}
    assert world.cache.statistics().errors == 0


def test_the_bound_holds_while_files_are_written(tmp_path: Path) -> None:
    """A disk that counts: what lies in the directory, temporary files included, never exceeds the capacity."""
    seen: list[int] = []

    class Measured(Files):
        def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
            written = super().write(fd, data)
            seen.append(sum(file.stat().st_size for file in (tmp_path / "cache" / "files").rglob("*.parquet*")))
            return written

    world = World(tmp_path, capacity=8 << 20, files=Measured())
    stop = threading.Event()

    def write(name: str) -> None:
        for turn in range(12):
            with world.store.writer(f"data/{name}{turn}.parquet") as sink:
                sink.write(b"PAR1")
                for _ in range(3):
                    sink.write(bytes(1 << 20))
                sink.write(b"PAR1")
        stop.set()

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert stop.is_set()
    assert max(seen) <= 8 << 20
    assert world.cache.statistics().bytes == sum(world.local_files().values()) > 0


def test_a_deleted_object_has_no_copy(world: World) -> None:
    for name in ("x/a.parquet", "x/index/a.idx", "xy/b.parquet"):
        world.store.put(f"data/{name}", content_of(100))
    reader = world.store.open_input("data/x/a.parquet")
    world.store.delete("data/x/a.parquet")
    assert reader.read() == content_of(100), "what is being read stays readable"
    with pytest.raises(ObjectNotFound):
        world.store.get("data/x/a.parquet")
    world.store.delete_prefix("data/x")
    assert set(world.local_files()) == {"data/xy/b.parquet"}
    assert not (world.root / "cache/files/default/data/x").exists()
    assert world.cache.statistics().bytes == 100


def test_a_download_that_is_overtaken_by_a_delete_is_not_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cached_store, "SMALL_BYTES_MAX", 1000)
    world.put_remote("data/a.parquet", content_of(9000))
    size = world.store.head("data/a.parquet").size_bytes
    gate = world.remote.block()
    filling = threading.Thread(target=world.store._fill, args=("data/a.parquet", size))
    filling.start()
    wait_until(lambda: bool(world.cache._writing))
    world.cache.drop("default/data/a.parquet")
    gate.set()
    filling.join(30)
    assert not world.local_files()
    assert world.cache.statistics().bytes == 0


def test_a_replaced_object_is_read_as_it_is_now(world: World) -> None:
    world.store.put("data/a.parquet", content_of(100, 1))
    world.store.put("data/a.parquet", content_of(300, 2))
    assert world.store.get("data/a.parquet") == content_of(300, 2)
    assert world.cache.statistics().bytes == 300
    world.remote.lose_reply("put")
    with pytest.raises(StoreError):
        world.store.put("data/a.parquet", content_of(200, 3))
    assert world.store.get("data/a.parquet") == content_of(200, 3)


def test_a_write_that_the_store_refuses_leaves_no_copy(world: World) -> None:
    world.remote.fail("writer")
    world.remote.lose_reply("writer", nth=1)
    world.remote.fail("put")
    for _ in range(2):
        with pytest.raises(StoreError), world.store.writer("data/a.parquet") as sink:
            sink.write(content_of(100))
    with pytest.raises(StoreError):
        world.store.put("data/b.parquet", content_of(100))
    assert not world.local_files()
    assert world.cache.statistics().bytes == 0


def test_a_copy_counts_only_if_the_store_has_all_of_the_object(world: World) -> None:
    class Forgetting(MemoryStore):
        def put(self, path: str, data: object) -> None:
            super().put(path, data[:50])  # type: ignore[index]

    store = CachedStore(Forgetting(), world.cache)
    with store.writer("data/a.parquet") as sink:
        sink.write(content_of(100))
    assert len(store.get("data/a.parquet")) == 50, "the reader sees what the store has"


def test_a_restart_finds_the_files_and_verifies_them(world: World) -> None:
    for name in "abcd":
        world.store.put(f"data/{name}.parquet", content_of(1000))
    world.store.put("data/index/a.idx", b"blobTSDBIDX1")
    base = world.root / "cache/files/default/data"
    (base / "b.parquet").write_bytes(content_of(1000)[:-1] + b"x")
    (base / "c.parquet").write_bytes(content_of(1000)[:500])
    (base / "d.parquet.tmp-17").write_bytes(b"half")
    world.restart()
    assert not (base / "d.parquet.tmp-17").exists()
    for name in "abcd":
        assert world.store.get(f"data/{name}.parquet") == content_of(1000)
    assert world.store.get("data/index/a.idx") == b"blobTSDBIDX1"
    assert world.reads() == 2
    assert world.cache.statistics().errors == 2


def test_a_listing_after_a_restart_removes_what_the_store_does_not_have(world: World) -> None:
    for name in "abc":
        world.store.put(f"data/{name}.parquet", content_of(1000))
    world.remote.inner.delete("data/a.parquet")
    world.put_remote("data/b.parquet", content_of(999))
    world.restart()
    assert len(list(world.store.list("data"))) == 2
    assert set(world.local_files()) == {"data/c.parquet"}
    assert world.cache.statistics().bytes == 1000


def test_a_smaller_capacity_after_a_restart_is_kept(world: World) -> None:
    for name in "abcdef":
        world.store.put(f"data/{name}.parquet", content_of(10 * KIB))
    world.capacity = 25 * KIB
    world.restart()
    assert sum(world.local_files().values()) == 20 * KIB == world.cache.statistics().bytes


@pytest.mark.parametrize(
    ("operation", "code"),
    [("write", errno.ENOSPC), ("fdatasync", errno.EIO), ("rename", errno.EIO), ("open", errno.EROFS)],
)
def test_a_disk_that_cannot_be_written_to_costs_copies_and_no_write(tmp_path: Path, operation: str, code: int) -> None:
    files = FaultyFiles()
    world = World(tmp_path, files=files)
    files.fail(operation, code, name=".parquet", times=-1)
    for turn in range(3):
        world.store.put(f"data/{turn}.parquet", content_of(100))
        assert world.store.get(f"data/{turn}.parquet") == content_of(100)
    statistics = world.cache.statistics()
    assert statistics.errors == 1, "the second one is not tried"
    assert statistics.state is CacheState.SUSPENDED
    assert statistics.last_error is not None
    assert statistics.reason is not None
    assert statistics.since_ms == 10**12
    assert statistics.bytes == 0
    assert not world.local_files()
    files.heal()
    world.clock.advance(seconds=SUSPENDED_SECONDS)
    world.store.put("data/3.parquet", content_of(100))
    assert set(world.local_files()) == {"data/3.parquet"}
    assert world.cache.statistics().state is CacheState.ON


def test_a_disk_that_gets_full_in_the_middle_of_a_file(tmp_path: Path) -> None:
    files = FullDisk()
    world = World(tmp_path, files=files)
    files.budget = 5000
    world.store.put("data/a.parquet", content_of(9000))
    assert world.store.get("data/a.parquet") == content_of(9000)
    assert not world.local_files()
    assert world.cache.statistics().bytes == 0


@pytest.mark.parametrize(("operation", "code"), [("open", errno.EIO), ("pread", errno.EIO), ("open", errno.ENOENT)])
def test_a_copy_that_cannot_be_read_is_read_from_the_store(tmp_path: Path, operation: str, code: int) -> None:
    files = FaultyFiles()
    world = World(tmp_path, files=files)
    world.store.put("data/a.parquet", content_of(100))
    files.fail(operation, code, name=".parquet")
    assert world.store.get_range("data/a.parquet", 4, 10) == content_of(100)[4:14]
    assert world.remote.calls["get_range"] + world.remote.calls["get"] == 1
    assert world.cache.statistics().errors == 1


def damage_directory(directory: Path) -> None:
    shutil.rmtree(directory)


def damage_files(directory: Path) -> None:
    for file in (directory / "files").rglob("*.parquet"):
        file.unlink()


def shorten_files(directory: Path) -> None:
    for file in (directory / "files").rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:10])


@pytest.mark.parametrize("damage", [damage_directory, damage_files, shorten_files])
def test_a_directory_that_is_gone_costs_no_read_and_no_write(world: World, damage: Callable[[Path], None]) -> None:
    world.store.put("data/a.parquet", content_of(100))
    world.store.put("data/b.parquet", content_of(100))
    damage(world.root / "cache")
    assert world.store.get("data/a.parquet") == content_of(100)
    world.store.put("data/c.parquet", content_of(100))
    assert world.store.get("data/c.parquet") == content_of(100)
    assert "data/c.parquet" in world.local_files()
    assert world.store.open_input("data/b.parquet").read_at(10, 20) in (content_of(100)[20:30], b"")


def test_files_that_cannot_be_deleted_count_until_they_are(tmp_path: Path) -> None:
    files = FaultyFiles()
    world = World(tmp_path, files=files)
    world.store.put("data/a.parquet", content_of(1000))
    files.fail("unlink", errno.EIO, name="a.parquet")
    world.store.delete("data/a.parquet")
    assert world.cache.statistics().bytes == 1000
    assert not world.cache.has("default/data/a.parquet")
    world.clock.advance(seconds=SUSPENDED_SECONDS)
    world.store.put("data/b.parquet", content_of(500))
    assert world.local_files() == {"data/b.parquet": 500}
    assert world.cache.statistics().bytes == 500


def test_the_cache_shrinks_when_the_disk_gets_full(tmp_path: Path) -> None:
    class SmallDisk(Files):
        others = 0

        def free_bytes(self, path: Path) -> int:
            return 64 * KIB - self.others - sum(file.stat().st_size for file in path.rglob("*.parquet*"))

    files = SmallDisk()
    world = World(tmp_path, files=files)
    for name in "abcd":
        world.put_remote(f"data/{name}.parquet", content_of(10 * KIB))
        world.store.get_range(f"data/{name}.parquet", 0, 4)
    assert len(world.local_files()) == 4
    files.others = 40 * KIB
    world.put_remote("data/e.parquet", content_of(10 * KIB))
    world.store.get_range("data/e.parquet", 0, 4)
    assert {path[5] for path in world.local_files()} == set("de")


def test_what_is_lent_is_not_evicted_until_it_is_given_back(world: World) -> None:
    world.put_remote("data/a.parquet", content_of(10 * KIB))
    world.store.get_range("data/a.parquet", 0, 4)
    assert local_copy(world.store, ["data/a.parquet", "data/index/a.idx"]) is None, "not all of it is here"
    lent = local_copy(world.store, ["data/a.parquet"])
    assert lent is not None
    assert (Path(lent.root) / "data/a.parquet").read_bytes() == content_of(10 * KIB)

    def read_others(names: range) -> None:
        for turn in names:
            world.put_remote(f"data/{turn}.parquet", content_of(10 * KIB))
            world.store.get_range(f"data/{turn}.parquet", 0, 4)

    read_others(range(10))
    assert is_local(world.store, "data/a.parquet")
    read_others(range(10, 20))
    del lent
    gc.collect()
    read_others(range(20, 30))
    assert not is_local(world.store, "data/a.parquet")


def test_two_processes_do_not_share_a_directory(world: World) -> None:
    with pytest.raises(DirectoryInUse, match=r"storage\.cache_path"):
        FileCache(world.root / "cache", 1000)


def test_a_directory_that_cannot_be_made_is_no_cache_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    clock = ManualClock()
    cache = FileCache(tmp_path / "file" / "cache", 1000, clock=clock, free_bytes_min=0)
    store = CachedStore(MemoryStore(), cache)
    store.put("data/a.parquet", content_of(100))
    assert store.get("data/a.parquet") == content_of(100)
    assert cache.statistics().state is CacheState.SUSPENDED
    (tmp_path / "file").unlink()
    clock.advance(seconds=SUSPENDED_SECONDS)
    store.put("data/b.parquet", content_of(100))
    assert cache.statistics().entries == 1
    with pytest.raises(DirectoryInUse):
        FileCache(tmp_path / "file" / "cache", 1000)


def test_a_store_that_is_down_is_not_noticed_as_long_as_reads_are_local(world: World) -> None:
    world.store.put("data/a.parquet", content_of(100))
    world.remote.down()
    assert world.store.get_range("data/a.parquet", 0, 50) == content_of(100)[:50]
    with pytest.raises(StoreError):
        world.store.get_range("data/b.parquet", 0, 50)
    world.remote.up()
    world.put_remote("data/b.parquet", content_of(100))
    assert world.store.get_range("data/b.parquet", 0, 50) == content_of(100)[:50]


def test_a_download_that_is_cut_off_is_not_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put_remote("data/a.parquet", content_of(100))
    world.remote.shorten("get")
    assert world.store.get_range("data/a.parquet", 0, 50) == content_of(100)[:50]
    assert not world.local_files()
    monkeypatch.setattr(_cached_store, "SMALL_BYTES_MAX", 10)
    world.remote.shorten("get_range", times=-1)
    with pytest.raises(StoreError, match="returned 25 of 50 bytes"):
        world.store.get_range("data/a.parquet", 0, 50)
    world.store._fill("data/a.parquet", 100)
    assert not world.local_files()
    assert world.cache.statistics().bytes == 0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["new", "read", "use", "drop"]), st.integers(0, 5), st.integers(0, 60)), max_size=40
    )
)
def test_no_order_of_things_exceeds_the_capacity(steps: list[tuple[str, int, int]]) -> None:
    entries = CacheEntries(100)
    for action, number, size in steps:
        key = f"{number}.idx" if number < 3 else f"{number}.parquet"
        if action == "use":
            entries.use(key)
            continue
        taken = entries.take(key)
        if taken is not None:
            entries.release(taken.size_bytes)
        if action == "drop":
            continue
        if not entries.reserve(size, 100):
            index_before = entries.index_bytes
            victims = entries.take_victims(size, 100)
            if victims is None:
                continue
            for victim, entry in victims:
                entries.release(entry.size_bytes)
                if victim.endswith(".idx"):
                    # What was there before, with this one, was more than the share.
                    assert index_before > INDEX_SHARE * 100
                    index_before -= entry.size_bytes
            assert entries.reserve(size, 100)
        entries.add(key, CacheEntry(size, is_checked=True), is_new=action == "new")
        assert entries.used == sum(entry.size_bytes for _, entry in entries) <= 100
        assert entries.pinned_bytes == sum(entry.size_bytes for _, entry in entries if entry.is_pinned) <= 50
        assert entries.index_bytes == sum(entry.size_bytes for name, entry in entries if name.endswith(".idx"))
