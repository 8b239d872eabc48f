"""What PromQL keeps of series over readers that encode everything."""

from __future__ import annotations

from collections import Counter

from tests.query.promql.test_series_index import *  # noqa: F403
from tests.query.promql.test_series_index import db, select, source  # noqa: F401
from tsdb.embedded import Connection
from tsdb.query.promql._series_index import SeriesIndexes


def test_labels_that_are_held_do_not_travel_again(db: Connection, verbs: Counter[str]) -> None:  # noqa: F811
    verbs.clear()
    series = source(db, SeriesIndexes())
    for _ in range(3):
        assert select(series, 'cpu{host="a"}') == {"a": [2]}
    assert (verbs["known_series"], verbs["held_series"]) == (3, 2)
    db.sql("INSERT INTO cpu VALUES ('d', 'x', 0, 7)")
    assert select(series, 'cpu{host="d"}') == {"d": [7]}
    assert (verbs["known_series"], verbs["held_series"]) == (4, 2)
