"""How far something has come: a bar in a terminal, otherwise a line every few seconds, on the standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_SECONDS = 5.0


class ProgressView(Protocol):
    """Shows progress."""

    def update(self, done: int, rows: int) -> None:
        """Show how much of the source lies behind, and how many rows were written."""

    def note(self, text: str) -> None:
        """Print a line that stays."""


@contextmanager
def showing(title: str, size: int | None, *, is_quiet: bool = False, is_bytes: bool = True) -> Iterator[ProgressView]:
    """Show the progress of something while it runs."""
    if not is_quiet and sys.stderr.isatty():
        with _bar(title, size, is_bytes=is_bytes) as view:
            yield view
    else:
        yield _LineView(title, size, is_quiet)


class _LineView:
    def __init__(self, title: str, size: int | None, is_quiet: bool) -> None:
        self._title = title
        self._size = size
        self._is_quiet = is_quiet
        self._started = self._told = time.monotonic()
        self._first_rows: int | None = None

    def update(self, done: int, rows: int) -> None:
        now = time.monotonic()
        if self._first_rows is None:
            self._first_rows = rows
        if not self._is_quiet and now - self._told >= LINE_SECONDS:
            self._told = now
            part = f"{100 * done / self._size:.1f} %, " if self._size else ""
            rate = (rows - self._first_rows) / max(now - self._started, 0.001)
            self.note(f"{self._title}: {part}{rows:,} rows, {rate:,.0f} rows/s")

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class _BarView:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(self, done: int, rows: int) -> None:
        self._progress.update(self._task, completed=done, rows=f"{rows:,} rows")

    def note(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _bar(title: str, size: int | None, *, is_bytes: bool) -> Iterator[ProgressView]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn() if is_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TextColumn("{task.fields[rows]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=size, rows="")
        yield _BarView(progress, task)
