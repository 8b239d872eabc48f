"""What flushes and compactions have in common: files are written in the background, then installed by the worker.

    worker: decide ─▶ background: `work` writes files ─▶ worker: `install` (manifest, version) ─▶ waiters are answered

Until the manifest has them, written files are part of nothing. They are deleted unless the commit took effect, or may
have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from tsdb.engine.errors import ManifestFenced
from tsdb.engine.manifest import Edit
from tsdb.engine.region.background import Priority
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.region import Region
from tsdb.engine.sst import WrittenFile, delete_files
from tsdb.telemetry import begin_job, current_span

T = TypeVar("T")


def run_job(
    context: EngineContext,
    region: Region,
    priority: Priority,
    work: Callable[[], T],
    *,
    finish: Callable[[T], None],
    fail: Callable[[BaseException], None],
    lose: Callable[[BaseException], None],
    trace: str | None = None,
) -> None:
    """Do work on a background thread; then `finish` with its result, or `fail` with its error, on the worker.

    `lose` is called, on any thread, if one of these steps cannot be taken because the engine is closed. With `trace`,
    the work is a trace of this name.
    """

    def run() -> None:
        try:
            result = work() if trace is None else _run_traced(trace, region, work)
        except BaseException as error:  # noqa: BLE001 - a failed job is reported and tried again
            # Not kept in a variable: with its frames it would keep alive the files that they know.
            last = region.worker.call(partial(fail, error))
        else:
            last = region.worker.call(partial(finish, result))
        last.add_done_callback(partial(pass_error, lose))

    context.background.submit(priority, run).add_done_callback(partial(pass_error, lose))


def _run_traced(name: str, region: Region, work: Callable[[], T]) -> T:
    span = begin_job(name, region=int(region.id), table=region.table)
    if span is None:
        return work()
    with span:
        return work()


def trace_files(written: Sequence[WrittenFile]) -> None:
    """Have the trace of a job say what it has written."""
    span = current_span()
    if span is not None:
        rows, nbytes = sum(each.meta.rows for each in written), sum(each.meta.size_bytes for each in written)
        span.set(files=len(written), rows=rows, bytes=nbytes)


def pass_error(receive: Callable[[BaseException], None], step: Future[Any]) -> None:
    """Hand over the error of a step, if it has one."""
    error = step.exception()
    if error is not None:
        receive(error)


def refuse(waiters: Sequence[Future[Any]], error: BaseException) -> None:
    """Answer waiters with an error, unless they have an answer."""
    for done in waiters:
        if not done.done():
            done.set_exception(error)


def install(
    context: EngineContext, region: Region, written: Sequence[WrittenFile], plan_edit: Callable[[], Edit | None]
) -> bool:
    """Make written files part of the region; False without an edit: their rows are void. On the worker."""
    try:
        # A truncate whose outcome was unknown may turn out to have made these rows void.
        region.resolve(context)
    except BaseException:
        discard(context, region, written)
        raise
    edit = plan_edit()
    if edit is None:
        discard(context, region, written)
        return False
    for file in written:
        file.remember(context.caches)
    try:
        region.commit(context, edit)
    except BaseException as error:
        _discard_unless_landed(context, region, written, error)
        raise
    return True


def discard(context: EngineContext, region: Region, files: Sequence[WrittenFile]) -> None:
    """Delete files that became part of nothing; what cannot be deleted is swept as an orphan later."""
    for file in files:
        context.caches.evict_file(file.meta.file_id)
        delete_files(context.store, region.directory, file.meta.file_id)


def _discard_unless_landed(
    context: EngineContext, region: Region, files: Sequence[WrittenFile], error: BaseException
) -> None:
    """Delete the files of a commit that failed, unless they may be, or become, part of the region after all."""
    if region.manifest.is_uncertain:
        region.access.doubtful_files += [file.meta.file_id for file in files]
    elif not (isinstance(error, ManifestFenced) and error.may_have_landed):
        discard(context, region, files)
