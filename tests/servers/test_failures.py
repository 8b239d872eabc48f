"""One line in the log for each request that failed, at the level of whose mistake it is."""

from __future__ import annotations

import pytest

from tsdb.errors import Busy, Cancelled, DeadlineExceeded, InvalidSyntax, QueryTimeout, TsdbError
from tsdb.query.errors import OutOfMemory
from tsdb.servers._failures import log_failure
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
