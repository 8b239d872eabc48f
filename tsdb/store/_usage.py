"""What is asked of an object store, counted by operation and purpose: requests are what such stores bill.

Code says what its requests are for with `requests_for(Purpose.FLUSH)`; what is not labelled is read for a query. The
label belongs to the context of a thread, so a pool that works for others has to copy it (`contextvars.copy_context`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from weakref import WeakSet

from tsdb.telemetry import counter, gauge


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

TROUBLED = gauge(
    "tsdb_store_in_trouble",
    "1 while an object store does not answer, or refuses what it is asked for, else 0.",
    labels=("store",),
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


class StoreState(StrEnum):
    """Whether an object store can be used."""

    OK = "ok"
    DOWN = "down"
    """It does not answer, or not with success, however often it is asked."""
    REFUSING = "refusing"
    """It answers, and refuses: because of credentials, a missing bucket, the clock."""


@dataclass(frozen=True, slots=True)
class StoreCondition:
    """What state a store is in, why, and since when."""

    state: StoreState = StoreState.OK
    reason: str | None = None
    since_ms: int | None = None
    """None if nothing has ever gone wrong."""
    last_error: str | None = None
    """Of the last request that failed, also if it succeeded when it was repeated."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """One row of what is asked of object stores."""

    store: str
    operation: str
    purpose: str
    requests: int
    errors: int
    retries: int
    nbytes: int
    estimated_cost: float
    state: str = StoreState.OK.value
    """Of the store, as all that follows."""
    reason: str | None = None
    since_ms: int | None = None
    last_error: str | None = None
    node_id: int | None = None
    """The datanode that asks; None for this process."""


class RequestLedger:
    """The requests to one store, and the state it is in. Thread-safe."""

    def __init__(self, store: str, prices: RequestPrices | None = None) -> None:
        self.store = store
        self.prices = prices or RequestPrices()
        _ledgers.add(self)
        self._lock = threading.Lock()
        self._counts: dict[tuple[Operation, Purpose], RequestCount] = {}
        self._condition = StoreCondition()
        TROUBLED.labels(store).set(0)

    @property
    def condition(self) -> StoreCondition:
        """The state of the store."""
        return self._condition

    def note_error(self, error: str) -> None:
        """Note that a request failed, whatever is known of the store."""
        with self._lock:
            self._condition = replace(self._condition, last_error=error)

    def enter(self, state: StoreState, now_ms: int, reason: str | None = None) -> bool:
        """Note the state of the store; return whether it is another one than before."""
        with self._lock:
            found = self._condition
            if found.state is state:
                if found.reason != reason:
                    self._condition = replace(found, reason=reason)
                return False
            self._condition = replace(found, state=state, reason=reason, since_ms=now_ms)
            TROUBLED.labels(self.store).set(state is not StoreState.OK)
        return True

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


def request_facts() -> list[RequestFacts]:
    """Return what this process has asked of each remote store, and the states of the stores."""
    found = []
    for ledger in request_ledgers():
        condition = ledger.condition
        found += [
            RequestFacts(
                store=ledger.store,
                operation=count.operation.value,
                purpose=count.purpose.value,
                requests=count.requests,
                errors=count.errors,
                retries=count.retries,
                nbytes=count.nbytes,
                estimated_cost=ledger.prices.cost(count),
                state=condition.state.value,
                reason=condition.reason,
                since_ms=condition.since_ms,
                last_error=condition.last_error,
            )
            for count in ledger.counts()
        ]
    return found
