"""One line in the log for each request that failed, at the level of whose mistake it is."""

from __future__ import annotations

import pytest

from tsdb.clock import ManualClock
from tsdb.engine.errors import StorageUnavailable
from tsdb.errors import Busy, Cancelled, DeadlineExceeded, InvalidSyntax, QueryTimeout, TsdbError
from tsdb.query.errors import OutOfMemory
from tsdb.servers._failures import UNREACHABLE_SECONDS, FailureLog, log_failure
from tsdb.store import StoreUnreachable
from tsdb.telemetry import get_logger


@pytest.mark.parametrize(
    ("error", "statement", "level", "message"),
    [
        (InvalidSyntax("cannot be parsed"), "SELCT 1", "INFO", "a statement was refused"),
        (InvalidSyntax("cannot be parsed"), None, "DEBUG", "a request was refused"),
        (Busy("too many queries"), "SELECT 1", "DEBUG", "a request was refused"),
        (Cancelled("the statement was cancelled"), "SELECT 1", "DEBUG", "a request was refused"),
        (QueryTimeout("the query did not finish"), "SELECT 1", "INFO", "a statement was refused"),
        (DeadlineExceeded("the log did not answer"), "INSERT", "ERROR", "a request failed"),
        (OutOfMemory("it needed too much"), "SELECT 1", "WARNING", "a query needed too much memory"),
        (TsdbError("a bug"), "SELECT 1", "ERROR", "a request failed"),
    ],
)
def test_whose_mistake_it_is_decides_the_level(
    caplog: pytest.LogCaptureFixture, error: TsdbError, statement: str | None, level: str, message: str
) -> None:
    error.statement = statement
    with caplog.at_level("DEBUG"):
        log_failure(get_logger("tsdb.test"), error, route="/v1/sql")
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (level, message)
    fields = record.__dict__["tsdb_fields"]
    assert fields.get("statement") == statement
    assert (record.exc_info is not None) == (level == "ERROR")


def _unreachable(store: str) -> TsdbError:
    """What a request gets that needs a store which does not answer."""
    reason = StoreUnreachable("cannot read from s3://b: no answer")
    reason.store = store
    error = StorageUnavailable("a data file cannot be read", file="f")
    error.__cause__ = reason
    error.statement = "SELECT 1"
    return error


def test_a_store_that_does_not_answer_is_one_line_for_many_requests(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(10**18)
    failures, log = FailureLog(clock), get_logger("tsdb.test")
    with caplog.at_level("DEBUG"):
        for _ in range(100):
            failures.write(log, _unreachable("default"), route="/v1/sql")
        failures.write(log, _unreachable("cold"))
        clock.advance(seconds=UNREACHABLE_SECONDS)
        failures.write(log, _unreachable("default"))
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert all(record.exc_info is None for record in caplog.records)
    fields = [record.__dict__["tsdb_fields"] for record in caplog.records]
    assert [(each["store"], each.get("suppressed")) for each in fields] == [
        ("default", None),
        ("cold", None),
        ("default", 99),
    ]
    assert "cannot read from s3://b: no answer" in str(fields[0]["error"])


def test_other_failures_of_storage_are_each_logged_with_their_traceback(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailureLog(ManualClock(10**18))
    for _ in range(2):
        failures.write(get_logger("tsdb.test"), StorageUnavailable("the disk is broken"))
    assert [(record.levelname, record.exc_info is not None) for record in caplog.records] == [("ERROR", True)] * 2
