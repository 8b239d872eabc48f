"""Closing a region, which is then opened on another node or reopened here; its files stay.

    stop writes ─▶ (writes in flight end) ─▶ flush, if requested ─▶ release rows and files ─▶ not found

After a flush, the log has nothing of the region, and another node can open it without reading the log. If the flush
fails, the region continues as before. Without a flush, its rows stay in the log until the new owner has flushed them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.flush import start_flush
from tsdb.engine.region.job import pass_error, refuse
from tsdb.engine.region.region import Region
from tsdb.engine.region.state import RegionState
from tsdb.store import crash_point
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.region")

CRASH_POINTS = ("close.before_flush", "close.after_flush")
LEAVING = "it leads elsewhere: it is being closed here"


def start_close(context: EngineContext, region: Region, *, flush: bool, on_closed: Callable[[], None]) -> Future[None]:
    """Close a region; `on_closed` is called on the worker when nothing more is served of it, before the future ends."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()

    def begin() -> None:
        if region.access.is_writable:
            region.access.stop(LEAVING, leads_elsewhere=True)
        crash_point("close.before_flush")
        if flush:
            start_flush(context, region).add_done_callback(end_flush)
        else:
            finish()

    def end_flush(flushed: Future[None]) -> None:
        error = flushed.exception()
        step = finish if error is None else partial(_go_on, region, done, error)
        region.worker.call(step).add_done_callback(give_up)

    def finish() -> None:
        crash_point("close.after_flush")
        region.let_go(context, RegionState.CLOSED)
        on_closed()
        _log.info("closed", region=region.id, table=region.table, is_flushed=flush)
        done.set_result(None)

    give_up = partial(pass_error, partial(refuse, [done]))
    region.worker.call(begin).add_done_callback(give_up)
    return done


def _go_on(region: Region, done: Future[None], error: BaseException) -> None:
    """Take writes again: what could not be flushed is in the log of this node, and of no other. On the worker."""
    access = region.access
    if access.state is RegionState.READ_ONLY and access.reason == LEAVING:
        access.state, access.leads_elsewhere = RegionState.WRITABLE, False
    _log.warning("a region could not be closed", region=region.id, table=region.table, error=error)
    done.set_exception(error)
