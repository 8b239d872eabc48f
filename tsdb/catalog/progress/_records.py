"""What became of changes, in the metadata: a leader that takes over can say it of changes that it did not make.

    __change/{procedure}    ChangeRecord

- The first transaction of a change notes that it is running, the last one how it ended: a record says `Done` if and
  only if the change is published. What is refused before it writes anything has none, unless it was promised.
- A leader that finishes or undoes a change later records that in the transaction that removes its intent.
- Finished records are kept up to a number; the oldest go first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from tsdb.catalog._keys import CHANGES, change_key
from tsdb.kv import OPERATIONS_MAX, DeleteKey, KvStore, PutKey
from tsdb.telemetry import get_logger

KEPT_MAX = 1000
"""How many finished changes are kept in the metadata."""

_log = get_logger("tsdb.catalog")


class ProcedureState(StrEnum):
    """What became of a procedure."""

    WAITING = "Waiting"
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"
    UNDONE = "Undone"
    """It failed half-way, and nothing of it is left."""
    POISONED = "Poisoned"
    """It has failed to be finished many times. It is still tried, now and then."""


_OPEN = frozenset({ProcedureState.WAITING, ProcedureState.RUNNING, ProcedureState.POISONED})


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One change, as it is kept."""

    id: str
    kind: str
    subject: str
    asked_ms: int
    state: ProcedureState = ProcedureState.RUNNING
    error: str | None = None
    began_ms: int = 0
    ended_ms: int = 0
    attempts: int = 0
    """How often it was tried to finish it after it had been interrupted."""
    since_ms: int = 0
    """When that failed first."""

    @property
    def is_open(self) -> bool:
        """Whether something is still to come of it."""
        return self.state in _OPEN

    @property
    def key(self) -> str:
        return change_key(self.id)

    @property
    def put(self) -> PutKey:
        return PutKey(self.key, orjson.dumps(self.to_json()))

    def ended(self, state: ProcedureState, now_ms: int, error: str | None = None) -> ChangeRecord:
        """The record at the end; of a change that failed first and was finished later, the error goes."""
        kept = None if state is ProcedureState.DONE else error or self.error
        return replace(self, state=state, ended_ms=now_ms, error=kept)

    def poisoned(self, attempts: int, since_ms: int, error: str) -> ChangeRecord:
        """The record of a change that cannot be finished."""
        return replace(self, state=ProcedureState.POISONED, attempts=attempts, since_ms=since_ms, error=error)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ChangeRecord:
        return cls(**{**value, "state": ProcedureState(value["state"])})


@dataclass(slots=True)
class RunningChange:
    """A change while it is made, and what the metadata says of it."""

    record: ChangeRecord
    is_noted: bool = False
    is_ended: bool = False


_running: ContextVar[RunningChange | None] = ContextVar("running_change", default=None)


def running_change() -> RunningChange | None:
    """Return the change that this thread makes, if it has an id."""
    return _running.get()


@contextmanager
def making(change: RunningChange | None) -> Iterator[None]:
    """Let what the block does be part of a change; None: of what was left by others."""
    token = _running.set(change)
    try:
        yield
    finally:
        _running.reset(token)


def read_change(kv: KvStore, procedure_id: str) -> ChangeRecord | None:
    """Return what is kept of a change."""
    return _read(change_key(procedure_id), kv.get(change_key(procedure_id)))


def load_changes(kv: KvStore) -> list[ChangeRecord]:
    """Return all records, the oldest first."""
    found = [_read(key, value) for key, value in kv.scan(CHANGES)]
    return sorted((each for each in found if each is not None), key=lambda each: (each.asked_ms, each.id))


def forget_old_changes(kv: KvStore, *, kept_max: int = KEPT_MAX) -> None:
    """Remove the oldest of the finished records, if there are too many."""
    ended = [each for each in load_changes(kv) if not each.is_open]
    keys = [each.key for each in ended[: max(0, len(ended) - kept_max)]]
    for start in range(0, len(keys), OPERATIONS_MAX // 2):
        kv.transact([], [DeleteKey(key) for key in keys[start : start + OPERATIONS_MAX // 2]])


def _read(key: str, value: bytes | None) -> ChangeRecord | None:
    if value is None:
        return None
    try:
        return ChangeRecord.from_json(orjson.loads(value))
    except (ValueError, KeyError, TypeError) as error:
        _log.error("the record of a change cannot be read", key=key, error=str(error))
        return None
