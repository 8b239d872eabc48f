"""Compacting a region: its small files become fewer, larger ones.

    background: plan (`compact_plan`) ─▶ background: merge, write files, one job or several ─▶ worker: manifest (old
    files out, new in) ─▶ old ones deleted when unread

- A region is compacted in rounds. The jobs of a round have different files, and the next round is planned when all of
  them are done. Without a request a round has one job. What a flush adds meanwhile is newer than all of it; what a
  truncate or the time to live takes away ends a job: inputs that are gone make its output void. So do other options of
  the table, by which it would have been planned otherwise.
- Until the edit of the manifest nothing has changed, and whatever fails leaves everything as it was. A file that turns
  out to be damaged is quarantined, and the next round goes on without it.
- Only `ADMIN compact_table` waits for it. Otherwise it starts after flushes and at intervals, and rests as long as it
  worked, so that a region takes at most half of one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from tsdb.engine.compaction import estimate_task_bytes, write_files
from tsdb.engine.errors import StorageUnavailable, damage_of
from tsdb.engine.manifest import Edit, FileMeta
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
from tsdb.engine.region.compact_plan import CompactionJob, plan_jobs
from tsdb.engine.region.compaction_history import CompactionResult
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.flush import start_flush
from tsdb.engine.region.job import install, pass_error, refuse, run_job, trace_files
from tsdb.engine.region.pause import Pauses
from tsdb.engine.region.region import Region
from tsdb.engine.region.state import CompactionRequest, StrictWindows
from tsdb.engine.region.trim import expire
from tsdb.engine.sst import WrittenFile
from tsdb.errors import Cancelled
from tsdb.model import RegionId
from tsdb.store import Purpose, crash_point, requests_for
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_log = get_logger("tsdb.compaction")

CRASH_POINTS = ("compact.before_files", "compact.after_files", "compact.before_manifest", "compact.after_manifest")

LOOK_INTERVAL = Duration.of_seconds(600)
"""How often the files of a region that is not flushed are checked for compaction."""
IDLE_LOOK = Duration.of_seconds(10)
"""How long a region must not have been written to for files that overlap to be merged, however few they are."""
FIRST_LOOK_MIN, FIRST_LOOK_MAX = Duration.of_seconds(15), Duration.of_seconds(75)
"""Between these times after a start all regions are looked at, each at a moment of its own: when a region that nothing
was written to is known to be idle."""
RETRY_SECONDS_MAX = 600.0

_RETRY_SECONDS_MIN = 1.0
_SPREAD = 0x9E3779B97F4A7C15
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Compacted:
    """A job whose files are written."""

    job: CompactionJob
    written: list[WrittenFile]
    elapsed_ns: int


def first_look_ns(region_id: RegionId) -> int:
    """Return how long after a start the files of a region are checked: not all regions at once."""
    return FIRST_LOOK_MIN + (region_id * _SPREAD % (1 << 64)) % (FIRST_LOOK_MAX - FIRST_LOOK_MIN)


def look(context: EngineContext, region: Region, *, is_idle: bool = False) -> Future[None]:
    """Merge files if it is time to, without being asked. The region `is_idle` if nothing was written for a while."""

    def begin() -> None:
        region.compaction.is_idle = is_idle
        _begin(context, region, None)

    return region.worker.call(begin)


def start_compaction(
    context: EngineContext, region: Region, strict: StrictWindows | None = None, *, parallelism: int = 1
) -> Future[None]:
    """Flush what the region holds now, remove what has expired, and merge what can be merged."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()
    request = CompactionRequest(done, strict, min(parallelism, context.background.jobs_max))

    def begin() -> None:
        expire(context, region)
        _begin(context, region, request)

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


def _begin(context: EngineContext, region: Region, request: CompactionRequest | None) -> None:
    """Have a background thread check the files. On the worker."""
    if region.compaction.is_running:
        if request is not None:
            region.compaction.requests.append(request)
        return
    if not region.access.is_writable:
        if request is not None:
            region.check_writable()
        return
    region.compaction.begin(context.now_ms())
    _begin_round(context, region, request)


def _begin_round(context: EngineContext, region: Region, request: CompactionRequest | None) -> None:
    run_job(
        context,
        region,
        _priority(request),
        partial(_plan, context, region, request),
        finish=partial(_spread, context, region, request),
        fail=partial(_fail_round, context, region, request),
        lose=partial(_end, context, region, request),
    )


def _priority(request: CompactionRequest | None) -> Priority:
    return Priority.COMPACT if request is None else Priority.REQUESTED


