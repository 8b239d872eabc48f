"""PromQL over tables: which ones a selector means, which of their columns, and what comes back as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tsdb
from tsdb.embedded import Connection
from tsdb.errors import InvalidArguments, InvalidSyntax, TsdbError, Unsupported


@pytest.fixture
def db() -> Iterator[Connection]:
    with tsdb.connect() as connection:
        connection.sql("CREATE TABLE cpu (host STRING, ts TIMESTAMP(3) TIME INDEX, val DOUBLE, PRIMARY KEY (host))")
        connection.sql("INSERT INTO cpu VALUES ('a', 0, 1), ('b', 0, 2), ('a', 10000, 3), ('b', 10000, 4)")
        connection.sql(
            "CREATE TABLE disk (ts TIMESTAMP(0) TIME INDEX, host STRING PRIMARY KEY, "
            "used BIGINT, free DOUBLE, note STRING)"
        )
        connection.sql("INSERT INTO disk VALUES (0, 'a', 10, 1.5, 'x'), (10, 'a', 20, NULL, 'y')")
        yield connection


def rows(db: Connection, text: str) -> list[dict[str, Any]]:
    return db.sql(text).arrow().to_pylist()


def columns(db: Connection, text: str) -> list[str]:
    return db.sql(text).column_names


def test_a_selector_keeps_the_columns_of_its_table(db: Connection) -> None:
    assert columns(db, "TQL EVAL (0, 10, '10s') cpu") == ["host", "ts", "val"]
    found = rows(db, "TQL EVAL (0, 10, '10s') cpu{host='a'}")
    assert [(row["host"], row["val"]) for row in found] == [("a", 1), ("a", 3)]


def test_what_is_computed_is_called_after_the_computation(db: Connection) -> None:
    assert columns(db, "TQL EVAL (0, 10, '10s') rate(cpu[10s])") == [
        "ts",
        "prom_rate(ts_range,val,ts,Int64(10000))",
        "host",
    ]
    assert columns(db, "TQL EVAL (0, 10, '10s') sum by (host) (cpu)") == ["host", "ts", "sum(cpu.val)"]
    assert columns(db, "TQL EVAL (0, 10, '10s') cpu * 2 AS twice") == ["twice", "host", "ts"]
    assert columns(db, "TQL EVAL (0, 10, '10s') 1 + 1") == ["time", "value"]


def test_every_field_that_is_a_number_is_a_value(db: Connection) -> None:
    found = rows(db, "TQL EVAL (0, 10, '10s') disk")
    assert [(row["used"], row["free"]) for row in found] == [(10, 1.5), (20, 1.5)]
    found = rows(db, "TQL EVAL (0, 10, '10s') disk{__field__='used'}")
    assert list(found[0]) == ["used", "host", "ts"]
    assert columns(db, "TQL EVAL (0, 10, '10s') sum(disk)") == ["ts", "sum(disk.used)", "sum(disk.free)"]
    with pytest.raises(Unsupported, match="Multi fields"):
        db.sql("TQL EVAL (0, 10, '10s') group(disk)")


def test_a_matcher_can_choose_the_database(db: Connection) -> None:
    db.sql("CREATE DATABASE other")
    db.sql("CREATE TABLE other.mem (ts TIMESTAMP TIME INDEX, val DOUBLE)")
    db.sql("INSERT INTO other.mem VALUES (0, 7)")
    assert rows(db, "TQL EVAL (0, 0, '1s') mem") == []
    assert rows(db, "TQL EVAL (0, 0, '1s') mem{__schema__='other'}")[0]["val"] == 7
    with pytest.raises(InvalidArguments, match="can only be matched with ="):
        db.sql("TQL EVAL (0, 0, '1s') mem{__database__=~'o.*'}")


def test_a_label_that_a_table_lacks_is_empty(db: Connection) -> None:
    assert len(rows(db, "TQL EVAL (0, 0, '1s') cpu{nothing=''}")) == 2
    assert rows(db, "TQL EVAL (0, 0, '1s') cpu{nothing='x'}") == []
    assert len(rows(db, "TQL EVAL (0, 0, '1s') cpu{host=~'a|b', host!~'b'}")) == 1


def test_samples_are_found_in_files_as_well_as_in_memory(db: Connection) -> None:
    before = rows(db, "TQL EVAL (0, 20, '5s') cpu + 1")
    db.flush("cpu")
    db.sql("INSERT INTO cpu VALUES ('a', 0, 1)")
    assert rows(db, "TQL EVAL (0, 20, '5s') cpu + 1") == before


def test_all_tables_but_physical_ones_are_found_by_any_condition_on_their_name(db: Connection) -> None:
    db.sql(
        "CREATE TABLE phy (ts TIMESTAMP(3) TIME INDEX, tsdb_value DOUBLE) "
        "ENGINE=metric WITH (physical_metric_table='true')"
    )
    for name in ("m_one", "m_two"):
        db.sql(
            f"CREATE TABLE {name} (ts TIMESTAMP(3) TIME INDEX, tsdb_value DOUBLE, job STRING PRIMARY KEY) "
            "ENGINE=metric WITH (on_physical_table='phy')"
        )
        db.sql(f"INSERT INTO {name} (ts, tsdb_value, job) VALUES (0, 1, 'x'), (0, 2, 'y')")
    assert rows(db, "TQL EVAL (0, 0, '1s') sum({__name__=~'m_.*', job='y'})")[0]["sum(value)"] == 4
    db.sql("CREATE TABLE words (ts TIMESTAMP TIME INDEX, said STRING)")
    db.sql("INSERT INTO words VALUES (0, 'x')")
    assert rows(db, "TQL EVAL (0, 0, '1s') count({__name__=~'m_.+'})")[0]["count(value)"] == 4
    # Two series of cpu and one of disk.
    assert rows(db, "TQL EVAL (0, 0, '1s') count({__name__=~'.+'})")[0]["count(value)"] == 7
    assert rows(db, "TQL EVAL (0, 0, '1s') count({host='a'})")[0]["count(value)"] == 2


def test_times_may_be_numbers_texts_and_expressions(db: Connection) -> None:
    wanted = rows(db, "TQL EVAL (0, 10, 5) cpu")
    assert rows(db, "TQL EVAL ('1970-01-01T00:00:00Z', '1970-01-01 00:00:10', '5s') cpu") == wanted
    assert rows(db, "TQL EVAL (to_timestamp(0), to_timestamp(5) + INTERVAL '5 seconds', '5s') cpu") == wanted
    assert rows(db, "TQL EVAL (0, 10, '5s', '1s') cpu{host='a'}") == [
        row for row in wanted if row["host"] == "a" and row["ts"].second != 5
    ]


@pytest.mark.parametrize("parameters", ["'x', 1, 1", "0, 1, 0", "0, 1, '-5s'", "0, 1e300, 1", "0, 1e9, '1ms'"])
def test_wrong_parameters_are_refused(db: Connection, parameters: str) -> None:
    with pytest.raises(InvalidArguments):
        db.sql(f"TQL EVAL ({parameters}) cpu")


def test_tql_can_be_read_in_a_query(db: Connection) -> None:
    found = rows(
        db,
        "WITH x (t, v) AS (TQL EVAL (0, 10, '10s') sum(cpu)), y AS (SELECT v * 10 AS w FROM x) "
        "SELECT max(w) AS m FROM y",
    )
    assert found == [{"m": 70}]
    found = rows(db, "WITH x AS (TQL EVAL (0, 0, '1s') cpu{host=~\"(a|b)\"}) SELECT count(*) AS n FROM x")
    assert found == [{"n": 2}]
    with pytest.raises(InvalidSyntax, match="Only TQL EVAL"):
        db.sql("WITH x AS (TQL EXPLAIN (0, 0, '1s') cpu) SELECT * FROM x")
    with pytest.raises(InvalidArguments, match="names are given"):
        db.sql("WITH x (a, b, c, d, e) AS (TQL EVAL (0, 0, '1s') cpu) SELECT * FROM x")


def test_plans_are_shown(db: Connection) -> None:
    assert columns(db, "TQL EXPLAIN sum(cpu)") == ["plan_type", "plan"]
    analyzed = rows(db, "TQL ANALYZE (0, 10, '10s') cpu")
    assert analyzed[-1] == {"stage": None, "node": None, "plan": "Total rows: 4"}


def test_python_asks_with_numbers_or_datetimes(db: Connection) -> None:
    assert db.promql("sum(cpu)", 0, 10, "5s").arrow().num_rows == 3
    assert db.promql("sum(cpu)", 0).arrow().to_pylist()[0]["sum(cpu.val)"] == 3
    with pytest.raises(TsdbError, match="step"):
        db.promql("cpu", 0, 10, "nonsense")
