"""Phi-accrual failure detection over the heartbeat intervals of a node.

phi measures how unlikely the current silence of a node is: 8 means that a heartbeat is this late once in 10^8 times, if
intervals are normally distributed as before. A node with regular heartbeats is suspected soon, one with an unsteady
network later.
"""

from __future__ import annotations

import math
from collections import deque

HISTORY = 1000
"""How many intervals are remembered."""
THRESHOLD = 8.0
DEVIATION_MIN_SECONDS = 0.1
_PHI_MAX = 300.0


class PhiDetector:
    """The heartbeats of one node, in seconds of any clock that goes forward."""

    def __init__(self, first_interval_seconds: float) -> None:
        """Before there are intervals, one of this length is expected, give or take a quarter."""
        quarter = first_interval_seconds / 4
        self._intervals: deque[float] = deque(
            [first_interval_seconds - quarter, first_interval_seconds + quarter], maxlen=HISTORY
        )
        self._last: float | None = None

    def heard(self, now: float) -> None:
        if self._last is not None and now > self._last:
            self._intervals.append(now - self._last)
        self._last = now

    def phi(self, now: float) -> float:
        """How unlikely the silence up to now is; 0 if there was never a heartbeat."""
        if self._last is None:
            return 0.0
        mean = sum(self._intervals) / len(self._intervals)
        variance = sum((each - mean) ** 2 for each in self._intervals) / len(self._intervals)
        deviation = max(DEVIATION_MIN_SECONDS, math.sqrt(variance))
        later = 0.5 * math.erfc((now - self._last - mean) / (deviation * math.sqrt(2)))
        return min(_PHI_MAX, -math.log10(later)) if later > 0 else _PHI_MAX


def is_braked(suspects: int, nodes: int) -> bool:
    """Whether so many nodes are silent at once that the network or this server is rather the reason than they are."""
    return suspects > 1 and suspects * 3 > nodes
