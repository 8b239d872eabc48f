"""The rows of a query that a worker runs."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tsdb.errors import Cancelled, TsdbError
from tsdb.processes.messages import Gone, MessageKind, opened, read_batch, receive, send_object
from tsdb.query.errors import QueryPanic
from tsdb.query.lifetime import QueryLife
from tsdb.query.workers._pool import WorkerProcess, Workers
from tsdb.query.workers._service import QueryTables

_LEAST_WAIT_SECONDS = 0.001

_log = logging.getLogger(__name__)


class Lease:
    """A worker for the time of one query."""

    def __init__(self, workers: Workers, life: QueryLife, tables: QueryTables) -> None:
        self._workers = workers
        self._life = life
        self._tables = tables
        self._lock = threading.Lock()
        self._is_over = False
        self._worker: WorkerProcess = workers.take(life)
        self._worker.service.tables = tables
        life.on_cancel(_weak_end(weakref.ref(self)))

    def ask(self, request: Any) -> Any:
        """Send a request and return the answer."""
        try:
            self._limit_wait()
            send_object(self._worker.control, request)
        except (Gone, OSError):
            self._life.check()
            raise self._gone() from None
        return opened(*self.receive())

    def receive(self) -> tuple[MessageKind, pa.Buffer]:
        """Return the next message; an error of the query is raised as the scan raised it."""
        try:
            self._limit_wait()
            with self._life.waiting():
                kind, body = receive(self._worker.control)
        except TimeoutError:
            raise self._life.expired() from None
        except (Gone, OSError):
            raise self._gone() from None
        # The end of the query ends scans, which then fail.
        failure = self._life.failure
        if kind in (MessageKind.END, MessageKind.ERROR):
            self.end(is_done=True)
        if kind is MessageKind.ERROR:
            if isinstance(failure, TsdbError):
                raise failure
            self._life.check()
        return kind, body

    def _limit_wait(self) -> None:
        """Wait for the worker until the deadline of this query; a timeout of 0 would not wait at all."""
        self._life.check()
        remaining = self._life.remaining_seconds()
        self._worker.control.settimeout(None if remaining is None else max(remaining, _LEAST_WAIT_SECONDS))

    def park(self, *, is_parked: bool) -> None:
        """Return whether rows wait for the client."""
        self._worker.parked_since = time.monotonic() if is_parked else None

    def end(self, *, is_done: bool) -> None:
        """Return the worker when its query is done, or else end it; any number of times."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        self._tables.close()
        if is_done:
            self._workers.give_back(self._worker)
        else:
            self._workers.discard(self._worker)
        self._life.end()

    def _gone(self) -> TsdbError:
        """Return why there is no worker any more."""
        if isinstance(self._life.failure, TsdbError):
            return self._life.failure
        if self._life.is_cancelled or self._is_over:
            return Cancelled("the query was cancelled")
        _log.error("a query worker ended unexpectedly", extra={"worker": self._worker.process})
        return QueryPanic("the process that ran this query ended unexpectedly", hint="the log has the details")


class WorkerRecords:
    """The rows of one query."""

    def __init__(self, lease: Lease, schema: pa.Schema, scans: Sequence[Any]) -> None:
        self._lease = lease
        self._schema = schema
        self.scans = scans
        """The tables that it reads, for EXPLAIN ANALYZE."""

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                kind, body = self._lease.receive()
                if kind is not MessageKind.BATCH:
                    opened(kind, body)
                    return
                self._lease.park(is_parked=True)
                yield read_batch(body, self._schema)
                self._lease.park(is_parked=False)
        finally:
            self.close()

    def close(self) -> None:
        """Stop the work and let go of snapshots; from any thread, any number of times."""
        self._lease.end(is_done=False)

    def __del__(self) -> None:
        self.close()


def _weak_end(found: weakref.ref[Lease]) -> Callable[[], None]:
    """End a lease unless it is gone: what is registered with a query must not keep it."""

    def end() -> None:
        lease = found()
        if lease is not None:
            lease.end(is_done=False)

    return end
