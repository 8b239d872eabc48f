"""The context of one evaluation: the times, samples, limits and annotations of the query."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from tsdb.model import Matcher
from tsdb.promql._ast import DurationExpr, Expr, NumberLiteral, TimeShift
from tsdb.promql._errors import PromqlFailure, PromqlTooLarge
from tsdb.promql.evaluation._annotations import Annotations
from tsdb.promql.evaluation._budget import SampleBudget
from tsdb.promql.evaluation._native_samples import SampleNatives
from tsdb.promql.evaluation._source import SeriesSet, SeriesSource
from tsdb.promql.evaluation._values import Times, Value, Vector

LOOKBACK_MS = 300_000
"""How old the last sample of a series may be."""

SUBQUERY_STEP_MS = 60_000
"""The step of a subquery that names none."""

SAMPLES_MAX = 50_000_000
"""How many samples, read or computed, one query may hold."""

SERIES_MAX = 500_000
"""How many series one selector may find."""

VISITS_MAX = 16_000_000
"""How many samples of windows are computed between two checks of the deadline: some tenths of a second."""

LABEL_CHARS_MAX = 1 << 26
"""How much text the label functions of one query may write, over all series."""

_MATRICES = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one query."""

    samples_max: int = SAMPLES_MAX
    series_max: int = SERIES_MAX
    visits_max: int = VISITS_MAX


@dataclass(slots=True)
class EvalContext:
    """Of one query."""

    source: SeriesSource
    start_ms: int
    end_ms: int
    step_ms: int
    """0 for an instant query."""
    annotations: Annotations
    lookback_ms: int = LOOKBACK_MS
    limits: Limits = field(default_factory=Limits)
    check: Callable[[], None] = lambda: None
    """Raises when the query should not go on."""
    selected: dict[tuple[tuple[Matcher, ...], int, int], SeriesSet] = field(default_factory=dict)
    samples: int = 0
    held: int = 0
    """Cells of matrices that wait for others to be computed."""
    watched: frozenset[int] = frozenset()
    """The ids of the selectors whose native histograms are watched for counter resets."""
    decoded: dict[tuple[int, bool], SampleNatives] = field(default_factory=dict)
    """The native histograms among what was selected."""
    budget: SampleBudget | None = None
    """The budget of all queries."""
    label_chars: int = 0
    """How much text label functions have written."""
    _taken: int = 0
    _matrices: int = 0

    @property
    def is_range(self) -> bool:
        return self.step_ms > 0

    def select(self, matchers: tuple[Matcher, ...], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the samples of a selector, read once per query."""
        key = (matchers, start_ms, end_ms)
        if key not in self.selected:
            self.check()
            found = self.source.select(matchers, start_ms, end_ms)
            if found.labels.rows > self.limits.series_max:
                raise PromqlTooLarge(
                    f"a selector of the query finds {found.labels.rows} series, more than {self.limits.series_max}",
                    hint="add matchers",
                )
            self.count(found.count)
            self.selected[key] = found
        return self.selected[key]

    def count(self, samples: int) -> None:
        """Keep account of samples held; an error when they are too many."""
        self.samples += samples
        if self.samples > self.limits.samples_max:
            raise PromqlTooLarge(
                f"the query would hold more than {self.limits.samples_max} samples in memory",
                hint="select fewer series, a shorter time range or a longer step",
            )
        self._take(samples)

    def reserve(self, rows: int, steps: int) -> None:
        """Make sure that a matrix may be made, of which a computation holds several at once."""
        self.check()
        if (self.held + rows * steps) * _MATRICES > self.limits.samples_max:
            raise PromqlTooLarge(
                f"the query would compute {rows} series at {steps} steps, which is too much for one query",
                hint="select fewer series, a shorter time range or a longer step",
            )
        cells = (self.held + rows * steps) * _MATRICES
        if cells > self._matrices:
            self._take(cells - self._matrices)
            self._matrices = cells

    def reserve_labels(self, chars: int) -> None:
        """Make sure that labels may be written: calls within each other can double a label again and again."""
        self.check()
        self.label_chars += chars
        if self.label_chars > LABEL_CHARS_MAX:
            raise PromqlTooLarge(
                f"the query would write labels of more than {LABEL_CHARS_MAX} characters in all",
                hint="select fewer series or shorter labels",
            )

    def _take(self, samples: int) -> None:
        if self.budget is not None:
            self.budget.take(samples)
            self._taken += samples

    def release(self) -> None:
        """Return the samples to the budget of all queries."""
        if self.budget is not None:
            self.budget.give(self._taken)
        self._taken = self._matrices = 0

    @contextmanager
    def holding(self, value: Value) -> Iterator[None]:
        """Keep account of a value while others are computed."""
        cells = value.values.size if isinstance(value, Vector) else 0
        self.held += cells
        try:
            yield
        finally:
            self.held -= cells

    # Times

    def shifted(self, times: Times, shift: TimeShift) -> Times:
        """Return the times at which a selector looks."""
        offset = shift.offset_ms if shift.offset_expr is None else self.duration(shift.offset_expr, is_offset=True)
        at = shift.at_ms
        if shift.at_edge is not None:
            at = self.start_ms if shift.at_edge == "start" else self.end_ms
        base = times if at is None else np.full(len(times), at, np.int64)
        return base - offset

    def duration(self, expr: Expr, *, is_offset: bool = False) -> int:
        """Return the milliseconds of a computed duration."""
        seconds = self._seconds(expr)
        if not math.isfinite(seconds) or abs(seconds) >= 1 << 53:
            raise PromqlFailure("duration is out of range")
        if seconds <= 0 and not is_offset:
            raise PromqlFailure("duration must be greater than 0")
        return int(seconds * 1000)

    def _seconds(self, expr: Expr) -> float:
        if isinstance(expr, NumberLiteral):
            return expr.value
        assert isinstance(expr, DurationExpr)
        if expr.op == "step":
            return self.step_ms / 1000
        if expr.op == "range":
            return (self.end_ms - self.start_ms) / 1000
        assert expr.rhs is not None
        right = self._seconds(expr.rhs)
        if expr.lhs is None:
            return -right if expr.op == "-" else right
        return _compute(expr.op, self._seconds(expr.lhs), right)


def _compute(op: str, left: float, right: float) -> float:
    if op in ("/", "%") and right == 0:
        raise PromqlFailure("division by zero" if op == "/" else "modulo by zero")
    try:
        if op == "^":
            power = left**right
            return power if isinstance(power, float) else math.nan
        return {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "/": lambda: left / right,
            "%": lambda: math.fmod(left, right),
            "min_of": lambda: min(left, right),
            "max_of": lambda: max(left, right),
        }[op]()
    except (OverflowError, ZeroDivisionError):
        return math.inf
