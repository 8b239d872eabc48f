"""What a database knows of its metrics without evaluating a query: labels, series, newest samples, metadata.

Metrics, labels or databases that do not exist give an empty answer, as in Prometheus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tsdb.database.prometheus.metadata import Metadata, describe_metrics, kind_of
from tsdb.model import Matcher, MetricDescription
from tsdb.query import Session
from tsdb.query.promql import (
    Newest,
    Period,
    PromqlEngine,
    QueryTimes,
    SeriesCounts,
    count_series,
    find_series,
    is_metric,
    label_names,
    label_values,
)

Check = Callable[[], None]
Selectors = Sequence[Sequence[Matcher]]


@dataclass(frozen=True, slots=True)
class FederatedSample:
    """The newest sample of a series, and the type of its metric."""

    newest: Newest
    kind: str


class Metrics:
    """The metrics that sessions see. `check` is called at each step; it raises when the caller has given up."""

    def __init__(
        self, engine: PromqlEngine, descriptions: Callable[[str], Mapping[str, tuple[MetricDescription, ...]]]
    ) -> None:
        """`descriptions` returns what the metrics of a database said about themselves, the newest first."""
        self._engine = engine
        self._descriptions = descriptions

    def label_names(
        self, selectors: Selectors, period: Period, session: Session, check: Check, *, limit: int | None = None
    ) -> list[str]:
        """Return the names of the labels of series."""
        source = self._engine.source(session, check)
        return sorted({"__name__", *label_names(source, selectors, period)})[:limit]

    def label_values(
        self,
        name: str,
        selectors: Selectors,
        period: Period,
        session: Session,
        check: Check,
        *,
        limit: int | None = None,
    ) -> list[str]:
        """Return the values of a label."""
        return label_values(self._engine.source(session, check), name, selectors, period)[:limit]

    def series(
        self, selectors: Selectors, period: Period, session: Session, check: Check, *, limit: int | None = None
    ) -> list[dict[str, str]]:
        """Return the labels of series, in their order."""
        table = find_series(self._engine.source(session, check), selectors, period)
        return table.take(table.order()[:limit]).dicts()

    def counts(self, session: Session, check: Check, *, most: int, skipped: int = 0) -> SeriesCounts:
        """Count the series of a database; the lists have at most `most` entries, behind those that are skipped."""
        return count_series(self._engine.source(session, check), most=most, skipped=skipped)

    def newest(self, selectors: Selectors, span: QueryTimes, session: Session, check: Check) -> list[FederatedSample]:
        """Return the newest sample of each series, sorted by name."""
        found = self._engine.newest(selectors, session, span, check)
        known = self._descriptions(session.database) if found else {}
        return [FederatedSample(each, kind_of(each.labels.get("__name__", ""), known)) for each in found]

    def metadata(
        self,
        session: Session,
        check: Check,
        *,
        metric: str | None = None,
        limit: int | None = None,
        limit_per_metric: int | None = None,
    ) -> Metadata:
        """Describe the metrics of a database, or one of them."""
        catalog = self._engine.source(session, check).catalog
        if catalog.find_database(session.database) is None:
            return {}
        return describe_metrics(
            self._descriptions(session.database),
            [table.name for table in catalog.tables(session.database) if is_metric(table)],
            metric=metric,
            limit=limit,
            limit_per_metric=limit_per_metric,
        )
