"""Late rows: rows that a lost node acknowledged but that could not be read when its region was taken over.

    worker: which entries are new (`Takeover`) ─▶ background: write them to data files ─▶ worker: manifest (files and
    the progress of the takeover, in one commit)

- Rows keep their sequences, which are in the gap that the takeover left. Everything written since therefore wins,
  tombstones included; otherwise the late row is visible. The log is not involved.
- An entry is applied once, because the commit that adds its rows also records it. This also holds in append mode.
- Entries arrive in order. Entries that are already known are skipped.
- No compaction runs meanwhile: one that was planned without the late file could drop a tombstone that hides one of its
  rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from tsdb.engine.entry import open_payload, receive_payload
from tsdb.engine.errors import LateRowsUnexpected, RegionBusy
from tsdb.engine.log import FrameKind
from tsdb.engine.manifest import Edit, Takeover
from tsdb.engine.metrics import LATE_ROWS
from tsdb.engine.region.background import Priority
from tsdb.engine.region.compact import end_compaction
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.flush import write_file
from tsdb.engine.region.flush_plan import plan_files
from tsdb.engine.region.job import discard, install, pass_error, refuse, run_job
from tsdb.engine.region.noting import HANDED_IN, note
from tsdb.engine.region.region import Region
from tsdb.engine.region.version import Version
from tsdb.engine.rows.memtable import Memtable
from tsdb.engine.sst import WrittenFile
from tsdb.errors import InvalidArguments
from tsdb.model import LateEntry, LateRows
from tsdb.store import Purpose, crash_point, requests_for
from tsdb.telemetry import get_logger

_log = get_logger("tsdb.recovery")

CRASH_POINTS = ("hand_in.after_files", "hand_in.after_manifest")
_KINDS = (FrameKind.DATA, FrameKind.DELETE)


@dataclass(frozen=True, slots=True)
class HandIn:
    """The late rows that a node sends with one request."""

    node: int
    entries: tuple[LateEntry, ...]
    """In the order in which they were written."""
    is_last: bool
    """The node has no more entries that are older than the last of these."""
    epochs: Collection[int] = ()
    """With `is_last`, takeovers of which the node has nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class HandInJob:
    """What one request adds, decided on the worker."""

    region: Region
    version: Version
    entries: tuple[LateEntry, ...]
    before: tuple[Takeover, ...]
    """All takeovers of the region."""
    takeovers: tuple[Takeover, ...]
    """Those that change, as they are when the entries are part of the region."""
    done: Future[list[LateRows]]


def start_hand_in(context: EngineContext, region: Region, request: HandIn) -> Future[list[LateRows]]:
    """Take late entries; the future has the takeovers they belong to, once their rows are durable and visible.

    RegionBusy while files are merged: the request can be repeated. LateRowsUnexpected if the region was not taken over
    from that node.
    """
    done: Future[list[LateRows]] = Future()
    done.set_running_or_notify_cancel()
    begun = region.worker.call(lambda: _begin(context, region, request, done))
    begun.add_done_callback(partial(pass_error, partial(refuse, [done])))
    return done


def plan_hand_in(known: Sequence[Takeover], request: HandIn) -> tuple[tuple[LateEntry, ...], tuple[Takeover, ...]]:
    """Return the entries that are news, and the takeovers they belong to, changed or not, as they are afterwards."""
    own = {each.epoch: each for each in known if each.node == request.node}
    news: list[LateEntry] = []
    touched: dict[int, Takeover] = {}
    for entry in request.entries:
        found = next((each for each in own.values() if each.covers(entry.base_sequence)), None)
        if found is None:
            _check_known(own.values(), entry)
            continue
        if not found.is_complete and entry.entry_id > found.late_entry_id:
            news.append(entry)
            found = replace(found, late_entry_id=entry.entry_id, late_rows=found.late_rows + entry.rows)
        own[found.epoch] = touched[found.epoch] = found
    if request.is_last:
        last = max(touched, default=0)
        for epoch, each in own.items():
            if epoch <= last or epoch in request.epochs:
                touched[epoch] = replace(each, is_complete=True)
    return tuple(news), tuple(touched[epoch] for epoch in sorted(touched))


def _check_known(own: Collection[Takeover], entry: LateEntry) -> None:
    """An entry that no takeover waits for is in the region, if one of a later takeover was read from the log."""
    if not any(entry.base_sequence <= each.sequence for each in own):
        raise LateRowsUnexpected(entry_id=entry.entry_id)


