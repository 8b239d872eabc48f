"""Aggregates over the labels of a metric: its rows lie by series in a region that it shares with others."""

from __future__ import annotations

from pathlib import Path

from tests.query.harness import world
from tests.query.series_aggregate.tables import MetricPast, Step
from tests.query.series_aggregate.test_differential import check_same
from tsdb.model import RegionOptions
from tsdb.query import Session, read_all
from tsdb.query.series_aggregate import AggregateRecords

ROWS = tuple(
    {"host": host, "dc": "x", "ts": at * 60_000, "f": float(at)} for host in ("a", "b", None) for at in range(90)
)


def test_runs_answer_aggregates_over_labels_without_reading_rows(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        past = MetricPast(made, RegionOptions())
        past.go_through(Step("put", ROWS))
        past.go_through(Step("flush"))
        text = f"SELECT host, date_trunc('hour', ts), avg(f), count(*) FROM {past.name} GROUP BY 1, 2 ORDER BY 1, 2"
        records = made.queries.query(text, Session())
        assert isinstance(records, AggregateRecords)
        assert read_all(records).num_rows == 6
        assert (records.statistics.pieces, records.statistics.blocks) == (1, 0)
        check_same(made, text, is_ordered=True)
        check_same(made, f"SELECT max(f) FROM {past.name} WHERE host = 'b' AND ts < 600000", is_ordered=False)
