"""The data of the demo: what some hosts, a web service and its logs could look like.

Every value is a function of the seed and of its own time, on a fixed grid: two runs write the same values for the times
they share, so a second run replaces rows by equal ones and adds those of the time since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

STEP_SECONDS = 10
"""Between two rows of a host, and two samples of a series."""
_DAY = 86_400
REGIONS = ("eu-west", "us-east", "ap-south")
_PATHS = ("/", "/login", "/cart", "/checkout", "/api/orders")
_CODES = (("200", 1.0), ("404", 0.03), ("500", 0.01))
_METHODS = (("GET", 0.8), ("POST", 0.2))
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_SERVICES = ("web", "orders", "payments")
_LEVELS = ("INFO", "INFO", "INFO", "INFO", "INFO", "INFO", "WARN", "ERROR")
_MESSAGES = {
    "INFO": ("GET {path} finished in {ms} ms", "user {user} logged in", "order {order} accepted"),
    "WARN": ("slow query took {ms} ms for order {order}", "retry 1 of 3 for {path}"),
    "ERROR": ("connection timeout after {ms} ms to payments", "order {order} failed: card declined"),
}

Floats = npt.NDArray[np.float64]
Seconds = npt.NDArray[np.int64]
LabelledSeries = tuple[dict[str, str], Seconds, Floats]


@dataclass(frozen=True)
class DemoData:
    """The values of one seed and a number of hosts."""

    seed: int
    hosts: int

    def host_names(self) -> list[str]:
        return [f"host-{number}" for number in range(self.hosts)]

    def host_rows(self, times: Seconds) -> pa.RecordBatch:
        """CPU, memory and load of every host at some times, in seconds."""
        names = self.host_names()
        every = np.tile(times, self.hosts)
        which = np.repeat(np.arange(self.hosts), len(times))
        busy = self._busy(which, every)
        user = np.round(70 * busy + 8 * self._noise(1, which, every), 2)
        system = np.round(15 * busy + 3 * self._noise(2, which, every), 2)
        memory = (8e9 * (0.35 + 0.3 * busy + 0.05 * self._noise(3, which, every))).astype(np.int64)
        regions = pa.array([REGIONS[number % len(REGIONS)] for number in range(self.hosts)], pa.string())
        return pa.RecordBatch.from_arrays(
            [
                pa.array(names, pa.string()).take(pa.array(which)),
                regions.take(pa.array(which)),
                pa.array(every * 1000, pa.int64()).cast(pa.timestamp("ms")),
                pa.array(user, pa.float64()),
                pa.array(system, pa.float64()),
                pa.array(np.round(100 - user - system, 2), pa.float64()),
                pa.array(memory, pa.int64()),
                pa.array(np.round(4 * busy + self._noise(4, which, every), 2), pa.float64()),
            ],
            ["host", "region", "ts", "usage_user", "usage_system", "usage_idle", "memory_used", "load1"],
        )

    def series(self, times: Seconds) -> Iterator[LabelledSeries]:
        """Metrics of a web service, as Prometheus would scrape them."""
        for number, host in enumerate(self.host_names()):
            place = {"instance": f"{host}:9100", "job": "web"}
            yield {"__name__": "up", **place}, times, np.ones(len(times))
            for method, share in _METHODS:
                for code, part in _CODES:
                    labels = {"__name__": "http_requests_total", "method": method, "code": code, **place}
                    yield labels, times, np.floor(self._counter(number, times, 20 * share * part))
            yield from self._histogram(place, number, times)

    def _histogram(self, place: dict[str, str], number: int, times: Seconds) -> Iterator[LabelledSeries]:
        name = "http_request_duration_seconds"
        count = np.floor(self._counter(number, times, 20.0))
        for bound in _BUCKETS:
            share = 1 - np.exp(-bound / 0.06)
            labels = {"__name__": f"{name}_bucket", "le": f"{bound:g}", **place}
            yield labels, times, np.floor(count * share)
        yield {"__name__": f"{name}_bucket", "le": "+Inf", **place}, times, count
        yield {"__name__": f"{name}_count", **place}, times, count
        yield {"__name__": f"{name}_sum", **place}, times, np.round(count * 0.06, 3)

    def log_rows(self, times: Seconds) -> pa.RecordBatch:
        """A line of log for each service and time, on one of the hosts."""
        found: dict[str, list[object]] = {name: [] for name in ("service", "host", "ts", "level", "message")}
        for number, service in enumerate(_SERVICES):
            which = np.full(len(times), number)
            parts = [self._noise(10 + at, which, times) for at in range(6)]
            for at, second in enumerate(times.tolist()):
                host, level, text, path, amount, person = (float(part[at]) for part in parts)
                name = _LEVELS[int(level * len(_LEVELS))]
                texts = _MESSAGES[name]
                found["service"].append(service)
                found["host"].append(f"host-{int(host * self.hosts)}")
                found["ts"].append(second * 1000 + int(amount * 1000))
                found["level"].append(name)
                found["message"].append(
                    texts[int(text * len(texts))].format(
                        path=_PATHS[int(path * len(_PATHS))],
                        ms=int(5 + 900 * amount**3),
                        user=int(person * 1000),
                        order=10_000 + int(person * 90_000),
                    )
                )
        times_ms = pa.array(found["ts"], pa.int64()).cast(pa.timestamp("ms"))
        texts_of = {name: pa.array(values, pa.string()) for name, values in found.items() if name != "ts"}
        return pa.RecordBatch.from_arrays([times_ms if name == "ts" else texts_of[name] for name in found], list(found))

    def _busy(self, which: Seconds, times: Seconds) -> Floats:
        """How busy hosts are, 0 to 1: more in the day than in the night, each in its own way."""
        day = 0.5 + 0.3 * np.sin(2 * np.pi * (times % _DAY) / _DAY + which)
        hour = 0.15 * np.sin(2 * np.pi * (times % 3600) / 3600 + 2.1 * which)
        return np.asarray(np.clip(day + hour, 0.02, 0.98))

    def _counter(self, number: int, times: Seconds, rate: float) -> Floats:
        """A counter that grows by about a rate per second and begins again at midnight, as after a restart."""
        since = (times % _DAY).astype(np.float64)
        wave = 2 * np.pi / 3600
        grown = since + 0.4 / wave * (1 - np.cos(wave * since + number) + np.cos(number) - 1)
        jitter = 0.3 * STEP_SECONDS * self._noise(20, np.full(len(times), number), times)
        return np.asarray(rate * (grown + jitter))

    def _noise(self, kind: int, which: npt.NDArray[np.int64], times: Seconds) -> Floats:
        """Numbers from 0 to 1 that look random and depend on nothing but what is given: splitmix64."""
        mixed = times.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed += which.astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
        mixed += np.uint64((kind * 0x94D049BB133111EB + self.seed * 0xD6E8FEB86659FD93) % 2**64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11), dtype=np.float64) / 2.0**53
