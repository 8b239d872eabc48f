"""What PromQL keeps of series between queries: always what the tables say now, and never more than its bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tsdb
from tsdb.embedded import Connection
from tsdb.model import Matcher
from tsdb.promql import parse_selector
from tsdb.promql.evaluation import LabelTable
from tsdb.query.promql import TableSeries
from tsdb.query.promql._series_index import Chosen, Selectors, SeriesIndexes


@pytest.fixture
def db() -> Iterator[Connection]:
    with tsdb.connect() as connection:
        connection.sql(
            "CREATE TABLE cpu (host STRING, dc STRING, ts TIMESTAMP(3) TIME INDEX, val DOUBLE, PRIMARY KEY (host, dc))"
        )
        connection.sql("INSERT INTO cpu VALUES ('b', 'x', 0, 1), ('a', 'x', 0, 2), ('c', NULL, 0, 3)")
        yield connection


def source(db: Connection, indexes: SeriesIndexes) -> TableSeries:
    services = db._database().services
    return TableSeries(services.catalog, services.regions, "public", indexes=indexes)


def select(series: TableSeries, text: str, end_ms: int = 100_000) -> dict[str, list[float]]:
    found = series.select(parse_selector(text).matchers, 0, end_ms)
    names = [labels.get("host", "") for labels in found.labels.dicts()]
    bounds = zip(names, found.offsets.tolist(), found.offsets.tolist()[1:], strict=False)
    return {name: found.values[low:high].tolist() for name, low, high in bounds}


def test_conditions_choose_series_in_the_order_of_labels(db: Connection) -> None:
    series = source(db, SeriesIndexes())
    assert list(select(series, "cpu").items()) == [("a", [2]), ("b", [1]), ("c", [3])]
    assert select(series, 'cpu{host=~"a|c"}') == {"a": [2], "c": [3]}
    assert select(series, 'cpu{dc=""}') == {"c": [3]}
    assert select(series, 'cpu{dc!="", host!="a"}') == {"b": [1]}
    assert select(series, 'cpu{rack=""}') == {"a": [2], "b": [1], "c": [3]}
    assert select(series, 'cpu{rack="1"}') == {}
    assert select(series, 'cpu{host="nobody"}') == {}


def test_new_rows_and_new_series_are_seen(db: Connection) -> None:
    series = source(db, SeriesIndexes())
    assert select(series, 'cpu{dc="x"}') == {"a": [2], "b": [1]}
    db.sql("INSERT INTO cpu VALUES ('a', 'x', 1000, 4), ('0', 'x', 0, 5)")
    assert list(select(series, 'cpu{dc="x"}').items()) == [("0", [5]), ("a", [2, 4]), ("b", [1])]
    db.sql("INSERT INTO cpu VALUES ('a', 'x', 1000, 6)")
    assert select(series, 'cpu{host="a"}') == {"a": [2, 6]}
    db.sql("DELETE FROM cpu WHERE host = 'b'")
    assert select(series, 'cpu{dc="x"}') == {"0": [5], "a": [2, 6]}
    db.sql("ADMIN flush_table('cpu')")
    db.sql("INSERT INTO cpu VALUES ('a', 'x', 2000, 7)")
    assert select(series, 'cpu{dc="x"}') == {"0": [5], "a": [2, 6, 7]}
    db.sql("TRUNCATE TABLE cpu")
    assert select(series, "cpu") == {}


def test_files_and_memory_are_read_together(db: Connection) -> None:
    series = source(db, SeriesIndexes())
    db.sql("ADMIN flush_table('cpu')")
    db.sql("INSERT INTO cpu VALUES ('a', 'x', 5000, 4), ('d', 'y', 5000, 5)")
    assert select(series, "cpu") == {"a": [2, 4], "b": [1], "c": [3], "d": [5]}
    assert select(series, "cpu", end_ms=4000) == {"a": [2], "b": [1], "c": [3]}


def test_a_table_that_is_altered_has_the_labels_of_now(db: Connection) -> None:
    series = source(db, SeriesIndexes())
    assert select(series, 'cpu{zone=""}') == {"a": [2], "b": [1], "c": [3]}
    db.sql("ALTER TABLE cpu ADD COLUMN zone STRING PRIMARY KEY")
    db.sql("INSERT INTO cpu (host, dc, zone, ts, val) VALUES ('a', 'x', 'z', 1000, 9)")
    assert select(series, 'cpu{zone="z"}') == {"a": [9]}
    assert select(series, 'cpu{zone="", host="a"}') == {"a": [2]}


def test_series_whose_labels_are_the_same_are_one(db: Connection) -> None:
    db.sql("INSERT INTO cpu VALUES ('c', '', 1000, 4)")
    assert select(source(db, SeriesIndexes()), 'cpu{host="c"}') == {"c": [3, 4]}


def test_a_dropped_table_leaves_nothing_to_its_successor(db: Connection) -> None:
    series = source(db, SeriesIndexes())
    assert select(series, 'cpu{host="a"}') == {"a": [2]}
    db.sql("DROP TABLE cpu")
    db.sql("CREATE TABLE cpu (host STRING, ts TIMESTAMP(3) TIME INDEX, val DOUBLE, PRIMARY KEY (host))")
    db.sql("INSERT INTO cpu VALUES ('a', 0, 8)")
    assert select(series, 'cpu{host="a"}') == {"a": [8]}


def test_indexes_keep_to_their_bound(db: Connection) -> None:
    for number in range(20):
        db.sql(f"CREATE TABLE m{number} (host STRING, ts TIMESTAMP(3) TIME INDEX, val DOUBLE, PRIMARY KEY (host))")
        db.sql(f"INSERT INTO m{number} VALUES ('a', 0, {number}), ('b', 0, 0)")
    indexes = SeriesIndexes(bytes_max=1000)
    series = source(db, indexes)
    for number in [*range(20), *range(20)]:
        assert select(series, f"m{number}")["a"] == [number]
        assert indexes.nbytes <= 1000
    assert indexes.nbytes > 0
    nothing = SeriesIndexes(bytes_max=0)
    assert select(source(db, nothing), "m3")["a"] == [3]
    assert nothing.nbytes == 0


def test_the_selectors_used_last_are_remembered() -> None:
    def chosen(rows: int) -> Chosen:
        return Chosen(np.zeros(rows, np.uint32), LabelTable.of_dicts([{"host": "a"}] * rows))

    def matchers(number: int) -> tuple[Matcher, ...]:
        return parse_selector(f'cpu{{host="{number}"}}').matchers

    selectors = Selectors(count_max=3, cells_max=80)
    for number in range(3):
        selectors.keep(matchers(number), chosen(1))
    first = selectors.find(matchers(0))
    assert first is not None
    selectors.keep(matchers(3), chosen(1))
    assert [selectors.find(matchers(number)) is not None for number in range(4)] == [True, False, True, True]
    assert selectors.find(matchers(0)) is first
    selectors.keep(matchers(4), chosen(6))
    assert selectors.find(matchers(4)) is None, "it would take more than its part"
    for number in range(5, 20):
        selectors.keep(matchers(number), chosen(5))
        assert selectors.cells <= 80
    assert selectors.find(matchers(19)) is not None


def test_labels_without_some_are_made_once() -> None:
    table = LabelTable.of_dicts([{"__name__": "cpu", "host": "a"}, {"__name__": "cpu", "host": "b"}])
    bare = table.without(["__name__"])
    assert bare.dicts() == [{"host": "a"}, {"host": "b"}]
    assert table.without(["__name__", "__unit__"]) is bare
    assert table.without(["host"]).dicts() == [{"__name__": "cpu"}] * 2
    assert table.without([]) is table


def test_the_order_of_labels_is_that_of_their_pairs() -> None:
    sets = [{}, {"a": "2"}, {"a": "1", "b": "1"}, {"b": "0"}, {"a": "1"}, {"c": "x"}, {"a": "1", "c": "0"}]
    table = LabelTable.of_dicts(sets)
    wanted = sorted(range(len(sets)), key=lambda at: sorted(sets[at].items()))
    assert table.order().tolist() == wanted
    ordered = table.take(table.order())
    assert ordered.order().tolist() == list(range(len(sets)))
    wide = LabelTable.of_dicts([{f"l{at:02}": f"{row}{at}" for at in range(40)} for row in range(9, 0, -1)])
    assert wide.order().tolist() == list(range(8, -1, -1))
    assert pa.array(wide.columns["l00"].values).equals(wide.columns["l00"].values.arrow)


@pytest.mark.parametrize("same_in", ["first", "second"])
def test_series_of_one_region_whose_labels_are_the_same_are_one(db: Connection, same_in: str) -> None:
    """A missing tag and an empty one are the same label; the regions that hold nothing of a query decide nothing."""
    db.sql(
        "CREATE TABLE parted (ts TIMESTAMP(3) TIME INDEX, host STRING, zone STRING, val DOUBLE, "
        "PRIMARY KEY (host, zone)) PARTITION ON COLUMNS (host) (host < 'm', host >= 'm')"
    )
    same, other = ("a", "z") if same_in == "first" else ("z", "a")
    db.sql(
        f"INSERT INTO parted VALUES (0, '{same}', '', 1), (10000, '{same}', NULL, 2), (20000, '{same}', '', 3), "
        f"(0, '{other}', 'x', 9)"
    )
    series = source(db, SeriesIndexes())
    for _ in range(2):
        found = series.select(parse_selector(f'parted{{host="{same}"}}').matchers, 0, 100_000)
        assert found.labels.rows == 1
        assert found.values.tolist() == [1, 2, 3]
        assert series.select(parse_selector("parted").matchers, 0, 100_000).labels.rows == 2
