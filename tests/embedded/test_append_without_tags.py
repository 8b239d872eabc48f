"""Rows of a frame without tags are kept side by side: nothing tells which of them are versions of one row."""

from __future__ import annotations

import pyarrow as pa

import tsdb

FRAME = pa.table({"ts": pa.array([1, 1, 2], pa.timestamp("ms")), "v": [1.0, 2.0, 3.0]})


def test_rows_of_the_same_time_are_kept_when_there_are_no_tags() -> None:
    with tsdb.connect() as db:
        assert db.write("t", FRAME) == 3
        assert db.sql("SELECT v FROM t ORDER BY v").arrow().column("v").to_pylist() == [1.0, 2.0, 3.0]
        assert "append_mode = 'true'" in db.sql("SHOW CREATE TABLE t").arrow().column(1)[0].as_py()


def test_tags_make_rows_of_the_same_time_versions_of_one() -> None:
    with tsdb.connect() as db:
        frame = FRAME.append_column("host", pa.array(["a", "a", "a"]))
        assert db.write("t", frame, tags=["host"]) == 3
        assert db.sql("SELECT v FROM t ORDER BY v").arrow().column("v").to_pylist() == [2.0, 3.0]


def test_a_table_that_is_there_keeps_its_mode() -> None:
    with tsdb.connect() as db:
        db.sql("CREATE TABLE t (ts TIMESTAMP TIME INDEX, v DOUBLE)")
        db.write("t", FRAME)
        assert db.sql("SELECT v FROM t ORDER BY v").arrow().column("v").to_pylist() == [2.0, 3.0]
