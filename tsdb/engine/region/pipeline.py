"""Groups of writes on their way through the log: several at a time, applied in the order in which they were numbered.

    number ─▶ submit to the log ─▶ (durable) ─▶ apply to the memtables ─▶ answer

- While one group is being synced, the next are encoded, numbered and submitted. The log may answer them in any order.
- A group is applied when the log has it and all groups before it are done with. Only then it is visible, and answered.
- When the log refuses a group, those behind it that write to one of its regions fail with the same error: their entries
  would leave a hole, and the log does not take them. Nothing more is submitted until the last of them is answered; then
  numbers go on from what was applied.
- Bounded by groups and by bytes. What does not fit waits in the queue of the worker, and becomes one larger group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from tsdb.engine.log import Frame, LogStore
from tsdb.engine.region.region import Region
from tsdb.engine.region.write import NumberedWrite, Numbers, PendingWrite, apply_write, number_writes
from tsdb.errors import TsdbError
from tsdb.store import crash_point
from tsdb.telemetry import get_logger

GROUPS_MAX = 32
"""Groups of one worker that the log has and has not answered."""
BYTES_MAX = 16 << 20
"""Bytes of their rows; a single group may be larger."""

_log = get_logger("tsdb.region")


@dataclass(slots=True, eq=False)
class _Group:
    """Writes that go to the log together."""

    writes: list[NumberedWrite]
    memory_bytes: int
    logged: Future[None] | None
    """None if no region of the group has a log."""

    @property
    def is_answered(self) -> bool:
        return self.logged is None or self.logged.done()


class Pipeline:
    """The groups of one worker. Only a turn of the worker may call it, except `is_ready`.

    `on_answer` is called when the log answers a group later, on a thread of the log, which it must not hold up.
    `after` is called with the regions that have new rows.
    """

    def __init__(self, log: LogStore, *, on_answer: Callable[[], None], after: Callable[[set[Region]], None]) -> None:
        self._log = log
        self._on_answer = on_answer
        self._after = after
        self._groups: deque[_Group] = deque()
        self._numbers: dict[Region, Numbers] = {}
        """The last numbers given away, of regions with writes in flight."""
        self._failed: dict[Region, BaseException] = {}
        """Regions with a group that failed, as long as groups are in flight."""
        self.memory_bytes = 0
        """What the write buffer is going to be charged for the writes in flight."""

    @property
    def is_empty(self) -> bool:
        return not self._groups

    @property
    def has_room(self) -> bool:
        """Whether another group may be submitted."""
        groups = len(self._groups)
        return not groups or (groups < GROUPS_MAX and self.memory_bytes < BYTES_MAX and not self._failed)

    @property
    def is_ready(self) -> bool:
        """Whether `apply_ready` has something to do. From any thread."""
        try:
            return bool(self._groups) and self._groups[0].is_answered
        except IndexError:
            # Another thread has just applied it.
            return False

    def submit(self, requests: Sequence[PendingWrite], memory_bytes: int) -> None:
        """Give writes to the log as one group; those that are not allowed are answered here."""
        writes, last = number_writes(requests, self._numbers)
        if not writes:
            return
        frames = [each.frame for each in writes if not each.region.version.options.skip_wal]
        logged = self._append(frames) if frames else None
        if logged is not None:
            _trace(writes, logged)
        self._numbers |= last
        self._groups.append(_Group(writes, memory_bytes, logged))
        self.memory_bytes += memory_bytes
        crash_point("write.after_submit")
        if logged is not None and not logged.done():
            logged.add_done_callback(lambda _: self._on_answer())

    def apply_ready(self) -> bool:
        """Apply or fail the groups whose turn it is; return whether there were any."""
        if not self.is_ready:
            return False
        changed: set[Region] = set()
        while self._groups and self._groups[0].is_answered:
            group = self._groups.popleft()
            self.memory_bytes -= group.memory_bytes
            error = self._find_error(group)
            if error is None:
                _apply(group)
                changed.update(each.region for each in group.writes)
            else:
                self._fail(group, error)
        if not self._groups:
            self._numbers.clear()
            self._failed.clear()
        if changed:
            self._tell(changed)
        return True

    def _append(self, frames: Sequence[Frame]) -> Future[None]:
        try:
            return self._log.append(frames)
        except Exception as error:  # noqa: BLE001 - handed to the waiters
            refused: Future[None] = Future()
            refused.set_exception(error)
            return refused

    def _tell(self, changed: set[Region]) -> None:
        try:
            self._after(changed)
        except Exception:  # noqa: BLE001 - the writes are answered; what is due now is due after the next one, too
            _log.exception("the work after a write failed")

    def _find_error(self, group: _Group) -> BaseException | None:
        """What keeps a group out: that of a group before it, if it writes to a region that has lost one."""
        refused = None if group.logged is None else group.logged.exception()
        if not self._failed:
            return refused
        for each in group.writes:
            earlier = self._failed.get(each.region)
            if earlier is not None:
                if refused is None and group.logged is not None:
                    _stop(each.region, earlier)
                return earlier
        return refused

    def _fail(self, group: _Group, error: BaseException) -> None:
        if not isinstance(error, TsdbError):
            _log.error("writing failed", requests=len(group.writes), error=error)
        for each in group.writes:
            self._failed.setdefault(each.region, error)
            each.request.done.set_exception(error)


def _trace(writes: Sequence[NumberedWrite], logged: Future[None]) -> None:
    """Have the traces of writes say how long the log took."""
    for each in writes:
        span = each.request.span
        if span is not None:
            logged.add_done_callback(span.child("log.append", group=len(writes)).end_with)


def _apply(group: _Group) -> None:
    crash_point("write.before_apply")
    for each in group.writes:
        apply_write(each)
    crash_point("write.before_answer")
    for each in group.writes:
        if not each.request.done.done():
            each.request.done.set_result(each.request.batch.rows)


def _stop(region: Region, error: BaseException) -> None:
    """The log took an entry that does not follow the last one, against its promise: only a start can sort that out."""
    region.access.stop(f"the log has an entry behind one that it refused ({error})")
    _log.error("a region accepts no more writes until a restart", region=region.id, table=region.table, error=error)
