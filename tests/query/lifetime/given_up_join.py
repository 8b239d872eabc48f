"""A program: a cross join in this process is given up at its deadline, ends, and leaves the process list."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.query.harness import world
from tests.query.lifetime.test_planning_threads import FakeStatement, wait_until
from tsdb.errors import DeadlineExceeded
from tsdb.query import Session
from tsdb.units import Duration

TEXT = "SELECT count(*) FROM generate_series(1, 15000) a, generate_series(1, 15000) b"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, world(Path(directory)) as made:
        statement = FakeStatement()
        try:
            list(made.queries.query(TEXT, Session(timeout=Duration.parse("10ms"), statement=statement)))
        except DeadlineExceeded:
            wait_until(lambda: made.queries._planner.unfinished.count == 0)
            assert statement.holds == 0
        else:
            raise AssertionError("the query had an answer before its deadline")


if __name__ == "__main__":
    main()
