"""The listings of Prometheus' HTTP API: labels, their values, series, metric metadata.

Unknown metrics, labels and databases give an empty result, as in Prometheus.
"""

from __future__ import annotations

import re
from functools import partial

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.servers.http.prometheus._ask import PromqlWork, success
from tsdb.servers.http.wire import AnyResponse, Request

_ESCAPE = re.compile(r"__|_([0-9a-fA-F]{1,5})_")


class ListingRoutes:
    """Labels, values, series and metadata."""

    def __init__(self, work: PromqlWork, prefix: str) -> None:
        self._work = work
        self._label_prefix = f"{prefix}/label/"

    async def labels(self, request: Request) -> AnyResponse:
        """List the names of labels."""
        ask = await self._work.ask(request)
        selectors, period, limit = ask.selectors(), ask.period(), ask.limit()

        metrics = self._work.database.metrics
        work = partial(metrics.label_names, selectors, period, ask.session, limit=limit)
        return success(await self._work.find(ask, "labels", work))

    async def label_values(self, request: Request) -> AnyResponse:
        """List the values of a label."""
        ask = await self._work.ask(request)
        name = request.path.removeprefix(self._label_prefix)
        if not name.endswith("/values") or name == "/values":
            raise InvalidArguments("expected the path label/<name>/values")
        name = decode_name(name.removesuffix("/values"))
        selectors, period, limit = ask.selectors(), ask.period(), ask.limit()

        metrics = self._work.database.metrics
        work = partial(metrics.label_values, name, selectors, period, ask.session, limit=limit)
        return success(await self._work.find(ask, f"label {name} values", work))

    async def series(self, request: Request) -> AnyResponse:
        """List series."""
        ask = await self._work.ask(request)
        selectors, period, limit = ask.selectors(), ask.period(), ask.limit()
        if not selectors:
            raise Unsupported("match[] parameter is required")
        metrics = self._work.database.metrics
        work = partial(metrics.series, selectors, period, ask.session, limit=limit)
        return success(await self._work.find(ask, "series", work))

    async def metadata(self, request: Request) -> AnyResponse:
        """Describe metrics."""
        ask = await self._work.ask(request)
        work = partial(
            self._work.database.metrics.metadata,
            ask.session,
            metric=ask.find("metric"),
            limit=ask.limit(),
            limit_per_metric=ask.limit("limit_per_metric"),
        )
        return success(await self._work.run(work))


def decode_name(text: str) -> str:
    """Read the name of a label in a path: `U__` begins one in which `_2e_` stands for a dot and `__` for `_`."""
    if not text.startswith("U__"):
        return text
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "_", text[3:])
