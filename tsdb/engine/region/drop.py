"""Dropping a region: the marker first, then everything else, in any order and with retries.

    put marker ─▶ no reads or writes ─▶ manifest and log ─▶ delete files after their last reader ─▶ delete marker

Once the marker is written, the region is dropped, whatever else fails: a start that finds a marker completes the drop.
A quarantined region is dropped in the same way; it has no readers.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from tsdb.engine.errors import is_of_disk
from tsdb.engine.listing import DROPPING
from tsdb.engine.manifest import Remove
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.region import Region
from tsdb.engine.region.state import RegionState
from tsdb.engine.region.version import FileHandle
from tsdb.errors import TsdbError
from tsdb.model import RegionId
from tsdb.store import ObjectNotFound, Purpose, StoreError, crash_point, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.region")

CRASH_POINTS = (
    "drop.before_marker",
    "drop.after_marker",
    "drop.after_manifest",
    "drop.before_delete",
    "drop.after_delete",
)


@dataclass(frozen=True, slots=True, eq=False)
class PendingDrop:
    """A dropped region whose directory is deleted when the last reader of its files is done."""

    region_id: RegionId
    directory: str
    region: Region | None = None
    """None if it was not served."""
    readers: tuple[weakref.ref[FileHandle], ...] = ()

    @property
    def is_over(self) -> bool:
        """The files have no reader, and neither a flush nor a compaction writes new ones."""
        is_idle = self.region is None or not (self.region.flush.is_running or self.region.compaction.is_running)
        return is_idle and all(reader() is None for reader in self.readers)


class _MarkerInDoubt(Exception):
    """The marker may be there at the next start."""


def drop_region(context: EngineContext, region: Region) -> PendingDrop:
    """Drop a region. From the marker on it is gone, even if everything else fails. On the worker.

    If the store does not say whether it took the marker, the region takes no more writes: what is acknowledged from
    then on could be gone with the next start. The drop can be repeated, unless it was a disk that failed.
    """
    if not region.access.is_drop_in_doubt:
        region.check_writable()
    try:
        _put_marker(context, region.directory)
    except _MarkerInDoubt as doubt:
        cause = _cause(doubt)
        region.access.is_drop_in_doubt = not is_of_disk(cause)
        way_out = "drop it again, or restart" if region.access.is_drop_in_doubt else "the next start finds out"
        region.access.stop(f"it is unknown whether the region is dropped; {way_out}")
        raise cause from None
    served = region.let_go(context, RegionState.DROPPED)
    readers = tuple(weakref.ref(handle) for handle in served.files)
    del served
    _tell_manifest_and_log(context, region)
    _log.info("dropped", region=region.id, table=region.table)
    return PendingDrop(region.id, region.directory, region, readers)


def drop_quarantined(context: EngineContext, region_id: RegionId, directory: str) -> PendingDrop:
    """Drop a region that is not served; its log entries are released with its files."""
    try:
        _put_marker(context, directory)
    except _MarkerInDoubt as doubt:
        raise _cause(doubt) from None
    _log.info("dropped a region that was not served", region=region_id)
    return PendingDrop(region_id, directory)


@requests_for(Purpose.MANIFEST)
def _put_marker(context: EngineContext, directory: str) -> None:
    """Write the marker. After a StoreError there is none for certain; _MarkerInDoubt if the next start may find one."""
    path = f"{directory}/{DROPPING}"
    crash_point("drop.before_marker")
    try:
        context.store.put(path, b"")
    except StoreError as error:
        is_there = _find_marker(context, path)
        if is_there is False:
            raise
        # A reply that was lost is one thing. A disk whose directory could not be synced shows a marker that may be gone
        # after a power loss, and a sync is never repeated.
        if is_there is None or is_of_disk(error):
            raise _MarkerInDoubt from error
    crash_point("drop.after_marker")


def _find_marker(context: EngineContext, path: str) -> bool | None:
    """Whether the marker is there; None if that is unknown."""
    try:
        context.store.head(path)
    except ObjectNotFound:
        return False
    except StoreError:
        return None
    return True


def _cause(doubt: _MarkerInDoubt) -> StoreError:
    assert isinstance(doubt.__cause__, StoreError)
    return doubt.__cause__


def _tell_manifest_and_log(context: EngineContext, region: Region) -> None:
    """Say it where a start would look for it next. The marker says all that is needed, so this may fail."""
    try:
        with requests_for(Purpose.MANIFEST):
            region.manifest.commit(Remove())
        crash_point("drop.after_manifest")
        context.wal.drop_region(region.id)
    except TsdbError as error:
        _log.warning("a drop is known by its marker only", region=region.id, table=region.table, error=error)


@requests_for(Purpose.SWEEP)
def finish_drop(context: EngineContext, region_id: RegionId, directory: str) -> None:
    """Delete what is left of a dropped region; the marker goes last, so that a crash leaves it to the next start.

    Before that, the log must know: entries of a region created again under the same id would contradict the old.
    """
    crash_point("drop.before_delete")
    for item in list(context.store.list(directory)):
        if not item.path.endswith(f"/{DROPPING}"):
            context.store.delete(item.path)
    crash_point("drop.after_delete")
    context.wal.drop_region(region_id).result()
    context.store.delete_prefix(directory)
