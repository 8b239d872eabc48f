"""Writing a checkpoint, so that opening a region reads one object instead of its whole history.

The order is what makes it safe to end anywhere: the checkpoint is durable, then the pointer says so, then what it
covers is deleted. Whatever is left behind is ignored by readers and deleted by the next checkpoint.
"""

from __future__ import annotations

from tsdb.engine.manifest._codec import Pointer, encode_checkpoint, encode_pointer
from tsdb.engine.manifest._layout import (
    ManifestName,
    checkpoint_path,
    manifest_directory,
    parse_manifest_path,
    pointer_path,
)
from tsdb.engine.manifest._state import ManifestState
from tsdb.store import ObjectStore, StoreError, crash_point
from tsdb.telemetry import get_logger

log = get_logger(__name__)


def write_checkpoint(store: ObjectStore, directory: str, state: ManifestState) -> int:
    """Write the checkpoint and its pointer and return its size; StoreError if that fails, which loses nothing."""
    content = encode_checkpoint(state)
    crash_point("manifest.checkpoint.before_put")
    store.put(checkpoint_path(directory, state.version), content)
    crash_point("manifest.checkpoint.after_put")
    store.put(pointer_path(directory), encode_pointer(Pointer.to(state.version, content)))
    crash_point("manifest.checkpoint.after_pointer")
    return len(content)


def delete_covered(store: ObjectStore, directory: str, version: int) -> int | None:
    """Delete what the checkpoint of a version makes obsolete, as far as the store lets us.

    Return the newest version that any object is of; None if the store did not tell.
    """
    newest: int | None = version
    try:
        for found in list(store.list(manifest_directory(directory))):
            name = parse_manifest_path(directory, found.path)
            if name is None:
                continue
            newest = max(newest or 0, name.version)
            if _is_covered(name, version):
                store.delete(found.path)
    except StoreError as error:
        log.warning("old manifest files not deleted", directory=directory, version=version, error=error)
        newest = None
    crash_point("manifest.checkpoint.after_delete")
    return newest


def _is_covered(name: ManifestName, version: int) -> bool:
    return name.version < version or (name.version == version and not name.is_checkpoint)
