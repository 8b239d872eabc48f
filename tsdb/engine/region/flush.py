"""Flushing: from memtables to data files.

    worker: freeze ─▶ background: write files (`flush_plan`) ─▶ worker: manifest, version ─▶ the log may forget

The order is that of durability: data file, index, manifest, and only then the log lets go of the entries. A flush that
fails leaves everything as it was; the frozen memtables are flushed by the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from tsdb.engine.errors import RegionNotFound
from tsdb.engine.manifest import Edit, FileMeta, awaits_late_rows
from tsdb.engine.metrics import FLUSH_FAILED, FLUSH_SECONDS, FLUSHED, FLUSHED_ROWS
from tsdb.engine.region.background import Priority
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.flush_plan import PlannedFile, plan_files
from tsdb.engine.region.job import discard, install, pass_error, refuse, run_job, trace_files
from tsdb.engine.region.region import Region
from tsdb.engine.region.state import RegionState
from tsdb.engine.region.version import FrozenMemtable, Version
from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.sst import WrittenFile, plan_row_group_rows, write_sst
from tsdb.model import RegionOptions
from tsdb.store import Purpose, crash_point, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.flush")

RETRY_SECONDS_MAX = 30.0
_RETRY_SECONDS_MIN = 0.1
# What the stripes of a flush take at most, as far as compactions have to care.
_FLUSH_BYTES_MAX = 64 << 20

CRASH_POINTS = ("flush.before_files", "flush.after_files", "flush.before_manifest", "flush.after_manifest")


@dataclass(frozen=True, slots=True, eq=False)
class FlushJob:
    """What one flush writes, decided on the worker."""

    region: Region
    version: Version
    frozen: tuple[FrozenMemtable, ...]
    waiters: list[Future[None]]


def start_flush(context: EngineContext, region: Region) -> Future[None]:
    """Flush what the region holds now; the future completes when it is durable, or with the error that kept it."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()
    begun = region.worker.call(lambda: _begin(context, region, [done]))
    begun.add_done_callback(partial(pass_error, partial(refuse, [done])))
    return done


def _begin(context: EngineContext, region: Region, waiters: list[Future[None]]) -> None:
    """Decide what to write, on the worker, and hand it to a background thread."""
    if region.flush.is_running:
        # That flush does not have the rows that came since it began.
        region.flush.waiters += waiters
        return
    if not region.access.is_gone:
        try:
            # What an earlier flush may have made durable must not be written again.
            region.resolve(context)
        except BaseException as error:  # noqa: BLE001 - a failed flush is reported and tried again
            _fail(context, region, waiters, error)
            return
        region.freeze(context)
    if not region.version.frozen:
        region.flush.last_ns = context.clock.monotonic_ns()
        for done in waiters:
            done.set_result(None)
        return
    region.flush.begin(context.now_ms())
    job = FlushJob(region, region.version, region.version.frozen, waiters)
    run_job(
        context,
        region,
        Priority.FLUSH,
        partial(_write_files, context, job),
        finish=partial(_finish, context, job),
        fail=partial(_fail, context, region, waiters),
        lose=partial(refuse, waiters),
        trace="flush",
    )


def _finish(context: EngineContext, job: FlushJob, written: list[WrittenFile]) -> None:
    """Make written files part of the region. On the worker."""
    region, state = job.region, job.region.flush
    try:
        is_installed = _install(context, job, written)
    except BaseException as error:  # noqa: BLE001 - a failed flush is reported and tried again
        _fail(context, region, job.waiters, error)
        return
    if not is_installed and region.access.state is RegionState.CLOSED:
        # Unlike those of a dropped region, its rows are not void: they are in the log, for the next owner.
        refuse(job.waiters, RegionNotFound(region_id=region.id))
    state.failures = state.not_before_ns = 0
    state.last_ns = context.clock.monotonic_ns()
    state.note("success", context.now_ms())
    if is_installed:
        region.compaction.due_ns = min(region.compaction.due_ns, state.last_ns)
        state.written_bytes += sum(file.meta.size_bytes for file in written)
        _report(region, [file.meta for file in written])
    for done in job.waiters:
        if not done.done():
            done.set_result(None)
    _end(context, region)


