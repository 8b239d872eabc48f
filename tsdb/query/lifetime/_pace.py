"""How many rows a scan returns at a time, so that it can check for cancellation often enough.

A scan can check for cancellation only when its next batch is requested. Until then DataFusion works on the last one,
and a join may compare each of its rows with millions of others, or a function make megabytes of each. After a slow
batch the next one is smaller, after a fast one larger.

A cross join gives a batch of results for each row of the other side, as long as its input batch. So
batches do not shrink below `least_rows`: with single rows only overhead would be left.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

_SLOW_SECONDS = 0.05
_QUICK_SECONDS = 0.01


class BatchPace:
    """The sizes of the batches of one scan."""

    def __init__(
        self, first_rows: int, most_rows: int, *, least_rows: int, seconds: Callable[[], float] = perf_counter
    ) -> None:
        self._seconds = seconds
        self._rows = first_rows
        self._least_rows = least_rows
        self._most_rows = most_rows
        self._asked_at: float | None = None

    def next_rows(self) -> int:
        """Return the size of the batch that is requested now."""
        now = self._seconds()
        if self._asked_at is not None:
            seconds = now - self._asked_at
            if seconds > _SLOW_SECONDS:
                self._rows = max(self._rows // 4, min(self._rows, self._least_rows))
            elif seconds < _QUICK_SECONDS:
                self._rows = min(self._rows * 2, self._most_rows)
        self._asked_at = now
        return self._rows
