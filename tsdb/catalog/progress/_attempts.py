"""What was left half-way and could not be finished yet: how often it was tried, since when, and why it failed.

Each thing that is left has a pause of its own, which grows: one that always fails does not slow down the others. After
`ATTEMPTS_MAX` attempts it is *poisoned*, which is a word for those who look, and the end of attempts before changes of
other tables. It is never given up: what it waits for may come back, and regions and catalog would disagree without it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tsdb.catalog.progress._records import ProcedureState
from tsdb.clock import Clock
from tsdb.telemetry import gauge, get_logger

ATTEMPTS_MAX = 10
"""After so many failed attempts a procedure is shown as poisoned: with growing pauses, after about four minutes."""
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.5, 60.0
_NS = 1_000_000_000

_log = get_logger("tsdb.catalog")
_UNFINISHED = gauge(
    "tsdb_meta_procedures_unfinished",
    "Interrupted changes that could not be finished or undone yet, poisoned included.",
)
_POISONED = gauge(
    "tsdb_meta_procedures_poisoned", "Interrupted changes that failed 10 attempts; they are tried once a minute."
)


@dataclass(slots=True)
class UnfinishedChange:
    """Something that was left half-way."""

    key: str
    """Of what the metadata has about it."""
    kind: str
    subject: str
    procedure: str | None
    """The change that left it; None if that is not known."""
    attempts: int = 0
    since_ms: int = 0
    """When it could not be finished for the first time."""
    last_error: str = ""
    next_ns: int = 0

    @property
    def id(self) -> str:
        """By which people ask for it."""
        return self.procedure or self.key

    @property
    def is_poisoned(self) -> bool:
        return self.attempts >= ATTEMPTS_MAX

    @property
    def state(self) -> ProcedureState:
        return ProcedureState.POISONED if self.is_poisoned else ProcedureState.RUNNING


class Attempts:
    """The attempts of one leadership. Changed by one thread at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: dict[str, UnfinishedChange] = {}

    def all(self) -> list[UnfinishedChange]:
        return list(self._left.values())

    def find(self, key: str) -> UnfinishedChange | None:
        return self._left.get(key)

    def is_due(self, key: str) -> bool:
        """Whether the pause after the last attempt is over."""
        found = self._left.get(key)
        return found is None or self._clock.monotonic_ns() >= found.next_ns

    def is_poisoned(self, key: str) -> bool:
        found = self._left.get(key)
        return found is not None and found.is_poisoned

    def seconds_to_next(self) -> float | None:
        """How long it is until something is tried again; None if nothing is left."""
        if not self._left:
            return None
        return max(0.0, (min(each.next_ns for each in self._left.values()) - self._clock.monotonic_ns()) / _NS)

    def hurry(self) -> None:
        """Let everything be due."""
        for each in list(self._left.values()):
            each.next_ns = 0

    def note(self, failed: UnfinishedChange, error: str) -> UnfinishedChange:
        """Note a failed attempt; `failed` has what is known of a thing that fails for the first time."""
        found = self._left.setdefault(failed.key, failed)
        was_poisoned = found.is_poisoned
        found.attempts += 1
        found.since_ms = found.since_ms or self._clock.now_ns() // 1_000_000
        found.last_error = error
        pause = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2.0 ** min(found.attempts - 1, 10))
        found.next_ns = self._clock.monotonic_ns() + round(pause * _NS)
        if found.is_poisoned and not was_poisoned:
            _log.error("a change cannot be finished", kind=found.kind, subject=found.subject, error=error)
        self._count()
        return found

    def keep(self, keys: Collection[str]) -> list[UnfinishedChange]:
        """Forget all but these, and return what is forgotten: it is finished, or gone."""
        gone = [each for key, each in self._left.items() if key not in keys]
        for each in gone:
            del self._left[each.key]
        self._count()
        return gone

    def _count(self) -> None:
        _UNFINISHED.set(len(self._left))
        _POISONED.set(sum(each.is_poisoned for each in self._left.values()))
