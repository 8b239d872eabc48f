"""Files that are missing, short or damaged, and stores that fail."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.sst.files import DIRECTORY, HOSTS, Files, check_block, content_of, hosts
from tests.faults import FaultyFiles, FullDisk
from tsdb.engine.errors import FileCorrupted
from tsdb.engine.rows.cache import Caches
from tsdb.engine.rows.slices import Slices
from tsdb.engine.sst import CRASH_POINTS, WrittenFile, _footer
from tsdb.store import LocalStore, StoreError, StoreFull, on_crash_point

EVERYTHING = Slices.one(0, 1000)


def make_file(files: Files | None = None) -> tuple[Files, WrittenFile]:
    files = files or Files(HOSTS, row_group_rows=150)
    return files, files.write(hosts(HOSTS, series=20, points=50))


def data_path(written: WrittenFile) -> str:
    return f"{DIRECTORY}/{written.meta.file_id}.parquet"


def index_path(written: WrittenFile) -> str:
    return f"{DIRECTORY}/index/{written.meta.file_id}.idx"


def flip(position: int) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[position] ^= 1
        return bytes(changed)

    return damage


INDEX_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a bit of the blob": flip(100),
    "a bit of the directory": flip(-30),
    "a bit of the length": flip(-16),
    "a bit of the magic": flip(-1),
    "its end": lambda content: content[:-10],
    "its beginning": lambda content: content[10:],
    "everything": lambda content: b"",
}


@pytest.mark.parametrize("damage", INDEX_DAMAGE.values(), ids=INDEX_DAMAGE.keys())
def test_a_damaged_index_costs_speed_and_no_answer(
    damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    files, written = make_file()
    expected = content_of(files.read(written))
    path = index_path(written)
    files.store.put(path, damage(files.store.get(path)))
    file = files.read(written, Caches.disabled())
    with caplog.at_level(logging.WARNING, "tsdb.sst"):
        for _ in range(2):
            content_of(file).check_equal(expected)
            check_block(file)
    assert [record.name for record in caplog.records] == ["tsdb.sst"]
    assert path in caplog.text


def test_a_missing_index_costs_speed_and_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    files, written = make_file()
    expected = content_of(files.read(written))
    files.store.delete(index_path(written))
    content_of(files.read(written)).check_equal(expected)
    assert index_path(written) in caplog.text


def test_the_index_of_another_file_is_not_believed() -> None:
    files, written = make_file()
    other = files.write(hosts(HOSTS, series=20, points=50, start=7))
    expected = content_of(files.read(written))
    files.store.put(index_path(written), files.store.get(index_path(other)))
    content_of(files.read(written)).check_equal(expected)


def test_a_file_that_is_missing_is_named() -> None:
    files, written = make_file()
    files.store.delete(data_path(written))
    with pytest.raises(FileCorrupted, match="missing") as caught:
        files.read(written).times(EVERYTHING)
    assert caught.value.file == data_path(written)


@pytest.mark.parametrize("damage", ["short", "not parquet", "footer"])
def test_a_file_that_is_not_what_was_written_is_named(damage: str) -> None:
    files, written = make_file()
    content = files.store.get(data_path(written))
    changed = {
        "short": content[:-100],
        "not parquet": bytes(len(content)),
        "footer": flip(-20)(flip(-200)(content)),
    }
    files.store.put(data_path(written), changed[damage])
    with pytest.raises(FileCorrupted) as caught:
        files.read(written).times(EVERYTHING)
    assert caught.value.file == data_path(written)


def test_no_byte_of_a_footer_can_change_unnoticed() -> None:
    files, written = make_file()
    content = files.store.get(data_path(written))
    length = int.from_bytes(content[-8:-4], "little") + 8
    for position in range(-length, 0):
        files.store.put(data_path(written), flip(position)(content))
        with pytest.raises(FileCorrupted) as caught:
            files.read(written, Caches.disabled()).times(EVERYTHING)
        assert caught.value.file == data_path(written)


def test_a_footer_longer_than_the_first_read_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_footer, "TAIL_BYTES", 100)
    files, written = make_file()
    assert written.footer.rows == 1000
    assert len(files.read(written, Caches.disabled()).times(EVERYTHING)) == 1000


def test_a_file_of_a_version_without_checksums_of_footers_is_read() -> None:
    files, written = make_file()
    old = replace(written, meta=replace(written.meta, footer_checksum=None))
    content_of(files.read(old, Caches.disabled())).check_equal(content_of(files.read(written)))


@pytest.mark.parametrize("pages", [0, 1 << 20])
def test_a_damaged_page_is_found_by_its_checksum_and_leaves_other_columns_readable(pages: int) -> None:
    files, written = make_file()
    usage = HOSTS.by_name["usage"].id
    leaf = written.footer.leaves[usage].start
    chunk = written.footer.metadata.row_group(1).column(leaf)
    middle = chunk.data_page_offset + chunk.total_compressed_size // 2
    files.store.put(data_path(written), flip(middle)(files.store.get(data_path(written))))
    file = files.read(written, Caches.of(sst_meta_bytes=1 << 20, vector_bytes=1 << 20, page_bytes=pages))
    with pytest.raises(FileCorrupted, match="CRC"):
        file.field(usage, EVERYTHING)
    assert file.field(usage, Slices.one(0, 100)) is not None
    assert len(file.times(EVERYTHING)) == 1000


def test_a_read_error_of_the_store_is_not_called_corruption(tmp_path: Path) -> None:
    disk = FaultyFiles()
    files, written = make_file(Files(HOSTS, store=LocalStore(tmp_path, files=disk)))
    disk.fail("pread", errno.EIO)
    with pytest.raises(StoreError) as caught:
        files.read(written).times(EVERYTHING)
    assert not isinstance(caught.value, FileCorrupted)
    disk.heal()
    assert len(files.read(written).times(EVERYTHING)) == 1000


@pytest.mark.parametrize("operation", ["open", "write", "fsync", "rename", "fsync_dir"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_write_that_fails_leaves_nothing_behind(operation: str, code: int, tmp_path: Path) -> None:
    disk = FaultyFiles()
    files = Files(HOSTS, store=LocalStore(tmp_path, files=disk), row_group_rows=150)
    disk.fail(operation, code, name=".parquet" if operation != "fsync_dir" else DIRECTORY)
    with pytest.raises(StoreFull if code == errno.ENOSPC else StoreError):
        files.write(hosts(HOSTS, series=20, points=50))
    disk.heal()
    assert files.paths == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    make_file(files)


def test_a_full_disk_at_any_byte_leaves_nothing_behind(tmp_path: Path) -> None:
    disk = FullDisk()
    files = Files(HOSTS, store=LocalStore(tmp_path, files=disk), row_group_rows=150)
    run = hosts(HOSTS, series=20, points=50)
    size = files.write(run).meta.size_bytes
    before = files.paths
    for budget in range(0, size, size // 10):
        disk.budget = budget
        with pytest.raises(StoreFull):
            files.write(run)
        assert files.paths == before


@pytest.mark.parametrize("operation", ["open", "write", "fsync", "rename"])
def test_an_index_that_cannot_be_written_does_not_cost_the_file(
    operation: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyFiles()
    files = Files(HOSTS, store=LocalStore(tmp_path, files=disk), row_group_rows=150)
    disk.fail(operation, errno.EIO, name=".idx")
    _, written = make_file(files)
    assert written.meta.index_size_bytes == 0
    assert files.paths == [data_path(written)]
    assert "the index of a data file cannot be written" in caplog.text
    caplog.clear()
    plain_files, plain = make_file()
    content_of(files.read(written)).check_equal(content_of(plain_files.read(plain)))
    assert not caplog.records, "a file that never had an index is nothing to warn of"


def test_a_store_that_loses_the_end_of_a_file_is_found_out(tmp_path: Path) -> None:
    class ForgetfulStore(LocalStore):
        def get_range(self, path: str, offset: int, length: int) -> bytes:
            target = self.root / path
            if target.suffix == ".parquet":
                target.write_bytes(target.read_bytes()[:-50])
            return super().get_range(path, offset, length)

    files = Files(HOSTS, store=ForgetfulStore(tmp_path))
    with pytest.raises(FileCorrupted, match="too short"):
        make_file(files)
    assert files.paths == []


class Interrupted(BaseException):
    """Stands for whatever ends a write in the middle."""


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_write_that_is_interrupted_leaves_nothing_behind(point: str) -> None:
    files = Files(HOSTS)
    passed: list[str] = []

    def interrupt(name: str) -> None:
        passed.append(name)
        if name == point:
            raise Interrupted

    with on_crash_point(interrupt), pytest.raises(Interrupted):
        make_file(files)
    assert [name for name in passed if name.startswith("sst.")] == list(CRASH_POINTS[: CRASH_POINTS.index(point) + 1])
    assert files.paths == []


def test_an_error_of_the_merge_leaves_nothing_behind() -> None:
    files = Files(HOSTS, row_group_rows=100, stripe_rows=250)
    _, written = make_file(files)
    leaf = written.footer.leaves[HOSTS.by_name["count"].id].start
    chunk = written.footer.metadata.row_group(8).column(leaf)
    damaged = flip(chunk.data_page_offset + chunk.total_compressed_size // 2)(files.store.get(data_path(written)))
    files.store.put(data_path(written), damaged)
    before = files.paths
    with pytest.raises(FileCorrupted, match=written.meta.file_id):
        files.write(files.open(written).passing_reader())
    assert files.paths == before
