"""Expressions over tags: the planner evaluates them once for each series, never for rows.

A series that an expression fails for may have no row that the query is about, and the planner may look at something
else first. So a failure is no error of the query: it is left to the planner then. What an expression came to for some
tags is remembered if it must come to the same for these tags always: dashboards ask again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tsdb.engine.reading import CellsRequest, ComputedKey, Conditions, Evaluate, TagsAsked
from tsdb.errors import Cancelled, TsdbError
from tsdb.model import TimeRange
from tsdb.query.series_aggregate._fit import FittedQuery, RunFilter, tags_in
from tsdb.query.session import Session
from tsdb.sql.tag_expression import TagExpression

TAGS = "__tags"
"""What the tags of series are called in a query."""

_ROW = "__row"

_KNOWN_MAX = 32
_KNOWN_BYTES_MAX = 1 << 20

Compute = Callable[[TagExpression, pa.RecordBatch], pa.Array]
"""Returns what an expression comes to for the rows of some tags, or raises UndecidedTags."""


class UndecidedTags(Exception):
    """An expression over tags cannot be decided for series alone; the text says why."""


_OTHER_TYPE = "an expression over tags has a value of a type that is not supported"


@dataclass(frozen=True, slots=True, eq=False)
class BoundQuery:
    """The request to regions, and a function that evaluates the tag expressions it numbers."""

    request: CellsRequest
    evaluate: Evaluate | None = None


def bind_expressions(fitted: FittedQuery, filter: RunFilter, compute: Compute) -> BoundQuery:
    """Return the request to regions for a query, with its tag expressions numbered."""
    if not fitted.over_tags and not fitted.computed:
        return BoundQuery(CellsRequest(filter, fitted.runs))
    conditions = len(fitted.over_tags)
    expressions = (*fitted.over_tags, *fitted.computed.values())

    def evaluate(number: int, tags: pa.RecordBatch) -> pa.Array:
        expression = expressions[number]
        return (_decide if number < conditions else _compute)(expression, tags, compute)

    def names(expression: TagExpression) -> tuple[str, ...]:
        found = tags_in(expression, fitted.table)
        assert found is not None, "a fitted query has expressions over tags only"
        return found

    asked = tuple(TagsAsked(frozenset(names(each)), number) for number, each in enumerate(fitted.over_tags))
    computed = {
        key: ComputedKey(names(each), number) for number, (key, each) in enumerate(fitted.computed.items(), conditions)
    }
    runs = replace(fitted.runs, computed=computed)
    if not asked:
        return BoundQuery(CellsRequest(filter, runs), evaluate)
    known = filter if isinstance(filter, Conditions) else Conditions(TimeRange.ALL, (), filter)
    return BoundQuery(CellsRequest(replace(known, tags=(*known.tags, *asked)), runs), evaluate)


def _decide(expression: TagExpression, tags: pa.RecordBatch, compute: Compute) -> pa.Array:
    found = compute(expression, tags)
    if not pa.types.is_boolean(found.type):
        raise UndecidedTags(_OTHER_TYPE)
    return found


def _compute(expression: TagExpression, tags: pa.RecordBatch, compute: Compute) -> pa.Array:
    found = compute(expression, tags)
    kind = found.type
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return found.cast(pa.string())
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise UndecidedTags(_OTHER_TYPE)
    return found


class TagValues:
    """What expressions come to. Thread-safe; remembers a bounded number of them."""

    def __init__(self, run: Callable[[str, pa.Table, Session], pa.Table]) -> None:
        """`run` runs a query over a table of tags."""
        self._run = run
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[pa.RecordBatch, pa.Array]] = OrderedDict()

    def of(self, expression: TagExpression, tags: pa.RecordBatch, session: Session) -> pa.Array:
        """Return the values of an expression for the rows of some tags."""
        if not expression.is_pure or tags.nbytes > _KNOWN_BYTES_MAX:
            return self._compute(expression, tags, session)
        key = (expression.text, session.dialect, session.time_zone)
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0].equals(tags):
            return known[1]
        found = self._compute(expression, tags, session)
        with self._lock:
            self._known[key] = (tags, found)
            self._known.move_to_end(key)
            if len(self._known) > _KNOWN_MAX:
                self._known.popitem(last=False)
        return found

    def _compute(self, expression: TagExpression, tags: pa.RecordBatch, session: Session) -> pa.Array:
        rows = pa.Table.from_batches([tags]).append_column(_ROW, pa.array(np.arange(tags.num_rows)))
        try:
            answer = self._run(f"SELECT {_ROW}, ({expression.text}\n) AS __value FROM {TAGS}", rows, session)
        except Cancelled:
            raise
        except TsdbError as error:
            raise UndecidedTags(f"an expression over tags fails: {error}") from error
        if answer.num_rows != tags.num_rows:
            raise UndecidedTags("an expression over tags has another number of values than there are series")
        # Several threads may have computed them.
        values = answer.column(1).combine_chunks()
        return values.take(pa.array(np.argsort(answer.column(0).to_numpy())))
