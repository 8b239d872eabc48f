"""The part of Prometheus' HTTP API that describes the server.

`version` in the build information is that of the Prometheus whose API and PromQL this is: Grafana and others choose
features by it (label values with matchers from 2.24 on). Our own version is in `tsdb_version`.
"""

from __future__ import annotations

import os
import platform
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import orjson

from tsdb.promql import format_duration_ms
from tsdb.promql.evaluation import LOOKBACK_MS
from tsdb.query.promql import SeriesCounts
from tsdb.servers._prometheus_parameters import POINTS_MAX
from tsdb.servers.http.prometheus._ask import PromqlWork, success
from tsdb.servers.http.wire import AnyResponse, Request

PROMETHEUS_VERSION = "3.15.0"
"""The Prometheus whose HTTP API and PromQL this server follows."""

_MOST = 10
_MOST_MAX = 10_000
"""How many entries the lists of `status/tsdb` have, by default and at most; `offset` leads to further ones."""

_EMPTY: dict[str, object] = {
    "query_exemplars": [],
    "rules": {"groups": []},
    "alerts": {"alerts": []},
    "alertmanagers": {"activeAlertmanagers": [], "droppedAlertmanagers": []},
    "targets": {"activeTargets": [], "droppedTargets": []},
    "targets/metadata": [],
    "scrape_pools": {"scrapePools": []},
}
"""Always empty, because nothing is scraped and no rules are evaluated; clients request them nevertheless."""

_Handler: TypeAlias = Callable[[Request], Awaitable[AnyResponse]]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The routes that describe the server."""

    build: Mapping[str, str] = field(default_factory=dict)
    settings: Callable[[], Mapping[str, object]] = dict
    """The effective configuration, sections in sections, without secrets."""
    started_ns: int = field(default_factory=time.time_ns)


class StatusRoutes:
    """The routes that describe the server."""

    def __init__(self, work: PromqlWork, facts: ServerFacts) -> None:
        self._work = work
        self._facts = facts

    def handlers(self) -> Iterator[tuple[str, _Handler]]:
        """Yield the paths and what answers them."""
        yield "status/buildinfo", self.build_info
        yield "status/config", self.config
        yield "status/flags", self.flags
        yield "status/runtimeinfo", self.runtime_info
        yield "status/tsdb", self.tsdb

    def empty_handlers(self) -> Iterator[tuple[str, _Handler]]:
        """Yield the paths that always have an empty result."""
        for path, data in _EMPTY.items():
            yield path, _answering(data)

    async def build_info(self, request: Request) -> AnyResponse:
        """Return the build information."""
        build = dict(self._facts.build)
        return success(
            {
                "version": PROMETHEUS_VERSION,
                "revision": build.get("commit", ""),
                "branch": build.get("branch", ""),
                "buildUser": "",
                "buildDate": "",
                "goVersion": "",
                "application": "tsdb",
                "tsdb_version": build.get("version", ""),
            }
        )

    async def config(self, request: Request) -> AnyResponse:
        """Show the effective configuration; JSON is YAML, too."""
        return success({"yaml": orjson.dumps(self._facts.settings(), option=orjson.OPT_INDENT_2).decode()})

    async def flags(self, request: Request) -> AnyResponse:
        """Show the configuration key by key, and what bounds PromQL."""
        limits = self._work.database.promql.limits
        bounds = {
            "query.lookback-delta": format_duration_ms(LOOKBACK_MS),
            "query.max-concurrency": str(self._work.threads_max),
            "query.max-samples": str(limits.samples_max),
            "query.max-series": str(limits.series_max),
            "query.max-points": str(POINTS_MAX),
        }
        return success({**dict(_flat(self._facts.settings())), **bounds})

    async def runtime_info(self, request: Request) -> AnyResponse:
        """Return the runtime information."""
        now_ns = self._work.database.promql.clock.now_ns()
        return success(
            {
                "startTime": _time_text(self._facts.started_ns),
                "CWD": str(Path.cwd()),
                "hostname": socket.gethostname(),
                "serverTime": _time_text(now_ns),
                "reloadConfigSuccess": True,
                "lastConfigTime": _time_text(self._facts.started_ns),
                "corruptionCount": 0,
                "goroutineCount": threading.active_count(),
                "GOMAXPROCS": os.cpu_count() or 1,
                "GOMEMLIMIT": 0,
                "GOGC": "",
                "GODEBUG": "",
                "storageRetention": "",
                "pythonVersion": platform.python_version(),
            }
        )

    async def tsdb(self, request: Request) -> AnyResponse:
        """Count the series of a database."""
        ask = await self._work.ask(request)
        most, skipped = min(ask.limit() or _MOST, _MOST_MAX), ask.limit("offset") or 0

        def work(check: Callable[[], None]) -> dict[str, object]:
            return _shown(self._work.database.metrics.counts(ask.session, check, most=most, skipped=skipped))

        return success(await self._work.find(ask, "status tsdb", work))


def _answering(data: object) -> _Handler:
    async def answer(request: Request) -> AnyResponse:
        return success(data)

    return answer


def _shown(counts: SeriesCounts) -> dict[str, object]:
    def stats(pairs: list[tuple[str, int]]) -> list[dict[str, object]]:
        return [{"name": name, "value": value} for name, value in pairs]

    return {
        "headStats": {"numSeries": counts.series, "numLabelPairs": counts.label_pairs},
        "seriesCountByMetricName": stats(counts.by_metric),
        "labelValueCountByLabelName": stats(counts.values_by_label),
        "memoryInBytesByLabelName": stats(counts.bytes_by_label),
        "seriesCountByLabelValuePair": stats(counts.by_pair),
    }


def _flat(section: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value if isinstance(value, str) else orjson.dumps(value).decode()


def _time_text(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