def _begin(context: EngineContext, region: Region, request: HandIn, done: Future[list[LateRows]]) -> None:
    """Decide what is new, on the worker, and hand it to a background thread."""
    region.check_writable()
    region.resolve(context)
    known = region.manifest.state.takeovers
    entries, takeovers = plan_hand_in(known, request)
    if not entries:
        if not set(takeovers) <= set(known):
            region.commit(context, Edit(takeovers=takeovers))
        done.set_result(_results(takeovers))
        return
    if region.compaction.is_running:
        raise RegionBusy("files of the region are being merged", region_id=region.id)
    region.compaction.begin(context.now_ms())
    job = HandInJob(region, region.version, entries, known, takeovers, done)
    run_job(
        context,
        region,
        Priority.FLUSH,
        partial(_write_files, context, job),
        finish=partial(_finish, context, job),
        fail=partial(_fail, context, job),
        lose=partial(_fail, context, job),
    )


def _finish(context: EngineContext, job: HandInJob, written: list[WrittenFile]) -> None:
    """Make written files part of the region. On the worker."""
    note(context, job.region, HANDED_IN)
    try:
        is_installed = install(context, job.region, written, partial(_plan_edit, job, written))
    except BaseException as error:  # noqa: BLE001 - handed to the one who waits
        _fail(context, job, error)
        return
    end_compaction(context, job.region)
    if not is_installed:
        refuse([job.done], RegionBusy("the region has changed meanwhile", region_id=job.region.id))
        return
    crash_point("hand_in.after_manifest")
    rows = sum(entry.rows for entry in job.entries)
    LATE_ROWS.inc(rows)
    _log.warning("late rows of a lost node were received", region=job.region.id, table=job.region.table, rows=rows)
    job.done.set_result(_results(job.takeovers))


def _fail(context: EngineContext, job: HandInJob, error: BaseException) -> None:
    end_compaction(context, job.region)
    refuse([job.done], error)


def _plan_edit(job: HandInJob, written: list[WrittenFile]) -> Edit | None:
    """Plan the edit of the manifest; None if a truncate or a request of another has changed the takeovers."""
    region = job.region
    if not region.access.is_writable or not set(job.before) <= set(region.manifest.state.takeovers):
        return None
    return Edit(added=tuple(file.meta for file in written), takeovers=job.takeovers)


@requests_for(Purpose.FLUSH)
def _write_files(context: EngineContext, job: HandInJob) -> list[WrittenFile]:
    """Write the data files. On a background thread."""
    written: list[WrittenFile] = []
    try:
        for entries in _by_takeover(job):
            _write_some(context, job, entries, written)
    except BaseException:
        discard(context, job.region, written)
        raise
    crash_point("hand_in.after_files")
    return written


def _by_takeover(job: HandInJob) -> list[list[LateEntry]]:
    """Part entries by the gaps that they fill: between two of them are rows of other files."""
    groups: dict[int, list[LateEntry]] = {}
    for entry in job.entries:
        epoch = next(each.epoch for each in job.takeovers if each.covers(entry.base_sequence))
        groups.setdefault(epoch, []).append(entry)
    return list(groups.values())


def _write_some(
    context: EngineContext, job: HandInJob, entries: Sequence[LateEntry], written: list[WrittenFile]
) -> None:
    """Write the data files of some entries."""
    memtables = _fill_memtables(context, job, entries)
    try:
        for plan in plan_files(job.version, memtables):
            # Older rows that its tombstones hide may be in any file.
            kept = replace(plan, keeps_tombstones=True)
            nbytes = sum(each.nbytes for each in memtables)
            file = write_file(context, job.region, job.version, kept, nbytes)
            if file is not None:
                written.append(file)
    finally:
        for memtable in memtables:
            memtable.release()
        context.buffer.wake()


def _fill_memtables(context: EngineContext, job: HandInJob, entries: Sequence[LateEntry]) -> list[Memtable]:
    """Sort entries into memtables: one for each schema and kind of options that rows were written under."""
    memtables: list[Memtable] = []
    try:
        for entry in entries:
            schema = job.version.schema.as_of(entry.schema_version)
            options = job.version.options.at(entry.base_sequence)
            if not memtables or memtables[-1].schema != schema or memtables[-1].options != options:
                memtables.append(context.new_memtable(schema, options, job.region.window_seconds))
            payload = receive_payload(entry.payload, crc=entry.crc, codec=entry.codec, raw_bytes=entry.raw_bytes)
            if entry.kind not in _KINDS:
                raise InvalidArguments("a late entry has neither rows nor deletions", kind=entry.kind)
            batch = open_payload(schema, payload, FrameKind(entry.kind), rows=entry.rows, version=entry.schema_version)
            memtables[-1].append(batch, entry.base_sequence, nbytes=payload.raw_bytes)
    except BaseException:
        for memtable in memtables:
            memtable.release()
        raise
    return memtables


def _results(takeovers: Sequence[Takeover]) -> list[LateRows]:
    return [LateRows(each.epoch, each.late_rows, each.is_complete) for each in takeovers]
