"""Log lines of failed requests; the level says whose mistake it is.

ERROR    a fault of the server: with the traceback, and the statement if there is one
WARN     an object store that does not answer: one line for many requests, with their number
WARN     a query that needed more memory than there is: with the statement
INFO     an invalid statement, or one that fails with these values: with the statement
DEBUG    everything else that was refused
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from tsdb.clock import Clock, SystemClock
from tsdb.errors import Busy, Cancelled, TsdbError, is_fault
from tsdb.query.errors import OutOfMemory
from tsdb.store import StoreUnreachable, find_unreachable
from tsdb.telemetry import Logger

UNREACHABLE_SECONDS = 30.0
"""How often a store that does not answer is logged; every request meets it meanwhile."""
_KINDS_MAX = 256


class FailureLog:
    """Writes the lines. Thread-safe."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._unreachable: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()
        """By store and kind of error: when it was last logged, and how many requests have failed since."""

    def write(self, log: Logger, error: TsdbError, **where: object) -> None:
        """Write the line of an error; `where` says which route, method or client it was."""
        unreachable = find_unreachable(error)
        if unreachable is not None:
            self._write_unreachable(log, unreachable, where)
            return
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

    def _write_unreachable(self, log: Logger, error: StoreUnreachable, where: dict[str, object]) -> None:
        suppressed = self._count(error.store, type(error).__name__)
        if suppressed is not None:
            more = {"suppressed": suppressed} if suppressed else {}
            log.warning(
                "requests fail: an object store does not answer", store=error.store, error=error, **more, **where
            )

    def _count(self, store: str, kind: str) -> int | None:
        """Return how many requests have failed since the last line; None if that is too short a time ago."""
        key, now_ns = (store, kind), self._clock.monotonic_ns()
        with self._lock:
            logged_ns, failed = self._unreachable.get(key, (None, 0))
            if logged_ns is not None and now_ns - logged_ns < UNREACHABLE_SECONDS * 1e9:
                self._unreachable[key] = logged_ns, failed + 1
                return None
            self._unreachable[key] = now_ns, 0
            if len(self._unreachable) > _KINDS_MAX:
                self._unreachable.popitem(last=False)
        return failed


_failures = FailureLog()
log_failure = _failures.write
