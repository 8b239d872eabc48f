"""The one registry of metrics, and the constructors that every family goes through.

A family is declared once, at import time, in the module that counts:

    FLUSHES = counter("tsdb_mito_flush_total", "Flushes of regions, by outcome.", labels=("outcome",))

The constructors insist on the name and on a help text, so that `docs/metrics.md` can be checked against the
registry. Hot paths keep the child (`FLUSHES.labels("ok")`) in an attribute: looking it up costs three times
as much as counting.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of a histogram of seconds, unless its family chooses others."""

# `…_created` would double the series of every counter and histogram, and nothing reads it from the text
# format.
disable_created_metrics()  # type: ignore[no-untyped-call]

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

_NAME = re.compile(r"tsdb_[a-z0-9]+(_[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Family:
    """One declared family: what its row in `docs/metrics.md` has to say."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


_families: dict[str, Family] = {}


def counter(name: str, help: str, *, labels: Sequence[str] = ()) -> Counter:
    """Declare a number that only grows; the name ends in `_total`."""
    if not name.endswith("_total"):
        raise ValueError(f"the counter {name!r} must have a name that ends in _total")
    _declare(name, "counter", labels, help)
    return Counter(name, help, labels, registry=REGISTRY)


def gauge(name: str, help: str, *, labels: Sequence[str] = ()) -> Gauge:
    """Declare a number that goes up and down."""
    _declare(name, "gauge", labels, help)
    return Gauge(name, help, labels, registry=REGISTRY)


def histogram(
    name: str, help: str, *, labels: Sequence[str] = (), buckets: Sequence[float] = SECONDS_BUCKETS
) -> Histogram:
    """Declare a distribution; the unit is the last word of the name (`…_seconds`, `…_bytes`)."""
    _declare(name, "histogram", labels, help)
    return Histogram(name, help, labels, registry=REGISTRY, buckets=buckets)


def collected(collector: Collector, *families: Family) -> None:
    """Declare families whose numbers `collector` keeps itself and hands over at each scrape.

    For the few paths so hot that the microseconds of a counter show. `collect` runs on any thread.
    """
    for family in families:
        _declare(family.name, family.type, family.labels, family.help)
    REGISTRY.register(collector)


def families() -> tuple[Family, ...]:
    """Return every family declared so far, by name. Those of the process and of Python are not among them."""
    return tuple(_families[name] for name in sorted(_families))


def render() -> bytes:
    """Return the registry in Prometheus' text format. Takes milliseconds: never call it on an event loop."""
    return generate_latest(REGISTRY)


def app_info(version: str, app: str) -> None:
    """Publish which program this is: `tsdb_app_version{version,short_version,app} 1`."""
    short_version = re.split(r"[-+]", version, maxsplit=1)[0]
    _APP_VERSION.clear()
    _APP_VERSION.labels(version=version, short_version=short_version, app=app).set(1)


def _declare(name: str, type: str, labels: Sequence[str], help: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"the metric {name!r} must be named tsdb_… in lower case words")
    if not help.strip():
        raise ValueError(f"the metric {name!r} needs a help text")
    if name in _families:
        raise ValueError(f"the metric {name!r} is declared twice")
    _families[name] = Family(name, type, tuple(labels), help)


_APP_VERSION = gauge(
    "tsdb_app_version",
    "Always 1; the labels carry program and version.",
    labels=("version", "short_version", "app"),
)
