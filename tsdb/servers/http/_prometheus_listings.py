"""The parts of Prometheus' HTTP API that say what there is: labels, their values, series, descriptions of metrics.

What there is not (a metric, a label, a database) gives an empty answer, as in Prometheus.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tsdb.errors import InvalidArguments, Unsupported
from tsdb.query.promql import find_series, is_metric, label_names, label_values
from tsdb.servers.http._messages import AnyResponse, Request
from tsdb.servers.http._prometheus_ask import PromqlWork, success
from tsdb.servers.http._prometheus_metadata import describe_metrics

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

        def work(check: Callable[[], None]) -> list[str]:
            source = self._work.database.promql.source(ask.session, check)
            return sorted({"__name__", *label_names(source, selectors, period)})[:limit]

        return success(await self._work.run(work))

    async def label_values(self, request: Request) -> AnyResponse:
        """List the values of a label."""
        ask = await self._work.ask(request)
        name = request.path.removeprefix(self._label_prefix)
        if not name.endswith("/values") or name == "/values":
            raise InvalidArguments("expected the path label/<name>/values")
        name = decode_name(name.removesuffix("/values"))
        selectors, period, limit = ask.selectors(), ask.period(), ask.limit()

        def work(check: Callable[[], None]) -> list[str]:
            source = self._work.database.promql.source(ask.session, check)
            return label_values(source, name, selectors, period)[:limit]

        return success(await self._work.run(work))

    async def series(self, request: Request) -> AnyResponse:
        """List series."""
        ask = await self._work.ask(request)
        selectors, period, limit = ask.selectors(), ask.period(), ask.limit()
        if not selectors:
            raise Unsupported("match[] parameter is required")

        def work(check: Callable[[], None]) -> list[dict[str, str]]:
            table = find_series(self._work.database.promql.source(ask.session, check), selectors, period)
            return table.take(table.order()[:limit]).dicts()

        return success(await self._work.run(work))

    async def metadata(self, request: Request) -> AnyResponse:
        """Describe metrics."""
        ask = await self._work.ask(request)
        metric, limit, limit_per_metric = ask.find("metric"), ask.limit(), ask.limit("limit_per_metric")

        def work(check: Callable[[], None]) -> dict[str, list[dict[str, str]]]:
            catalog, database = self._work.database.promql.source(ask.session, check).catalog, ask.session.database
            if catalog.find_database(database) is None:
                return {}
            return describe_metrics(
                self._work.database.metric_descriptions(database),
                [table.name for table in catalog.tables(database) if is_metric(table)],
                metric=metric,
                limit=limit,
                limit_per_metric=limit_per_metric,
            )

        return success(await self._work.run(work))


def decode_name(text: str) -> str:
    """Read the name of a label in a path: `U__` begins one in which `_2e_` stands for a dot and `__` for `_`."""
    if not text.startswith("U__"):
        return text
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "_", text[3:])
