"""The queue of changes of a leader, which runs them one after the other, and the outcome of recent ones.

The procedures themselves are in the metadata (intents and tombstones of the catalog, records of changes and moves): a
leader that ends leaves them to the next one. This module keeps what clients wait for; `_outcomes` says what became of
procedures, also of those of earlier leaders.

- A change is numbered by its sender. A change that is sent again is not made again while its record is kept.
- The queue and the number of records are bounded.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tsdb.catalog import ProcedureState
from tsdb.clock import Clock
from tsdb.errors import Busy, TsdbError
from tsdb.kv import LeadershipLost
from tsdb.telemetry import counter, gauge, get_logger

WAITING_MAX = 1024
"""How many changes may wait; more are refused."""
REMEMBERED_MAX = 1000
"""How many finished changes are remembered."""
_STOP_SECONDS_MAX = 20.0

_log = get_logger("tsdb.meta")
_MADE = counter(
    "tsdb_meta_procedures_total",
    "Metadata changes that this metasrv made as the leader, failed ones included.",
    labels=["kind"],
)
_FAILED = counter("tsdb_meta_procedures_failed_total", "Changes that failed or were refused.", labels=["kind"])
_WAITING = gauge("tsdb_meta_procedures_waiting", "Queued changes; at most 1,024.")


@dataclass(slots=True)
class ProcedureRecord:
    """One change."""

    id: str
    kind: str
    subject: str
    asked_ms: int
    state: ProcedureState = ProcedureState.WAITING
    result: Any = None
    error: TsdbError | None = None
    began_ms: int = 0
    ended_ms: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "subject": self.subject,
            "state": self.state.value,
            "error": None if self.error is None else str(self.error),
            "asked_ms": self.asked_ms,
            "began_ms": self.began_ms,
            "ended_ms": self.ended_ms,
            "attempts": 0,
            "since_ms": 0,
        }


class Procedures:
    """One thread that makes changes."""

    def __init__(
        self,
        clock: Clock,
        *,
        name: str = "procedures",
        waiting_max: int = WAITING_MAX,
        remembered_max: int = REMEMBERED_MAX,
    ) -> None:
        self._clock = clock
        self._waiting_max = waiting_max
        self._remembered_max = remembered_max
        self._records: OrderedDict[str, ProcedureRecord] = OrderedDict()
        self._waiting: deque[tuple[ProcedureRecord, Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name=f"metasrv-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(
        self, procedure_id: str, kind: str, subject: str, act: Callable[[], Any], *, is_urgent: bool = False
    ) -> ProcedureRecord:
        """Let a change be made in its turn, or before all others; return the record of the one with this id, if any."""
        with self._changed:
            found = self._records.get(procedure_id)
            if found is not None:
                return found
            if self._is_stopped:
                raise LeadershipLost("this server is no longer the leader")
            if len(self._waiting) >= self._waiting_max:
                raise Busy(f"{self._waiting_max} changes of the metadata wait already", hint="try again later")
            record = ProcedureRecord(procedure_id, kind, subject, self._now_ms())
            self._records[procedure_id] = record
            if is_urgent:
                self._waiting.appendleft((record, act))
            else:
                self._waiting.append((record, act))
            _WAITING.set(len(self._waiting))
            self._forget_old()
            self._changed.notify()
            return record

    def find(self, procedure_id: str) -> ProcedureRecord | None:
        return self._records.get(procedure_id)

    def recent(self) -> list[ProcedureRecord]:
        """Those that are remembered, the newest first."""
        with self._changed:
            return list(reversed(self._records.values()))

    def stop(self) -> None:
        """Make no more changes; those that wait fail, and the one under way is waited for."""
        with self._changed:
            self._is_stopped = True
            waiting, self._waiting = list(self._waiting), deque()
            self._changed.notify_all()
        for record, _ in waiting:
            self._end(record, error=LeadershipLost("this server is no longer the leader", hint="send the change again"))
        _WAITING.set(0)
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS_MAX)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_stopped)
                if self._is_stopped:
                    return
                record, act = self._waiting.popleft()
                _WAITING.set(len(self._waiting))
            record.state, record.began_ms = ProcedureState.RUNNING, self._now_ms()
            try:
                result = act()
            except TsdbError as error:
                self._end(record, error=error)
            except Exception as error:  # noqa: BLE001 - a bug in one change must not end all others
                _log.exception("a change of the metadata failed unexpectedly", kind=record.kind)
                self._end(record, error=TsdbError(f"the change failed unexpectedly: {error}", kind=record.kind))
            else:
                self._end(record, result=result)

    def _end(self, record: ProcedureRecord, *, result: Any = None, error: TsdbError | None = None) -> None:
        record.result, record.error, record.ended_ms = result, error, self._now_ms()
        record.state = ProcedureState.DONE if error is None else ProcedureState.FAILED
        _MADE.labels(record.kind).inc()
        if error is not None:
            _FAILED.labels(record.kind).inc()
            _log.info("a change of the metadata failed", kind=record.kind, subject=record.subject, error=error)
        record.ended.set()

    def _forget_old(self) -> None:
        ended = [each.id for each in self._records.values() if each.ended.is_set()]
        for old in ended[: max(0, len(ended) - self._remembered_max)]:
            del self._records[old]

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000
