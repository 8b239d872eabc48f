"""How far something has come: a bar in a terminal, otherwise a line every few seconds, on the standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_SECONDS = 5.0
TITLE_CHARACTERS_MAX = 32
"""A longer title would leave no room for the numbers in a terminal of 80 columns."""

SizeUnit = Literal["bytes", "rows", "steps"]
"""What the size of something counts; `steps` are parts of about the same size."""


class ProgressView(Protocol):
    """Shows progress."""

    def update(self, done: int, rows: int) -> None:
        """Show how much of the source lies behind, and how many rows were written."""

    def note(self, text: str) -> None:
        """Print a line that stays."""


@contextmanager
def showing(
    title: str, size: int | None, *, is_quiet: bool = False, unit: SizeUnit = "bytes", rows: int = 0
) -> Iterator[ProgressView]:
    """Show the progress of something while it runs; `rows` is how many there are from an earlier run."""
    if not is_quiet and sys.stderr.isatty():
        with _bar(title, size, unit, rows) as view:
            yield view
    else:
        yield _LineView(title, size, is_quiet, rows)


class _RowRate:
    """How many rows pass in a second, without those of earlier runs."""

    def __init__(self, first: int) -> None:
        self._started = time.monotonic()
        self._first = first

    def text(self, rows: int) -> str:
        rate = (rows - self._first) / max(time.monotonic() - self._started, 0.001)
        return f"{rate:,.0f} rows/s"


class _LineView:
    def __init__(self, title: str, size: int | None, is_quiet: bool, rows: int) -> None:
        self._title = title
        self._size = size
        self._is_quiet = is_quiet
        self._told = time.monotonic()
        self._rate = _RowRate(rows)

    def update(self, done: int, rows: int) -> None:
        rate = self._rate.text(rows)
        now = time.monotonic()
        if not self._is_quiet and now - self._told >= LINE_SECONDS:
            self._told = now
            part = f"{min(100.0, 100 * done / self._size):.1f} %, " if self._size else ""
            self.note(f"{self._title}: {part}{rows:,} rows, {rate}")

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class _BarView:
    def __init__(self, progress: Progress, task: TaskID, total: str, rows: int) -> None:
        self._progress = progress
        self._task = task
        self._total = total
        self._rate = _RowRate(rows)

    def update(self, done: int, rows: int) -> None:
        shown = f"{rows:,}{self._total} rows, {self._rate.text(rows)}"
        self._progress.update(self._task, completed=done, rows=shown)

    def note(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _bar(title: str, size: int | None, unit: SizeUnit, rows: int) -> Iterator[ProgressView]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    amounts: list[ProgressColumn] = []
    if unit != "rows":
        amounts.append(DownloadColumn() if unit == "bytes" else MofNCompleteColumn())
    total = f"/{size:,}" if unit == "rows" and size is not None else ""
    # The end of a path tells more than its beginning.
    shown = title if len(title) <= TITLE_CHARACTERS_MAX else f"…{title[1 - TITLE_CHARACTERS_MAX :]}"
    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), *amounts, TextColumn("{task.fields[rows]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(shown, total=size, rows="")
        yield _BarView(progress, task, total, rows)