def _report(region: Region, written: list[FileMeta]) -> None:
    rows, nbytes = sum(meta.rows for meta in written), sum(meta.size_bytes for meta in written)
    FLUSHED.inc()
    FLUSHED_ROWS.inc(rows)
    _log.info("flushed", region=region.id, table=region.table, files=len(written), rows=rows, bytes=nbytes)


def _fail(context: EngineContext, region: Region, waiters: Sequence[Future[None]], error: BaseException) -> None:
    """Leave everything as it is, try again later, and let waiting writers look again. On the worker."""
    delay = region.flush.postpone(context.clock.monotonic_ns(), _RETRY_SECONDS_MIN, RETRY_SECONDS_MAX)
    region.flush.note("failure", context.now_ms(), str(error))
    FLUSH_FAILED.inc()
    _log.error(
        "a flush failed",
        region=region.id,
        table=region.table,
        failures=region.flush.failures,
        retry_seconds=delay,
        error=error,
    )
    refuse(waiters, error)
    _end(context, region)
    context.buffer.wake()


def _end(context: EngineContext, region: Region) -> None:
    """Begin the next flush if there are waiters. On the worker."""
    region.flush.is_running = False
    waiters, region.flush.waiters = region.flush.waiters, []
    if waiters:
        _begin(context, region, waiters)


@FLUSH_SECONDS.time()
@requests_for(Purpose.FLUSH)
def _write_files(context: EngineContext, job: FlushJob) -> list[WrittenFile]:
    """Write the data files of a flush. On a background thread."""
    written: list[WrittenFile] = []
    nbytes = min(sum(each.nbytes for each in job.frozen), _FLUSH_BYTES_MAX)
    awaits_late = awaits_late_rows(job.region.manifest.state.takeovers, context.now_ms())
    crash_point("flush.before_files")
    try:
        for plan in plan_files(job.version, [each.memtable for each in job.frozen]):
            kept = replace(plan, keeps_tombstones=plan.keeps_tombstones or awaits_late)
            file = write_file(context, job.region, job.version, kept, nbytes)
            if file is not None:
                written.append(file)
    except BaseException:
        discard(context, job.region, written)
        raise
    crash_point("flush.after_files")
    trace_files(written)
    return written


def write_file(
    context: EngineContext, region: Region, version: Version, plan: PlannedFile, nbytes: int
) -> WrittenFile | None:
    """Write one planned file; None if no row is left. Its rows take `nbytes` in memory."""
    with context.merge_memory.flushing(nbytes):
        return _merge_file(context, region, plan, version.options)


def _merge_file(
    context: EngineContext, region: Region, plan: PlannedFile, options: RegionOptions
) -> WrittenFile | None:
    merge = Merge(
        plan.schema,
        options,
        [Selection.all_of(run.passing_reader()) for run in plan.runs],
        keep_tombstones=plan.keeps_tombstones,
    )
    return write_sst(
        merge,
        schema=plan.schema,
        options=options,
        store=context.store,
        directory=region.directory,
        write_buffer_bytes=context.options.sst_write_buffer_size,
        level=0,
        clock=context.clock,
        ids=context.ids,
        row_group_rows=plan_row_group_rows(plan.schema, context.options.tuning.merge.row_group_bytes_max),
        index=context.options.index if context.options.index_on_flush else None,
    )


def _install(context: EngineContext, job: FlushJob, written: list[WrittenFile]) -> bool:
    """Commit the files; False if their rows are void by now."""
    is_installed = install(context, job.region, written, partial(_plan_edit, job, written))
    if is_installed:
        crash_point("flush.after_manifest")
    return is_installed


def _plan_edit(job: FlushJob, written: list[WrittenFile]) -> Edit | None:
    """Plan the edit of the manifest; None if a truncate or drop has made the rows void meanwhile."""
    if not set(job.frozen) <= set(job.region.version.frozen):
        return None
    last = job.frozen[-1]
    crash_point("flush.before_manifest")
    return Edit(
        added=tuple(file.meta for file in written), flushed_entry_id=last.entry_id, flushed_sequence=last.sequence
    )
