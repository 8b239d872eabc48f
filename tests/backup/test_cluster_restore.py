"""Restoring into a cluster that is not running: its metadata, and what keeps a half restored one from starting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backup.world import CPU, back_up, opened, repository_at
from tsdb.backup import BackupDamaged, RestoreRefused, RestoreTarget, restore_backup
from tsdb.backup.cluster import RESTORE_MARK, ClusterMetadata
from tsdb.catalog import all_places, capture_cluster, openings_of
from tsdb.components.metasrv import _check_restored
from tsdb.engine import Engine, Wal
from tsdb.errors import StartError
from tsdb.kv import MemoryKv, PutKey, SqliteKv
from tsdb.store import LocalStore

LEADER = "__metasrv_election"
PARTED = CPU.replace("cpu", "parted") + " PARTITION ON COLUMNS (host) (host < 'h', host >= 'h')"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The backup of a standalone server."""
    with opened(tmp_path / "server") as db:
        db.sql(CPU)
        db.sql(PARTED)
        db.sql("INSERT INTO cpu VALUES ('a', 1, 1), ('b', 2, 2)")
        db.sql("INSERT INTO parted VALUES ('a', 1, 1), ('z', 2, 2)")
        db.sql("CREATE VIEW v AS SELECT count(*) FROM cpu")
        back_up(db, tmp_path / "backups")
    return tmp_path / "backups"


def _target(home: Path, kv: MemoryKv) -> RestoreTarget:
    metadata = ClusterMetadata(kv, [4, 5], leader_key=LEADER)
    return RestoreTarget(home, home / "metadata.sqlite", LocalStore(home), home / "wal", cluster=metadata)


def _restore(place: Path, home: Path, kv: MemoryKv) -> None:
    repository = repository_at(place)
    restore_backup(repository, repository.find(), _target(home, kv))


def test_the_regions_of_a_server_get_places_and_can_be_opened_there(place: Path, tmp_path: Path) -> None:
    kv, home = MemoryKv(), tmp_path / "cluster"
    _restore(place, home, kv)
    assert sorted(each.node_id for each in all_places(kv).values()) == [4, 4, 5]
    assert {each.epoch for each in all_places(kv).values()} == {1}
    assert not (home / "metadata.sqlite").exists()
    openings = [each for node in (4, 5) for each in openings_of(kv, node)]
    wal, _ = Wal.open(tmp_path / "wal")
    engine = Engine.open(LocalStore(home), wal, regions=openings, has_housekeeping=False)
    try:
        assert not engine.refused
        assert sum(sum(file.rows for file in engine.files(each.region_id)) for each in openings) == 4
    finally:
        engine.close(flush=False)


def test_all_metadata_of_a_server_is_that_of_a_backup_of_a_cluster(place: Path, tmp_path: Path) -> None:
    """Keys that a server has and a cluster's backup would leave out would be lost."""
    own = SqliteKv(tmp_path / "server" / "metadata.sqlite")
    try:
        pairs = own.scan("")
    finally:
        own.close()
    kv = MemoryKv()
    _restore(place, tmp_path / "cluster", kv)
    kv.transact([], [PutKey("__node_address/datanode/1", b"{}"), PutKey("__catalog_version", b"1.1")])
    captured = capture_cluster(kv)
    assert captured.pairs == pairs
    assert captured.tables == 2


def test_a_cluster_that_is_running_or_has_tables_is_refused(place: Path, tmp_path: Path) -> None:
    kv = MemoryKv()
    kv.transact([], [PutKey(LEADER, b"127.0.0.1:3002")])
    with pytest.raises(RestoreRefused, match="a metadata server leads"):
        _restore(place, tmp_path / "one", kv)
    kv = MemoryKv()
    kv.transact([], [PutKey("__table_info/1024", b"{}")])
    with pytest.raises(RestoreRefused, match="tables or users"):
        _restore(place, tmp_path / "two", kv)
    assert kv.get(RESTORE_MARK) is None
    assert not list(tmp_path.glob("t*/data"))


def test_a_restore_that_was_interrupted_is_continued_and_until_then_no_server_starts(
    place: Path, tmp_path: Path
) -> None:
    kv, home = MemoryKv(), tmp_path / "cluster"
    file = next(iter(sorted(place.rglob("*.data"))))
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(BackupDamaged):
        _restore(place, home, kv)
    with pytest.raises(StartError, match="is not complete"):
        _check_restored(kv)
    with opened(tmp_path / "server") as db:
        db.sql("INSERT INTO cpu VALUES ('c', 3, 3)")
        back_up(db, tmp_path / "others")
    with pytest.raises(RestoreRefused, match="another backup"):
        _restore(tmp_path / "others", home, kv)
    file.write_bytes(content)
    _restore(place, home, kv)
    _check_restored(kv)
    assert len(all_places(kv)) == 3
