"""The project's own benchmarks: `python -m benchmarks`.

A benchmark is a module `benchmarks/<area>/<name>.py` with a function `main()` that yields a `Measurement` for
each line it wants in the table. `measure` makes one from a callable.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """How long one thing took, and how much work it was: `amount` of `unit`."""

    what: str
    seconds: float
    amount: float
    unit: str

    @property
    def per_second(self) -> float:
        return self.amount / self.seconds if self.seconds else float("inf")


def measure(
    what: str, work: Callable[[], object], *, amount: float, unit: str = "rows", repeats: int = 7
) -> Measurement:
    """Return the best of several runs: other work on the machine can only make a run slower."""
    best_seconds = min(_seconds_of(work) for _ in range(repeats))
    return Measurement(what, best_seconds, amount, unit)


def _seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
