"""SET series_aggregate: whether runs answer aggregates in a session."""

from __future__ import annotations

import pytest

import tsdb
from tsdb.database import Session, read_all
from tsdb.query.series_aggregate import AggregateRecords


def test_a_session_turns_aggregates_from_runs_off_and_on() -> None:
    with tsdb.connect() as connection:
        connection.sql("CREATE TABLE t (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, f DOUBLE)")
        connection.sql("INSERT INTO t VALUES ('a', 1, 2.5), ('b', 2, 3.5)")
        database, session = connection._database(), Session()

        def run(text: str) -> object:
            (output,) = list(database.execute(text, session))
            return output

        for value, is_on in (("'off'", False), ("'ON'", True)):
            run(f"SET series_aggregate = {value}")
            shown = read_all(run("SHOW VARIABLES series_aggregate")).to_pylist()  # type: ignore[arg-type]
            assert shown == [{"SERIES_AGGREGATE": "on" if is_on else "off"}]
            found = database.services.queries.query("SELECT max(f) AS m FROM t", session)
            assert isinstance(found, AggregateRecords) is is_on
            assert read_all(found).to_pylist() == [{"m": 3.5}]
        with pytest.raises(tsdb.TsdbError, match="on or off"):
            run("SET series_aggregate = 'sometimes'")
