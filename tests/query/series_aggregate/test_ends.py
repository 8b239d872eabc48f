"""The newest and the oldest rows of groups: from the ends of series, and of no more files than can have them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.query.harness import BIGINT, DOUBLE, STRING, World, world
from tsdb.model import DataType, Kind
from tsdb.query import Session, read_all
from tsdb.query.series_aggregate import AggregateRecords

NANOS = DataType(Kind.TIMESTAMP_NANOSECOND)
HOUR = 3_600_000_000_000
HOSTS = [f"h{number}" for number in range(8)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three files, one after the other in time but for a late row, and no memtable."""
    with world(tmp_path_factory.mktemp("ends")) as found:
        columns = [("ts", NANOS), ("host", STRING), ("dc", STRING), ("f", DOUBLE), ("n", BIGINT), ("s", STRING)]
        table = found.create("t", columns, tags=["host", "dc"])
        for part in range(3):
            found.put(
                table, [make_row(host, 10 * part + at) for at in range(10) for host in range(8) if part < 2 or host]
            )
            if part == 1:
                found.put(table, [make_row(3, 5, is_late=True)])
            found.flush(table)
        yield found


def make_row(host: int, hour: int, *, is_late: bool = False) -> dict[str, object]:
    number = host * 1000 + hour
    return {
        "host": HOSTS[host],
        "dc": "xy"[host % 2],
        "ts": hour * HOUR + host,
        "f": None if hour % 7 == 2 else number / 4,
        "n": -number if is_late else number * number,
        "s": f"s{number}",
    }


def ask(made: World, text: str, *, is_on: bool = True) -> tuple[pa.Table, AggregateRecords | None]:
    session = Session()
    session.variables["series_aggregate"] = "on" if is_on else "off"
    records = made.queries.query(text, session)
    assert isinstance(records, AggregateRecords) == is_on, text
    return read_all(records), records if isinstance(records, AggregateRecords) else None


@pytest.mark.parametrize("keys", ["host, dc", "host", "dc", "dc, host"])
@pytest.mark.parametrize("function", ["last_value", "first_value"])
@pytest.mark.parametrize("way", ["", " DESC"])
@pytest.mark.parametrize(
    "where",
    [
        "",
        f" WHERE ts < {15 * HOUR}",
        f" WHERE ts >= {5 * HOUR}",
        f" WHERE ts >= {12 * HOUR} AND ts < {13 * HOUR}",
        " WHERE host IN ('h0', 'h3')",
        " WHERE host = 'h0' AND ts > 5",
        " WHERE n < 400000",
        f" WHERE ts > {99 * HOUR}",
    ],
)
def test_ends_are_what_the_planner_says(made: World, keys: str, function: str, way: str, where: str) -> None:
    values = ", ".join(f"{function}({column} ORDER BY ts{way})" for column in ("f", "n", "s", "ts"))
    text = f"SELECT {keys}, {values} FROM t{where} GROUP BY {keys} ORDER BY {keys}"
    for _ in range(2):
        found, _ = ask(made, text)
        assert found.equals(ask(made, text, is_on=False)[0])


def test_the_newest_rows_are_read_of_the_newest_file_and_stay_in_memory(made: World) -> None:
    text = "SELECT host, last_value(n ORDER BY ts) FROM t WHERE host <> 'h0' GROUP BY host"
    misses = []
    for _ in range(2):
        _, records = ask(made, text)
        assert records is not None
        statistics = records.scans[0].regions.opened[0].statistics()
        misses.append(statistics["vector_misses"])
        assert statistics["rows_read"] == 7
    assert misses[1] == 0


def test_rows_are_counted_where_that_is_asked_for(made: World) -> None:
    text = "SELECT host, last_value(n ORDER BY ts), count(*) FROM t GROUP BY host ORDER BY host"
    found, _ = ask(made, text)
    assert found.equals(ask(made, text, is_on=False)[0])
    assert found.column(2).to_pylist() == [20, 30, 30, 30, 30, 30, 30, 30]
