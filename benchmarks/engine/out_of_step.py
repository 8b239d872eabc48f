"""Queries after a load by four writers that are not in step, beside one by writers that are.

A day of 100 hosts with five fields every 10 s is written in the order in which it would arrive: the writers take turns
with the steps of time, and each of them is a little later than the one before. A flush every four hours leaves rows in
a later file that belong before the end of an earlier one. All loads are asked in turn, in rounds, so that a busy
machine is equally busy for all of them, and CPU time is measured. The goals: out of step by a minute a query takes at
most 1.3 times as long as in step, and at most 1.5 times with one row of a hundred sent twice.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import Measurement
from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import Affected, Database, Session, read_all
from tsdb.query.promql import QueryTimes

START_MS = 1_700_006_400_000
STEP_MS = 10_000
HOUR_MS = 3_600_000
STEPS = 24 * HOUR_MS // STEP_MS
HOSTS = 100
WRITERS = 4
FIELDS = tuple(f"usage_{number}" for number in range(5))
FLUSH_MS = 4 * HOUR_MS
RESENT_MS = 60_000
WRITE_ROWS = 100_000
ROUNDS = 60
WARM_UP = 3

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """How late the last of the writers is, and how many rows are sent once more a minute later."""

    name: str
    lag_ms: int = 0
    part_resent: float = 0.0


LOADS = (
    Load("in step"),
    Load("5 s apart", 5_000),
    Load("1 min apart", 60_000),
    Load("1 h apart", HOUR_MS),
    Load("1 % twice", part_resent=0.01),
)


def main() -> Iterator[Measurement]:
    with ExitStack() as opened:
        loaded = {load.name: open_loaded(load, opened) for load in LOADS}
        seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for _ in range(ROUNDS):
            for name, queries in loaded.items():
                for what, query in queries.items():
                    began = time.process_time()
                    query()
                    seconds[what][name].append(time.process_time() - began)
    for what, by_load in seconds.items():
        in_step = median(by_load[LOADS[0].name])
        for name, own in by_load.items():
            yield Measurement(f"{what}, {name}, CPU: {median(own) / in_step:.2f}", median(own), 1, "queries")


def open_loaded(load: Load, opened: ExitStack) -> dict[str, Callable[[], object]]:
    """Return the queries of a database that has a load and has been asked before."""
    path = opened.enter_context(tempfile.TemporaryDirectory())
    local = open_directory(Path(path), options=LocalOptions(has_housekeeping=False))
    opened.callback(local.close)
    fill(local.database, load)
    queries = make_queries(local.database)
    for query in queries.values():
        for _ in range(WARM_UP):
            query()
    return queries


def fill(database: Database, load: Load) -> None:
    """Write rows in the order of their arrival, with flushes in between."""
    columns = ", ".join(f"{field} DOUBLE" for field in FIELDS)
    run(database, f"CREATE TABLE cpu (host STRING PRIMARY KEY, ts TIMESTAMP(3) TIME INDEX, {columns})")
    arrivals, steps, hosts = arrange(load)
    bounds = np.searchsorted(arrivals, np.arange(0, int(arrivals[-1]) + FLUSH_MS, FLUSH_MS))
    for start, stop in pairwise(bounds.tolist()):
        for first in range(start, stop, WRITE_ROWS):
            rows = slice(first, min(first + WRITE_ROWS, stop))
            database.write("public", "cpu", make_rows(steps[rows], hosts[rows]), Session(), tags=["host"], time="ts")
        run(database, "ADMIN flush_table('cpu')")


def arrange(load: Load) -> tuple[Numbers, Numbers, Numbers]:
    """Return when rows arrive, and the step and the host of each."""
    steps, hosts = np.repeat(np.arange(STEPS), HOSTS), np.tile(np.arange(HOSTS), STEPS)
    arrivals = steps * STEP_MS + steps % WRITERS * load.lag_ms // (WRITERS - 1)
    again = np.flatnonzero(np.random.default_rng(1).random(len(steps)) < load.part_resent)
    every = np.append(np.arange(len(steps)), again)
    arrivals = np.append(arrivals, arrivals[again] + RESENT_MS)
    order = np.argsort(arrivals, kind="stable")
    return arrivals[order], steps[every][order], hosts[every][order]


def make_rows(steps: Numbers, hosts: Numbers) -> pa.Table:
    names = pa.array([f"host_{number}" for number in range(HOSTS)])
    times = pa.array(START_MS + steps * STEP_MS, pa.timestamp("ms"))
    values = {field: pa.array((steps * (at + 3) + hosts * 7) % 101 + 0.5) for at, field in enumerate(FIELDS)}
    return pa.table({"host": names.take(pa.array(hosts)), "ts": times, **values})


def make_queries(database: Database) -> dict[str, Callable[[], object]]:
    span = QueryTimes(START_MS + HOUR_MS, START_MS + 23 * HOUR_MS, HOUR_MS // 2)
    promql = 'sum by (host) (avg_over_time(cpu{__field__="usage_0"}[5m]))'
    return {
        **{what: lambda text=text: run(database, text) for what, text in make_texts().items()},  # type: ignore[misc]
        "PromQL range": lambda: database.promql.run(promql, Session(), span),
    }


def make_texts() -> dict[str, str]:
    start, day = START_MS + HOUR_MS, START_MS + 23 * HOUR_MS
    maxima = ", ".join(f"max({field})" for field in FIELDS)
    means = ", ".join(f"avg({field})" for field in FIELDS)
    eight = ", ".join(f"'host_{number}'" for number in range(40, 48))
    hour = f"ts >= {START_MS + 7 * HOUR_MS + HOUR_MS // 2} AND ts < {START_MS + 8 * HOUR_MS + HOUR_MS // 2}"
    return {
        "one host, 22 hours": f"SELECT date_trunc('hour', ts) AS b, {maxima} FROM cpu "
        f"WHERE host = 'host_7' AND ts >= {start} AND ts < {day} GROUP BY 1 ORDER BY 1",
        "eight hosts, one hour": f"SELECT date_trunc('minute', ts) AS b, {maxima} FROM cpu "
        f"WHERE host IN ({eight}) AND {hour} GROUP BY 1 ORDER BY 1",
        "means by host and hour": f"SELECT host, date_trunc('hour', ts) AS b, {means} FROM cpu GROUP BY 1, 2",
    }


def run(database: Database, text: str) -> list[object]:
    """Run a statement and read all of its answer."""
    outputs = database.execute(text, Session())
    return [output if isinstance(output, Affected) else read_all(output) for output in outputs]