@requests_for(Purpose.COMPACTION)
def _plan(context: EngineContext, region: Region, request: CompactionRequest | None) -> list[CompactionJob]:
    """Choose what to rewrite. On a background thread."""
    if context.background.is_stopping:
        raise StorageUnavailable("the engine is closed")
    if region.access.is_gone:
        raise Cancelled("the region is dropped or closed")
    return plan_jobs(context, region, request)


def _spread(
    context: EngineContext, region: Region, request: CompactionRequest | None, jobs: list[CompactionJob]
) -> None:
    """Let background threads do the jobs of a round. On the worker."""
    state = region.compaction
    if not jobs:
        state.failures, state.due_ns = 0, context.clock.monotonic_ns() + LOOK_INTERVAL
        _end(context, region, request)
        return
    state.jobs = len(jobs)
    for job in jobs:
        run_job(
            context,
            region,
            _priority(request),
            partial(_write, context, region, job),
            finish=partial(_finish, context, region, request),
            fail=partial(_fail, context, region, request, job),
            lose=partial(_end, context, region, request),
            trace="compaction",
        )


@requests_for(Purpose.COMPACTION)
def _write(context: EngineContext, region: Region, job: CompactionJob) -> Compacted:
    """Write what the files of a job become. On a background thread."""
    started_ns = context.clock.monotonic_ns()
    job.records.append(context.compactions.begin(region.id, job.reason, job.metas, started_ms=context.now_ms()))
    with COMPACTIONS_RUNNING.track_inprogress():
        written = write_job(context, region, job)
    trace_files(written)
    return Compacted(job, written, context.clock.monotonic_ns() - started_ns)


def _check(context: EngineContext, region: Region, job: CompactionJob) -> None:
    """Raise if going on is pointless, or in the way of others."""
    background = context.background
    files = region.manifest.state.files
    if background.is_stopping:
        raise StorageUnavailable("the engine is closed")
    if region.access.is_gone or not all(handle.meta.file_id in files for handle in job.inputs):
        raise Cancelled("files that were to be merged are gone")
    if region.version.options != job.task.options:
        raise Cancelled("the options of the table have changed")
    if background.has_one_thread and background.has_flush_waiting:
        raise Cancelled("a flush needs the thread")


def write_job(context: EngineContext, region: Region, job: CompactionJob) -> list[WrittenFile]:
    """Write the files of a job. On a background thread."""
    crash_point("compact.before_files")
    check, tuning = partial(_check, context, region, job), context.options.tuning.merge

    pauses = Pauses(context, check)

    def note_rows(rows: int) -> None:
        pauses.pause()
        for record in job.records:
            record.rows_written += rows

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
            note_rows=note_rows,
        )
    crash_point("compact.after_files")
    return written


def _finish(context: EngineContext, region: Region, request: CompactionRequest | None, done: Compacted) -> None:
    """Let new files take the place of old ones. On the worker."""
    try:
        is_installed = install_job(context, region, done.job, done.written)
    except BaseException as error:  # noqa: BLE001 - a failed compaction is reported and tried again
        _fail(context, region, request, done.job, error)
        return
    now, state = context.clock.monotonic_ns(), region.compaction
    # There may be more to do, but not all the time.
    state.failures, state.due_ns, state.not_before_ns = 0, now, now + done.elapsed_ns
    if is_installed:
        written = [file.meta for file in done.written]
        state.written_bytes += sum(meta.size_bytes for meta in written)
        _report(context, region, done, written)
        state.note("success", context.now_ms())
    else:
        _end_record(context, done.job, CompactionResult.CANCELLED, "files that were merged are gone", done.elapsed_ns)
        state.note("cancelled", context.now_ms())
    _end_job(context, region, request)


def install_job(context: EngineContext, region: Region, job: CompactionJob, written: list[WrittenFile]) -> bool:
    """Commit the files; False if their rows are void by now."""
    is_installed = install(context, region, written, partial(_plan_edit, region, job, written))
    if is_installed:
        crash_point("compact.after_manifest")
    return is_installed


def _plan_edit(region: Region, job: CompactionJob, written: list[WrittenFile]) -> Edit | None:
    """Plan the edit of the manifest; None if files that were merged are no part of the region any more."""
    state = region.manifest.state
    if not region.access.is_writable or not all(meta.file_id in state.files for meta in job.metas):
        return None
    if state.options != job.task.options:
        return None
    crash_point("compact.before_manifest")
    return Edit(
        added=tuple(file.meta for file in written),
        removed=tuple(meta.file_id for meta in job.metas),
        compaction_window_seconds=job.window_seconds,
    )


