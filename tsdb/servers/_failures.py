"""Log lines of failed requests; the level says whose mistake it is.

ERROR    a fault of the server: with the traceback, and the statement if there is one
WARN     a query that needed more memory than there is: with the statement
INFO     an invalid statement, or one that fails with these values: with the statement
DEBUG    everything else that was refused
"""

from __future__ import annotations

from tsdb.errors import Busy, Cancelled, TsdbError, is_fault
from tsdb.query.errors import OutOfMemory
from tsdb.telemetry import Logger


def log_failure(log: Logger, error: TsdbError, **where: object) -> None:
    """Write the line; `where` says which route, method or client it was."""
    if error.statement is not None:
        where = {**where, "statement": error.statement}
    if isinstance(error, OutOfMemory):
        log.warning("a query needed too much memory", error=error, **where)
    elif is_fault(error):
        log.error("a request failed", **where, status=error.status.title, exc_info=error)
    elif error.statement is not None and not isinstance(error, Busy | Cancelled):
        log.info("a statement was refused", status=error.status.title, error=error, **where)
    else:
        log.debug("a request was refused", status=error.status.title, error=error, **where)
