"""`/federate`: the newest sample of each selected series in the text format, for another Prometheus to scrape."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tsdb.database import FederatedSample
from tsdb.promql.evaluation import format_float
from tsdb.query.promql import QueryTimes
from tsdb.servers.http.prometheus._ask import PromqlWork
from tsdb.servers.http.wire import AnyResponse, Request, Response

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_NOT_IN_METRIC = re.compile(r"[^a-zA-Z0-9_:]")
_NOT_IN_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class FederationRoutes:
    """The route of federation."""

    def __init__(self, work: PromqlWork) -> None:
        self._work = work

    async def federate(self, request: Request) -> AnyResponse:
        """Return the newest samples of the series that `match[]` selects."""
        ask = await self._work.ask(request)
        selectors = ask.selectors()
        span = QueryTimes.instant(ask.now_ms, ask.lookback())

        metrics = self._work.database.metrics

        def work(check: Callable[[], None]) -> bytes:
            return encode_samples(metrics.newest(selectors, span, ask.session, check))

        return Response(await self._work.find(ask, "federate", work), content_type=_TEXT)


def encode_samples(samples: Sequence[FederatedSample]) -> bytes:
    """Write samples, sorted by name, in the text format, with a line for the type of each metric."""
    lines: list[str] = []
    last = None
    for newest, kind in ((each.newest, each.kind) for each in samples):
        name = newest.labels.get("__name__", "")
        if name != last:
            lines.append(f"# TYPE {_metric_name(name)} {kind}\n")
            last = name
        lines.append(f"{_series(name, newest.labels)} {format_float(newest.value)} {newest.time_ms}\n")
    return "".join(lines).encode("utf-8", "replace")


def _metric_name(name: str) -> str:
    clean = _NOT_IN_METRIC.sub("_", name)
    return f"_{clean}" if not clean or clean[0].isdigit() else clean


def _series(name: str, labels: Mapping[str, str]) -> str:
    # Without a label `instance`, the scraping server would put its own name for us in its place.
    exported = {"instance": "", **labels}
    texts = [
        f'{_NOT_IN_LABEL.sub("_", label)}="{value.translate(_ESCAPES)}"'
        for label, value in exported.items()
        if label != "__name__"
    ]
    return f"{_metric_name(name)}{{{','.join(texts)}}}"
