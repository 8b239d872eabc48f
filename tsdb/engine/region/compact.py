"""Compacting a region: its small files become fewer, larger ones.

    background: plan, merge, write files ─▶ worker: manifest (old files out, new in) ─▶ old ones deleted when unread

- One compaction of a region runs at a time, so no two want the same files. What a flush adds meanwhile is newer than
  all of it; what a truncate or the time to live takes away ends it: inputs that are gone make its output void.
- Until the edit of the manifest nothing has changed, and whatever fails leaves everything as it was.
- Only `ADMIN compact_table` waits for it. Otherwise it starts after flushes and at intervals, and rests as long as it
  worked, so that a region takes at most half of one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from tsdb.engine.compaction import (
    CompactionTask,
    Pick,
    Policy,
    choose_window,
    estimate_input_bytes,
    estimate_task_bytes,
    may_drop_expired,
    may_drop_tombstones,
    plan_compaction,
    plan_split,
    policy_of,
    write_files,
)
from tsdb.engine.errors import FileCorrupted, StorageFull, StorageUnavailable
from tsdb.engine.manifest import Edit, FileMeta, data_path
from tsdb.engine.metrics import (
    COMPACTED,
    COMPACTED_FILES,
    COMPACTED_READ_BYTES,
    COMPACTED_ROWS,
    COMPACTED_WRITTEN_BYTES,
    COMPACTION_CANCELLED,
    COMPACTION_FAILED,
    COMPACTION_SECONDS,
    COMPACTIONS_RUNNING,
)
from tsdb.engine.region.background import Priority
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.flush import start_flush
from tsdb.engine.region.flush_plan import stored_schema
from tsdb.engine.region.job import install, pass_error, refuse, run_job
from tsdb.engine.region.region import Region
from tsdb.engine.region.snapshot import ttl_cutoff
from tsdb.engine.region.state import CompactionWaiter, StrictWindows
from tsdb.engine.region.trim import expire
from tsdb.engine.region.version import FileHandle, Version
from tsdb.engine.sst import WrittenFile
from tsdb.errors import Cancelled
from tsdb.model import RegionId, Semantic, TimeRange
from tsdb.store import Purpose, crash_point, free_bytes, requests_for
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_log = get_logger("tsdb.compaction")

CRASH_POINTS = ("compact.before_files", "compact.after_files", "compact.before_manifest", "compact.after_manifest")

LOOK_INTERVAL = Duration.of_seconds(600)
"""How often the files of a region are looked at that is not flushed."""
IDLE_LOOK = Duration.of_seconds(10)
"""How long a region must not have been written to for files that overlap to be merged, however few they are."""
FIRST_LOOK = Duration.of_seconds(60)
"""Within this time after a start all regions are looked at, each at a moment of its own."""
RETRY_SECONDS_MAX = 600.0
FREE_BYTES_MIN = 256 << 20
"""Space that a merge must leave on the disk: the log needs it more."""

_RETRY_SECONDS_MIN = 1.0
_SPREAD = 0x9E3779B97F4A7C15
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class CompactionJob:
    """What one compaction rewrites, and what it may leave out."""

    inputs: tuple[FileHandle, ...]
    task: CompactionTask
    window_seconds: int | None
    """To be remembered, if it is news."""

    @property
    def metas(self) -> list[FileMeta]:
        return [handle.meta for handle in self.inputs]


@dataclass(frozen=True, slots=True, eq=False)
class Compacted:
    """A job whose files are written."""

    job: CompactionJob
    written: list[WrittenFile]
    elapsed_ns: int


def first_look_ns(region_id: RegionId) -> int:
    """Return how long after a start the files of a region are looked at: not all regions at once."""
    return (region_id * _SPREAD % (1 << 64)) % FIRST_LOOK


def look(context: EngineContext, region: Region, *, is_idle: bool = False) -> Future[None]:
    """Merge files if it is time to, without being asked. The region `is_idle` if nothing was written for a while."""

    def begin() -> None:
        region.compaction.is_idle = is_idle
        _begin(context, region, None)

    return region.worker.call(begin)


def start_compaction(context: EngineContext, region: Region, strict: StrictWindows | None = None) -> Future[None]:
    """Flush what the region holds now, remove what has expired, and merge what can be merged."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()
    waiter = CompactionWaiter(done, strict)

    def begin() -> None:
        expire(context, region)
        _begin(context, region, waiter)

    def compact(flushed: Future[None]) -> None:
        error = flushed.exception()
        if error is not None:
            done.set_exception(error)
        else:
            region.worker.call(begin).add_done_callback(_refuse(done))

    start_flush(context, region).add_done_callback(compact)
    return done


def _refuse(done: Future[None]) -> Callable[[Future[None]], None]:
    """Answer a request with the error of a step, if it has one."""
    return partial(pass_error, partial(refuse, [done]))


