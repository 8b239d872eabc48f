"""Aggregates from runs as data grows: twice the rows, and one series among few or many.

The figures that should hold: twice the rows take at most 2.1 times as long, and one series of 100,000 at most twice as
long as one of 400. Statements differ in their literals each time, as those of dashboards do.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import tsdb
from benchmarks import Measurement, measure

START_MS = 1_700_000_000_000
STEP_MS = 10_000
HOUR_MS = 3_600_000
HOURS = 6
FIELDS = tuple(f"usage_{number}" for number in range(5))
FEW, MANY = 400, 100_000


def main() -> Iterator[Measurement]:
    for times in (1, 2):
        with tempfile.TemporaryDirectory() as name, tsdb.connect(Path(name)) as db:
            steps = times * HOURS * HOUR_MS // STEP_MS
            fill(db, hosts=FEW, steps=steps)
            means = ", ".join(f"avg({field})" for field in FIELDS)
            text = f"SELECT host, date_trunc('hour', ts) AS b, {means} FROM cpu GROUP BY 1, 2"
            yield measure(
                f"means of five fields by host and hour, {FEW * steps:,} rows",
                lambda text=text, db=db: db.sql(text),  # type: ignore[misc]
                amount=FEW * steps,
                repeats=15,
            )
    for hosts in (FEW, MANY):
        with tempfile.TemporaryDirectory() as name, tsdb.connect(Path(name)) as db:
            # Few enough bytes for one data file in either case.
            fill(db, hosts=hosts, steps=18, fields=FIELDS[:1])
            numbers = itertools.cycle(range(0, hosts, 7))

            def ask(numbers: Iterator[int] = numbers, db: tsdb.Connection = db) -> None:
                host = next(numbers)
                db.sql(
                    f"SELECT date_trunc('minute', ts) AS b, max(usage_0) FROM cpu WHERE host = 'host_{host}' "
                    f"AND ts >= {START_MS} AND ts < {START_MS + HOUR_MS} GROUP BY 1 ORDER BY 1"
                )

            ask()
            yield measure(f"one of {hosts:,} series by minute", ask, amount=18, repeats=300)


def fill(db: tsdb.Connection, *, hosts: int, steps: int, fields: tuple[str, ...] = FIELDS) -> None:
    random = np.random.default_rng(1)
    names = [f"host_{number}" for number in range(hosts)]
    batch = max(1, 400_000 // hosts)
    for step in range(0, steps, batch):
        count = min(batch, steps - step)
        columns = {"host": pa.array(names * count)}
        columns["ts"] = pa.array(
            START_MS + np.repeat(np.arange(step, step + count), hosts) * STEP_MS, pa.timestamp("ms")
        )
        columns |= {field: pa.array((random.random(hosts * count) * 100).round(2)) for field in fields}
        db.write("cpu", pa.table(columns), tags=["host"])
    db.sql("ADMIN flush_table('cpu')")
