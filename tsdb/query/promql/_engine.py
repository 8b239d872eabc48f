"""PromQL over the tables of a database.

A table with several fields is several metrics under one name: unless a matcher of `__field__` chooses one, the query
is evaluated once for each field, and the label `__field__` distinguishes the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tsdb.clock import Clock
from tsdb.engine import Regions
from tsdb.memory import MemoryUse
from tsdb.model import Matcher
from tsdb.promql import Expr, PromqlTooLarge, VectorSelector, parse_promql, walk
from tsdb.promql.evaluation import (
    LOOKBACK_MS,
    SAMPLE_BYTES,
    Answer,
    EvaluationOptions,
    LabelColumn,
    Limits,
    SampleBudget,
    Vector,
    concat_vectors,
    run_instant,
    run_range,
)
from tsdb.query.lifetime import QueryLife
from tsdb.query.promql._newest import Newest, newest_samples
from tsdb.query.promql._series_index import INDEX_BYTES_MAX, SeriesIndexes
from tsdb.query.promql._source import TableSeries
from tsdb.query.promql._tables import FIELD_LABEL, MetricCatalog, chosen_columns, find_tables, split_matchers
from tsdb.query.session import Session
from tsdb.query.tables import visible

_KEPT_MAX = 256
_KEPT_CHARS_MAX = 4096
"""How many queries are kept parsed, and how long they may be."""


@dataclass(frozen=True, slots=True)
class QueryTimes:
    """The times of a query: one without a step, else every step up to the end."""

    start_ms: int
    end_ms: int
    step_ms: int = 0
    lookback_ms: int = LOOKBACK_MS

    @classmethod
    def instant(cls, time_ms: int, lookback_ms: int = LOOKBACK_MS) -> QueryTimes:
        return cls(time_ms, time_ms, 0, lookback_ms)


class PromqlEngine:
    """Answers PromQL queries over the tables of a catalog."""

    def __init__(
        self,
        catalog: MetricCatalog,
        regions: Regions,
        clock: Clock,
        limits: Limits | None = None,
        *,
        budget: SampleBudget | None = None,
        index_bytes: int | None = None,
        authorize: Callable[[Session], None] = lambda session: None,
    ) -> None:
        self.catalog = catalog
        self._authorize = authorize
        self.clock = clock
        self._regions = regions
        self._limits = limits or Limits()
        self._indexes = SeriesIndexes(INDEX_BYTES_MAX if index_bytes is None else index_bytes)
        self._budget = budget or SampleBudget()

    def memory_use(self) -> Iterator[MemoryUse]:
        held, most = self._budget.held, self._budget.samples_max
        yield MemoryUse("promql_samples", held * SAMPLE_BYTES, most * SAMPLE_BYTES)
        yield MemoryUse("promql_series_index", self._indexes.nbytes, self._indexes.bytes_max)

    def limit_memory(self, share: float) -> None:
        self._budget.limit_to(share)
        self._indexes.limit_to(share)

    def source(self, session: Session, check: Callable[[], None] = lambda: None) -> TableSeries:
        """Return the series that a session sees; PermissionDenied if it may see none."""
        self._authorize(session)
        life = QueryLife(self.clock, session.timeout, session.statement, is_wanted=check)
        return TableSeries(
            visible(self.catalog, session),
            self._regions,
            session.database,
            life.check,
            session.timeout,
            indexes=self._indexes,
            on_cancel=life.on_cancel,
        )

    def run(self, text: str, session: Session, span: QueryTimes, check: Callable[[], None] = lambda: None) -> Answer:
        """Evaluate a query."""
        return evaluate_all(text, self.source(session, check), span, self._limits, self._budget)

    def newest(
        self,
        selectors: Sequence[Sequence[Matcher]],
        session: Session,
        span: QueryTimes,
        check: Callable[[], None] = lambda: None,
    ) -> list[Newest]:
        """Return the newest sample of each series, as old as the span looks back."""
        return newest_samples(
            self.source(session, check),
            selectors,
            at_ms=span.end_ms,
            lookback_ms=span.lookback_ms,
            series_max=self._limits.series_max,
        )

    @property
    def limits(self) -> Limits:
        """What one query may use."""
        return self._limits

    def evaluate(self, expr: Expr, text: str, source: TableSeries, span: QueryTimes) -> Answer:
        """Evaluate a query over one field of each table."""
        return _evaluate(expr, text, source, span, self._limits, self._budget)


def evaluate_all(text: str, source: TableSeries, span: QueryTimes, limits: Limits, budget: SampleBudget) -> Answer:
    """Evaluate a query over a source, once for each field that it means."""
    expr = parse_again(text)
    fields = fields_of(expr, source)
    if len(fields) < 2:
        return _evaluate(expr, text, source, span, limits, budget)
    answers, cells = [], 0
    for name in fields:
        answer = _evaluate(expr, text, replace(source, field=name), span, limits, budget)
        answers.append(answer)
        cells += answer.value.values.size if isinstance(answer.value, Vector) else 0
        if cells > limits.samples_max:
            raise PromqlTooLarge(
                f"the answers for {len(fields)} fields have more than {limits.samples_max} values",
                hint='choose a field with {__field__="name"}',
            )
    return _with_fields(answers, fields)


def _evaluate(
    expr: Expr, text: str, source: TableSeries, span: QueryTimes, limits: Limits, budget: SampleBudget
) -> Answer:
    options = EvaluationOptions(lookback_ms=span.lookback_ms, limits=limits, check=source.check, budget=budget)
    if span.step_ms == 0:
        return run_instant(expr, text, source, span.start_ms, options)
    return run_range(
        expr, text, source, start_ms=span.start_ms, end_ms=span.end_ms, step_ms=span.step_ms, options=options
    )


def parse_again(text: str) -> Expr:
    """Parse a query; dashboards repeat the same ones."""
    return _parse_kept(text) if len(text) <= _KEPT_CHARS_MAX else parse_promql(text)


@lru_cache(_KEPT_MAX)
def _parse_kept(text: str) -> Expr:
    return parse_promql(text)


def fields_of(expr: Expr, source: TableSeries) -> list[str]:
    """Return the fields for which a query is evaluated: those of the tables that have several."""
    fields: dict[str, None] = {}
    for node in walk(expr):
        if not isinstance(node, VectorSelector):
            continue
        chosen = split_matchers(node.matchers, source.database)
        if not any(matcher.op == "=" for matcher in chosen.names):
            continue
        for table in find_tables(source.catalog, chosen):
            columns = chosen_columns(table, chosen.fields)
            if len(columns) > 1:
                fields.update(dict.fromkeys(column.name for column in columns))
    return list(fields)


def _with_fields(answers: list[Answer], fields: list[str]) -> Answer:
    """Put the answers for several fields together."""
    vectors = []
    for answer, field in zip(answers, fields, strict=True):
        if not isinstance(answer.value, Vector):
            return answers[0]
        labels = answer.value.labels.with_column(FIELD_LABEL, LabelColumn.constant(field, answer.value.rows))
        vectors.append(replace(answer.value, labels=labels))
    whole = concat_vectors(vectors)
    return replace(answers[0], value=replace(whole.take(whole.labels.order()), is_ordered=True))
