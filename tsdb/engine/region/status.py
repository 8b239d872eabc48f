"""What the background jobs of a region do, and why they do nothing: state, reason, since when, last error.

Computed when somebody asks, from what the jobs leave behind; nothing is kept for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsdb.engine.manifest import FileMeta
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.housekeeping import COMPACTIONS_QUEUED_MAX
from tsdb.engine.region.region import Region
from tsdb.engine.region.state import JobState

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A kind of background job of a region."""

    state: str = "idle"
    """running, idle, or waiting: there is something to do that something else delays."""
    reason: str = ""
    since_ms: int | None = None
    """Since when it runs, fails or, after the last one, does nothing."""
    last_result: str | None = None
    """success, failure or cancelled; None if there was none since the region was opened."""
    last_ended_ms: int | None = None
    last_error: str | None = None


def flush_status(context: EngineContext, region: Region) -> JobStatus:
    """Tell what flushes of a region do."""
    job = region.flush
    if job.is_running:
        return _status(job, "running", "rows are written to data files")
    if not region.version.memtable_bytes:
        return _status(job, "idle", "there are no rows in memory")
    if job.failures:
        return _status(job, "waiting", f"the last flush failed; retry {_in_seconds(context, job)}")
    return _status(job, "idle", "rows wait for the interval, the size of a region or the write buffer")


def compaction_status(context: EngineContext, region: Region) -> JobStatus:
    """Tell what compactions of a region do."""
    job = region.compaction
    if job.is_running:
        return _status(job, "running" if job.jobs else "waiting", "files are merged" if job.jobs else "planning")
    if not region.access.is_writable:
        return _status(job, "waiting", f"the region takes no writes: {region.access.reason}")
    if job.failures:
        return _status(job, "waiting", f"the last compaction failed; retry {_in_seconds(context, job)}")
    if len(region.version.files) - len(region.quarantined) < 2:
        return _status(job, "idle", "there are fewer than two files to merge")
    now = context.clock.monotonic_ns()
    if now < job.due_ns:
        return _status(job, "idle", "no files need to be merged")
    if context.buffer.waiting or context.buffer.should_stall():
        return _status(job, "waiting", "writers wait for memory")
    if context.background.compactions_queued >= COMPACTIONS_QUEUED_MAX:
        return _status(job, "waiting", "too many compactions are queued")
    if now < job.not_before_ns:
        return _status(job, "waiting", f"it rests after the last compaction; next {_in_seconds(context, job)}")
    return _status(job, "waiting", "the files are looked at in a moment")


def _in_seconds(context: EngineContext, job: JobState) -> str:
    left = max(0, job.not_before_ns - context.clock.monotonic_ns())
    return f"in {-(-left // _NS)} s"


def _status(job: JobState, state: str, reason: str) -> JobStatus:
    since_ms = job.running_since_ms if job.is_running else job.failing_since_ms or job.last_ended_ms
    return JobStatus(
        state=state,
        reason=reason,
        since_ms=since_ms or None,
        last_result=job.last_result or None,
        last_ended_ms=job.last_ended_ms or None,
        last_error=job.last_error or None,
    )


def count_runs(files: Sequence[FileMeta]) -> int:
    """Return into how many sorted runs files fall: as many as overlap in time at one point."""
    edges = [(meta.time_range.start, 1) for meta in files] + [(meta.time_range.end, -1) for meta in files]
    deepest = depth = 0
    # An end goes before a start at the same time: ranges are half open.
    for _, step in sorted(edges):
        depth += step
        deepest = max(deepest, depth)
    return deepest
