"""Values for the placeholders of statements."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsdb


@pytest.fixture(scope="module")
def db() -> Iterator[tsdb.Connection]:
    with tsdb.connect() as connection:
        connection.sql(
            "CREATE TABLE cpu (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, usage DOUBLE, cores BIGINT)"
        )
        connection.sql(
            "INSERT INTO cpu VALUES ('a', '2024-01-01 00:00:00', 0.5, 8), ('b', '2024-01-02 00:00:00', 0.7, 16)"
        )
        yield connection


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -5,
        2**62,
        0.1,
        -1e300,
        float("inf"),
        'it\'s; -- \\ "quoted"',
        b"\x00\xff",
        datetime(2024, 1, 1, 12, 30, 15, 123456),
        date(1969, 12, 31),
        Decimal("12.50"),
        [1, 2, 3],
    ],
    ids=repr,
)
def test_a_value_comes_back_as_it_went_in(db: tsdb.Connection, value: Any) -> None:
    assert db.sql("SELECT ? AS v", [value]).scalar() == value
    assert db.sql("SELECT $v AS v", {"v": value}).scalar() == value


@given(text=st.text())
def test_no_text_is_anything_but_a_value(db: tsdb.Connection, text: str) -> None:
    assert db.sql("SELECT $1 AS v, $1 AS w", [text]).fetchone() == (text, text)


def test_other_values_are_read_as_what_they_mean(db: tsdb.Connection) -> None:
    number = uuid.uuid4()
    assert db.sql("SELECT ?", [number]).scalar() == str(number)
    assert db.sql("SELECT ?", [np.int32(7)]).scalar() == 7
    assert db.sql("SELECT ?", [np.float64(0.5)]).scalar() == 0.5
    assert db.sql("SELECT ?", [pd.Timestamp("2024-01-01", tz="Europe/Berlin")]).scalar() == datetime(2023, 12, 31, 23)
    zone = timezone(timedelta(hours=2))
    assert db.sql("SELECT ?", [datetime(2024, 1, 1, 2, tzinfo=zone)]).scalar() == datetime(2024, 1, 1)
    span = db.sql("SELECT count(*) FROM cpu WHERE ts > ? - ?", [datetime(2024, 1, 2, tzinfo=UTC), timedelta(hours=1)])
    assert span.scalar() == 1


def test_conditions_take_values(db: tsdb.Connection) -> None:
    assert db.sql("SELECT usage FROM cpu WHERE host = ?", ["a"]).fetchall() == [(0.5,)]
    assert db.sql("SELECT host FROM cpu WHERE ts >= $from", {"from": datetime(2024, 1, 2)}).fetchall() == [("b",)]
    assert db.sql("SELECT host FROM cpu WHERE cores IN ($1, $2) ORDER BY host LIMIT $1", [8, 16]).fetchall() == [
        ("a",),
        ("b",),
    ]


def test_rows_are_inserted_and_deleted_by_values(db: tsdb.Connection) -> None:
    insert = "INSERT INTO cpu (host, ts, usage, cores) VALUES (?, ?, ?, ?)"
    assert db.sql(insert, ["o'c", datetime(2024, 2, 1), 1.5, None]).affected_rows == 1
    assert db.sql("SELECT ts, usage, cores FROM cpu WHERE host = ?", ["o'c"]).fetchall() == [
        (datetime(2024, 2, 1), 1.5, None)
    ]
    assert db.sql("DELETE FROM cpu WHERE host = $h", {"h": "o'c"}).affected_rows == 1


@pytest.mark.parametrize(
    ("text", "params", "words"),
    [
        ("SELECT ?", [], "1 placeholders, 0 values"),
        ("SELECT ?", [1, 2], "1 placeholders, 2 values"),
        ("SELECT $a", {}, r"\$a"),
        ("SELECT $a", {"a": 1, "b": 2}, r"\$b"),
        ("SELECT $a", [1], "named"),
        ("SELECT ?", {"a": 1}, "not named"),
        ("SELECT ?, $1", [1], "one kind"),
        ("SELECT ?", "x", "a list or a dictionary"),
        ("SELECT ?", [object()], "object"),
    ],
)
def test_values_that_do_not_fit_are_refused(db: tsdb.Connection, text: str, params: Any, words: str) -> None:
    with pytest.raises(tsdb.InvalidArguments, match=words):
        db.sql(text, params)
