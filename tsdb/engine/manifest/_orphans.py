"""Orphans: data and index files that an interrupted flush or compaction left behind.

A file is known if the manifest has it, if it was removed but may still be read (its last reader deletes it), or if its
job is still running. A file of an unknown job looks like an orphan, so young ones are left alone. Only the region's
writer may sweep: another process may have an old manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tsdb.engine.manifest._layout import parse_file_path
from tsdb.engine.manifest._state import ManifestState
from tsdb.store import ObjectMeta, ObjectStore, Purpose, StoreError, requests_for
from tsdb.telemetry import get_logger

log = get_logger(__name__)


def plan_orphan_sweep(
    objects: Iterable[ObjectMeta],
    directory: str,
    state: ManifestState,
    *,
    in_flight: Collection[str],
    newest_ms: int,
) -> list[str]:
    """Choose the paths to delete among the objects of a region: those that were last modified by then."""
    known = {*state.files, *(removed.file_id for removed in state.removed_files), *in_flight}
    newest_ns = newest_ms * 1_000_000
    orphans = []
    for found in objects:
        file_id = parse_file_path(directory, found.path)
        if file_id is not None and file_id not in known and found.modified_ns <= newest_ns:
            orphans.append(found.path)
    return orphans


@requests_for(Purpose.SWEEP)
def run_orphan_sweep(store: ObjectStore, paths: Iterable[str]) -> list[str]:
    """Delete objects; return those that are gone. One that cannot be deleted waits for the next sweep."""
    deleted = []
    for path in paths:
        try:
            store.delete(path)
        except StoreError as error:
            log.warning("orphan not deleted", file=path, error=error)
        else:
            deleted.append(path)
    return deleted