def _begin(context: EngineContext, region: Region, waiter: CompactionWaiter | None) -> None:
    """Let a background thread look at the files. On the worker."""
    if region.compaction.is_running:
        if waiter is not None:
            region.compaction.waiters.append(waiter)
        return
    if not region.access.is_writable:
        if waiter is not None:
            region.check_writable()
        return
    region.compaction.is_running = True
    _submit(context, region, waiter)


def _submit(context: EngineContext, region: Region, waiter: CompactionWaiter | None) -> None:
    run_job(
        context,
        region,
        Priority.COMPACT,
        partial(_plan_and_write, context, region, waiter),
        finish=partial(_finish, context, region, waiter),
        fail=partial(_fail, context, region, waiter),
        lose=partial(_end, context, region, waiter),
    )


@requests_for(Purpose.COMPACTION)
def _plan_and_write(context: EngineContext, region: Region, waiter: CompactionWaiter | None) -> Compacted | None:
    """Choose files and write what they become; None if there is nothing to merge. On a background thread."""
    started_ns = context.clock.monotonic_ns()
    with COMPACTIONS_RUNNING.track_inprogress():
        job = _plan(context, region, waiter)
        if job is None:
            return None
        written = write_job(context, region, job)
        return Compacted(job, written, context.clock.monotonic_ns() - started_ns)


