"""Errors carry the statement that failed, without passwords."""

from __future__ import annotations

import pytest

import tsdb
from tsdb.errors import TsdbError


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("SELECT 1/0", "SELECT 1/0"),
        ("SELECT 1; SELECT nope", "SELECT nope"),
        ("CREATE USER ann IDENTIFIED BY 'hunter2' AND MORE", "CREATE USER ann IDENTIFIED ******"),
        ("SELECT " + "x" * 5000, "SELECT " + "x" * 1993),
    ],
)
def test_an_error_carries_its_statement(text: str, noted: str) -> None:
    with tsdb.connect() as database, pytest.raises(TsdbError) as caught:
        database.sql(text)
    assert caught.value.statement == noted
