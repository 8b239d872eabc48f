"""What the text of a destination means: a directory, or a path in a configured storage.

    nightly                  {data_home}/backup/nightly
    cold:nightly             nightly in the storage `cold` of [[storage.providers]]
    default:nightly          backup/nightly in the storage of [storage]
    s3://bucket/root/x       x in the storage whose place is s3://bucket/root
    /mnt/backups/x           x in the storage of type File whose directory is /mnt/backups

In a cluster `nightly` is `default:nightly`: the directory of one node is not that of the others.
A server writes to no other directories: who may run ADMIN statements need not have the rights of the server's user.
Commands that run on their own may use any directory. Statements never contain credentials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tsdb.backup._errors import BackupNotFound
from tsdb.backup._repository import Repository
from tsdb.errors import InvalidArguments
from tsdb.store import InvalidPath, LocalStore, ObjectStore, check_path

HOME_DIRECTORY = "backup"
"""Below the data directory, and in the storage of tables that choose none."""
DEFAULT = "default"
_RESERVED = frozenset({"data", "wal", "probe"})
"""What regions, the log and the probe of a start have in a storage."""
_NAMED = re.compile(r"([A-Za-z0-9_-]+):(?!//)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """A configured storage."""

    name: str
    place: str
    """Its directory or bucket with root, as people write it."""
    open: Callable[[], ObjectStore]


class DestinationPlaces:
    """Where backups may be."""

    def __init__(
        self,
        home: Path,
        storages: Sequence[StoragePlace],
        *,
        allows_directories: bool = False,
        is_cluster: bool = False,
    ) -> None:
        """`home` is the data directory. With `allows_directories`, any directory is a destination.

        With `is_cluster`, a path alone is in the storage of tables that choose none.
        """
        self._home = home
        self._storages = {each.name: each for each in storages}
        self._allows_directories = allows_directories
        self._is_cluster = is_cluster

    def open(self, text: str, *, creates: bool = True) -> Repository:
        """Return the destination that a text means; InvalidArguments if it means none.

        Without `creates`, BackupNotFound if it is a directory that does not exist.
        """
        if not text or "\0" in text:
            raise InvalidArguments("the destination of a backup is empty")
        found = self._find(text, creates=creates)
        found.asked = text
        return found

    def _find(self, text: str, *, creates: bool) -> Repository:
        named = _NAMED.fullmatch(text)
        if named is not None:
            return self._named(named[1], named[2], creates=creates)
        for storage in self._storages.values():
            place = storage.place.rstrip("/")
            if "://" in text and text.startswith(f"{place}/"):
                return self._inside(storage, text[len(place) + 1 :], creates=creates)
        if "://" in text:
            raise InvalidArguments(f"{text!r} is not in a configured storage", hint=self._hint())
        return self._directory(text, creates=creates)

    def _named(self, name: str, path: str, *, creates: bool) -> Repository:
        storage = self._storages.get(name.lower())
        if storage is None:
            raise InvalidArguments(f"there is no storage {name!r}", hint=self._hint())
        return self._inside(storage, path, creates=creates)

    def _inside(self, storage: StoragePlace, path: str, *, creates: bool) -> Repository:
        path = _checked(path)
        if storage.name == DEFAULT:
            path = path if path.split("/")[0] == HOME_DIRECTORY else f"{HOME_DIRECTORY}/{path}"
        elif path.split("/")[0] in _RESERVED:
            raise InvalidArguments(f"{path!r} belongs to tables in the storage {storage.name!r}", hint="choose another")
        store, place = storage.open(), f"{storage.place.rstrip('/')}/{path}"
        if isinstance(store, LocalStore):
            return _local(store.root / path, creates=creates)
        return Repository(store, path, place=place)

    def _directory(self, text: str, *, creates: bool) -> Repository:
        given = Path(text)
        if self._allows_directories:
            return _local(given.expanduser().absolute(), creates=creates)
        if self._is_cluster and not given.is_absolute():
            return self._named(DEFAULT, text, creates=creates)
        home = self._home / HOME_DIRECTORY
        if not given.is_absolute():
            return _local(home / _checked(text), creates=creates)
        if home in given.parents:
            return _local(home / _checked(str(given.relative_to(home))), creates=creates)
        for storage in self._storages.values():
            root = Path(storage.place)
            if storage.name != DEFAULT and "://" not in storage.place and root in given.parents:
                return self._inside(storage, str(given.relative_to(root)), creates=creates)
        raise InvalidArguments(f"this server writes no backups to {text}", hint=self._hint())

    def _hint(self) -> str:
        places = [f"{name}:PATH is in {each.place}" for name, each in self._storages.items()]
        alone = f"{DEFAULT}:PATH" if self._is_cluster else f"in {self._home / HOME_DIRECTORY}"
        return f"PATH alone is {alone}; {'; '.join(places)}; add other directories and buckets to [[storage.providers]]"


def _local(directory: Path, *, creates: bool) -> Repository:
    if not creates and not directory.is_dir():
        raise BackupNotFound(f"there is no directory {directory}")
    return Repository(LocalStore(directory), place=str(directory))


def _checked(path: str) -> str:
    """Return a path that stays below where it begins."""
    path = path.strip("/")
    try:
        return check_path(path)
    except InvalidPath as error:
        raise InvalidArguments(error.message) from error
