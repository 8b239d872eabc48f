"""Stops a write at its next visible step, and records how far it got.

A write becomes visible step by step: a table is created, a batch is sent to a region. `enter` is called before each
step and raises once the write was cancelled. So after `cancel` at most the step under way becomes visible, and:

- `cancel` returns False: no step had begun, and none will. Nothing was or will be written.
- `cancel` returns True: the caller waits for the end of the work, or reports that the outcome is unknown.

Several requests that are written as one share a token (`WriteToken.shared`): it stops when all of them are cancelled.
Its first step begins only if none is, so that no request reports too early that nothing was written.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tsdb.errors import Cancelled
from tsdb.query._checkpoint import begin_writing


class WriteToken:
    """The state of one write; safe to use from several threads."""

    __slots__ = (
        "_is_cancelled",
        "_lock",
        "_members",
        "has_begun",
        "is_over",
        "is_shared",
        "rows",
        "tables",
        "tables_planned",
    )

    def __init__(self, members: Sequence[WriteToken] = ()) -> None:
        self._lock = threading.Lock()
        self._members = members
        self._is_cancelled = False
        self.has_begun = False
        """Whether a step has begun that may have become visible."""
        self.is_over = False
        """Whether the work has ended, so that the counts are final."""
        self.is_shared = False
        """Whether it was written together with others, which the counts include."""
        self.tables = 0
        """Tables that were created or widened."""
        self.tables_planned = 0
        self.rows = 0
        """Rows that are durable and visible."""

    @classmethod
    def shared(cls, members: Sequence[WriteToken]) -> WriteToken:
        """Return the token of requests that are written as one."""
        if len(members) == 1:
            return members[0]
        for each in members:
            each.is_shared = True
        return cls(members)

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def enter(self) -> None:
        """Begin a step that becomes visible; raise Cancelled if the write was cancelled."""
        begin_writing()
        if not self._may_enter():
            raise Cancelled("the write was stopped")

    def check(self) -> None:
        """Raise Cancelled if the write was cancelled; called between the steps of its preparation."""
        members = self._members or (self,)
        if all(each.is_cancelled for each in members):
            raise Cancelled("the write was stopped")

    def cancel(self) -> bool:
        """Let no further step begin; return whether one has begun already."""
        with self._lock:
            self._is_cancelled = True
            return self.has_begun

    def note(self, *, tables: int = 0, rows: int = 0) -> None:
        """Count what has become visible."""
        with self._lock:
            self.tables += tables
            self.rows += rows
        for each in self._members:
            each.note(tables=tables, rows=rows)

    def expect(self, tables: int) -> None:
        """Count tables that have to be created or widened."""
        with self._lock:
            self.tables_planned += tables
        for each in self._members:
            each.expect(tables)

    def describe(self) -> str:
        """Say what became of a write that was stopped."""
        if not self.has_begun:
            return "nothing was written"
        tables = (
            f"{self.tables} of {self.tables_planned} tables were created or changed, " if self.tables_planned else ""
        )
        if not self.is_over:
            return f"outcome unknown: {tables}{self.rows} rows were written so far, and a step is still in progress"
        together = ", counted together with requests that were written as one with it" if self.is_shared else ""
        return f"{tables}{self.rows} rows were written before it was stopped{together}"

    def _may_enter(self) -> bool:
        if not self._members:
            return self._try_enter()
        entered = [each._try_enter() for each in self._members]
        may = any(entered) if self.has_begun else all(entered)
        self.has_begun = self.has_begun or may
        return may

    def _try_enter(self) -> bool:
        with self._lock:
            if self._is_cancelled:
                return False
            self.has_begun = True
            return True
