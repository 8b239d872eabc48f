"""A destination of backups: a directory, or a path in a bucket."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress

from tsdb.backup._errors import BackupDamaged, BackupNotFound
from tsdb.backup._format import BackedUpRegion, BackupSummary, ContentItem, parse_content, parse_summary
from tsdb.backup._layout import BACKUPS, FILES, check_name, content_path, directory_of, name_of_summary, summary_path
from tsdb.store import InvalidRange, LocalStore, ObjectNotFound, ObjectSink, ObjectStore, crash_point

LATEST = "latest"
PIECE_BYTES = 4 << 20
"""How much of an object is in memory at a time, for each of those that are copied at the same time."""


class Repository:
    """The backups of one destination. Thread-safe."""

    def __init__(self, store: ObjectStore, prefix: str = "", *, place: str = "") -> None:
        self.store = store
        self.place = place
        """Where it is, as people write it."""
        self.asked = place
        """The text that it was opened by: other processes of a cluster open it by the same."""
        self._prefix = f"{prefix}/" if prefix else ""

    def path(self, name: str) -> str:
        """Return the path in the store of an object of the destination."""
        return f"{self._prefix}{name}"

    def objects(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield name and size of the objects below a prefix."""
        for found in self.store.list(self.path(prefix)):
            yield found.path.removeprefix(self._prefix), found.size_bytes

    def writer(self, name: str) -> AbstractContextManager[ObjectSink]:
        return self.store.writer(self.path(name), PIECE_BYTES)

    def delete(self, name: str) -> None:
        self.store.delete(self.path(name))

    def delete_backup(self, name: str) -> None:
        """Delete a summary and content; what is left of a backup without a summary is deleted in the same way."""
        self.delete(summary_path(name))
        crash_point("backup.delete.after_summary")
        self.store.delete_prefix(self.path(directory_of(name)))

    def directories(self) -> set[str]:
        """Return the names of all backups, those included that did not come to their end."""
        return {path.split("/")[1] for path, _ in self.objects(BACKUPS)}

    def sweep_temporary(self) -> None:
        """Remove what writers left that were killed. The caller holds the lock."""
        if isinstance(self.store, LocalStore) and not self._prefix:
            self.store.sweep_temporary()

    def file_sizes(self) -> dict[str, int]:
        """Return the sizes of all files that are there, by name."""
        return dict(self.objects(FILES))

    def names(self) -> list[str]:
        """Return the names of all backups."""
        return [name for path, _ in self.objects(BACKUPS) if (name := name_of_summary(path)) is not None]

    def summaries(self) -> list[BackupSummary]:
        """Return all backups, the oldest first; BackupDamaged if one of them cannot be read."""
        found = []
        for name in self.names():
            with suppress(BackupNotFound):
                found.append(self.summary(name))
        return sorted(found, key=lambda each: (each.started_ms, each.name))

    def summary(self, name: str) -> BackupSummary:
        path = summary_path(check_name(name))
        try:
            return parse_summary(self.store.get(self.path(path)), path=path)
        except ObjectNotFound:
            raise BackupNotFound(f"there is no backup {name!r}", place=self.place) from None

    def find(self, name: str = LATEST) -> BackupSummary:
        """Return a backup by its name, or the latest one."""
        if name != LATEST:
            return self.summary(name)
        found = self.summaries()
        if not found:
            raise BackupNotFound("there are no backups", place=self.place, hint="check the path")
        return found[-1]

    def check_content(self, summary: BackupSummary) -> None:
        """Compare the content of a backup with its checksum; BackupDamaged."""
        path = content_path(summary.name)
        digest = hashlib.sha256()
        for piece in self.pieces(path, summary.content_bytes):
            digest.update(piece)
        if digest.hexdigest() != summary.content_sha256:
            raise BackupDamaged(path, "its checksum is wrong")

    def content(self, summary: BackupSummary) -> Iterator[ContentItem]:
        """Yield what a backup holds: all metadata first, then its regions. `check_content` goes before."""
        path = content_path(summary.name)
        return parse_content(self.pieces(path, summary.content_bytes), path=path)

    def regions(self, summary: BackupSummary) -> Iterator[BackedUpRegion]:
        return (item for item in self.content(summary) if isinstance(item, BackedUpRegion))

    def pieces(self, name: str, size_bytes: int) -> Iterator[bytes]:
        """Read an object of a known size in pieces; BackupDamaged if it is missing or has another size."""
        path = self.path(name)
        try:
            actual = self.store.head(path).size_bytes
            if actual != size_bytes:
                raise BackupDamaged(name, f"it has {actual} bytes, expected {size_bytes}")
            yield from read_pieces(self.store, path, size_bytes)
        except ObjectNotFound:
            raise BackupDamaged(name, "it is missing") from None
        except InvalidRange as error:
            raise BackupDamaged(name, f"it became shorter while it was read: {error}") from error


def read_pieces(store: ObjectStore, path: str, size_bytes: int) -> Iterator[bytes]:
    """Read an object of a known size in pieces."""
    for offset in range(0, size_bytes, PIECE_BYTES):
        yield store.get_range(path, offset, min(PIECE_BYTES, size_bytes - offset))
