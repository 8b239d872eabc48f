"""Random samples: gaps, ends of series, resets of counters, NaN and infinities, labels that some series lack.

Time is cut into slots, each with series of its own under the same few names. Samples lie between 100 and 900
milliseconds past a full second, while queries look at other milliseconds: whether the edges of a window belong to it
has changed between versions of Prometheus, so no sample may lie on one. Counters are far from zero, because what `rate`
makes of one that begins near zero, long after the window, has changed too.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

START_S = 1_700_000_000
SLOT_S = 2400
SLOTS = 16
STALE: float = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
JOBS, INSTANCES, ZONES = ("api", "db", "web"), ("a:1", "b:2", "c:3"), ("", "eu", "us")
BOUNDS = ("0.1", "0.5", "1", "5", "+Inf")


@dataclass
class Series:
    """One series: labels, and pairs of milliseconds and values."""

    labels: dict[str, str]
    samples: list[tuple[int, float]] = field(default_factory=list)


def random_slots(seed: int) -> Iterator[list[Series]]:
    """Return the series of each slot, the earliest first."""
    random = Random(seed)
    for slot in range(SLOTS):
        yield _slot(random, (START_S + slot * SLOT_S) * 1000)


def _slot(random: Random, start_ms: int) -> list[Series]:
    found = []
    for job in random.sample(JOBS, random.randint(1, 3)):
        for instance in random.sample(INSTANCES, random.randint(1, 3)):
            labels = {"job": job, "instance": instance}
            if zone := random.choice(ZONES):
                labels["zone"] = zone
            if random.random() < 0.8:
                found.append(_series(random, start_ms, {"__name__": "gauge", **labels}, _gauge(random)))
            if random.random() < 0.8:
                found.append(_series(random, start_ms, {"__name__": "hits_total", **labels}, _counter(random)))
        found.append(_series(random, start_ms, {"__name__": "load", "job": job}, _gauge(random)))
        if random.random() < 0.7:
            labels = {"__name__": "build_info", "job": job, "version": random.choice(("1", "2"))}
            found.append(_series(random, start_ms, labels, iter(lambda: 1.0, None)))
        found.extend(_histogram(random, start_ms, job))
    return found


def _series(random: Random, start_ms: int, labels: dict[str, str], values: Iterator[float]) -> Series:
    every = random.choice((5, 15, 15, 15, 30, 60, 200))
    gap = random.choice((0.0, 0.05, 0.3))
    ends = random.choice((0.0, 0.0, 0.05))
    first, last = random.choice((0, 0, 600)), random.choice((1800, 1800, 900))
    series = Series(labels)
    for second in range(first, last, every):
        value = next(values)
        if random.random() < gap:
            continue
        time_ms = start_ms + second * 1000 + random.randint(100, 900)
        series.samples.append((time_ms, STALE if random.random() < ends else value))
    return series


def _gauge(random: Random) -> Iterator[float]:
    special = random.choice((0.0, 0.0, 0.0, 0.1))
    base, spread = random.choice((0, 0, 5, 1000)), random.choice((1, 4, 40))
    while True:
        if random.random() < special:
            yield random.choice((math.nan, math.inf, -math.inf, 0.0, -0.0))
        yield base + random.randint(-spread, spread) / 4


def _counter(random: Random) -> Iterator[float]:
    value = float(random.choice((3000, 5000)))
    while True:
        yield value
        value += random.choice((0, 0, 1, 2, 7, 30))
        if random.random() < 0.03:
            value = value // 2


def _histogram(random: Random, start_ms: int, job: str) -> list[Series]:
    bounds = BOUNDS if random.random() < 0.8 else random.sample(BOUNDS, 3)
    found = [Series({"__name__": "latency_bucket", "job": job, "le": bound}) for bound in bounds]
    counts = [random.choice((1000.0, 2000.0))] * len(bounds)
    for second in range(0, 1800, 30):
        time_ms = start_ms + second * 1000 + random.randint(100, 900)
        total = 0.0
        for position, series in enumerate(found):
            counts[position] += random.choice((0, 1, 5))
            total += counts[position]
            series.samples.append((time_ms, total))
    return found
