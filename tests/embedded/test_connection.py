"""The database inside a Python program."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tsdb
from tests.server_process import running

ROWS: list[dict[str, Any]] = [
    {"host": "a", "ts": datetime(2024, 1, 1), "usage": 0.5},
    {"host": "b", "ts": datetime(2024, 1, 1), "usage": 0.7},
]
FRAMES = {
    "dictionaries": ROWS,
    "columns": {name: [row[name] for row in ROWS] for name in ROWS[0]},
    "arrow": pa.Table.from_pylist(ROWS),
    "batch": pa.RecordBatch.from_pylist(ROWS),
    "pandas": pd.DataFrame(ROWS),
    "pandas with the time as index": pd.DataFrame(ROWS).set_index("ts"),
    "polars": pl.DataFrame(ROWS),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_every_kind_of_frame_is_written(frame: Any) -> None:
    with tsdb.connect(":memory:") as db:
        assert db.write("cpu", frame, tags=["host"]) == 2
        assert db.sql("SELECT host, usage FROM cpu").fetchall() == [("a", 0.5), ("b", 0.7)]


def test_a_directory_is_there_again_after_it_was_closed(tmp_path: Path) -> None:
    with tsdb.connect(tmp_path / "d") as db:
        db.write("cpu", ROWS, tags=["host"])
    with tsdb.connect(tmp_path / "d") as db:
        assert db.sql("SELECT count(*) FROM cpu").scalar() == 2


def test_a_directory_is_open_once_only(tmp_path: Path) -> None:
    with tsdb.connect(tmp_path), pytest.raises(tsdb.TsdbError, match="in use"):
        tsdb.connect(tmp_path)


def test_a_table_gets_the_columns_that_come() -> None:
    with tsdb.connect() as db:
        db.write("cpu", ROWS, tags=["host"])
        later = [{"host": "c", "dc": "x", "ts": datetime(2024, 1, 2), "usage": 1, "cores": 8}]
        db.write("cpu", later, tags=["host", "dc"])
        rows = db.sql("SELECT host, dc, usage, cores FROM cpu ORDER BY host").fetchall()
        assert rows == [("a", None, 0.5, None), ("b", None, 0.7, None), ("c", "x", 1.0, 8)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([{"host": "a", "usage": 1.0}], "'ts'"),
        ([{"host": "a", "ts": 5}], "not timestamps"),
        ([{"host": "a", "ts": None}], "timestamps"),
        ([{"host": "a", "ts": datetime(2024, 1, 1), "usage": "high"}], "Float64"),
        ([{"host": "a", "ts": datetime(2024, 1, 1), "usage": [1]}], "which tables do not support"),
        (42, "int"),
    ],
)
def test_data_that_does_not_fit_is_refused_and_changes_nothing(data: Any, words: str) -> None:
    with tsdb.connect() as db:
        db.write("cpu", ROWS, tags=["host"])
        with pytest.raises(tsdb.InvalidArguments, match=words):
            db.write("cpu", data, tags=["host"])
        assert db.sql("SELECT count(*) FROM cpu").scalar() == 2


def test_times_with_a_zone_are_instants() -> None:
    with tsdb.connect() as db:
        frame = pd.DataFrame({"ts": pd.to_datetime(["2024-01-01 08:00"]).tz_localize("Asia/Shanghai"), "v": [1.0]})
        db.write("t", frame)
        assert db.sql("SELECT ts FROM t").scalar() == datetime(2024, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def test_what_a_statement_chooses_holds_for_the_next_call() -> None:
    with tsdb.connect() as db:
        db.sql("CREATE DATABASE other; USE other; SET time_zone = '+08:00'")
        db.sql("CREATE TABLE t (ts TIMESTAMP TIME INDEX)")
        db.sql("INSERT INTO t VALUES ('1970-01-01 08:00:00')")
        assert db.sql("SELECT ts FROM other.t").scalar() == datetime(1970, 1, 1)


def test_results_come_in_every_form() -> None:
    with tsdb.connect() as db:
        result = db.sql("SELECT * FROM (VALUES (1, 'x'), (2, NULL)) AS t (a, b)")
        assert list(result) == [(1, "x"), (2, None)]
        assert list(result) == result.fetchall()
        assert result.fetchall() == []
        assert len(result) == 2
        assert list(result.to_pandas()["a"]) == [1, 2]
        assert result.to_polars()["b"].to_list() == ["x", None]
        assert result.arrow().column_names == ["a", "b"]
        assert repr(result).splitlines() == ["a | b", "--+-----", "1 | x", "2 | NULL"]
        assert repr(db.sql("CREATE DATABASE d")) == "<1 rows affected>"


def test_frames_are_read_under_their_names() -> None:
    with tsdb.connect() as db:
        db.register("f", pl.DataFrame({"a": [1, 2]}))
        assert db.sql("SELECT sum(a) FROM f").scalar() == 3
        db.unregister("f")
        with pytest.raises(tsdb.TsdbError) as caught:
            db.sql("SELECT * FROM f")
        assert caught.value.status is tsdb.Status.TABLE_NOT_FOUND
        with pytest.raises(tsdb.InvalidArguments):
            db.unregister("f")


def test_a_closed_connection_says_so() -> None:
    db = tsdb.connect()
    db.close()
    db.close()
    with pytest.raises(tsdb.TsdbError, match="closed"):
        db.sql("SELECT 1")


def test_many_threads_use_one_connection() -> None:
    with tsdb.connect() as db:
        db.sql("CREATE TABLE t (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v BIGINT)")
        failures: list[Exception] = []

        def work(number: int) -> None:
            try:
                for step in range(20):
                    db.sql(f"INSERT INTO t VALUES ('h{number}', {step}, {step})")
                    count = db.sql(f"SELECT count(*) FROM t WHERE host = 'h{number}'").scalar()
                    assert count == step + 1
            except Exception as error:  # noqa: BLE001 - whatever it is, the test tells it
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert db.sql("SELECT count(*), sum(v) FROM t").fetchone() == (120, 6 * sum(range(20)))


def test_a_directory_goes_from_the_program_to_the_server_and_back(tmp_path: Path) -> None:
    with tsdb.connect(tmp_path / "data") as db:
        db.write("cpu", ROWS, tags=["host"])
    with running("standalone", tmp_path) as server:
        answer = httpx.post(server.url + "/v1/sql", data={"sql": "SELECT host, usage FROM cpu"}).json()
        assert answer["output"][0]["records"]["rows"] == [["a", 0.5], ["b", 0.7]]
        httpx.post(
            server.url + "/v1/sql",
            data={"sql": "INSERT INTO cpu (host, ts, usage) VALUES ('c', 1704067200000000, 0.9)"},
        ).raise_for_status()
        assert server.stop() == 0
    with tsdb.connect(tmp_path / "data") as db:
        assert db.sql("SELECT count(*) FROM cpu").scalar() == 3


def test_a_path_may_lie_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with tsdb.connect("~/metrics"):
        assert (tmp_path / "metrics").is_dir()


def test_one_tag_needs_no_list() -> None:
    with tsdb.connect() as db:
        db.write("cpu", ROWS, tags="host")
        keys = db.sql(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'cpu' AND column_key = 'PRI'"
        )
        assert ("host",) in keys.fetchall()


@pytest.mark.parametrize(
    "start",
    [
        1704067260,
        datetime(2024, 1, 1, 0, 1),
        datetime(2024, 1, 1, 0, 1, tzinfo=UTC),
        "2024-01-01 00:01",
        "2024-01-01T00:01:00Z",
    ],
    ids=str,
)
def test_promql_takes_times_in_every_form(start: Any) -> None:
    with tsdb.connect() as db:
        db.write("cpu", ROWS, tags="host")
        assert len(db.promql("cpu", start=start)) == 2
        assert len(db.promql("cpu", start=start, end=start)) == 2
        assert len(db.promql("cpu")) == 0, "now"
