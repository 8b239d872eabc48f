"""What our own work on a query's text costs, beside DataFusion's planning of it.

Three shapes: a point query, a grouped one, and one with a CTE, a join and a window. Ours is the parser, the lexer, the
limits and the edits; DataFusion's is parsing, the logical plan, the optimiser and the physical plan, all of it with our
tables behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import tsdb
from benchmarks import Measurement, measure
from benchmarks.sql._shapes import SHAPES, TABLE
from tsdb.database import Session
from tsdb.sql import Dialect, parse, tokenize

REPEATS = 200


def main() -> Iterator[Measurement]:
    with tsdb.connect() as db:
        db.sql(TABLE)
        planner = db._database().services.queries._planner
        for name, text in SHAPES.items():
            yield per_call(f"{name}: parser, lexer, limits, edits", lambda text=text: ours(planner, text))
            job = planner.prepare(text, tokenize(text, Dialect.GENERIC), Session(), {})

            def plan(job: object = job) -> None:
                planned = planner.plan(job)
                planned.frame.execution_plan()
                planned.life.end()

            yield per_call(f"{name}: DataFusion's planning", plan)


def ours(planner: object, text: str) -> None:
    parse(text + " ", Dialect.GENERIC)
    planner.prepare(text, tokenize(text, Dialect.GENERIC), Session(), {})  # type: ignore[attr-defined]


def per_call(what: str, work: Callable[[], object]) -> Measurement:
    def many() -> None:
        for _ in range(REPEATS):
            work()

    best = measure(what, many, amount=REPEATS, unit="queries", repeats=5)
    return Measurement(what, best.seconds / REPEATS, 1, "queries")
