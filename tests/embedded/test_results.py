"""What a result can be read as."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import tsdb


@pytest.fixture(scope="module")
def result() -> tsdb.Result:
    with tsdb.connect() as db:
        return db.sql("SELECT * FROM (VALUES (1, 'x<y', 0.5), (2, NULL, NULL), (3, 'z', 1.5)) AS t (a, b, c)")


def test_rows_are_fetched_one_after_the_other() -> None:
    with tsdb.connect() as db:
        rows = db.sql("SELECT * FROM (VALUES (1), (2), (3), (4), (5)) AS t (a)")
    assert rows.fetchone() == (1,)
    assert rows.fetchmany(2) == [(2,), (3,)]
    assert rows.fetchone() == (4,)
    assert rows.fetchall() == [(5,)]
    assert rows.fetchone() is None
    assert rows.fetchmany(3) == []
    assert len(list(rows)) == 5, "iteration gives all rows, whatever was fetched"
    with pytest.raises(tsdb.InvalidArguments):
        rows.fetchmany(-1)


def test_a_description_names_columns_and_types(result: tsdb.Result) -> None:
    assert [each[:2] for each in result.description] == [("a", "int64"), ("b", "string"), ("c", "double")]
    assert all(len(each) == 7 for each in result.description)


def test_columns_become_numpy_arrays(result: tsdb.Result) -> None:
    columns = result.to_numpy()
    assert columns["a"].tolist() == [1, 2, 3]
    assert columns["b"].tolist() == ["x<y", None, "z"]
    assert np.isnan(columns["c"][1])


def test_other_libraries_read_a_result_as_arrow(result: tsdb.Result) -> None:
    assert pa.table(result).num_rows == 3
    assert pl.DataFrame(result)["a"].to_list() == [1, 2, 3]
    assert result.to_polars(lazy=True).filter(pl.col("a") > 1).collect().height == 2


def test_a_notebook_shows_a_table_with_escaped_cells(result: tsdb.Result) -> None:
    shown = result._repr_html_()
    assert "<th>a</th>" in shown
    assert "<td>x&lt;y</td>" in shown
    assert "<td>NULL</td>" in shown
    assert "more rows" not in shown


def test_a_notebook_shows_the_first_rows_of_many() -> None:
    with tsdb.connect() as db:
        many = db.sql("SELECT * FROM generate_series(1, 30)")
        assert many._repr_html_().count("<tr>") == 21
        assert "10 more rows" in many._repr_html_()
        assert db.sql("CREATE DATABASE d")._repr_html_() == "<p>1 rows affected</p>"


def test_times_become_datetimes() -> None:
    with tsdb.connect() as db:
        assert db.sql("SELECT TIMESTAMP '2024-01-01 12:00:00'").fetchone() == (datetime(2024, 1, 1, 12),)
