"""A filter, split by what it takes to decide it.

    filter ─▶ what must all be true ─┬─ about tags only     decided on series, never looked at again
                                     ├─ a range of time      decided by slicing rows
                                     └─ anything else        checked on rows, after duplicates are gone

What is checked on rows may still say something about series (`host = 'a' or usage > 90`) or time, and then prunes them
as well: a series for which it is false whatever the fields are has no matching row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tsdb.engine.index import TextTest
from tsdb.engine.scan.filters.compare import Value
from tsdb.engine.scan.filters.evaluate import CONNECTIVES, evaluate, is_understood
from tsdb.engine.scan.filters.expression import Call, Node, Undecodable, conjuncts_of, decode_expression
from tsdb.engine.scan.filters.time_span import EVERYTHING, UNKNOWN, TimeSpan, find_time_span
from tsdb.errors import InvalidArguments
from tsdb.model import Matcher, RegionSchema, TimeRange, match_values, matches_empty

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """An expression with a function that only Arrow can evaluate; it is left to Arrow as a whole."""

    expression: pc.Expression
    names: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class TagIs:
    """A tag of text is one of some values."""

    tag: str
    values: tuple[str, ...]
    names: frozenset[str]

    @classmethod
    def one_of(cls, tag: str, values: Iterable[str]) -> TagIs:
        return cls(tag, tuple(values), frozenset((tag,)))


@dataclass(frozen=True, slots=True, eq=False)
class TagMatch:
    """A tag satisfies a matcher of Prometheus; a tag that is null is empty."""

    matcher: Matcher
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset((self.matcher.name,)))


@dataclass(frozen=True, slots=True, eq=False)
class TagsAsked:
    """A condition on tags that the caller decides: `Evaluate` is asked for the expression of this number."""

    names: frozenset[str]
    number: int


Evaluate: TypeAlias = Callable[[int, pa.RecordBatch], pa.Array]
"""What the caller of an aggregation computes: an expression, by its number, for the rows of some tags."""


@dataclass(frozen=True, slots=True, eq=False)
class TagCheck:
    """`TagsAsked` with what answers it."""

    names: frozenset[str]
    decide: Callable[[pa.RecordBatch], pa.Array]
    """Returns booleans for the rows of these tags."""


Check = Node | Opaque
SeriesCheck = Check | TagIs | TagMatch | TagsAsked | TagCheck


RowExpression: TypeAlias = pc.Expression | pa.Scalar | Node
"""A condition as an expression: DataFusion hands over those of Arrow, a scalar if one is constant."""


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """A filter of which the caller knows the parts: all of them must hold."""

    time_range: TimeRange
    tags: tuple[TagIs | TagMatch | TagsAsked | TagCheck, ...] = ()
    rest: RowExpression | None = None
    texts: tuple[TextTest, ...] = ()
    """What the caller checks itself, and what indexes may leave rows out by."""

    def answered_by(self, evaluate: Evaluate) -> Conditions:
        """Return the conditions with those that the caller decides bound to it."""
        if not any(isinstance(each, TagsAsked) for each in self.tags):
            return self
        return replace(self, tags=tuple(_bound(each, evaluate) for each in self.tags))


@dataclass(frozen=True, slots=True, eq=False)
class ScanFilter:
    """What a row must fulfil."""

    time_range: TimeRange
    """Rows outside do not match."""
    on_series: tuple[SeriesCheck, ...]
    on_rows: tuple[Check, ...]
    tags: frozenset[str]
    """The names of all tags."""
    texts: tuple[TextTest, ...] = ()
    """Rows that do not fulfil these need not be read; what is read is not checked."""

    @property
    def is_of_time_alone(self) -> bool:
        return not self.on_series and not self.on_rows

    @property
    def row_names(self) -> frozenset[str]:
        """The columns that the checks on rows read."""
        return frozenset().union(*(check.names for check in self.on_rows))


def _bound(check: TagIs | TagMatch | TagsAsked | TagCheck, evaluate: Evaluate) -> TagIs | TagMatch | TagCheck:
    if not isinstance(check, TagsAsked):
        return check
    number = check.number
    return TagCheck(check.names, lambda tags: evaluate(number, tags))


RowFilter: TypeAlias = RowExpression | Conditions | None
"""What callers ask rows for."""


def make_filter(
    schema: RegionSchema,
    expression: RowFilter,
    *,
    within: TimeRange = TimeRange.ALL,
    also: tuple[SeriesCheck, ...] = (),
) -> ScanFilter:
    """Split an expression over the columns of a region, which is to hold within a range of time, and other checks."""
    tags = schema.tag_names
    if isinstance(expression, Conditions) and expression.rest is None:
        range = within.intersection(expression.time_range)
        range = TimeRange(0, 0) if range.is_empty else range
        return ScanFilter(range, (*expression.tags, *also), (), tags, expression.texts)
    on_series: list[SeriesCheck] = list(also)
    on_rows: list[Check] = []
    texts: tuple[TextTest, ...] = ()
    if isinstance(expression, Conditions):
        texts = expression.texts
        within = within.intersection(expression.time_range)
        on_series += expression.tags
        expression = expression.rest
    span = EVERYTHING.intersection(TimeSpan(within, True))
    for check in () if expression is None else _checks_of(schema, expression):
        found = UNKNOWN if isinstance(check, Opaque) else find_time_span(check, schema.time)
        span = span.intersection(TimeSpan(found.range, True))
        if check.names and check.names <= tags:
            on_series.append(check)
        elif not (found.is_exact and check.names <= {schema.time.name}):
            on_rows.append(check)
    return ScanFilter(span.range, tuple(on_series), tuple(on_rows), tags, texts)


def _checks_of(schema: RegionSchema, expression: RowExpression) -> list[Check]:
    try:
        node = decode_expression(expression)
    except Undecodable as error:
        raise InvalidArguments(
            "the filter refers to columns in a way that is not supported", filter=expression
        ) from error
    unknown = sorted(node.names - schema.by_name.keys())
    if unknown:
        raise InvalidArguments("the filter names a column that does not exist", column=unknown[0])
    if is_understood(node):
        return list(conjuncts_of(node))
    # Arrow learns from a column how many rows there are, so one is needed.
    return [Opaque(expression, node.names or frozenset((schema.time.name,)))]


class SeriesFrame:
    """Series as a filter sees them: tags are known, everything else is not.

    Null stands for "unknown", and three-valued logic carries it to the right place: a filter that is false here is
    false for every row of the series.
    """

    def __init__(self, series: pa.RecordBatch, tags: frozenset[str]) -> None:
        self.series = series
        self._tags = tags
        self._values: dict[int, Value] = {}

    def decide(self, node: Node) -> Value | None:
        if node.names <= self._tags or (isinstance(node, Call) and node.function in CONNECTIVES):
            return None
        return pa.scalar(None, pa.bool_())

    def column(self, name: str) -> pa.Array:
        return self.series.column(name)

    def value(self, check: SeriesCheck) -> pa.Array:
        """Return what a check comes to for every series; it is evaluated once."""
        if id(check) not in self._values:
            self._values[id(check)] = self._evaluate(check)
        return self._values[id(check)]

    def _evaluate(self, check: SeriesCheck) -> pa.Array:
        if isinstance(check, TagIs):
            column = self.series.column(check.tag)
            return pc.is_in(column, value_set=pa.array(check.values, column.type))
        if isinstance(check, TagMatch):
            return _matching(check.matcher, self.series.column(check.matcher.name))
        if isinstance(check, TagCheck):
            names = sorted(check.names)
            return check.decide(pa.RecordBatch.from_arrays([self.series.column(each) for each in names], names=names))
        if isinstance(check, Opaque):
            if not check.names <= self._tags:
                return pa.nulls(self.series.num_rows, pa.bool_())
            return evaluate_opaque(check, self.series)
        assert not isinstance(check, TagsAsked), "a condition without a callback"
        found = evaluate(check, self)
        return pa.repeat(found, self.series.num_rows) if isinstance(found, pa.Scalar) else found


def _matching(matcher: Matcher, column: pa.Array) -> pa.Array:
    """Tell for each value of a tag whether it satisfies a matcher, which is decided on distinct values."""
    is_encoded = pa.types.is_dictionary(column.type) and len(column.dictionary) <= len(column)
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) and not is_encoded else column
    encoded = column if is_encoded else plain.dictionary_encode()
    values = encoded.dictionary.cast(pa.string())
    # The last place is that of nulls.
    is_chosen = np.append(match_values(matcher, values), matches_empty(matcher))
    return pa.array(is_chosen[encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)])


def match_series(wanted: ScanFilter, frame: SeriesFrame) -> Mask:
    """Tell for each series whether it can have rows that match."""
    mask: Mask = np.ones(frame.series.num_rows, dtype=np.bool_)
    for check in wanted.on_series:
        mask &= as_mask(frame.value(check))
    for check in wanted.on_rows:
        if check.names & wanted.tags:
            mask &= as_mask(pc.fill_null(frame.value(check), True))
    return mask


def remaining_checks(wanted: ScanFilter, frame: SeriesFrame, kept: Mask) -> tuple[Check, ...]:
    """Return the checks on rows that the tags of the kept series do not answer already."""
    return tuple(
        check
        for check in wanted.on_rows
        if not check.names & wanted.tags or not bool(np.all(as_mask(frame.value(check))[kept]))
    )


def as_mask(values: pa.Array) -> Mask:
    """Return where a filter is true; null is not."""
    filled = values.fill_null(False) if values.null_count else values
    mask: Mask = filled.to_numpy(zero_copy_only=False)
    return mask


def evaluate_opaque(check: Opaque, columns: pa.RecordBatch) -> pa.Array:
    """Let Arrow evaluate an expression."""
    scanner = ds.Scanner.from_batches([columns], schema=columns.schema, columns={"match": check.expression})
    found = scanner.to_table().column("match")
    return found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)
