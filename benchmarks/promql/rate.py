"""`rate` over an hour of 10 metrics with 4,000 series each, 60 steps: from arrays, and from a database."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import Measurement, measure
from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import Database, Session
from tsdb.model import Matcher
from tsdb.promql import parse_promql
from tsdb.promql.evaluation import LabelColumn, LabelTable, SeriesSet, run_range
from tsdb.query.promql import QueryTimes

METRICS = 10
SERIES = 4000
STEPS = 60
EVERY_MS = 15_000
HOUR_MS = 3_600_000
WINDOW_MS = 300_000
SAMPLES = (HOUR_MS + WINDOW_MS) // EVERY_MS


class OneMetric:
    """4,000 counters, whatever is asked."""

    def __init__(self) -> None:
        values = np.cumsum(np.random.default_rng(1).integers(0, 9, (SERIES, SAMPLES)), axis=1).astype(np.float64)
        times = np.tile(EVERY_MS * np.arange(SAMPLES, dtype=np.int64), SERIES)
        offsets = SAMPLES * np.arange(SERIES + 1, dtype=np.int64)
        self._whole = SeriesSet(make_labels(), offsets, times, values.reshape(-1))

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        return self._whole


def make_labels() -> LabelTable:
    hosts = LabelColumn.of_texts([f"host_{number}" for number in range(SERIES)])
    zones = LabelColumn.of_texts([f"zone_{number % 10}" for number in range(SERIES)])
    return LabelTable(SERIES, {"__name__": LabelColumn.constant("m_total", SERIES), "host": hosts, "zone": zones})


def main() -> Iterator[Measurement]:
    source = OneMetric()
    amount = METRICS * SERIES * STEPS
    for text in ("rate(m_total[5m])", "sum by (zone) (rate(m_total[5m]))"):
        yield measure(f"arrays: {text}", lambda text=text: from_arrays(source, text), amount=amount, unit="values")
    with tempfile.TemporaryDirectory() as directory:
        opened = open_directory(Path(directory), options=LocalOptions(has_housekeeping=False))
        try:
            fill(opened.database)
            for text in ("rate(m_{}[5m])", "sum by (zone) (rate(m_{}[5m]))"):
                yield measure(
                    f"database: {text.format('total')}",
                    lambda text=text: from_database(opened.database, text),
                    amount=amount,
                    unit="values",
                    repeats=3,
                )
        finally:
            opened.close()


def from_arrays(source: OneMetric, text: str) -> None:
    for _ in range(METRICS):
        run_range(
            parse_promql(text),
            text,
            source,
            start_ms=WINDOW_MS,
            end_ms=WINDOW_MS + HOUR_MS - 1,
            step_ms=HOUR_MS // STEPS,
        )


def fill(database: Database) -> None:
    for metric in range(METRICS):
        columns = "ts TIMESTAMP(3) TIME INDEX, tsdb_value DOUBLE, host STRING, zone STRING, PRIMARY KEY (host, zone)"
        list(database.execute(f"CREATE TABLE m_{metric} ({columns})", Session()))
        numbers = np.arange(SERIES)
        for step in range(0, SAMPLES, 20):
            steps = np.arange(step, min(step + 20, SAMPLES))
            rows = np.repeat(numbers, len(steps))
            frame = pa.table(
                {
                    "ts": pa.array(np.tile(steps * EVERY_MS, SERIES), pa.timestamp("ms")),
                    "tsdb_value": np.tile(steps * 3.5, SERIES),
                    "host": pa.DictionaryArray.from_arrays(rows, [f"host_{each}" for each in numbers]).cast(
                        pa.string()
                    ),
                    "zone": pa.DictionaryArray.from_arrays(rows % 10, [f"zone_{each}" for each in range(10)]).cast(
                        pa.string()
                    ),
                }
            )
            database.write("public", f"m_{metric}", frame, Session(), tags=["host", "zone"], time="ts")


def from_database(database: Database, text: str) -> None:
    span = QueryTimes(WINDOW_MS, WINDOW_MS + HOUR_MS - 1, HOUR_MS // STEPS)
    for metric in range(METRICS):
        database.promql.run(text.format(metric), Session(), span)
