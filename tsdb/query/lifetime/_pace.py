"""How many rows a scan hands out at a time, so that its query asks for more often enough.

Only when a scan is asked for its next batch can it say that the query is over: until then DataFusion works on the last
one, and a join may compare each of its rows with millions of others, or a function make megabytes of each. A batch that
took long makes the next one smaller, one that took no time a larger one.

A cross join gives a batch of results for each row of the other side, as long as the batch that it was handed. So
batches do not shrink below `least_rows`: of single rows the overhead would be all that is left.
"""

from __future__ import annotations

from time import perf_counter

_SLOW_SECONDS = 0.05
_QUICK_SECONDS = 0.01


class Pace:
    """The sizes of the batches of one scan."""

    def __init__(self, first_rows: int, most_rows: int, *, least_rows: int) -> None:
        self._rows = first_rows
        self._least_rows = least_rows
        self._most_rows = most_rows
        self._asked_at: float | None = None

    def next_rows(self) -> int:
        """Return how many rows to hand out now; to be called when they are asked for."""
        now = perf_counter()
        if self._asked_at is not None:
            seconds = now - self._asked_at
            if seconds > _SLOW_SECONDS:
                self._rows = max(self._rows // 4, min(self._rows, self._least_rows))
            elif seconds < _QUICK_SECONDS:
                self._rows = min(self._rows * 2, self._most_rows)
        self._asked_at = now
        return self._rows
