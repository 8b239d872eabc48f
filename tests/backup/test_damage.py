"""Damage is found and named, in sources and in backups; what is refused changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backup.world import CPU, back_up, opened, repository_at, restore
from tsdb.backup import BackupDamaged, BackupFailed, BackupNotFound, RestoreRefused, prune_backups, verify_backup
from tsdb.errors import StartError, TsdbError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A destination with two backups, `first` and `second`."""
    with opened(tmp_path / "a") as db:
        db.sql(CPU)
        for number, name in enumerate(("first", "second")):
            db.sql(f"INSERT INTO cpu VALUES ('h', {number}, {number})")
            back_up(db, tmp_path / "b", name)
    return tmp_path / "b"


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_in_a_file_is_found_and_never_restored(place: Path, tmp_path: Path) -> None:
    repository = repository_at(place)
    [file] = [
        file for region in repository.regions(repository.find("first")) for file in region.files if not file.is_index
    ]
    _flip(place / file.path)
    found = verify_backup(repository, repository.summaries())
    assert found.damaged == ((file.path, "its checksum is wrong"),)
    with pytest.raises(BackupDamaged, match=file.path):
        restore(place, tmp_path / "c")
    with pytest.raises(StartError, match="not complete"), opened(tmp_path / "c"):
        pass
    # The file is whole again, from another copy: the same restore is continued.
    _flip(place / file.path)
    assert restore(place, tmp_path / "c").files_done == 4
    with opened(tmp_path / "c") as db:
        assert db.sql("SELECT count(*) FROM cpu").fetchall() == [(2,)]


def test_missing_and_short_files_are_named(place: Path) -> None:
    repository = repository_at(place)
    one, other = sorted(repository.file_sizes())[:2]
    (place / one).unlink()
    (place / other).write_bytes(b"short")
    found = dict(verify_backup(repository, repository.summaries()).damaged)
    assert found.keys() == {one, other}
    assert found[one] == "it is missing"
    assert found[other].startswith("it has 5 bytes")


@pytest.mark.parametrize("name", ["content.jsonl", "backup.json"])
def test_a_damaged_description_is_found_and_prune_deletes_nothing(place: Path, tmp_path: Path, name: str) -> None:
    repository = repository_at(place)
    _flip(place / "backups" / "second" / name)
    before = repository.file_sizes()
    with pytest.raises(BackupDamaged, match=f"second/{name}"):
        restore(place, tmp_path / "c")
    with pytest.raises(BackupDamaged):
        prune_backups(repository, keep=1)
    assert repository.file_sizes() == before
    assert not (tmp_path / "c" / "data").exists()
    restore(place, tmp_path / "d", "first")


def test_a_next_backup_does_not_depend_on_a_damaged_one(place: Path, tmp_path: Path) -> None:
    _flip(place / "backups" / "second" / "content.jsonl")
    with opened(tmp_path / "a") as db:
        assert back_up(db, place, "third")["files_copied"] == 0
    restore(place, tmp_path / "c", "third")
    with opened(tmp_path / "c") as db:
        assert db.sql("SELECT count(*) FROM cpu").fetchall() == [(2,)]


def test_a_place_that_is_not_empty_is_refused_and_left_alone(place: Path, tmp_path: Path) -> None:
    with pytest.raises(RestoreRefused, match="holds a database"):
        restore(place, tmp_path / "a")
    with opened(tmp_path / "a") as db:
        assert db.sql("SELECT count(*) FROM cpu").fetchall() == [(2,)]
    log = tmp_path / "c" / "wal" / "00.wal"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"rows")
    with pytest.raises(RestoreRefused, match="holds a log"):
        restore(place, tmp_path / "c")
    assert log.read_bytes() == b"rows"
    data = tmp_path / "d" / "data" / "x"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"rows")
    with pytest.raises(RestoreRefused, match="data/x"):
        restore(place, tmp_path / "d")
    with pytest.raises(BackupNotFound, match="third"):
        restore(place, tmp_path / "e", "third")
    with pytest.raises(BackupNotFound, match="no directory"):
        restore(tmp_path / "nowhere", tmp_path / "e")


def test_another_backup_is_not_restored_over_an_unfinished_one(place: Path, tmp_path: Path) -> None:
    repository = repository_at(place)
    name = next(file.path for region in repository.regions(repository.find("first")) for file in region.files)
    _flip(place / name)
    with pytest.raises(BackupDamaged):
        restore(place, tmp_path / "c", "first")
    with pytest.raises(RestoreRefused, match="unfinished restore of another backup"):
        restore(place, tmp_path / "c", "second")


def test_a_missing_data_file_fails_a_backup_unless_it_is_left_out(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as db:
        db.sql(CPU)
        db.sql("CREATE TABLE other (ts TIMESTAMP TIME INDEX, v DOUBLE)")
        db.sql("INSERT INTO cpu VALUES ('h', 1, 1)")
        db.sql("INSERT INTO other VALUES (1, 1)")
        db.sql("ADMIN flush_table('cpu')")
        [file] = (tmp_path / "a").glob("data/tsdb/public/1024/*/*.parquet")
        file.unlink()
        with pytest.raises(BackupFailed, match=r"public\.cpu"):
            back_up(db, tmp_path / "b", "whole")
        assert repository_at(tmp_path / "b").names() == []
        assert back_up(db, tmp_path / "b", "rest", "skip_damaged=true")["state"] == "done"
    restore(tmp_path / "b", tmp_path / "c")
    with opened(tmp_path / "c") as db:
        assert db.sql("SELECT v FROM other").fetchall() == [(1.0,)]
        with pytest.raises(TsdbError):
            db.sql("SELECT v FROM cpu").fetchall()
