"""Planning compactions of a region: which files are rewritten together, and what may be left out of them.

`compaction/` decides from what the manifest knows of files; here it is told what the region knows besides: which files
are quarantined or taken, what types their columns have, what has expired, how much space there is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial

from tsdb.engine.compaction import (
    CompactionTask,
    Pick,
    Policy,
    choose_window,
    estimate_input_bytes,
    may_drop_expired,
    may_drop_tombstones,
    plan_compaction,
    plan_split,
    policy_of,
)
from tsdb.engine.errors import StorageFull
from tsdb.engine.manifest import FileMeta, awaits_late_rows
from tsdb.engine.metrics import COMPACTIONS_POSTPONED
from tsdb.engine.region.compaction_history import CompactionRecord
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.flush_plan import stored_schema
from tsdb.engine.region.region import Region
from tsdb.engine.region.snapshot import ttl_cutoff
from tsdb.engine.region.state import CompactionRequest, StrictWindows
from tsdb.engine.region.version import FileHandle, Version
from tsdb.model import Semantic, TimeRange
from tsdb.store import free_bytes

FREE_BYTES_MIN = 256 << 20
"""Space that a merge must leave on the disk: the log needs it more."""

_POSTPONED_BY_DISK = COMPACTIONS_POSTPONED.labels("disk")
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class CompactionJob:
    """What one compaction rewrites, and what it may leave out."""

    inputs: tuple[FileHandle, ...]
    task: CompactionTask
    window_seconds: int | None
    """To be remembered, if it is news."""
    reason: str = ""
    """Why these files were chosen."""
    records: list[CompactionRecord] = field(default_factory=list)
    """Its record, once it has begun."""

    @property
    def metas(self) -> list[FileMeta]:
        return [handle.meta for handle in self.inputs]


def plan_jobs(context: EngineContext, region: Region, request: CompactionRequest | None) -> list[CompactionJob]:
    """Choose what to rewrite, in as many jobs as may run at a time; none if all is well. On a background thread.

    Jobs of one plan have different files. None of them depends on what becomes of the others: rows keep their
    sequences, and what a job may leave out was decided with the files of the others still there.
    """
    version, state = region.version, region.manifest.state
    strict = None if request is None else request.strict
    window = _window(region, version, strict)
    policy = policy_of(
        version.options,
        window * version.schema.ticks_per_second,
        memory_bytes_max=context.merge_memory.bytes_max // 2,
    )
    jobs: list[CompactionJob] = []
    taken = set(region.quarantined)
    while len(jobs) < (1 if request is None else request.parallelism):
        pick = _pick(context, region, version, policy if request is None else policy.forced(), strict, taken)
        if pick is None:
            break
        news = window if window != state.compaction_window_seconds else None
        jobs.append(
            make_job(
                context,
                version,
                pick,
                news,
                is_requested=request is not None,
                keeps_tombstones=awaits_late_rows(state.takeovers, context.now_ms()),
            )
        )
        taken.update(meta.file_id for meta in pick.files)
    if not jobs and region.compaction.is_idle:
        region.compaction.settled_version = state.version
    return jobs


def _window(region: Region, version: Version, strict: StrictWindows | None) -> int:
    """Return how long windows are, in seconds."""
    if strict is not None and strict.length:
        return max(1, strict.length // _NS)
    known = region.window_seconds
    return known or choose_window(version.options, version.schema, [handle.meta for handle in version.files])


def make_job(
    context: EngineContext,
    version: Version,
    pick: Pick,
    window_seconds: int | None = None,
    *,
    is_requested: bool = False,
    keeps_tombstones: bool = False,
) -> CompactionJob:
    """Decide how files of a version that were picked are rewritten, and pin them.

    With `keeps_tombstones` they stay in any case: older rows than theirs may come.
    """
    metas = [handle.meta for handle in version.files]
    handles = {handle.meta.file_id: handle for handle in version.files}
    inputs = tuple(handles[meta.file_id] for meta in pick.files)
    _check_space(context, inputs[0].source.directory, pick.files)
    task = CompactionTask(
        schema=stored_schema(version.schema, inputs[0].source.schema),
        options=version.options,
        inputs=tuple(handle.source for handle in inputs),
        spans=_visible_spans(context, version, pick, metas),
        keeps_tombstones=keeps_tombstones or not may_drop_tombstones(version.options, pick.files, metas),
        index=context.options.index if context.options.index_on_compaction else None,
    )
    reason = f"requested: {pick.reason}" if is_requested else pick.reason
    return CompactionJob(inputs, task, window_seconds, reason)


def _pick(
    context: EngineContext,
    region: Region,
    version: Version,
    policy: Policy,
    strict: StrictWindows | None,
    taken: Collection[str],
) -> Pick | None:
    metas = [handle.meta for handle in version.files]
    if strict is not None:
        able = [meta for meta in metas if meta.file_id not in taken]
        pick = plan_split(able, policy.window_ticks, _ticks(strict, version.schema.ticks_per_second))
        if pick is not None:
            return pick
    return plan_compaction(
        metas,
        version.options,
        policy,
        taken=taken,
        kind_of=_kinds(version),
        weight_of=partial(estimate_input_bytes, version.schema, context.options.tuning.merge),
        now_ms=context.clock.now_ns() // 1_000_000,
        is_idle=region.compaction.is_idle,
    )


def _ticks(strict: StrictWindows, ticks_per_second: int) -> TimeRange:
    everything = TimeRange.ALL
    return TimeRange(
        everything.start if strict.start_ns is None else strict.start_ns * ticks_per_second // _NS,
        everything.end if strict.end_ns is None else strict.end_ns * ticks_per_second // _NS,
    )


def _kinds(version: Version) -> Callable[[FileMeta], Hashable]:
    """Return what decides whether files have columns of the same types, and can be merged."""
    changed = [column for column in version.schema.columns if column.past and column.semantic is Semantic.FIELD]
    if not changed:
        return lambda meta: ()
    handles = {handle.meta.file_id: handle for handle in version.files}

    def kind_of(meta: FileMeta) -> Hashable:
        written = handles[meta.file_id].source.schema.by_id
        return tuple(written[column.id].type if column.id in written else column.first.type for column in changed)

    return kind_of


def _visible_spans(
    context: EngineContext, version: Version, pick: Pick, metas: Sequence[FileMeta]
) -> tuple[TimeRange, ...]:
    """Leave out what has expired, if nothing older comes to light by that."""
    cutoff = ttl_cutoff(context, version)
    if cutoff is None or not may_drop_expired(version.options, pick.files, metas):
        return pick.spans
    lasting = TimeRange(cutoff, TimeRange.ALL.end)
    return tuple(span for each in pick.spans if not (span := each.intersection(lasting)).is_empty)


def _check_space(context: EngineContext, directory: str, files: Sequence[FileMeta]) -> None:
    free = free_bytes(context.store, directory)
    needed = sum(meta.size_bytes + meta.index_size_bytes for meta in files) + FREE_BYTES_MIN
    if free is not None and free < needed:
        _POSTPONED_BY_DISK.inc()
        raise StorageFull("there is no space to merge data files", free_bytes=free, needed_bytes=needed)
