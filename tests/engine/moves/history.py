"""What clients sent to regions, what became of it, and which rows may therefore be seen.

A change is ordered by the owner that it was sent to, its epoch and the term of its log, and by its number. The newest
wins, whenever it became visible: a row that a lost owner had acknowledged and hands in later is as old as it was.

- What was acknowledged is seen, unless something newer may have happened to it.
- What something newer that was acknowledged has overwritten or removed is never seen.
- What was refused is never seen. Of what has no answer, or failed, nobody knows.
- No row is there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tests.engine.harness import Row, batch_of
from tsdb.engine.errors import LogFenced, RegionBusy, RegionNotFound, RegionReadOnly
from tsdb.model import Batch, OpType, RegionId, RegionSchema

REFUSALS = (LogFenced, RegionBusy, RegionNotFound, RegionReadOnly)
EXTRA = "x"
"""How the names of columns begin that a region gets later. Their values are those of column `b`."""


class Violation(AssertionError):
    """Something happened that must not."""


class Kind(Enum):
    """What a client wants."""

    PUT = "put"
    DELETE = "delete"
    TRUNCATE = "truncate"


class Fate(Enum):
    """What became of it."""

    UNKNOWN = "unknown"
    DONE = "done"
    REFUSED = "refused"


@dataclass(eq=False)
class Change:
    """A row, a deletion or a truncation on its way."""

    region: RegionId
    kind: Kind
    number: int
    owner: tuple[int, int]
    """The epoch of the region where it was sent, and the term of that process."""
    done: Future[Any]
    key: int = 0
    columns: tuple[str, ...] = ()
    """The extra columns that a row has."""
    before: tuple[int, int] = (0, 0)
    """The newest owner that had acknowledged something when it was sent."""
    has_successor: bool = False
    """A newer owner had opened the region before it was sent."""
    fate: Fate = Fate.UNKNOWN

    @property
    def order(self) -> tuple[int, int, int]:
        return (*self.owner, self.number)

    def __str__(self) -> str:
        return f"{self.kind.value} {self.number} of key {self.key} by owner {self.owner} ({self.fate.value})"


class History:
    """All changes of some regions, in which every row has a number as its column `b`."""

    def __init__(self, appending: RegionId) -> None:
        """`appending` is the region that keeps duplicates: its rows have times of their own, and are not deleted."""
        self._appending = appending
        self._changes: dict[RegionId, list[Change]] = {}
        self._pending: list[Change] = []
        self._refused: set[int] = set()
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def add(self, change: Change) -> None:
        self._changes.setdefault(change.region, []).append(change)
        self._pending.append(change)

    def refuse(self, number: int) -> None:
        """A change was refused when it was sent."""
        self._refused.add(number)

    def pending(self) -> list[Future[Any]]:
        return [change.done for change in self._pending]

    def take_answers(self) -> list[Change]:
        """Take the answers that are there; return what was acknowledged."""
        answered = [change for change in self._pending if change.done.done()]
        for change in answered:
            self._pending.remove(change)
            error = change.done.exception()
            if error is None:
                change.fate = Fate.DONE
            elif isinstance(error, REFUSALS) and change.kind is not Kind.TRUNCATE:
                change.fate = Fate.REFUSED
                self._refused.add(change.number)
        return [change for change in answered if change.fate is Fate.DONE]

    def batch(self, schema: RegionSchema, kind: Kind, region: RegionId, key: int, number: int) -> Batch:
        """Make the batch of a change."""
        row: Row = {"host": "a", "ts": number if region == self._appending else key}
        if kind is Kind.DELETE:
            return batch_of(schema, [row], OpType.DELETE)
        extra = dict.fromkeys(extra_columns(schema), number)
        return batch_of(schema, [{**row, "a": 1.0, "b": number, **extra}])

    def check(self, region: RegionId, rows: Sequence[Mapping[str, Any]], *, since_epoch: int = 0) -> None:
        """Violation if rows of a region are not what they may be.

        What was acknowledged under epochs before `since_epoch` may be missing.
        """
        numbers = Counter(row["b"] for row in rows)
        if self._refused.intersection(numbers):
            raise Violation(f"refused rows are visible: {self._refused.intersection(numbers)}")
        if any(count > 1 for count in numbers.values()) or len({row["ts"] for row in rows}) != len(rows):
            raise Violation(f"a row is there twice: {sorted(numbers.elements())}")
        changes = self._changes.get(region, [])
        certain = [each for each in changes if each.fate is Fate.DONE and each.owner[0] >= since_epoch]
        by_number = {each.number: each for each in changes}
        seen = []
        for row in rows:
            if row["b"] not in by_number:
                raise Violation(f"nobody has written row {row['b']}")
            seen.append(by_number[row["b"]])
            self._check_row(row, seen[-1], certain)
        hiding = [each for each in changes if each.fate is not Fate.REFUSED and each.kind is not Kind.PUT]
        for each in certain:
            if each.kind is Kind.PUT and each not in seen and not self._is_hidden(each, [*hiding, *seen]):
                raise Violation(f"an acknowledged row is lost: {each}; there is {sorted(numbers)}")

    def _check_row(self, row: Mapping[str, Any], change: Change, certain: Iterable[Change]) -> None:
        newer = next((each for each in certain if self._hides(each, change)), None)
        if newer is not None:
            raise Violation(f"{change} is seen, although there was {newer}")
        for name in row:
            expected = change.number if name in change.columns else None
            if name.startswith(EXTRA) and row[name] != expected:
                raise Violation(f"column {name} is {row[name]} in {change}")

    def _is_hidden(self, change: Change, others: Iterable[Change]) -> bool:
        return any(self._hides(each, change) for each in others)

    def _hides(self, change: Change, older: Change) -> bool:
        """Whether a change makes an older row invisible."""
        if change.order <= older.order:
            return False
        if change.region == self._appending or change.kind is Kind.TRUNCATE:
            return change.kind is Kind.TRUNCATE
        return change.key == older.key


def extra_columns(schema: RegionSchema) -> list[str]:
    return [column.name for column in schema.columns if column.name.startswith(EXTRA)]
