"""What `/metrics` says about an open engine is what is there, and the log names tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import tsdb
from tsdb.telemetry import REGISTRY


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_gauges_follow_the_rows_into_data_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = sample("tsdb_engine_data_files")
    with caplog.at_level("INFO"), tsdb.connect(tmp_path / "db") as database:
        database.sql("CREATE TABLE cpu (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)")
        database.sql("INSERT INTO cpu VALUES ('a', 1, 1.0), ('b', 2, 2.0)")
        buffered = sample("tsdb_engine_write_buffer_bytes")
        assert buffered > 0
        assert sample("tsdb_engine_wal_bytes") > 0
        assert sample("tsdb_engine_disk_free_bytes", directory="data") > 0
        flushes = sample("tsdb_engine_flush_elapsed_seconds_count")
        database.sql("ADMIN flush_table('cpu')")
        assert sample("tsdb_engine_data_files") == before + 1
        assert sample("tsdb_engine_data_rows") >= 2
        assert sample("tsdb_engine_data_series") >= 2
        assert sample("tsdb_engine_data_bytes") > 0
        assert sample("tsdb_engine_write_buffer_bytes") < buffered
        assert sample("tsdb_engine_flush_elapsed_seconds_count") == flushes + 1
        statements = sample("tsdb_database_statement_elapsed_seconds_count", kind="Query")
        database.sql("SELECT sum(v) FROM cpu WHERE ts > 0")
        assert sample("tsdb_database_statement_elapsed_seconds_count", kind="Query") == statements + 1
    (flushed,) = [each for each in caplog.records if each.getMessage() == "flushed"]
    assert flushed.__dict__["tsdb_fields"]["table"] == "public.cpu"
    assert sample("tsdb_engine_data_files") == before, "a closed engine has no gauges"
