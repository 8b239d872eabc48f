"""Metrics of requests.

The label `path` is the pattern of the route, never the path of the request, so that clients cannot add series. Requests
without a route are `other`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import Protocol
from weakref import WeakSet

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tsdb.telemetry import SECONDS_BUCKETS, Family, collected, gauge

OTHER = "other"
CLIENT_GONE = 499
"""The code of a request whose client left before the answer, as in nginx: no such answer is ever sent."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})

_REQUESTS = Family(
    "tsdb_servers_http_requests_total",
    "counter",
    ("method", "path", "code"),
    "Requests answered, or abandoned by the client.",
)
_ELAPSED = Family(
    "tsdb_servers_http_requests_elapsed_seconds",
    "histogram",
    ("method", "path"),
    "Time from receiving a request to the end of its response.",
)
_CONNECTIONS = gauge("tsdb_servers_http_connections", "Open connections of the HTTP server.")
_IN_FLIGHT = gauge("tsdb_servers_http_requests_in_flight", "Requests in progress.")


class RouteMeter:
    """The numbers of one method of one route.

    Plain numbers without a lock, because only the event loop counts: 0.5 µs a request, where a counter and a
    histogram of the client library take 4.
    """

    __slots__ = ("by_bucket", "by_code", "seconds")

    def __init__(self) -> None:
        self.by_code: dict[int, int] = {}
        self.by_bucket = [0] * (len(SECONDS_BUCKETS) + 1)
        self.seconds = 0.0

    def observe(self, code: int, seconds: float) -> None:
        self.by_code[code] = self.by_code.get(code, 0) + 1
        self.by_bucket[bisect_left(SECONDS_BUCKETS, seconds)] += 1
        self.seconds += seconds


class _RequestCollector(Collector):
    """All meters, one per pair of labels, and how a scraper sees them."""

    def __init__(self) -> None:
        self._meters: dict[tuple[str, str], RouteMeter] = {}

    def get(self, method: str, path: str) -> RouteMeter:
        return self._meters.setdefault((method, path), RouteMeter())

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(_REQUESTS.name, _REQUESTS.help, labels=_REQUESTS.labels)
        elapsed = HistogramMetricFamily(_ELAPSED.name, _ELAPSED.help, labels=_ELAPSED.labels)
        # A scrape runs beside the loop; each copy is made in one step.
        for labels, meter in tuple(self._meters.items()):
            for code, count in tuple(meter.by_code.items()):
                requests.add_metric([*labels, str(code)], count)
            counts = accumulate(tuple(meter.by_bucket))
            bounds = (*(str(bound) for bound in SECONDS_BUCKETS), "+Inf")
            elapsed.add_metric(labels, list(zip(bounds, counts, strict=True)), meter.seconds)
        return (requests, elapsed)


_collector = _RequestCollector()
collected(_collector, _REQUESTS, _ELAPSED)


def route_meter(method: str, path: str) -> RouteMeter:
    """Return the meter of these labels; routes of the same labels share it."""
    return _collector.get(method, path)


class HasInFlight(Protocol):
    """An object that counts requests in flight."""

    @property
    def in_flight(self) -> int: ...


# The gauge counts when it is scraped; counting up and down in each request would cost a microsecond.
_sources: WeakSet[HasInFlight] = WeakSet()
_IN_FLIGHT.set_function(lambda: sum(source.in_flight for source in _sources))


def count_in_flight(source: HasInFlight) -> None:
    """Add an application to the gauge of requests in flight, for its lifetime."""
    _sources.add(source)


class HasConnections(Protocol):
    """An object that counts connections."""

    @property
    def connection_count(self) -> int: ...


_listeners: WeakSet[HasConnections] = WeakSet()
_CONNECTIONS.set_function(lambda: sum(listener.connection_count for listener in _listeners))


def count_connections(listener: HasConnections) -> None:
    """Add a listener to the gauge of connections, for its lifetime."""
    _listeners.add(listener)
