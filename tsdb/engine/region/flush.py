"""Flushing: from memtables to data files.

    worker: freeze ─▶ background: write files (`flush_plan`) ─▶ worker: manifest, version ─▶ the log may forget

The order is that of durability: data file, index, manifest, and only then the log lets go of the entries. A flush that
fails leaves everything as it was; the frozen memtables are flushed by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from tsdb.engine.manifest import Edit
from tsdb.engine.metrics import FLUSH_FAILED, FLUSH_SECONDS, FLUSHED, FLUSHED_ROWS
from tsdb.engine.region.background import Priority
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.flush_plan import PlannedFile, plan_files
from tsdb.engine.region.region import FrozenMemtable, Region, RegionState, Version
from tsdb.engine.region.uncommitted import discard, discard_unless_landed
from tsdb.engine.rows.merge import Merge, Selection
from tsdb.engine.sst import WrittenFile, plan_row_group_rows, write_sst
from tsdb.model import RegionOptions
from tsdb.store import crash_point
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.flush")

RETRY_SECONDS_MAX = 30.0
_DOUBLINGS_MAX = 10
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
    _on_worker(region, [done], lambda: _begin(context, region, [done]))
    return done


def _on_worker(region: Region, waiters: Sequence[Future[None]], step: Callable[[], None]) -> None:
    """Take the next step on the region's worker; whatever keeps it from being taken, those who wait are told."""
    region.worker.call(step).add_done_callback(partial(_tell, waiters))


def _tell(waiters: Sequence[Future[None]], step: Future[None]) -> None:
    error = step.exception()
    if error is not None:
        _refuse(waiters, error)


def _refuse(waiters: Sequence[Future[None]], error: BaseException) -> None:
    for done in waiters:
        if not done.done():
            done.set_exception(error)


def _begin(context: EngineContext, region: Region, waiters: list[Future[None]]) -> None:
    """Decide what to write, on the worker, and hand it to a background thread."""
    if region.is_flushing:
        # That flush does not have the rows that came since it began.
        region.flush_waiters += waiters
        return
    if region.state is not RegionState.DROPPED:
        try:
            # What an earlier flush may have made durable must not be written again.
            region.resolve(context)
        except BaseException as error:  # noqa: BLE001 - a failed flush is reported and tried again
            _fail(context, region, error, waiters)
            return
        region.freeze(context)
    if not region.version.frozen:
        region.last_flush_ns = context.clock.monotonic_ns()
        for done in waiters:
            done.set_result(None)
        return
    region.is_flushing = True
    job = FlushJob(region, region.version, region.version.frozen, waiters)
    context.background.submit(Priority.FLUSH, lambda: _run(context, job)).add_done_callback(partial(_tell, waiters))


def _run(context: EngineContext, job: FlushJob) -> None:
    """Write the files and bring them back to the worker. On a background thread."""
    try:
        with FLUSH_SECONDS.time():
            written = _write_files(context, job)
    except BaseException as error:  # noqa: BLE001 - a failed flush is reported and tried again
        failure = error
        _on_worker(job.region, job.waiters, lambda: _fail(context, job.region, failure, job.waiters))
    else:
        _on_worker(job.region, job.waiters, lambda: _finish(context, job, written))


def _finish(context: EngineContext, job: FlushJob, written: list[WrittenFile]) -> None:
    """Make written files part of the region. On the worker."""
    region = job.region
    try:
        is_installed = _install(context, job, written)
    except BaseException as error:  # noqa: BLE001 - a failed flush is reported and tried again
        _fail(context, region, error, job.waiters)
        return
    region.flush_failures = region.retry_flush_ns = 0
    region.last_flush_ns = context.clock.monotonic_ns()
    if is_installed:
        region.compact_due_ns = min(region.compact_due_ns, region.last_flush_ns)
        rows = sum(file.meta.rows for file in written)
        FLUSHED.inc()
        FLUSHED_ROWS.inc(rows)
        _log.info(
            "flushed",
            region=region.id,
            table=region.table,
            files=len(written),
            rows=rows,
            bytes=sum(file.meta.size_bytes for file in written),
        )
    for done in job.waiters:
        done.set_result(None)
    _end(context, region)


def _fail(context: EngineContext, region: Region, error: BaseException, waiters: Sequence[Future[None]]) -> None:
    """Leave everything as it is, try again later, and let waiting writers look again. On the worker."""
    region.flush_failures += 1
    FLUSH_FAILED.inc()
    delay = min(RETRY_SECONDS_MAX, 0.1 * 2 ** min(region.flush_failures, _DOUBLINGS_MAX))
    region.retry_flush_ns = context.clock.monotonic_ns() + int(delay * 1e9)
    _log.error(
        "a flush failed",
        region=region.id,
        table=region.table,
        failures=region.flush_failures,
        retry_seconds=delay,
        error=error,
    )
    _refuse(waiters, error)
    _end(context, region)
    context.buffer.wake()


def _end(context: EngineContext, region: Region) -> None:
    """Let the next flush begin, if somebody waits for it. On the worker."""
    region.is_flushing = False
    waiters, region.flush_waiters = region.flush_waiters, []
    if waiters:
        _begin(context, region, waiters)


def _write_files(context: EngineContext, job: FlushJob) -> list[WrittenFile]:
    """Write the data files of a flush. On a background thread."""
    written: list[WrittenFile] = []
    crash_point("flush.before_files")
    try:
        for plan in plan_files(job.version, [each.memtable for each in job.frozen]):
            file = _write_file(context, job, plan)
            if file is not None:
                written.append(file)
    except BaseException:
        discard(context, job.region, written)
        raise
    crash_point("flush.after_files")
    return written


def _write_file(context: EngineContext, job: FlushJob, plan: PlannedFile) -> WrittenFile | None:
    options = job.version.options
    nbytes = min(sum(each.nbytes for each in job.frozen), _FLUSH_BYTES_MAX)
    with context.merge_memory.flushing(nbytes):
        return _merge_file(context, job, plan, options)


def _merge_file(context: EngineContext, job: FlushJob, plan: PlannedFile, options: RegionOptions) -> WrittenFile | None:
    merge = Merge(
        plan.schema,
        options,
        [Selection.all_of(run) for run in plan.runs],
        keep_tombstones=plan.keeps_tombstones,
    )
    return write_sst(
        merge,
        schema=plan.schema,
        options=options,
        store=context.store,
        directory=job.region.directory,
        write_buffer_bytes=context.options.sst_write_buffer_size,
        level=0,
        clock=context.clock,
        ids=context.ids,
        row_group_rows=plan_row_group_rows(plan.schema, context.options.tuning.merge.row_group_bytes_max),
        has_index=context.options.index_on_flush,
    )


def _install(context: EngineContext, job: FlushJob, written: list[WrittenFile]) -> bool:
    """Commit the files; False if a truncate or drop has made the rows void meanwhile."""
    region, last = job.region, job.frozen[-1]
    try:
        # A truncate whose outcome was unknown may turn out to have made these rows void.
        region.resolve(context)
    except BaseException:
        discard(context, region, written)
        raise
    if not set(job.frozen) <= set(region.version.frozen):
        discard(context, region, written)
        return False
    crash_point("flush.before_manifest")
    edit = Edit(
        added=tuple(file.meta for file in written),
        flushed_entry_id=last.entry_id,
        flushed_sequence=last.sequence,
    )
    for file in written:
        file.remember(context.caches)
    try:
        region.commit(context, edit)
    except BaseException as error:
        discard_unless_landed(context, region, written, error)
        raise
    crash_point("flush.after_manifest")
    return True
