"""Statements that take long are recorded, in a table or in the log, as the configuration says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from tsdb.components import LocalDatabase, LocalOptions, open_directory
from tsdb.database import DatabaseOptions, RecordType, Session, SlowQuerySettings, read_all
from tsdb.database._slow_queries import SCHEMA, TEXT_CHARS_MAX
from tsdb.errors import TsdbError
from tsdb.query import Channel, WriteToken
from tsdb.query.promql import QueryTimes
from tsdb.units import Duration

ALWAYS = SlowQuerySettings(is_enabled=True, threshold=Duration(1), ttl="7d")


@contextmanager
def opened(home: Path, options: SlowQuerySettings) -> Iterator[LocalDatabase]:
    local = open_directory(
        home, options=LocalOptions(database=DatabaseOptions(slow_queries=options), has_housekeeping=False)
    )
    try:
        yield local
    finally:
        local.close()


def rows(local: LocalDatabase, text: str) -> list[dict[str, object]]:
    (output,) = local.database.execute(text, Session())
    found: list[dict[str, object]] = read_all(output).to_pylist()  # type: ignore[arg-type]
    return found


def recorded(home: Path) -> list[dict[str, object]]:
    """What an earlier process has recorded; this one records nothing."""
    with opened(home, SlowQuerySettings()) as local:
        return rows(local, "SELECT * FROM tsdb_private.slow_queries ORDER BY timestamp")


def test_slow_statements_are_rows_of_a_system_table(tmp_path: Path) -> None:
    with opened(tmp_path, ALWAYS) as local:
        rows(local, "SELECT 1 AS one")
        local.database.slow_queries.note(
            2.5,
            "up",
            Session(channel=Channel.HTTP, user="ada"),
            is_promql=True,
            times=QueryTimes(start_ms=1000, end_ms=61_000, step_ms=5000),
        )
    found = {str(row["query"]): row for row in recorded(tmp_path)}
    assert found["SELECT 1 AS one"]["is_promql"] is False
    assert found["SELECT 1 AS one"]["promql_step"] is None
    slow = found["up"]
    assert (slow["cost"], slow["promql_range"], slow["promql_step"]) == (2500, 60_000, 5000)
    assert (slow["database"], slow["user"], slow["protocol"], slow["trace_id"]) == ("public", "ada", "http", None)
    with opened(tmp_path, SlowQuerySettings()) as local:
        (created,) = rows(local, "SHOW CREATE TABLE tsdb_private.slow_queries")
    assert "ttl = '7days'" in str(created["Create Table"])


def test_a_table_of_an_earlier_version_gets_the_new_columns_and_the_time_to_live_of_now(tmp_path: Path) -> None:
    names = ("cost", "threshold", "query", "is_promql", "timestamp", "promql_range", "promql_step")
    earlier = pa.schema([field for field in SCHEMA if field.name in (*names, "promql_start", "promql_end")])
    with opened(tmp_path, SlowQuerySettings()) as local:
        frames = local.database.services.frames
        options = {"ttl": "90d", "append_mode": "true"}
        frames.create_table("tsdb_private", "slow_queries", earlier, tags=(), time="timestamp", options=options)
        row = pa.table({"timestamp": pa.array([time.time_ns()], pa.timestamp("ns")), "query": ["an old one"]})
        frames.append("tsdb_private", "slow_queries", row, WriteToken())
    with opened(tmp_path, ALWAYS) as local:
        rows(local, "SELECT 'a new one'")
    found = {str(row["query"]): row for row in recorded(tmp_path)}
    assert found["an old one"]["protocol"] is None
    assert found["SELECT 'a new one'"]["protocol"] == "http"
    with opened(tmp_path, SlowQuerySettings()) as local:
        (created,) = rows(local, "SHOW CREATE TABLE tsdb_private.slow_queries")
    assert "ttl = '7days'" in str(created["Create Table"])


def test_secrets_are_not_recorded(tmp_path: Path) -> None:
    with opened(tmp_path, ALWAYS) as local:
        list(local.database.execute("CREATE USER ada IDENTIFIED BY 'hidden1'", Session()))
        copied = "COPY t TO '/nowhere' CONNECTION (SECRET_ACCESS_KEY = 'hidden2')"
        with pytest.raises(TsdbError):
            list(local.database.execute(copied, Session()))
    texts = [str(row["query"]) for row in recorded(tmp_path)]
    assert {text.split()[0] for text in texts} == {"CREATE", "COPY"}
    assert "hidden" not in str(texts)


def test_long_statements_are_cut(tmp_path: Path) -> None:
    with opened(tmp_path, ALWAYS) as local:
        local.database.slow_queries.note(1.0, "x" * 100_000, Session())
    (found,) = recorded(tmp_path)
    assert len(str(found["query"])) == TEXT_CHARS_MAX


def test_users_cannot_write_to_the_record(tmp_path: Path) -> None:
    with opened(tmp_path, ALWAYS) as local:
        rows(local, "SELECT 1")
    with opened(tmp_path, SlowQuerySettings()) as local:
        for text in ("DROP TABLE tsdb_private.slow_queries", "CREATE TABLE tsdb_private.t (ts TIMESTAMP TIME INDEX)"):
            with pytest.raises(TsdbError, match="read-only"):
                list(local.database.execute(text, Session()))


@pytest.mark.parametrize(
    "options",
    [
        SlowQuerySettings(is_enabled=False, threshold=Duration(1)),
        SlowQuerySettings(is_enabled=True, threshold=Duration.of_seconds(3600)),
        SlowQuerySettings(is_enabled=True, threshold=Duration(1), sample_ratio=0.0),
    ],
    ids=["disabled", "below the threshold", "not in the sample"],
)
def test_what_is_not_to_be_recorded_is_not(tmp_path: Path, options: SlowQuerySettings) -> None:
    with opened(tmp_path, options) as local:
        rows(local, "SELECT 1")
    with opened(tmp_path, SlowQuerySettings()) as local:
        assert rows(local, "SHOW TABLES FROM tsdb_private") == []


def test_slow_statements_are_lines_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = SlowQuerySettings(is_enabled=True, threshold=Duration(1), record_type=RecordType.LOG)
    with caplog.at_level("INFO", "tsdb.slow_query"), opened(tmp_path, options) as local:
        rows(local, "SELECT 42")
    (record,) = [each for each in caplog.records if each.name == "tsdb.slow_query"]
    fields = record.__dict__["tsdb_fields"]
    assert fields["query"] == "SELECT 42"
    assert (fields["database"], fields["protocol"], fields["is_promql"]) == ("public", "http", False)
    with opened(tmp_path, SlowQuerySettings()) as local:
        assert rows(local, "SHOW TABLES FROM tsdb_private") == []
