"""Writers that are not in step: a query of one host merges nothing, or only what came twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tsdb

HOSTS = 3
STEP_MS = 60_000
STEPS = 24 * 60
HOUR_MS = 3_600_000
FLUSH_STEPS = 4 * 60
QUERY = (
    f"SELECT date_trunc('hour', ts) AS b, max(f), count(*) FROM t WHERE host = 'h1' "
    f"AND ts >= {HOUR_MS} AND ts < {23 * HOUR_MS} GROUP BY 1 ORDER BY 1"
)


def load(connection: tsdb.Connection, lag_steps: int, again: int | None = None) -> None:
    """Write a day by four writers that take turns, the last of which is late; one step may be sent twice."""
    steps = np.arange(STEPS)
    arrivals = steps + steps % 4 * lag_steps // 3
    if again is not None:
        steps, arrivals = np.append(steps, again), np.append(arrivals, again + FLUSH_STEPS)
    order = np.argsort(arrivals, kind="stable")
    steps, arrivals = steps[order], arrivals[order]
    for number in range(arrivals[-1] // FLUSH_STEPS + 1):
        own = steps[arrivals // FLUSH_STEPS == number]
        times = pa.array(np.repeat(own, HOSTS) * STEP_MS, pa.timestamp("ms"))
        names = [f"h{host}" for host in range(HOSTS)] * len(own)
        values = np.repeat(own * 1.5 + number * 1000.0, HOSTS)
        connection.write("t", pa.table({"host": names, "ts": times, "f": values}), tags=["host"])
        connection.sql("ADMIN flush_table('t')")


def segments(connection: tsdb.Connection) -> tuple[int, int, int]:
    """Direct segments, merged ones, and how many rows were read."""
    text = str(connection.sql(f"EXPLAIN ANALYZE {QUERY}").arrow().to_pylist())
    found = re.search(r"segments=(\d+) direct and (\d+) merged, rows_read=(\d+)", text)
    assert found is not None
    return int(found[1]), int(found[2]), int(found[3])


@pytest.fixture
def connection() -> Iterator[tsdb.Connection]:
    with tsdb.connect() as opened:
        yield opened


@pytest.mark.parametrize("lag_steps", [0, 1, 5, 60])
def test_nothing_is_merged_when_writers_are_out_of_step(connection: tsdb.Connection, lag_steps: int) -> None:
    load(connection, lag_steps)
    direct, merged, _ = segments(connection)
    assert direct in (6, 7)
    assert merged == 0
    assert [row["count(*)"] for row in connection.sql(QUERY).arrow().to_pylist()] == [60] * 22


def test_a_row_that_comes_twice_is_merged_alone(connection: tsdb.Connection) -> None:
    load(connection, 5, again=700)
    _, merged, _ = segments(connection)
    assert merged <= 1
    assert [row["count(*)"] for row in connection.sql(QUERY).arrow().to_pylist()] == [60] * 22
    (newest,) = connection.sql(f"SELECT f FROM t WHERE host = 'h1' AND ts = {700 * STEP_MS}").arrow().to_pylist()
    assert newest == {"f": 700 * 1.5 + 3000.0}


def test_a_file_that_shares_no_key_may_lie_between_files_that_do(connection: tsdb.Connection) -> None:
    connection.sql("CREATE TABLE t (host STRING PRIMARY KEY, ts TIMESTAMP(3) TIME INDEX, f DOUBLE)")
    for rows in ("('a', 1, 1), ('b', 1, 1), ('b', 9, 1)", "('b', 5, 2), ('b', 9, 2)", "('a', 20, 3), ('c', 5, 3)"):
        connection.sql(f"INSERT INTO t VALUES {rows}")
        connection.sql("ADMIN flush_table('t')")
    found = connection.sql("SELECT host, sum(f) AS s, count(*) AS n FROM t GROUP BY host ORDER BY host").arrow()
    assert found.to_pylist() == [
        {"host": "a", "s": 4.0, "n": 2},
        {"host": "b", "s": 5.0, "n": 3},
        {"host": "c", "s": 3.0, "n": 1},
    ]