def _plan(context: EngineContext, region: Region, waiter: CompactionWaiter | None) -> CompactionJob | None:
    """Choose what to rewrite. On a background thread."""
    _check(context, region, ())
    version, state = region.version, region.manifest.state
    metas = [handle.meta for handle in version.files]
    known = region.window_seconds
    window = known or choose_window(version.options, version.schema, metas)
    strict = None if waiter is None else waiter.strict
    if strict is not None and strict.length:
        window = max(1, strict.length // _NS)
    policy = policy_of(
        version.options,
        window * version.schema.ticks_per_second,
        memory_bytes_max=context.merge_memory.bytes_max // 2,
    )
    pick = _pick(context, region, version, policy if waiter is None else policy.forced(), strict)
    if pick is None:
        if region.compaction.is_idle:
            region.compaction.settled_version = state.version
        return None
    return make_job(context, version, pick, window if window != state.compaction_window_seconds else None)


def make_job(context: EngineContext, version: Version, pick: Pick, window_seconds: int | None = None) -> CompactionJob:
    """Decide how files of a version that were picked are rewritten, and pin them."""
    metas = [handle.meta for handle in version.files]
    handles = {handle.meta.file_id: handle for handle in version.files}
    inputs = tuple(handles[meta.file_id] for meta in pick.files)
    _check_space(context, inputs[0].source.directory, pick.files)
    task = CompactionTask(
        schema=stored_schema(version.schema, inputs[0].source.schema),
        options=version.options,
        inputs=tuple(handle.source for handle in inputs),
        spans=_visible_spans(context, version, pick, metas),
        keeps_tombstones=not may_drop_tombstones(version.options, pick.files, metas),
        index=context.options.index if context.options.index_on_compaction else None,
    )
    return CompactionJob(inputs, task, window_seconds)


def _pick(
    context: EngineContext, region: Region, version: Version, policy: Policy, strict: StrictWindows | None
) -> Pick | None:
    metas = [handle.meta for handle in version.files]
    able = [meta for meta in metas if meta.file_id not in region.compaction.damaged_files]
    if strict is not None:
        pick = plan_split(able, policy.window_ticks, _ticks(strict, version.schema.ticks_per_second))
        if pick is not None:
            return pick
    return plan_compaction(
        metas,
        version.options,
        policy,
        taken=region.compaction.damaged_files,
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
        raise StorageFull("there is no space to merge data files", free_bytes=free, needed_bytes=needed)


def _check(context: EngineContext, region: Region, inputs: Sequence[FileHandle]) -> None:
    """Raise if going on is pointless, or in the way of others."""
    background = context.background
    files = region.manifest.state.files
    if background.is_stopping:
        raise StorageUnavailable("the engine is closed")
    if region.access.is_dropped or not all(handle.meta.file_id in files for handle in inputs):
        raise Cancelled("files that were to be merged are gone")
    if background.has_one_thread and background.has_flush_waiting:
        raise Cancelled("a flush needs the thread")


def write_job(context: EngineContext, region: Region, job: CompactionJob) -> list[WrittenFile]:
    """Write the files of a job. On a background thread."""
    crash_point("compact.before_files")
    check, tuning = partial(_check, context, region, job.inputs), context.options.tuning.merge
    with context.merge_memory.compacting(estimate_task_bytes(job.task.schema, tuning, job.metas), check):
        written = write_files(
            job.task,
            store=context.store,
            directory=region.directory,
            caches=context.caches,
            write_buffer_bytes=context.options.sst_write_buffer_size,
            clock=context.clock,
            ids=context.ids,
            tuning=tuning,
            check=check,
        )
    crash_point("compact.after_files")
    return written


def _finish(context: EngineContext, region: Region, waiter: CompactionWaiter | None, done: Compacted | None) -> None:
    """Let new files take the place of old ones. On the worker."""
    now, state = context.clock.monotonic_ns(), region.compaction
    if done is None:
        state.failures, state.due_ns = 0, now + LOOK_INTERVAL
        _end(context, region, waiter)
        return
    try:
        is_installed = install_job(context, region, done.job, done.written)
    except BaseException as error:  # noqa: BLE001 - a failed compaction is reported and tried again
        _fail(context, region, waiter, error)
        return
    # There may be more to do, but not all the time.
    state.failures, state.due_ns, state.not_before_ns = 0, now, now + done.elapsed_ns
    if is_installed:
        _report(region, done.job.metas, [file.meta for file in done.written], done.elapsed_ns)
    _go_on(context, region, waiter)


def install_job(context: EngineContext, region: Region, job: CompactionJob, written: list[WrittenFile]) -> bool:
    """Commit the files; False if their rows are void by now."""
    is_installed = install(context, region, written, partial(_plan_edit, region, job, written))
    if is_installed:
        crash_point("compact.after_manifest")
    return is_installed


def _plan_edit(region: Region, job: CompactionJob, written: list[WrittenFile]) -> Edit | None:
    """Plan the edit of the manifest; None if files that were merged are no part of the region any more."""
    files = region.manifest.state.files
    if not region.access.is_writable or not all(meta.file_id in files for meta in job.metas):
        return None
    crash_point("compact.before_manifest")
    return Edit(
        added=tuple(file.meta for file in written),
        removed=tuple(meta.file_id for meta in job.metas),
        compaction_window_seconds=job.window_seconds,
    )


def _report(region: Region, read: list[FileMeta], written: list[FileMeta], elapsed_ns: int) -> None:
    rows, written_bytes = sum(meta.rows for meta in written), sum(meta.size_bytes for meta in written)
    read_bytes = sum(meta.size_bytes for meta in read)
    COMPACTED.inc()
    COMPACTION_SECONDS.observe(elapsed_ns / _NS)
    COMPACTED_FILES.inc(len(read))
    COMPACTED_ROWS.inc(rows)
    COMPACTED_READ_BYTES.inc(read_bytes)
    COMPACTED_WRITTEN_BYTES.inc(written_bytes)
    _log.info(
        "compacted",
        region=region.id,
        table=region.table,
        files=len(read),
        into=len(written),
        rows=rows,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        seconds=round(elapsed_ns / _NS, 3),
    )


def _fail(context: EngineContext, region: Region, waiter: CompactionWaiter | None, error: BaseException) -> None:
    """Leave everything as it is, and try again later. On the worker."""
    now = context.clock.monotonic_ns()
    if isinstance(error, Cancelled):
        COMPACTION_CANCELLED.inc()
        region.compaction.due_ns = now
        _go_on(context, region, waiter)
        return
    if not context.background.is_stopping:
        region.compaction.due_ns = now
        region.compaction.postpone(now, _RETRY_SECONDS_MIN, RETRY_SECONDS_MAX)
        COMPACTION_FAILED.inc()
        _set_aside(region, error)
        _log.warning(
            "a compaction failed",
            region=region.id,
            table=region.table,
            failures=region.compaction.failures,
            error=error,
        )
    _end(context, region, waiter, error)


def _set_aside(region: Region, error: BaseException) -> None:
    """Do not try to merge a damaged file again: the others can be merged without it."""
    if isinstance(error, FileCorrupted):
        damaged = str(error.fields.get("file"))
        files = region.manifest.state.files
        region.compaction.damaged_files |= {each for each in files if data_path(region.directory, each) == damaged}


def _go_on(context: EngineContext, region: Region, waiter: CompactionWaiter | None) -> None:
    """Compact until nothing is left to merge, if there is a waiter. On the worker."""
    if waiter is None:
        _end(context, region, None)
        return
    try:
        region.check_writable()
    except BaseException as error:  # noqa: BLE001 - handed to the waiter
        # Without the frames it came through: they know the files, which are to be deleted.
        _end(context, region, waiter, error.with_traceback(None))
        return
    _submit(context, region, waiter)


def _end(
    context: EngineContext, region: Region, waiter: CompactionWaiter | None, error: BaseException | None = None
) -> None:
    """Answer the waiter, and begin the next compaction if there are more waiters."""
    region.compaction.is_running = False
    if waiter is not None and error is not None:
        refuse([waiter.done], error)
    elif waiter is not None and not waiter.done.done():
        waiter.done.set_result(None)
    waiting, region.compaction.waiters = region.compaction.waiters, []
    for each in waiting:
        region.worker.call(partial(_begin, context, region, each)).add_done_callback(_refuse(each.done))
