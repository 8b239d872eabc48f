"""Places of steps that wait for other nodes: what runs a step, and what waits in it, know each other by this alone.

A protocol runs few statements at a time, because they use the processor. One that waits for a datanode does not: after
a while it gives its place back, and takes it again when the answer is there.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class Place(Protocol):
    """What a step occupies while it runs. Safe for threads."""

    @property
    def elsewhere(self) -> Place:
        """The same place, as threads see it that wait for a part of the step, while its own thread may run."""

    def leave(self) -> None:
        """Give the place back: a thread has been waiting for a while. Raises why it may not wait any longer."""

    def come_back(self) -> None:
        """Take the place again, once for each time that it was left."""


class Runner(Protocol):
    """Who runs steps."""

    def place(self) -> Place | None:
        """Return the place of the step that runs on this thread, if it has one."""


runner: ContextVar[Runner | None] = ContextVar("runner", default=None)


def current_place() -> Place | None:
    """Return the place of the step that runs on this thread, None if there is none."""
    found = runner.get()
    return None if found is None else found.place()
