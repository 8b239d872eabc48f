"""Changing a region: alter, truncate, drop. Each runs on the region's worker.

None of them waits for a flush: an alter freezes the memtable, which keeps the schema its rows were written under; a
truncate makes a flush that is under way throw its files away.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from tsdb.engine.context import EngineContext
from tsdb.engine.listing import DROPPING
from tsdb.engine.manifest import Change, Edit, Remove, Truncate
from tsdb.engine.region import FileHandle, Region, RegionState, Version
from tsdb.engine.sst import check_storable
from tsdb.errors import TsdbError, Unsupported
from tsdb.model import RegionId, RegionOptions, SchemaChange, alter
from tsdb.store import ObjectNotFound, StoreError, crash_point
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.region")

CRASH_POINTS = (
    "alter.before_manifest",
    "alter.after_manifest",
    "truncate.before_manifest",
    "truncate.after_manifest",
    "discard.before_manifest",
    "discard.after_manifest",
    "drop.before_marker",
    "drop.after_marker",
    "drop.after_manifest",
    "drop.before_delete",
    "drop.after_delete",
)


def alter_schema(context: EngineContext, region: Region, changes: list[SchemaChange]) -> None:
    """Apply changes to the schema; an impossible one changes nothing."""
    region.check_writable()
    # The schema to change may be one whose commit has an unknown outcome.
    region.resolve(context)
    schema = alter(region.version.schema, changes)
    check_storable(schema)
    crash_point("alter.before_manifest")
    region.commit(context, Change(schema=schema))
    crash_point("alter.after_manifest")


def set_options(context: EngineContext, region: Region, options: RegionOptions) -> None:
    """Change the region's options."""
    region.check_writable()
    region.resolve(context)
    version = region.version
    is_empty = not version.files and all(memtable.is_empty for memtable in version.memtables)
    if version.options.append_mode and not options.append_mode:
        raise Unsupported("a region in append mode may hold duplicates and cannot leave it", region_id=region.id)
    if options.append_mode and not version.options.append_mode and not is_empty:
        # Its rows may be deleted or overwritten ones, which only merging hides.
        raise Unsupported("only an empty region can change to append mode", region_id=region.id)
    region.commit(context, Change(options=options))


def truncate(context: EngineContext, region: Region) -> None:
    """Let every row that is there now be gone."""
    region.check_writable()
    region.resolve(context)
    region.freeze(context)
    crash_point("truncate.before_manifest")
    region.commit(context, Truncate(region.last_entry_id, region.last_sequence))
    crash_point("truncate.after_manifest")


def discard_unflushed(context: EngineContext, region: Region) -> None:
    """Let every row be gone that is in no file. What is in the log up to now counts as flushed, so no replay has it."""
    region.check_writable()
    region.resolve(context)
    region.freeze(context)
    if not region.version.frozen:
        return
    crash_point("discard.before_manifest")
    region.commit(context, Edit(flushed_entry_id=region.last_entry_id, flushed_sequence=region.last_sequence))
    crash_point("discard.after_manifest")
    _log.warning("rows that were not flushed are discarded", region=region.id)


@dataclass(frozen=True, slots=True, eq=False)
class PendingDrop:
    """A dropped region whose directory is deleted when the last reader of its files is done."""

    region: Region
    readers: tuple[weakref.ref[FileHandle], ...]

    @property
    def is_over(self) -> bool:
        """Nobody reads the files any more, and no flush writes new ones."""
        return not self.region.is_flushing and all(reader() is None for reader in self.readers)


def drop(context: EngineContext, region: Region) -> PendingDrop:
    """Drop a region. From the marker on it is gone, even if everything else fails."""
    region.check_writable()
    crash_point("drop.before_marker")
    _put_marker(context, region)
    crash_point("drop.after_marker")
    region.state = RegionState.DROPPED
    version = region.version
    pending = PendingDrop(region, tuple(weakref.ref(handle) for handle in version.files))
    empty = context.new_memtable(version.schema, version.options)
    region.version = Version(version.schema, version.options, empty, (), ())
    for memtable in version.memtables:
        memtable.release()
    for frozen in version.frozen:
        context.buffer.release(frozen.nbytes)
    context.buffer.wake()
    _tell_manifest_and_log(context, region)
    _log.info("dropped", region=region.id)
    return pending


def _put_marker(context: EngineContext, region: Region) -> None:
    """Write the marker; if that fails, it must be certain that there is none, because the next start would obey it."""
    path = f"{region.directory}/{DROPPING}"
    try:
        context.store.put(path, b"")
    except StoreError:
        if _has_marker(context, region, path):
            return
        raise


def _has_marker(context: EngineContext, region: Region, path: str) -> bool:
    try:
        context.store.head(path)
    except ObjectNotFound:
        return False
    except StoreError:
        # What is acknowledged from here on could be gone with the next start.
        region.stop_writing("it is unknown whether the region is dropped; the next start finds out")
        return False
    return True


def _tell_manifest_and_log(context: EngineContext, region: Region) -> None:
    """Say it where a start would look for it next. The marker says all that is needed, so this may fail."""
    try:
        region.manifest.commit(Remove())
        crash_point("drop.after_manifest")
        context.wal.drop_region(region.id)
    except TsdbError as error:
        _log.warning("a drop is known by its marker only", region=region.id, error=error)


def finish_drop(context: EngineContext, region_id: RegionId, directory: str) -> None:
    """Delete what is left of a dropped region; the marker goes last, so that a crash leaves it to the next start.

    Before that, the log must know: entries of a region that is made anew under the same id would contradict the old.
    """
    crash_point("drop.before_delete")
    for item in list(context.store.list(directory)):
        if not item.path.endswith(f"/{DROPPING}"):
            context.store.delete(item.path)
    crash_point("drop.after_delete")
    context.wal.drop_region(region_id).result()
    context.store.delete_prefix(directory)