def _report(context: EngineContext, region: Region, done: Compacted, written: list[FileMeta]) -> None:
    read = done.job.metas
    rows, written_bytes = sum(meta.rows for meta in written), sum(meta.size_bytes for meta in written)
    read_bytes = sum(meta.size_bytes for meta in read)
    COMPACTED.inc()
    COMPACTION_SECONDS.observe(done.elapsed_ns / _NS)
    COMPACTED_FILES.inc(len(read))
    COMPACTED_ROWS.inc(rows)
    COMPACTED_READ_BYTES.inc(read_bytes)
    COMPACTED_WRITTEN_BYTES.inc(written_bytes)
    for record in done.job.records:
        record.rows_written, record.output_bytes = rows, written_bytes
        record.output_ids = tuple(meta.file_id for meta in written)
    _end_record(context, done.job, CompactionResult.SUCCESS, None, done.elapsed_ns)
    _log.info(
        "compacted",
        region=region.id,
        table=region.table,
        files=len(read),
        into=len(written),
        rows=rows,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        seconds=round(done.elapsed_ns / _NS, 3),
    )


def _end_record(
    context: EngineContext,
    job: CompactionJob,
    result: CompactionResult,
    error: str | None,
    elapsed_ns: int | None = None,
) -> None:
    now_ms = context.now_ms()
    for record in job.records:
        elapsed_ms = now_ms - record.started_ms if elapsed_ns is None else elapsed_ns // 1_000_000
        record.end(result, now_ms, elapsed_ms=max(0, elapsed_ms), error=error)


def _fail(
    context: EngineContext,
    region: Region,
    request: CompactionRequest | None,
    job: CompactionJob,
    error: BaseException,
) -> None:
    """Leave the files of a job as they are. On the worker."""
    is_cancelled = isinstance(error, Cancelled)
    _end_record(context, job, CompactionResult.CANCELLED if is_cancelled else CompactionResult.FAILURE, str(error))
    # Damage that is kept apart from now on keeps the others from nothing.
    is_apart = damage_of(error) is not None and any(meta.file_id in region.quarantined for meta in job.metas)
    _note_failure(context, region, request, error, goes_on=is_cancelled or is_apart)
    _end_job(context, region, request)


def _fail_round(
    context: EngineContext, region: Region, request: CompactionRequest | None, error: BaseException
) -> None:
    """Nothing could be planned: a footer is damaged, or there is no space. On the worker."""
    is_apart = damage_of(error) is not None and region.compaction.has_news_of(region.quarantined)
    _note_failure(context, region, request, error, goes_on=isinstance(error, Cancelled) or is_apart)
    region.compaction.jobs = 1
    _end_job(context, region, request)


def _note_failure(
    context: EngineContext,
    region: Region,
    request: CompactionRequest | None,
    error: BaseException,
    *,
    goes_on: bool,
) -> None:
    """Remember what went wrong, and when to try again: at once, or later and later."""
    now, state = context.clock.monotonic_ns(), region.compaction
    state.due_ns = now
    if isinstance(error, Cancelled):
        COMPACTION_CANCELLED.inc()
        state.note("cancelled", context.now_ms())
        return
    # Without the frames it came through: they know the files, which are to be deleted.
    error = error.with_traceback(None)
    if request is not None:
        request.error, request.is_over = error, request.is_over or not goes_on
    if context.background.is_stopping:
        return
    COMPACTION_FAILED.inc()
    state.note("failure", context.now_ms(), str(error))
    if not goes_on:
        state.postpone(now, _RETRY_SECONDS_MIN, RETRY_SECONDS_MAX)
    _log.warning("a compaction failed", region=region.id, table=region.table, failures=state.failures, error=error)


def _end_job(context: EngineContext, region: Region, request: CompactionRequest | None) -> None:
    """End the round with its last job: with a request, compact until nothing is left to merge. On the worker."""
    region.compaction.jobs -= 1
    if region.compaction.jobs > 0:
        return
    if request is None or request.is_over:
        _end(context, region, request)
        return
    try:
        region.check_writable()
    except BaseException as error:  # noqa: BLE001 - handed to the one who waits
        _end(context, region, request, error.with_traceback(None))
        return
    _begin_round(context, region, request)


def end_compaction(context: EngineContext, region: Region) -> None:
    """Let files be merged again, after something that must not happen at the same time."""
    _end(context, region, None)


def _end(
    context: EngineContext, region: Region, request: CompactionRequest | None, error: BaseException | None = None
) -> None:
    """Answer the request, and begin the next compaction if there are more of them."""
    region.compaction.is_running = False
    if request is not None:
        error = error or request.error
        if error is not None:
            refuse([request.done], error)
        elif not request.done.done():
            request.done.set_result(None)
    waiting, region.compaction.requests = region.compaction.requests, []
    for each in waiting:
        region.worker.call(partial(_begin, context, region, each)).add_done_callback(_refuse(each.done))
