"""A source of samples for tests: series in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tests.kernels.histogram_reference import Hist
from tsdb.model import Matcher, matches
from tsdb.promql import parse_promql
from tsdb.promql.evaluation import (
    STALE_BITS,
    Answer,
    EvaluationOptions,
    LabelTable,
    SeriesSet,
    Vector,
    run_instant,
    run_range,
)

STALE = "stale"
Labels = tuple[tuple[str, str], ...]


@dataclass
class MemorySeries:
    """Series by their labels, each a dictionary of milliseconds and values."""

    series: dict[Labels, dict[int, float | str | Hist]] = field(default_factory=dict)

    def add(
        self, labels: Mapping[str, str], values: Sequence[float | str | Hist | None], *, every_s: float = 10
    ) -> None:
        """Add samples from time 0 on; None leaves one out."""
        samples = self.series.setdefault(tuple(sorted(labels.items())), {})
        samples.update({round(i * every_s * 1000): value for i, value in enumerate(values) if value is not None})

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        found = []
        for key, samples in self.series.items():
            labels = dict(key)
            inside = [(time, value) for time, value in sorted(samples.items()) if start_ms <= time <= end_ms]
            if inside and all(matches(matcher, labels.get(matcher.name, "")) for matcher in matchers):
                found.append((labels, inside))
        if not found:
            return SeriesSet.empty()
        rows = [row for _, inside in found for row in inside]
        values = np.array([np.nan if isinstance(value, str | Hist) else float(value) for _, value in rows])
        values.view(np.uint64)[[value == STALE for _, value in rows]] = STALE_BITS
        blobs = [value.encode() if isinstance(value, Hist) else None for _, value in rows]
        histograms = pa.array(blobs, pa.binary()) if any(blob is not None for blob in blobs) else None
        offsets = np.cumsum([0, *(len(inside) for _, inside in found)]).astype(np.int64)
        times = np.array([time for time, _ in rows], np.int64)
        return SeriesSet(LabelTable.of_dicts([labels for labels, _ in found]), offsets, times, values, histograms)

    def instant(self, query: str, at_s: float = 0, options: EvaluationOptions | None = None) -> Answer:
        return run_instant(parse_promql(query), query, self, round(at_s * 1000), options)

    def vector(self, query: str, at_s: float = 0) -> dict[Labels, float]:
        """Return the value of each series at one time."""
        answer = self.instant(query, at_s)
        assert isinstance(answer.value, Vector)
        rows = zip(answer.value.labels.dicts(), answer.value.values[:, 0].tolist(), strict=True)
        return {tuple(labels.items()): value for labels, value in rows}

    def natives(self, query: str, at_s: float = 0) -> dict[Labels, Hist | float]:
        """Return the value of each series at one time, where some are histograms."""
        return read_natives(self.instant(query, at_s))

    def matrix(
        self, query: str, *, end_s: float, step_s: float, start_s: float = 0, options: EvaluationOptions | None = None
    ) -> dict[Labels, list[float | None]]:
        """Return the values of each series, None where there is none."""
        answer = run_range(
            parse_promql(query),
            query,
            self,
            start_ms=round(start_s * 1000),
            end_ms=round(end_s * 1000),
            step_ms=round(step_s * 1000),
            options=options,
        )
        assert isinstance(answer.value, Vector)
        found = {}
        for row, labels in enumerate(answer.value.labels.dicts()):
            cells = zip(answer.value.values[row].tolist(), answer.value.present[row].tolist(), strict=True)
            found[tuple(labels.items())] = [value if has else None for value, has in cells]
        return found


def read_natives(answer: Answer) -> dict[Labels, Hist | float]:
    """Return the value of each series of an answer for one time."""
    vector = answer.value
    assert isinstance(vector, Vector)
    found: dict[Labels, Hist | float] = {}
    for row, labels in enumerate(vector.labels.dicts()):
        value: Hist | float = float(vector.values[row, 0])
        if vector.natives is not None and vector.natives.cells[row, 0] >= 0:
            cell = pa.array([int(vector.natives.cells[row, 0])], pa.int32())
            value = Hist.decode(pa.array(vector.natives.pool.encode(cell))[0].as_py())
        found[tuple(labels.items())] = value
    return found
