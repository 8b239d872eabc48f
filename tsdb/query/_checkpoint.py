"""What queries and writes tell the caller that runs them: where they are, so that it can pause or abandon them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol, TypeVar

from tsdb.waits import Place, runner

T = TypeVar("T")


class Checkpoint(Protocol):
    """Called by what runs for a caller that cannot wait for long, or that lets several take turns."""

    def __call__(self, check: Callable[[], None]) -> None:
        """A query is about to begin its next step.

        It may raise to abandon the query, or wait; meanwhile it calls `check`, which raises when the query is over.
        """

    def before_long_step(self) -> None:
        """A step begins that cannot be interrupted and may take long, such as planning."""

    def begin_wait(self) -> None:
        """The thread is about to wait for other threads or processes."""

    def end_wait(self, check: Callable[[], None]) -> None:
        """The wait was successful. Returns when the query may go on, or as soon as `check` raises."""

    def begin_writing(self) -> None:
        """What follows waits for the log."""

    def threads_max(self, most: int) -> int:
        """Return how many threads the next piece of work may use, at least one and at most `most`."""

    def place(self) -> Place | None:
        """Return what the step on this thread occupies, and gives back while it waits for another node."""


_checkpoint: ContextVar[Checkpoint | None] = ContextVar("checkpoint", default=None)

current_checkpoint = _checkpoint.get
"""Returns the checkpoint of the caller, None if there is none."""


def run_checked(checkpoint: Checkpoint, work: Callable[[], T]) -> T:
    """Run something whose queries call a checkpoint before their steps."""
    token, before = _checkpoint.set(checkpoint), runner.set(checkpoint)
    try:
        return work()
    finally:
        runner.reset(before)
        _checkpoint.reset(token)


def before_long_step() -> None:
    """Call the checkpoint, if there is one, before a long step."""
    checkpoint = _checkpoint.get()
    if checkpoint is not None:
        checkpoint.before_long_step()


def threads_max(most: int) -> int:
    """Return how many threads the next piece of work may use: fewer while other queries need the cores."""
    checkpoint = _checkpoint.get()
    return most if checkpoint is None else checkpoint.threads_max(most)


def begin_writing() -> None:
    """Call the checkpoint, if there is one, before a write."""
    checkpoint = _checkpoint.get()
    if checkpoint is not None:
        checkpoint.begin_writing()
