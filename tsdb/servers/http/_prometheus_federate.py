"""`/federate`: the newest sample of each chosen series in the text format, for another Prometheus to scrape."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tsdb.model import MetricDescription
from tsdb.promql.evaluation import format_float
from tsdb.query.promql import Newest, Span
from tsdb.servers.http._messages import AnyResponse, Request, Response
from tsdb.servers.http._prometheus_ask import PromqlWork

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_NOT_IN_METRIC = re.compile(r"[^a-zA-Z0-9_:]")
_NOT_IN_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_TYPES = frozenset({"counter", "gauge"})
"""The types whose samples mean something without the other samples of a family."""


class FederationRoutes:
    """The route of federation."""

    def __init__(self, work: PromqlWork) -> None:
        self._work = work

    async def federate(self, request: Request) -> AnyResponse:
        """Tell the newest samples of the series that `match[]` selects."""
        ask = await self._work.ask(request)
        selectors = ask.selectors()
        span = Span.instant(ask.now_ms, ask.lookback())

        def work(check: Callable[[], None]) -> bytes:
            found = self._work.database.promql.newest(selectors, ask.session, span, check)
            known = self._work.database.metric_descriptions(ask.session.database) if found else {}
            return encode_samples(found, known)

        return Response(await self._work.run(work), content_type=_TEXT)


def encode_samples(samples: Sequence[Newest], known: Mapping[str, Sequence[MetricDescription]]) -> bytes:
    """Write samples, sorted by name, in the text format; metrics that were described have a line of their type."""
    lines: list[str] = []
    last = None
    for sample in samples:
        name = sample.labels.get("__name__", "")
        if name != last:
            lines.append(f"# TYPE {_metric_name(name)} {_type_of(name, known)}\n")
            last = name
        lines.append(f"{_series(name, sample.labels)} {format_float(sample.value)} {sample.time_ms}\n")
    return "".join(lines).encode("utf-8", "replace")


def _type_of(name: str, known: Mapping[str, Sequence[MetricDescription]]) -> str:
    """Return the type of a metric, `untyped` if no sender told it.

    The samples of a histogram or summary come as metrics of their own, without the family that gives them a meaning.
    """
    described = known.get(name) or []
    # OpenMetrics describes the counter `hits_total` as `hits`.
    family = [each for each in known.get(name.removesuffix("_total"), ()) if each.kind == "counter"]
    kind = next((each.kind for each in (*described, *family)), "")
    return kind if kind in _TYPES else "untyped"


def _metric_name(name: str) -> str:
    clean = _NOT_IN_METRIC.sub("_", name)
    return f"_{clean}" if not clean or clean[0].isdigit() else clean


def _series(name: str, labels: Mapping[str, str]) -> str:
    # Without a label `instance`, the scraping server would put its own name for us in its place.
    told = {"instance": "", **labels}
    texts = [
        f'{_NOT_IN_LABEL.sub("_", label)}="{value.translate(_ESCAPES)}"'
        for label, value in told.items()
        if label != "__name__"
    ]
    return f"{_metric_name(name)}{{{','.join(texts)}}}"
