"""Attempts at what was left half-way, each for itself: one that fails, whatever the reason, holds up no other.

On a standalone server nothing is left after a start but what its next start finishes: there, errors are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tsdb.catalog.progress._attempts import Attempts, UnfinishedChange
from tsdb.catalog.progress._records import ProcedureState, read_change
from tsdb.clock import Clock
from tsdb.errors import TsdbError
from tsdb.kv import DeleteKey, KvStore, KvUnavailable, LeadershipLost
from tsdb.telemetry import get_logger

Finish = Callable[[], TsdbError | None]
"""Finishes or undoes something; raises or returns what keeps it from that."""

_log = get_logger("tsdb.catalog")


class Intent(Protocol):
    """What is left of a change."""

    @property
    def procedure(self) -> str | None: ...

    @property
    def subject(self) -> str: ...

    @property
    def delete(self) -> DeleteKey: ...


class RecoveryAttempt:
    """One pass over everything that is left."""

    def __init__(self, kv: KvStore, attempts: Attempts, clock: Clock, *, is_cluster: bool) -> None:
        self._kv = kv
        self._attempts = attempts
        self._clock = clock
        self._is_cluster = is_cluster
        self.is_due: Callable[[str], bool] = lambda _: True
        """Whether what belongs to a key is tried now."""

    def about(self, key: str, procedure: str | None, subject: str, kind: str = "") -> UnfinishedChange:
        """Return what is known of something that is left, under a key."""
        return UnfinishedChange(key, kind or key.split("/")[1], subject, procedure)

    def run(self, intent: Intent, finish: Finish) -> None:
        """Try to finish or undo what an intent says."""
        self.try_it(self.about(intent.delete.key, intent.procedure, intent.subject), finish)

    def try_it(self, about: UnfinishedChange, finish: Finish) -> bool:
        """Try something if it is due; tell whether it is finished."""
        if not self._is_cluster:
            return finish() is None
        if not self.is_due(about.key):
            return False
        try:
            problem = finish()
        except (LeadershipLost, KvUnavailable):
            raise
        except TsdbError as error:
            problem = error
        except Exception as error:  # noqa: BLE001 - a bug in one change must not keep all others from being made
            _log.exception("an interrupted change failed unexpectedly", kind=about.kind, subject=about.subject)
            problem = TsdbError(f"{type(error).__name__}: {error}")
        if problem is not None:
            self.note(about, problem)
        return problem is None

    def note(self, about: UnfinishedChange, error: TsdbError) -> None:
        """Note that something could not be finished; what is poisoned stays so under the next leader."""
        record = None if about.procedure is None else read_change(self._kv, about.procedure)
        if self._attempts.find(about.key) is None and record is not None:
            about.kind, about.subject = record.kind, record.subject
            if record.state is ProcedureState.POISONED:
                about.attempts, about.since_ms = record.attempts, record.since_ms
        found = self._attempts.note(about, str(error))
        _log.warning("an interrupted change is not complete yet", kind=found.kind, subject=found.subject, error=error)
        if found.is_poisoned and record is not None and record.state is not ProcedureState.POISONED:
            self._kv.transact([], [record.poisoned(found.attempts, found.since_ms, found.last_error).put])

    def end(self, *left: Sequence[tuple[str, bytes]]) -> None:
        """Forget what is finished. A change of which nothing is left without a word was replaced by a later one."""
        if not self._is_cluster:
            return
        gone = self._attempts.keep({key for pairs in left for key, _ in pairs})
        going_on = {each.procedure for each in self._attempts.all()}
        for each in gone:
            record = None if each.procedure is None else read_change(self._kv, each.procedure)
            if record is not None and record.is_open and record.id not in going_on:
                now_ms = self._clock.now_ns() // 1_000_000
                ended = record.ended(ProcedureState.FAILED, now_ms, "a later change has replaced it")
                self._kv.transact([], [ended.put])
