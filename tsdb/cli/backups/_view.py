"""How far a backup or a restore has come: a bar in a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LINE_SECONDS = 5.0
_LOOK_SECONDS = 0.2

Counts = tuple[str, int, int]
"""What is done now, how many bytes of it are done, and how many there are."""


@contextmanager
def watching(title: str, look: Callable[[], Counts], *, is_quiet: bool) -> Iterator[None]:
    """Show on the standard error what `look` returns while the block runs."""
    if is_quiet:
        yield
        return
    over = threading.Event()
    show = _show_bar if sys.stderr.isatty() else _show_lines
    thread = threading.Thread(target=show, args=(title, look, over), name="tsdb-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show_lines(title: str, look: Callable[[], Counts], over: threading.Event) -> None:
    while not over.wait(LINE_SECONDS):
        phase, done, total = look()
        part = f", {100 * done / total:.1f} % of {format_bytes(total)}" if total else ""
        print(f"{title}: {phase}{part}", file=sys.stderr, flush=True)


def _show_bar(title: str, look: Callable[[], Counts], over: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)
        while not over.wait(_LOOK_SECONDS):
            phase, done, total = look()
            progress.update(task, description=f"{title}: {phase}", completed=done, total=total or None)


def format_bytes(count: int) -> str:
    """Write a number of bytes for people."""
    size, units = float(count), iter(("B", "KiB", "MiB", "GiB"))
    for unit in units:
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
