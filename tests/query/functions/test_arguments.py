"""No arguments make a function fail as if the server had an error, or show the inside of the query engine.

Every function is given every third list of arguments, each function others than its neighbour; `make fuzz` gives all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import tsdb
from tests.query.errors.test_error_messages import FORBIDDEN
from tsdb.errors import TsdbError, wire_of
from tsdb.query.errors._known_functions import known_functions, window_functions

ARGUMENTS = [
    *("", "NULL", "''", "'('", "-9223372036854775808", "1e308", "'NaN'::DOUBLE", "true"),
    *("[1, 2]", "X'00'", "INTERVAL '1 day'", "{a: 1}", "1.5::DECIMAL(10, 2)", "s", "i", "ts"),
    *("NULL, NULL", "'x', '('", "s, -1", "i, 9223372036854775807", "ts, i", "'{', '$['", "'1 foo', ts", "[1], 'x'"),
    *("NULL, NULL, NULL", "'x', '(', ''", "'x', 9223372036854775807, 1", "0, 0, 0", "'x', 'x', 'x', 'x', 'x'"),
]
"""Wrong numbers and types of arguments, NULLs, empty strings, extreme values; constants and columns."""

EVERY = 1 if "TSDB_FUZZ_SECONDS" in os.environ else 3


@pytest.fixture(scope="module")
def database() -> Iterator[tsdb.Connection]:
    with tsdb.connect() as connection:
        connection.sql(
            "CREATE TABLE t (s STRING, ts TIMESTAMP TIME INDEX, i BIGINT, d DOUBLE, b BOOLEAN, PRIMARY KEY (s))"
        )
        connection.sql("INSERT INTO t VALUES ('a', 1, 1, 1.5, true), ('', 2, NULL, NULL, NULL)")
        connection.sql("INSERT INTO t VALUES (NULL, 3, -9223372036854775808, 0, false)")
        yield connection


@pytest.mark.parametrize("first_letters", ["ab", "cdefg", "hijkl", "mnopqr", "stuvwxyz"])
def test_every_function_refuses_wrong_arguments_as_a_mistake_in_the_statement(
    database: tsdb.Connection, first_letters: str
) -> None:
    names = [name for name in known_functions() if name[0] in first_letters]
    assert len(names) > 20
    wrong = []
    for number, name in enumerate(names):
        window = " OVER ()" if name in window_functions() else ""
        for arguments in ARGUMENTS[number % EVERY :: EVERY]:
            text = f"SELECT {name}({arguments}){window} FROM t"
            try:
                database.sql(text)
            except TsdbError as error:
                if wire_of(error).http != 400 or FORBIDDEN.search(str(error)):
                    wrong.append(f"{text}: {wire_of(error).http} {error}")
    assert wrong == []
