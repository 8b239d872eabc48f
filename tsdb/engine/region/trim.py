"""Taking whole data files out of a region: those whose rows have all expired, and those inside ranges of time.

    plan (pure) ─▶ worker: manifest ─▶ each file is deleted after its last reader

Files that merge with others are more than their own rows: they hide what they overwrote or deleted in older files. So a
file stays as long as a file that stays has older rows at the same times. It goes with that one, later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tsdb.engine.manifest import Edit, FileMeta
from tsdb.engine.metrics import EXPIRED_FILES
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.noting import FILES_REMOVED, note
from tsdb.engine.region.region import Region
from tsdb.engine.region.snapshot import ttl_cutoff
from tsdb.engine.region.version import Version
from tsdb.model import RegionOptions, TimeRange
from tsdb.store import crash_point
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.region")

CRASH_POINTS = ("trim.before_manifest", "trim.after_manifest")


def plan_expired(version: Version, cutoff: int | None) -> list[FileMeta]:
    """Choose the files whose rows are all before a time."""
    if cutoff is None:
        return []
    return _plan(version, lambda meta: meta.time_range.end <= cutoff)


def plan_inside(version: Version, ranges: Sequence[TimeRange]) -> list[FileMeta]:
    """Choose the files that lie in one of some ranges with all their rows."""
    return _plan(version, lambda meta: any(span.contains(meta.time_range) for span in ranges))


def _plan(version: Version, is_wanted: Callable[[FileMeta], bool]) -> list[FileMeta]:
    metas = [handle.meta for handle in version.files]
    wanted = {meta.file_id: meta for meta in metas if is_wanted(meta)}
    if not wanted:
        return []
    span = _hull(wanted.values())
    # A file that stays may keep others, which then keep others in turn.
    staying = [meta for meta in metas if meta.file_id not in wanted and meta.time_range.overlaps(span)]
    while staying and wanted:
        one = staying.pop()
        needed = [meta for meta in wanted.values() if _hides(version.options, meta, one)]
        for meta in needed:
            del wanted[meta.file_id]
        staying += needed
    return list(wanted.values())


def _hides(options: RegionOptions, meta: FileMeta, other: FileMeta) -> bool:
    """Whether rows of the other file can be visible only because this one is gone."""
    if options.keeps_all(meta.sequence_min) or other.sequence_min >= meta.sequence_max:
        return False
    return meta.time_range.overlaps(other.time_range)


def _hull(metas: Collection[FileMeta]) -> TimeRange:
    ranges = [meta.time_range for meta in metas]
    return TimeRange(min(each.start for each in ranges), max(each.end for each in ranges))


def expire(context: EngineContext, region: Region) -> None:
    """Remove the files whose rows are all past their time to live. On the worker."""
    region.check_writable()
    region.resolve(context)
    expired = plan_expired(region.version, ttl_cutoff(context, region.version))
    _remove(context, region, expired)
    EXPIRED_FILES.inc(len(expired))


def truncate_inside(context: EngineContext, region: Region, ranges: Sequence[TimeRange]) -> None:
    """Remove the files that lie in one of some ranges of time; rows that are not in files yet stay. On the worker."""
    region.check_writable()
    region.resolve(context)
    files = plan_inside(region.version, ranges)
    if files:
        note(context, region, FILES_REMOVED)
    _remove(context, region, files)


def _remove(context: EngineContext, region: Region, files: Sequence[FileMeta]) -> None:
    if not files:
        return
    crash_point("trim.before_manifest")
    region.commit(context, Edit(removed=tuple(meta.file_id for meta in files)))
    crash_point("trim.after_manifest")
    _log.info(
        "files removed", region=region.id, table=region.table, files=len(files), rows=sum(meta.rows for meta in files)
    )
