"""Quarantine of data files that cannot be read completely.

    a read fails, or a start misses a file ─▶ quarantined: in memory, then in the manifest
        ├▶ verified again (on request, and after each start) and whole ─▶ released
        └▶ dropped on request: removed from the region, with its rows

- A quarantined file stays part of the region. Reads that need its damaged parts fail and name it; others are answered,
  with the intact pages of this file. No row is lost silently.
- Compactions skip it and merge the other files. It still counts in what they may leave out: the rows that its
  tombstones hide stay hidden.
- `Region.quarantine` marks a file; this module ends a quarantine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from tsdb.engine.errors import StorageUnavailable, damage_of
from tsdb.engine.manifest import Edit, data_path
from tsdb.engine.region.background import Priority
from tsdb.engine.region.content import content_of
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.job import pass_error, refuse, run_job
from tsdb.engine.region.region import Region
from tsdb.engine.region.version import FileHandle
from tsdb.errors import Cancelled, InvalidArguments, TsdbError
from tsdb.store import crash_point
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.region")

CRASH_POINTS = (
    "quarantine.before_manifest",
    "quarantine.after_manifest",
    "release.before_manifest",
    "release.after_manifest",
    "give_up.before_manifest",
    "give_up.after_manifest",
)


@dataclass(frozen=True, slots=True)
class VerifiedFiles:
    """The result of verifying some files."""

    files: int = 0
    rows: int = 0
    damaged: tuple[tuple[str, str], ...] = ()
    """Paths of data files, and what is wrong with each."""
    index_damaged: tuple[tuple[str, str], ...] = ()
    """The same of data files that are whole and whose index is not: queries of them are slower."""
    released: int = 0
    """How many files were quarantined and are not any more."""
    visible_rows: int | None = None
    """How many rows queries see, and a checksum of them (`content.py`); None if not all files were verified, or one is
    damaged."""
    checksum: int | None = None


def start_verify(
    context: EngineContext, region: Region, *, is_quarantined: bool = False, is_requested: bool = True
) -> Future[VerifiedFiles]:
    """Read all files of a region, or the quarantined ones; quarantine those that are damaged, release the others."""
    done: Future[VerifiedFiles] = Future()
    done.set_running_or_notify_cancel()
    handles = [each for each in region.version.files if not is_quarantined or each.meta.file_id in region.quarantined]

    def finish(found: tuple[VerifiedFiles, list[str]]) -> None:
        verified, whole = found
        released = release(context, region, whole)
        done.set_result(replace(verified, released=released))

    fail = partial(refuse, [done])
    run_job(
        context,
        region,
        Priority.REQUESTED if is_requested else Priority.COMPACT,
        partial(_verify, context, region, handles, is_whole=not is_quarantined),
        finish=finish,
        fail=fail,
        lose=fail,
    )
    return done


def _verify(
    context: EngineContext, region: Region, handles: Sequence[FileHandle], *, is_whole: bool
) -> tuple[VerifiedFiles, list[str]]:
    """Verify files; return what was found, and which of them are whole. On a background thread."""
    whole, rows = [], 0
    damaged: list[tuple[str, str]] = []
    index_damaged: list[tuple[str, str]] = []
    check = partial(_check, context, region)
    for handle in handles:
        path = data_path(region.directory, handle.meta.file_id)
        try:
            index_reason = handle.source.verify(check)
        except TsdbError as error:
            reason = damage_of(error)
            if reason is None:
                raise
            damaged.append((path, reason))
            continue
        whole.append(handle.meta.file_id)
        rows += handle.meta.rows
        if index_reason is not None:
            index_damaged.append((path, index_reason))
    found = VerifiedFiles(len(handles), rows, tuple(damaged), tuple(index_damaged))
    if is_whole and not damaged and not region.quarantined:
        content = content_of(context, region, check)
        found = replace(found, visible_rows=content.rows, checksum=content.checksum)
    return found, whole


def _check(context: EngineContext, region: Region) -> None:
    if context.background.is_stopping:
        raise StorageUnavailable("the engine is closed")
    if region.access.is_gone:
        raise Cancelled("the region is dropped or closed")


def release(context: EngineContext, region: Region, file_ids: Sequence[str]) -> int:
    """End the quarantine of files that turned out to be whole; return how many there were. On the worker."""
    whole = [file_id for file_id in file_ids if file_id in region.quarantined]
    if not whole:
        return 0
    region.check_writable()
    region.resolve(context)
    recorded = tuple(file_id for file_id in whole if file_id in region.manifest.state.quarantined)
    region.quarantined = {each: file for each, file in region.quarantined.items() if each not in whole}
    for file_id in whole:
        # What was read of it before may be from a damaged state that a cache still has.
        context.caches.evict_file(file_id)
    if recorded:
        crash_point("release.before_manifest")
        region.commit(context, Edit(released=recorded))
        crash_point("release.after_manifest")
    _log.info("files are no longer quarantined", region=region.id, table=region.table, files=len(whole))
    return len(whole)


def start_give_up(context: EngineContext, region: Region, file_id: str) -> Future[int]:
    """Take a quarantined file out of the region; return how many rows it held."""
    return region.worker.call(partial(_give_up, context, region, file_id))


def _give_up(context: EngineContext, region: Region, file_id: str) -> int:
    region.check_writable()
    region.resolve(context)
    meta = region.manifest.state.files.get(file_id)
    if meta is None:
        raise InvalidArguments(f"the region has no data file {file_id!r}", region_id=region.id)
    if file_id not in region.quarantined:
        raise InvalidArguments(
            f"the data file {file_id!r} is not quarantined",
            region_id=region.id,
            hint="ADMIN verify_table finds damaged files; only those can be dropped",
        )
    crash_point("give_up.before_manifest")
    region.commit(context, Edit(removed=(file_id,)))
    crash_point("give_up.after_manifest")
    _log.warning(
        "a damaged file is dropped with its rows",
        region=region.id,
        table=region.table,
        file=data_path(region.directory, file_id),
        rows=meta.rows,
    )
    return meta.rows


def look_after_start(context: EngineContext, region: Region) -> None:
    """Record what a start found missing, and look again at what was quarantined before: it may have been restored."""
    known = region.manifest.state.quarantined
    if region.quarantined.keys() - known.keys():
        region.worker.call(partial(region.record_quarantine, context))
    if known:
        start_verify(context, region, is_quarantined=True, is_requested=False).add_done_callback(_tell(region))


def _tell(region: Region) -> Callable[[Future[VerifiedFiles]], None]:
    def tell(error: BaseException) -> None:
        _log.warning("quarantined files could not be verified", region=region.id, table=region.table, error=error)

    return partial(pass_error, tell)
