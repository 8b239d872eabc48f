"""The range of time that a filter leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa

from tsdb.engine.scan.filters.compare import FLIPPED, NEGATED, convert_time_bound
from tsdb.engine.scan.filters.expression import Call, Constant, Node, Ref
from tsdb.model import Column, TimeRange


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Rows outside of `range` do not pass a filter."""

    range: TimeRange
    is_exact: bool
    """Every row inside passes, so that nothing is left to check."""

    def intersection(self, other: TimeSpan) -> TimeSpan:
        return TimeSpan(_intersection(self.range, other.range), self.is_exact and other.is_exact)

    def hull(self, other: TimeSpan) -> TimeSpan:
        if self.range.is_empty or other.range.is_empty:
            chosen = other if self.range.is_empty else self
            return TimeSpan(chosen.range, self.is_exact and other.is_exact)
        touches = self.range.start <= other.range.end and other.range.start <= self.range.end
        return TimeSpan(self.range.union(other.range), self.is_exact and other.is_exact and touches)


EVERYTHING = TimeSpan(TimeRange.ALL, True)
NOTHING = TimeSpan(TimeRange(0, 0), True)
UNKNOWN = TimeSpan(TimeRange.ALL, False)


def find_time_span(node: Node, time: Column, *, negated: bool = False) -> TimeSpan:
    """Return the span of a filter, or of its opposite; what is not about time is unknown."""
    if isinstance(node, Constant):
        return _span_of_literal(node.value, negated=negated)
    if isinstance(node, Ref):
        return UNKNOWN
    if node.function == "invert":
        return find_time_span(node.arguments[0], time, negated=not negated)
    if node.function in ("and", "and_kleene", "or", "or_kleene"):
        spans = [find_time_span(each, time, negated=negated) for each in node.arguments]
        is_conjunction = node.function.startswith("and") != negated
        return reduce(TimeSpan.intersection if is_conjunction else TimeSpan.hull, spans)
    if time.name not in node.names:
        return UNKNOWN
    if node.function in FLIPPED:
        return _span_of_comparison(node, time, negated=negated)
    if node.function in ("is_null", "is_valid") and isinstance(node.arguments[0], Ref):
        # The time column has a value in every row.
        return EVERYTHING if (node.function == "is_valid") != negated else NOTHING
    if node.function == "is_in" and isinstance(node.arguments[0], Ref) and not negated:
        return _span_of_list(node, time)
    return UNKNOWN


def _span_of_literal(value: pa.Scalar, *, negated: bool) -> TimeSpan:
    if not value.is_valid:
        return NOTHING  # neither null nor its opposite lets a row pass
    return EVERYTHING if bool(value.as_py()) != negated else NOTHING


def _span_of_comparison(node: Call, time: Column, *, negated: bool) -> TimeSpan:
    left, right = node.arguments
    function = NEGATED[node.function] if negated else node.function
    if isinstance(left, Constant):
        left, right, function = right, left, FLIPPED[function]
    if not isinstance(left, Ref) or not isinstance(right, Constant):
        return UNKNOWN
    if not right.value.is_valid:
        return NOTHING
    bound = convert_time_bound(function, right.value, time.type)
    return UNKNOWN if bound is None else _span_of_bound(*bound)


def _span_of_bound(function: str, bound: int) -> TimeSpan:
    low, high = TimeRange.ALL.start, TimeRange.ALL.end
    if function == "not_equal":
        return UNKNOWN if low <= bound < high else EVERYTHING
    found = {
        "equal": TimeRange(bound, bound + 1),
        "less": TimeRange(low, bound),
        "less_equal": TimeRange(low, bound + 1),
        "greater": TimeRange(bound + 1, high),
        "greater_equal": TimeRange(bound, high),
    }[function]
    return TimeSpan(_intersection(found, TimeRange.ALL), True)


def _span_of_list(node: Call, time: Column) -> TimeSpan:
    assert node.options is not None
    spans = []
    for scalar in node.options["value_set"].values.drop_null():
        bound = convert_time_bound("equal", scalar, time.type)
        if bound is None:
            return UNKNOWN
        spans.append(_span_of_bound(*bound))
    if not spans:
        return NOTHING
    hull = reduce(TimeSpan.hull, sorted(spans, key=lambda span: span.range.start))
    return TimeSpan(hull.range, hull.is_exact)


def _intersection(left: TimeRange, right: TimeRange) -> TimeRange:
    both = left.intersection(right)
    return TimeRange(0, 0) if both.is_empty else both
