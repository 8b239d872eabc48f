"""The sample budget of all concurrent queries.

Each query also has its own limit, against queries that are too large. This one is against too many queries: the samples
a query holds are taken from one budget and returned when it ends, so that the process does not run out of memory
because sixteen dashboards are opened at once.
"""

from __future__ import annotations

import threading

from tsdb.errors import Busy
from tsdb.telemetry import gauge

SHARED_SAMPLES_MAX = 100_000_000
"""How many samples, read or computed, all queries may hold."""
SAMPLE_BYTES = 16
"""What one of them takes."""

_HELD = gauge("tsdb_promql_samples_held", "Samples, read or computed, held by running PromQL queries.")


class PromqlBusy(Busy):
    """The queries under way hold all that queries may hold."""


class SampleBudget:
    """Samples for all queries. Safe to use from many threads."""

    def __init__(self, samples_max: int = SHARED_SAMPLES_MAX) -> None:
        self._full_samples = samples_max
        self.samples_max = samples_max
        self._lock = threading.Lock()
        self._held = 0

    @classmethod
    def of_bytes(cls, bytes_max: int | None) -> SampleBudget:
        """A budget of as many samples as fit into so many bytes, but not of more than there is by default."""
        return cls() if bytes_max is None else cls(min(SHARED_SAMPLES_MAX, bytes_max // SAMPLE_BYTES))

    @property
    def held(self) -> int:
        return self._held

    def limit_to(self, share: float) -> None:
        """Let queries hold at most this part of the budget from now on."""
        self.samples_max = int(self._full_samples * share)

    def take(self, samples: int) -> None:
        """Take samples, or PromqlBusy if so many are not left."""
        with self._lock:
            if self._held + samples > self.samples_max:
                raise PromqlBusy(
                    f"the queries that run at the same time would hold more than {self.samples_max} samples",
                    hint="try again in a moment, or select fewer series, a shorter time range or a longer step",
                )
            self._held += samples
            _HELD.set(self._held)

    def give(self, samples: int) -> None:
        with self._lock:
            self._held -= samples
            _HELD.set(self._held)
