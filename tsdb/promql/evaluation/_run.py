"""Runs a query: from its syntax tree and times to a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from tsdb.promql._ast import Expr, MatrixSelector, Subquery, ValueType, unwrap
from tsdb.promql._errors import PromqlFailure
from tsdb.promql.evaluation._annotations import Annotations
from tsdb.promql.evaluation._budget import SampleBudget
from tsdb.promql.evaluation._context import LOOKBACK_MS, EvalContext, Limits
from tsdb.promql.evaluation._evaluator import Evaluator
from tsdb.promql.evaluation._extended import extended_samples
from tsdb.promql.evaluation._native_samples import watched_selectors
from tsdb.promql.evaluation._source import SeriesSet, SeriesSource
from tsdb.promql.evaluation._values import Scalar, StringValue, Times, Vector, finish


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The result of a query. `value` is a SeriesSet for a range vector: its samples are as they were taken."""

    times: Times
    value: Scalar | StringValue | Vector | SeriesSet
    warnings: list[str]
    infos: list[str]
    samples: int = 0
    """How many were looked at."""


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """How a query is evaluated."""

    lookback_ms: int = LOOKBACK_MS
    limits: Limits = field(default_factory=Limits)
    check: Callable[[], None] = lambda: None
    budget: SampleBudget | None = None
    """The budget of all queries; None for a query on its own."""


def run_instant(
    expr: Expr, text: str, source: SeriesSource, time_ms: int, options: EvaluationOptions | None = None
) -> Answer:
    """Evaluate a query at one time."""
    options = options or EvaluationOptions()
    times = np.array([time_ms], np.int64)
    with _context(text, source, time_ms, time_ms, 0, options, expr) as context, np.errstate(all="ignore"):
        if expr.type is ValueType.MATRIX:
            return _answer(context, times, _samples(context, expr, times))
        value = Evaluator(context).evaluate(expr, times)
        if isinstance(value, Vector):
            value = finish(value)
        return _answer(context, times, value)


def run_range(
    expr: Expr,
    text: str,
    source: SeriesSource,
    *,
    start_ms: int,
    end_ms: int,
    step_ms: int,
    options: EvaluationOptions | None = None,
) -> Answer:
    """Evaluate a query at each step from `start_ms` to `end_ms`; numbers become series without labels."""
    if expr.type not in (ValueType.SCALAR, ValueType.VECTOR):
        raise PromqlFailure(f'invalid expression type "{expr.type}" for range query, must be Scalar or instant Vector')
    if step_ms <= 0:
        raise PromqlFailure("the step of a range query must be greater than 0")
    options = options or EvaluationOptions()
    with _context(text, source, start_ms, end_ms, step_ms, options, expr) as context, np.errstate(all="ignore"):
        context.reserve(1, max(0, (end_ms - start_ms) // step_ms + 1))
        times = np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64)
        if not len(times):
            return _answer(context, times, Vector.empty(0))
        value = Evaluator(context).evaluate(expr, times)
        if isinstance(value, Scalar):
            value = Vector.single({}, value.values)
        assert isinstance(value, Vector)
        vector = finish(value)
        order = vector.labels.order()
        if (order[1:] < order[:-1]).any():
            vector = vector.take(order)
        return _answer(context, times, replace(vector, is_ordered=True))


@contextmanager
def _context(
    text: str, source: SeriesSource, start_ms: int, end_ms: int, step_ms: int, options: EvaluationOptions, expr: Expr
) -> Iterator[EvalContext]:
    context = EvalContext(
        source,
        start_ms,
        end_ms,
        step_ms,
        Annotations(text),
        lookback_ms=options.lookback_ms,
        limits=options.limits,
        check=options.check,
        watched=watched_selectors(expr),
        budget=options.budget,
    )
    try:
        yield context
    finally:
        context.release()


def _answer(context: EvalContext, times: Times, value: Scalar | StringValue | Vector | SeriesSet) -> Answer:
    return Answer(times, value, context.annotations.warnings, context.annotations.infos, context.samples)


def _samples(context: EvalContext, expr: Expr, times: Times) -> SeriesSet:
    """Return the samples of a range vector at one time."""
    node = unwrap(expr)
    assert isinstance(node, MatrixSelector | Subquery)
    windows = Evaluator(context).windows(node, times)
    found = extended_samples(windows, context.lookback_ms) if windows.extension else windows.samples_in_first()
    names = found.labels.dropping(("__name__", "__type__", "__unit__"), windows.drops_name)
    return SeriesSet(names, found.offsets, found.times, found.values, found.histograms)
