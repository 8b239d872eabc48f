"""What became of procedures: those of this leader, and those that earlier ones have left in the metadata.

    what could not be finished yet   attempts of this leader, by the record or the key of what is left
    changes of the catalog           `__change/{id}`; of those that wrote nothing, only the queue of this leader knows
    moves of regions                 `__failover/…`, `__migration/…`

A client that is told to ask later is promised an answer: the metadata then has a record of its change even if that is
still waiting, or is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tsdb.catalog import (
    Catalog,
    ChangeRecord,
    ProcedureState,
    RunningChange,
    UnfinishedChange,
    forget_old_changes,
    load_changes,
    read_change,
)
from tsdb.clock import Clock
from tsdb.errors import TsdbError
from tsdb.kv import Absent, KvStore
from tsdb.meta._move_records import MoveRecord, MoveState, load_records
from tsdb.meta._procedures import ProcedureRecord, Procedures
from tsdb.telemetry import get_logger

PRUNE_EVERY = 100
"""After so many changes, the oldest records are removed."""
_END_SECONDS_MAX = 5.0

_log = get_logger("tsdb.meta")


class Outcomes:
    """The outcomes that a leader knows of."""

    def __init__(
        self,
        kv: KvStore,
        clock: Clock,
        *,
        changes: Procedures,
        moves: Procedures,
        catalog: Callable[[], Catalog | None],
    ) -> None:
        self._kv = kv
        self._clock = clock
        self._changes = changes
        self._moves = moves
        self._catalog = catalog
        self._lock = threading.Lock()
        self._promised: set[str] = set()
        """Ids of changes of this leader that have not ended, and whose clients will ask for them."""
        self._last = ""
        """The change whose end was noted last: one is made after the other."""
        self._made = 0

    def promise(self, record: ProcedureRecord) -> None:
        """Keep a change, so that a client that waits no longer finds it under any later leader."""
        with self._lock:
            self._promised.add(record.id)
            is_ending = self._last == record.id
        kept = _kept(record)
        try:
            self._kv.transact([Absent(kept.key)], [kept.put])
            if is_ending:
                # Its end was noted before it was promised.
                record.ended.wait(_END_SECONDS_MAX)
            if record.ended.is_set() and read_change(self._kv, record.id) == kept:
                self._kv.transact([], [_kept(record).put])
        except TsdbError as error:
            _log.warning("a change is not noted for the next leader", procedure=record.id, error=error)
        if record.ended.is_set():
            with self._lock:
                self._promised.discard(record.id)

    def note_end(self, change: RunningChange, error: TsdbError | None) -> None:
        """Note the end of a change, unless its last transaction has done that, or something is left to be finished."""
        with self._lock:
            is_promised = change.record.id in self._promised
            self._promised.discard(change.record.id)
            self._last = change.record.id
            self._made += 1
        if change.is_ended or not (change.is_noted or is_promised) or (error is None and change.is_noted):
            return
        state = ProcedureState.DONE if error is None else ProcedureState.FAILED
        ended = change.record.ended(state, self._now_ms(), None if error is None else str(error))
        try:
            self._kv.transact([], [ended.put])
        except TsdbError as problem:
            _log.warning("the end of a change is not noted", procedure=change.record.id, error=problem)

    def forget_old(self) -> None:
        """Remove the oldest records, now and then."""
        with self._lock:
            is_due = self._made >= PRUNE_EVERY
            self._made = 0 if is_due else self._made
        if is_due:
            forget_old_changes(self._kv)

    def find(self, procedure_id: str) -> dict[str, Any] | None:
        """Return what became of a procedure; None if nobody knows it."""
        for each in self._unfinished():
            if each.id == procedure_id:
                return _unfinished_to_json(each, read_change(self._kv, procedure_id))
        known = self._changes.find(procedure_id) or self._moves.find(procedure_id)
        if known is not None and not known.ended.is_set():
            return known.to_json()
        kept = read_change(self._kv, procedure_id)
        if kept is not None:
            return _change_to_json(kept)
        if known is not None:
            return known.to_json()
        records = load_records(self._kv)
        moved = next((each for each in (*records.running, *records.ended) if each.id == procedure_id), None)
        return None if moved is None else _move_to_json(moved)

    def recent(self) -> list[dict[str, Any]]:
        """All procedures that are remembered, the newest first."""
        changes = load_changes(self._kv)
        records = load_records(self._kv)
        found = {each.id: _move_to_json(each) for each in (*records.running, *records.ended)}
        queued = [*self._changes.recent(), *self._moves.recent()]
        found |= {each.id: each.to_json() for each in queued if each.ended.is_set()}
        found |= {each.id: _change_to_json(each) for each in changes}
        found |= {each.id: each.to_json() for each in queued if not each.ended.is_set()}
        kept = {each.id: each for each in changes}
        found |= {each.id: _unfinished_to_json(each, kept.get(each.id)) for each in self._unfinished()}
        return sorted(found.values(), key=lambda each: each["asked_ms"], reverse=True)

    def _unfinished(self) -> list[UnfinishedChange]:
        catalog = self._catalog()
        return [] if catalog is None else catalog.unfinished()

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000


def _kept(record: ProcedureRecord) -> ChangeRecord:
    """A change of the queue as it is kept."""
    error = None if record.error is None else str(record.error)
    times = {"asked_ms": record.asked_ms, "began_ms": record.began_ms, "ended_ms": record.ended_ms}
    return ChangeRecord(record.id, record.kind, record.subject, state=record.state, error=error, **times)


def _change_to_json(record: ChangeRecord) -> dict[str, Any]:
    return record.to_json()


def _unfinished_to_json(found: UnfinishedChange, record: ChangeRecord | None) -> dict[str, Any]:
    """Something that is left; it began when its change did, or at the latest when it failed first."""
    return {
        "id": found.id,
        "kind": found.kind,
        "subject": found.subject,
        "state": found.state.value,
        "error": found.last_error,
        "asked_ms": found.since_ms if record is None else record.asked_ms,
        "began_ms": found.since_ms if record is None else record.began_ms,
        "ended_ms": 0,
        "attempts": found.attempts,
        "since_ms": found.since_ms,
    }


def _move_to_json(record: MoveRecord) -> dict[str, Any]:
    failed = next((each for each in record.regions if each.state is MoveState.FAILED), None)
    region = record.regions[0].region_id if record.regions else 0
    return {
        "id": record.id,
        "kind": "failover" if record.is_failover else "migrate_region",
        "subject": f"node {record.from_node}" if record.is_failover else f"region {region}",
        "state": record.state.value,
        "error": None if failed is None else failed.error,
        "asked_ms": record.started_ms,
        "began_ms": record.started_ms,
        "ended_ms": record.ended_ms or 0,
        "attempts": 0,
        "since_ms": 0,
    }
