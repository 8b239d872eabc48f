"""What is asked of an object store, counted by operation and purpose: requests are what such stores bill.

Code says what its requests are for with `requests_for(Purpose.FLUSH)`; what is not labelled is read for a query. The
label belongs to the context of a thread, so a pool that works for others has to copy it (`contextvars.copy_context`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from weakref import WeakSet

from tsdb.telemetry import counter


class Operation(StrEnum):
    """The kinds of requests."""

    GET = "get"
    PUT = "put"
    HEAD = "head"
    LIST = "list"
    DELETE = "delete"


class Purpose(StrEnum):
    """What a request is for."""

    START = "start"
    """The probe of the store and the listing when the engine opens."""
    FLUSH = "flush"
    COMPACTION = "compaction"
    QUERY = "query"
    LOG = "log"
    MANIFEST = "manifest"
    SWEEP = "sweep"
    """Deleting files: obsolete ones, orphans, and those of dropped regions."""
    BACKUP = "backup"


REQUESTS = counter(
    "tsdb_store_requests_total",
    "Requests to an object store, retries included; none for local files.",
    labels=("store", "operation", "purpose"),
)
ERRORS = counter(
    "tsdb_store_request_errors_total",
    "Requests to an object store that failed.",
    labels=("store", "operation", "purpose"),
)
RETRIES = counter(
    "tsdb_store_request_retries_total",
    "Retries of failed requests to an object store.",
    labels=("store", "operation", "purpose"),
)
BYTES = counter(
    "tsdb_store_request_bytes_total",
    "Bytes of objects sent to an object store or received from it.",
    labels=("store", "operation", "purpose"),
)

_ledgers: WeakSet[RequestLedger] = WeakSet()
"""Of all stores of the process, whatever is wrapped around them."""
_purpose: ContextVar[Purpose] = ContextVar("purpose", default=Purpose.QUERY)


@contextmanager
def requests_for(purpose: Purpose) -> Iterator[None]:
    """Count the requests inside the block for a purpose."""
    token = _purpose.set(purpose)
    try:
        yield
    finally:
        _purpose.reset(token)


def current_purpose() -> Purpose:
    """Return what requests of this thread are for."""
    return _purpose.get()


@dataclass(slots=True)
class RequestCount:
    """What was asked of one store by one operation for one purpose, since the process started."""

    operation: Operation
    purpose: Purpose
    requests: int = 0
    errors: int = 0
    retries: int = 0
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class RequestPrices:
    """What a service bills, in any currency. Deletes are free wherever such prices are published."""

    per_thousand_writes: float = 0.0
    """Of PUT and LIST."""
    per_thousand_reads: float = 0.0
    """Of GET and HEAD."""

    def cost(self, count: RequestCount) -> float:
        """Estimate what requests cost."""
        if count.operation is Operation.DELETE:
            return 0.0
        is_write = count.operation in (Operation.PUT, Operation.LIST)
        return count.requests * (self.per_thousand_writes if is_write else self.per_thousand_reads) / 1000


class RequestLedger:
    """The requests to one store. Thread-safe."""

    def __init__(self, store: str, prices: RequestPrices | None = None) -> None:
        self.store = store
        self.prices = prices or RequestPrices()
        _ledgers.add(self)
        self._lock = threading.Lock()
        self._counts: dict[tuple[Operation, Purpose], RequestCount] = {}

    def add(
        self,
        operation: Operation,
        *,
        requests: int = 1,
        is_error: bool = False,
        is_retry: bool = False,
        nbytes: int = 0,
    ) -> None:
        """Count requests that have ended."""
        purpose = current_purpose()
        with self._lock:
            count = self._counts.setdefault((operation, purpose), RequestCount(operation, purpose))
            count.requests += requests
            count.errors += is_error
            count.retries += is_retry
            count.nbytes += nbytes
        labels = self.store, operation.value, purpose.value
        REQUESTS.labels(*labels).inc(requests)
        for metric, value in ((ERRORS, is_error), (RETRIES, is_retry), (BYTES, nbytes)):
            if value:
                metric.labels(*labels).inc(value)

    def counts(self) -> list[RequestCount]:
        """Return a copy of what was counted, sorted."""
        with self._lock:
            found = [
                RequestCount(each.operation, each.purpose, each.requests, each.errors, each.retries, each.nbytes)
                for each in self._counts.values()
            ]
        return sorted(found, key=lambda each: (each.operation, each.purpose))


def request_ledgers() -> list[RequestLedger]:
    """Return what was asked of each remote store of this process, sorted by their names."""
    return sorted(_ledgers, key=lambda each: each.store)
