"""Frames of the caller and files in queries."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tsdb

module_frame = pd.DataFrame({"a": [10, 20]})


def test_frames_of_the_caller_are_found_by_their_names() -> None:
    owners = pd.DataFrame({"host": ["a", "b"], "owner": ["ann", "bob"]})
    lazy = pl.LazyFrame({"host": ["a"], "dc": ["x"]})
    arrow = pa.table({"host": ["b"]})
    with tsdb.connect() as db:
        assert db.sql("SELECT owner FROM owners WHERE host = 'b'").scalar() == "bob"
        assert db.sql("SELECT o.owner, l.dc FROM owners o JOIN lazy l USING (host)").fetchall() == [("ann", "x")]
        assert db.sql("SELECT sum(a) FROM module_frame").scalar() == 30
        before = db.sql("SELECT host FROM arrow")
        assert db.sql("SELECT count(*) FROM before").scalar() == len(before)
    assert len(owners) == 2
    assert lazy is not None
    assert arrow.num_rows == 1


def test_a_table_wins_over_a_variable_and_other_values_are_no_tables() -> None:
    cpu = pd.DataFrame({"a": [1]})
    number = 5
    with tsdb.connect() as db:
        db.sql("CREATE TABLE cpu (ts TIMESTAMP TIME INDEX, v BIGINT)")
        assert db.sql("SELECT count(*) FROM cpu").scalar() == 0
        with pytest.raises(tsdb.TsdbError) as caught:
            db.sql("SELECT * FROM number")
        assert caught.value.status is tsdb.Status.TABLE_NOT_FOUND
    assert len(cpu) == 1
    assert number == 5


def test_frames_of_the_caller_can_be_inserted() -> None:
    rows = pl.DataFrame({"ts": [datetime(2024, 1, 1)], "v": [7]})
    with tsdb.connect() as db:
        db.sql("CREATE TABLE t (ts TIMESTAMP TIME INDEX, v BIGINT)")
        assert db.sql("INSERT INTO t SELECT ts, v FROM rows").affected_rows == 1
        assert db.sql("SELECT v FROM t").scalar() == 7
    assert rows.height == 1


@pytest.fixture
def files(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "x1.parquet")
    pq.write_table(pa.table({"a": [3]}), tmp_path / "x2.parquet")
    (tmp_path / "y.csv").write_text("a,b\n1,x\n2,y\n")
    (tmp_path / "z.jsonl").write_text('{"a": 5}\n{"a": 6}\n')
    return tmp_path


def test_files_are_read(files: Path) -> None:
    with tsdb.connect() as db:
        assert len(db.read_parquet(files / "x1.parquet")) == 2
        assert db.read_parquet(str(files / "x*.parquet")).to_numpy()["a"].tolist() == [1, 2, 3]
        assert len(db.read_parquet([files / "x1.parquet", files / "x2.parquet"])) == 3
        assert db.read_csv(files / "y.csv").column_names == ["a", "b"]
        assert db.read_json(files / "z.jsonl").fetchall() == [(5,), (6,)]
        for missing in (files / "none.parquet", files / "none-*.parquet"):
            with pytest.raises(tsdb.InvalidArguments, match="none"):
                db.read_parquet(missing)
        with pytest.raises(tsdb.InvalidArguments, match="cannot read"):
            db.read_parquet(files / "y.csv")


def test_queries_read_files_in_from(files: Path) -> None:
    with tsdb.connect() as db:
        assert db.sql(f"SELECT sum(a) FROM '{files}/x*.parquet'").scalar() == 6
        joined = (
            f"SELECT f.b FROM read_csv('{files}/y.csv') AS f JOIN '{files}/x1.parquet' AS g ON f.a = g.a ORDER BY f.a"
        )
        assert db.sql(joined).fetchall() == [("x",), ("y",)]
        assert db.sql("SELECT 'x.parquet' AS name").scalar() == "x.parquet"


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_copy_reads_and_writes_files_of_the_database(kind: str, tmp_path: Path) -> None:
    with tsdb.connect(tmp_path / "home") as db:
        db.sql("CREATE TABLE t (ts TIMESTAMP TIME INDEX, v BIGINT)")
        db.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
        assert db.sql(f"COPY t TO 'x.{kind}' WITH (format = '{kind}')").affected_rows == 2
        assert (tmp_path / "home" / "copy" / f"x.{kind}").is_file()
        db.sql("TRUNCATE t")
        both = f"COPY t FROM 'x.{kind}' WITH (format = '{kind}'); SELECT sum(v) FROM t"
        assert db.sql(both).scalar() == 30
        assert db.sql(f"SELECT sum(v) FROM '{tmp_path}/home/copy/x.{kind}'").scalar() == 30
        assert db.sql(f"/* again */ copy t from 'x.{kind}' WITH (format = '{kind}')").affected_rows == 2


def test_a_result_is_written_as_it_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"host": ["a"], "ts": [datetime(2024, 1, 1)], "v": [1.0]}), tmp_path / "x.parquet")
    with tsdb.connect() as db:
        assert db.write("cpu", db.read_parquet(tmp_path / "x.parquet"), tags="host") == 1
        assert db.sql("SELECT host, v FROM cpu").fetchall() == [("a", 1.0)]
