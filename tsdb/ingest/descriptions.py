"""What the samples of remote write say about their metrics, read no more often than it may change.

Version 1 sends descriptions in requests of their own. Version 2 repeats them with every series of every request, so
there they are only read when a request has a series that was not there before, and all of them again after a while.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from tsdb.clock import Clock
from tsdb.ingest.prometheus import Samples
from tsdb.model import FAMILY_SUFFIXES, MetricDescription, metric_type

REPEAT_SECONDS = 600
"""How long a changed description of a series that is known may go unnoticed."""

_NS_PER_SECOND = 1_000_000_000
_FAMILIES = ("histogram", "gaugehistogram", "summary")


class DescriptionReader:
    """Remembers which series have told what they know. For any number of threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._source: tuple[int, int] | None = None
        self._has_told: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._until_ns = 0

    def read(self, samples: Samples, *, version: int) -> list[tuple[str, MetricDescription]]:
        """Return names and descriptions of metrics; none if there is nothing that was not read before."""
        if version != 1 and not self._is_news(samples):
            return []
        found = [
            (name, MetricDescription(metric_type(kind), unit, help)) for name, kind, help, unit in samples.metadata
        ]
        return found if version == 1 else [(_family_of(name, said.kind), said) for name, said in found]

    def _is_news(self, samples: Samples) -> bool:
        if not len(samples.numbers):
            return False
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            if samples.source != self._source or now_ns >= self._until_ns:
                self._source = samples.source
                self._until_ns = now_ns + REPEAT_SECONDS * _NS_PER_SECOND
                self._has_told = np.zeros(0, np.bool_)
            bound = int(samples.numbers.max()) + 1
            if bound > len(self._has_told):
                grown = np.zeros(max(bound, 2 * len(self._has_told)), np.bool_)
                grown[: len(self._has_told)] = self._has_told
                self._has_told = grown
            is_news = not self._has_told[samples.numbers].all()
            self._has_told[samples.numbers] = True
            return is_news


def _family_of(series: str, kind: str) -> str:
    """The metric that a series of version 2 describes: all series of a histogram describe the histogram."""
    if kind in _FAMILIES:
        for suffix in FAMILY_SUFFIXES[kind]:
            if series.endswith(suffix) and series != suffix:
                return series.removesuffix(suffix)
    return series
