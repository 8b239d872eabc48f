"""Whether a datanode is still there while something is awaited from it.

A datanode that hangs, or is cut off without a word, keeps its connections: nothing breaks, and requests without a
deadline would wait for long. So it is asked from time to time, while there is something to wait for; to answer takes it
no work. Time is counted by looks, not by a clock: while this process stands still itself, none passes.
"""

from __future__ import annotations

from typing import Protocol

from tsdb.units import Duration

TICK_SECONDS = 0.25
"""How late a request may be cancelled whose deadline has passed, and how long a reader is kept that was released."""
_PAUSE_LOOKS = int(5 / TICK_SECONDS)
"""After how many looks a datanode is asked again."""


class Asked(Protocol):
    """The stream on which a datanode is asked."""

    heard: int

    def ping(self) -> bool: ...


class Pulse:
    """Looks after one datanode; used by one thread."""

    def __init__(self, timeout: Duration) -> None:
        self._looks_max = int(timeout.seconds / TICK_SECONDS)
        self._pause_looks = min(_PAUSE_LOOKS, self._looks_max)
        self._heard: int | None = None
        """How much had been heard when it was asked; None if nothing is unanswered."""
        self._looks = 0

    def is_silent(self, stream: Asked, *, is_awaited: bool) -> bool:
        """Look once; ask the datanode if it is time to. Returns whether it has not answered for too long."""
        self._looks += 1
        if self._heard is not None:
            if stream.heard == self._heard:
                return self._looks > self._looks_max
            self._heard, self._looks = None, 0
        if is_awaited and self._looks >= self._pause_looks:
            heard = stream.heard
            if stream.ping():
                self._heard, self._looks = heard, 0
        return False
