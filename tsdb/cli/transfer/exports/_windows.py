"""The times of a table in windows, which are exported one after the other.

Windows are ranges of whole numbers, in the unit of the time column, with both ends in them. They follow each other
without a gap. Without a given length they are made so that each has about as many rows: a range with too many rows is
divided in halves, and neighbours with few rows are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

ROWS_MIN = 100_000
SHARE = 50
"""A window has this part of the rows, so that no more than that is read again after an interruption."""

Window = tuple[int, int]
CountRows = Callable[[int, int], int]


def rows_per_window(rows: int) -> int:
    """Return how many rows a window may have. Every window reads the files that overlap it, so it is not too small."""
    return max(ROWS_MIN, rows // SHARE)


def windows_by_rows(first: int, last: int, rows: int, *, rows_max: int, count: CountRows) -> Iterator[Window]:
    """Yield windows with so many rows at most, if they do not have the same time."""
    held: tuple[int, int, int] | None = None
    for start, stop, found in _halved(first, last, rows, rows_max, count):
        if held is not None and held[2] + found <= rows_max:
            held = (held[0], stop, held[2] + found)
            continue
        if held is not None:
            yield held[:2]
        held = (start, stop, found)
    if held is not None:
        yield held[:2]


def _halved(first: int, last: int, rows: int, rows_max: int, count: CountRows) -> Iterator[tuple[int, int, int]]:
    waiting = [(first, last, rows)]
    while waiting:
        start, stop, found = waiting.pop()
        if found <= rows_max or start == stop:
            yield start, stop, found
            continue
        middle = (start + stop) // 2
        before = count(start, middle)
        waiting += [(middle + 1, stop, max(0, found - before)), (start, middle, before)]


def windows_by_length(first: int, last: int, length: int) -> Iterator[Window]:
    """Yield windows of a length, the last one shorter."""
    for start in range(first, last + 1, length):
        yield start, min(start + length - 1, last)
