"""Notes of where regions are, beside the log of a node.

A node that starts again may find entries of regions that it does not have any more. Only the manifest of a region says
whether its new owner has flushed them, and entries say nothing but the number of the region. So the directory is noted
before the first entry comes. Notes of regions of which nothing is left are deleted by the next start.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from tsdb.engine.log.shared.layout import region_path
from tsdb.engine.log.shared.terms import persist
from tsdb.engine.parallel import in_parallel
from tsdb.store import ObjectNotFound, ObjectStore, StoreError
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.wal")
_PARALLELISM = 16


class RegionNotes:
    """The notes of one node. Thread-safe."""

    def __init__(self, store: ObjectStore, node: int, known: Collection[int]) -> None:
        self._store = store
        self._node = node
        self._known = set(known)
        self._lock = threading.Lock()

    @property
    def known(self) -> frozenset[int]:
        """The regions that are noted."""
        with self._lock:
            return frozenset(self._known)

    def write(self, directories: Mapping[int, str]) -> None:
        """Note where regions are; StoreError if the store fails."""
        known = self.known
        news = [each for each in directories.items() if each[0] not in known]
        for region_id in in_parallel(self._write, news, _PARALLELISM):
            with self._lock:
                self._known.add(region_id)

    def read(self, region_id: int) -> str | None:
        """Return where a region is; None if there is no note."""
        try:
            return persist(lambda: self._store.get(region_path(self._node, region_id))).decode()
        except ObjectNotFound:
            return None

    def delete_except(self, kept: Collection[int]) -> None:
        """Forget regions of which nothing is in the log any more. What cannot be deleted is left to the next start."""
        for region_id in self.known - set(kept):
            try:
                self._store.delete(region_path(self._node, region_id))
            except StoreError as error:
                _log.warning("a note of the shared log could not be deleted", region=region_id, error=error)
                return
            with self._lock:
                self._known.discard(region_id)

    def _write(self, note: tuple[int, str]) -> int:
        region_id, directory = note
        persist(lambda: self._store.put(region_path(self._node, region_id), directory.encode()))
        return region_id
