"""Numbers of every type: read from files and, the second time, from memory as they were decoded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.query.harness import MILLIS, STRING, World, world
from tsdb.model import DataType, Kind
from tsdb.query import Session, read_all
from tsdb.query.series_aggregate import AggregateRecords

KINDS = [
    Kind.INT8,
    Kind.INT16,
    Kind.INT32,
    Kind.INT64,
    Kind.UINT8,
    Kind.UINT16,
    Kind.UINT32,
    Kind.UINT64,
    Kind.FLOAT32,
    Kind.FLOAT64,
]


def _ask(made: World, text: str, *, is_on: bool) -> list[dict[str, object]]:
    session = Session()
    session.variables["series_aggregate"] = "on" if is_on else "off"
    records = made.queries.query(text, session)
    assert isinstance(records, AggregateRecords) == is_on
    found: list[dict[str, object]] = read_all(records).to_pylist()
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.value)
def test_aggregates_of_every_type(tmp_path: Path, kind: Kind) -> None:
    with world(tmp_path) as made:
        columns = [("host", STRING), ("ts", MILLIS), ("v", DataType(kind)), ("gaps", DataType(kind))]
        table = made.create("t", columns, tags=["host"])
        for first in (0, 500):
            rows = [
                {"host": f"h{at % 3}", "ts": first + at, "v": at % 101, "gaps": at % 7 if at % 3 else None}
                for at in range(500)
            ]
            made.put(table, rows)
            made.flush(table)
        made.put(table, [{"host": "h0", "ts": 2000, "v": 120, "gaps": 1}])
        terms = ", ".join(
            f"{name}({column})" for name in ("count", "sum", "avg", "min", "max") for column in ("v", "gaps")
        )
        text = f"SELECT host, {terms}, max(ts) FROM t WHERE ts >= 100 GROUP BY host ORDER BY host"
        expected = _ask(made, text, is_on=False)
        assert [_ask(made, text, is_on=True) for _ in range(3)] == [expected] * 3
        assert len(expected) == 3
