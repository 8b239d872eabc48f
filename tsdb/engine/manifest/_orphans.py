"""Data and index files that nobody knows: what a flush or a compaction left that did not come to its end.

A file is known if the manifest has it, if it was removed but may still be read (those are deleted by whoever tracks
the readers), or if its job is still running. A file of an unknown job looks like an orphan, so young ones are left
alone. Only the region's writer may sweep: anybody else's manifest may be old.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tsdb.engine.manifest._layout import parse_file_path
from tsdb.engine.manifest._state import ManifestState
from tsdb.store import ObjectMeta, ObjectStore, StoreError
from tsdb.telemetry import get_logger

log = get_logger(__name__)


def plan_orphan_sweep(
    objects: Iterable[ObjectMeta],
    directory: str,
    state: ManifestState,
    *,
    in_flight: Collection[str],
    minimum_age_ms: int,
    now_ms: int,
) -> list[str]:
    """Choose the paths to delete among the objects of a region."""
    known = {*state.files, *(removed.file_id for removed in state.removed_files), *in_flight}
    newest_ns = (now_ms - minimum_age_ms) * 1_000_000
    orphans = []
    for found in objects:
        file_id = parse_file_path(directory, found.path)
        if file_id is not None and file_id not in known and found.modified_ns <= newest_ns:
            orphans.append(found.path)
    return orphans


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


def sweep_orphans(
    store: ObjectStore,
    directory: str,
    state: ManifestState,
    *,
    in_flight: Collection[str],
    minimum_age_ms: int,
    now_ms: int,
) -> list[str]:
    """Delete the orphans of a region; return their paths. `in_flight` are the files of jobs that are running."""
    objects = store.list(directory)
    orphans = plan_orphan_sweep(
        objects, directory, state, in_flight=in_flight, minimum_age_ms=minimum_age_ms, now_ms=now_ms
    )
    deleted = run_orphan_sweep(store, orphans)
    if deleted:
        log.info("orphans deleted", region=state.region_id, files=len(deleted))
    return deleted
