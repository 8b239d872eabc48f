"""What the text of a destination means, to a server and to a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsdb.backup import BackupNotFound, DestinationPlaces, Repository, StoragePlace
from tsdb.errors import InvalidArguments
from tsdb.store import LocalStore, MemoryStore


def _places(home: Path, *, allows_directories: bool = False) -> DestinationPlaces:
    bucket = MemoryStore()
    storages = [
        StoragePlace("default", str(home), lambda: LocalStore(home)),
        StoragePlace("cold", "s3://bucket/root", lambda: bucket),
        StoragePlace("mnt", str(home / "mnt"), lambda: LocalStore(home / "mnt")),
    ]
    return DestinationPlaces(home, storages, allows_directories=allows_directories)


def _root(repository: Repository) -> Path | str:
    """Where an object `x` of a destination is."""
    store = repository.store
    return store.root / repository.path("x") if isinstance(store, LocalStore) else repository.path("x")


@pytest.mark.parametrize(
    ("text", "place", "root"),
    [
        ("nightly", "{home}/backup/nightly", "backup/nightly/x"),
        ("a/b", "{home}/backup/a/b", "backup/a/b/x"),
        ("{home}/backup/a", "{home}/backup/a", "backup/a/x"),
        ("default:nightly", "{home}/backup/nightly", "backup/nightly/x"),
        ("mnt:nightly", "{home}/mnt/nightly", "mnt/nightly/x"),
        ("{home}/mnt/a/b", "{home}/mnt/a/b", "mnt/a/b/x"),
    ],
)
def test_directories_of_a_server(tmp_path: Path, text: str, place: str, root: str) -> None:
    found = _places(tmp_path).open(text.format(home=tmp_path))
    assert found.place == place.format(home=tmp_path)
    assert _root(found) == tmp_path / root


@pytest.mark.parametrize("text", ["cold:a/b", "COLD:a/b/", "s3://bucket/root/a/b"])
def test_paths_in_a_bucket(tmp_path: Path, text: str) -> None:
    found = _places(tmp_path).open(text)
    assert (found.place, _root(found)) == ("s3://bucket/root/a/b", "a/b/x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "..",
        "../x",
        "a/../../x",
        "a//b",
        "/etc/x",
        "{home}",
        "{home}/x",
        "{home}/data/x",
        "{home}/backup",
        "{home}/backup/../data",
        "{home}/mnt/data/x",
        "mnt:data/x",
        "mnt:wal/x",
        "cold:",
        "cold:data",
        "cold:../x",
        "warm:x",
        "s3://bucket/rooted/x",
        "s3://bucket/root",
        "s3://other/root/x",
        "a\0b",
    ],
)
def test_a_server_refuses_other_places(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidArguments):
        _places(tmp_path).open(text.format(home=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_command_may_use_any_directory_but_creates_none_to_read_from(tmp_path: Path) -> None:
    places = _places(tmp_path / "home", allows_directories=True)
    with pytest.raises(BackupNotFound, match="no directory"):
        places.open(str(tmp_path / "x"), creates=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "x").mkdir()
    assert _root(places.open(str(tmp_path / "x"), creates=False)) == tmp_path / "x" / "x"
