"""From a range query to the plain SQL that aggregates it, and to the names of what comes back.

Three forms, for a row that belongs to at most one slot, and for one that belongs to several:

    single   one GROUP BY over the slot
    binned   rows are first aggregated to bins that fit into the slots of every range; windows then slide over bins
             (`_windows`). Only for aggregates that can be put together from parts, see `_PARTS`
    stepped  every row is repeated once per slot. For all other aggregates
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa
import pyarrow.types as pt

from tsdb.errors import Status, TsdbError
from tsdb.query.range._runner import RangeRunner, quote_name
from tsdb.query.range._series import plain_type
from tsdb.query.range._source import TimeSource, find_source, in_scope
from tsdb.query.range._spans import origin_ms, span_label, span_ms
from tsdb.query.range._times import Times, plan_times
from tsdb.sql.range_query import Fill, RangeCall, RangePlanError, RangeQuery

SLOT = "__range_slot"
BINS_PER_SLOT_MAX = 64
"""Finer bins hardly shrink the rows; repeating the rows then costs less, unless it is many times."""
STEPS_MAX = 8
"""Up to so many repetitions of a row cost less than bins that are too fine."""


_ARGUMENT = re.compile(r"\w+\s*\(\s*(.*?)\s+ORDER\s+BY\s", re.IGNORECASE | re.DOTALL)
"""The argument of a call that says in which order rows come."""
_NULL_OF_NOTHING = frozenset({"avg", "first_value", "last_value", "max", "median", "min", "sum"})


class Form(StrEnum):
    SINGLE = "single"
    BINNED = "binned"
    STEPPED = "stepped"


@dataclass(frozen=True, slots=True)
class BinColumn:
    """A column of the aggregated table: its name there, and how it shows in headers."""

    name: str
    alone: str
    """As the header of a select item that is nothing but this."""
    inside: str
    """Inside the header of a larger expression."""
    sql: str
    """How it is computed from the source."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call of the query, planned."""

    call: RangeCall
    column: BinColumn
    kind: pa.DataType
    parts: tuple[str, ...] = ()
    """SQL of what is computed per bin."""

    @property
    def fill(self) -> Fill | None:
        return self.call.fill


@dataclass(frozen=True, slots=True)
class RangePlan:
    """How a range query is evaluated."""

    query: RangeQuery
    source: TimeSource
    times: Times
    slot: BinColumn
    by: tuple[BinColumn, ...]
    calls: tuple[PlannedCall, ...]
    form: Form
    bin_width: int
    sql: str
    """Aggregates the source; its columns are the slot, BY and calls (or their parts), sorted by BY and slot."""
    runs_sql: str | None
    """The same by buckets of time, the slot as a time of the source, in a form that runs of rows can answer."""
    empty_sql: str | None
    """Answers with one row: every call over nothing. None when all of them are NULL then."""

    @property
    def columns(self) -> tuple[BinColumn, ...]:
        return (self.slot, *self.by, *(call.column for call in self.calls))


def plan_range(query: RangeQuery, runner: RangeRunner) -> RangePlan:
    """Plan a range query: find its time, evaluate its spans, learn names and types from the runner."""
    source = find_source(query, runner)
    spans = [span_ms(call.span, runner) for call in query.calls]
    times = plan_times(source, span_ms(query.align, runner), spans, origin_ms(query.origin, runner))
    slot, by = _plan_columns(query, runner, source)
    fields = {text: _call_field(query, runner, text) for text in dict.fromkeys(call.text for call in query.calls)}
    calls = tuple(
        _plan_call(call, f"__range_call_{number}", fields[call.text], source, runner)
        for number, call in enumerate(query.calls)
    )
    form, width = _choose_form(times, calls)
    shape = _Shape(query, source, times, by, calls)
    sql = shape.binned(width) if form is Form.BINNED else shape.direct()
    by_runs = shape.by_bucket(form, width)
    needs_empty = query.has_fill and any(call.call.function not in _NULL_OF_NOTHING for call in calls)
    empty = in_scope(query, shape.empty()) if needs_empty else None
    runs = None if by_runs is None else in_scope(query, by_runs)
    return RangePlan(query, source, times, slot, by, calls, form, width, in_scope(query, sql), runs, empty)


def stepped(plan: RangePlan) -> RangePlan:
    """Return a plan that gives the same without bins."""
    shape = _Shape(plan.query, plan.source, plan.times, plan.by, plan.calls)
    return replace(plan, form=Form.STEPPED, sql=in_scope(plan.query, shape.direct()))


def _by_texts(query: RangeQuery, source: TimeSource, runner: RangeRunner) -> list[str]:
    if query.by is None:
        return [quote_name(tag, runner.dialect) for tag in source.tags or ()]
    return [query.text[each.start : each.end] for each in query.by]


def _source_text(query: RangeQuery) -> str:
    return query.text[query.source.start : query.source.end]


_BY_PROBE, _TIME_PROBE = " IS NULL", " IS NOT NULL"


def _plan_columns(
    query: RangeQuery, runner: RangeRunner, source: TimeSource
) -> tuple[BinColumn, tuple[BinColumn, ...]]:
    """Return the columns of the slot and of BY.

    One planned statement gives all their names: as select items, and inside an expression, where a column shows its
    relation.
    """
    texts = list(dict.fromkeys(_by_texts(query, source, runner)))
    probes = [probe for text in texts for probe in (text, f"({text}){_BY_PROBE}")]
    select = ", ".join([*probes, f"({source.column}){_TIME_PROBE}"])
    names = runner.schema(in_scope(query, f"SELECT {select} FROM {_source_text(query)}")).names
    by = tuple(
        BinColumn(f"__range_by_{number}", alone, inside.removesuffix(_BY_PROBE), text)
        for number, (text, alone, inside) in enumerate(zip(texts, names[:-1:2], names[1::2], strict=True))
    )
    return BinColumn(SLOT, source.name, names[-1].removesuffix(_TIME_PROBE), source.column), by


def _plan_call(call: RangeCall, name: str, field: pa.Field, source: TimeSource, runner: RangeRunner) -> PlannedCall:
    header = f"{'count(Int64(1))' if field.name == 'count(*)' else field.name} RANGE {span_label(call.span, runner)}"
    if call.fill is not None:
        header += f" FILL {call.fill.label}"
    column = BinColumn(name, header, header, _ordered(call, source))
    return PlannedCall(call, column, plain_type(field.type), _parts_of(call, source, field.type))


def _call_field(query: RangeQuery, runner: RangeRunner, call: str) -> pa.Field:
    """Return name and type of a call; a second aggregate beside it makes calls that are no aggregates fail."""
    text = f"SELECT count(*) AS __range_rows, {call} FROM {_source_text(query)}"
    try:
        return runner.schema(in_scope(query, text)).field(1)
    except TsdbError as error:
        if error.status is Status.PLAN_QUERY and "GROUP BY" in error.message:
            raise RangePlanError(f"only an aggregate can be taken over a range, {call} is none") from error
        raise


def _ordered(call: RangeCall, source: TimeSource) -> str:
    """Return a call with the order that `first` and `last` mean when nothing else is said.

    Where the user orders by something else, rows that are equal in that come in the order of time, then of their
    values: the answer does not depend on the order in which rows are read.
    """
    if call.function not in ("first_value", "last_value"):
        return call.text
    head, tail = call.text[: call.close], call.text[call.close :]
    if not call.has_order:
        return f"{head} ORDER BY {source.column}{tail}"
    match = _ARGUMENT.match(head)
    if match is None:
        return call.text
    ordered = head[match.end() :].lower()
    ties = [each for each in (source.column, match[1]) if each.strip('"').lower() not in ordered]
    return ", ".join([head, *dict.fromkeys(ties)]) + tail


def _parts_of(call: RangeCall, source: TimeSource, kind: pa.DataType) -> tuple[str, ...]:
    """Return the parts from which a call over many bins can be put together; none when it cannot."""
    if call.argument is None:
        return ()
    function, is_number = call.function, pt.is_integer(kind) or pt.is_floating(kind)
    if function == "count" or (function == "sum" and is_number):
        return (call.text,)
    if function in ("min", "max") and not (pt.is_nested(kind) or pt.is_interval(kind) or pt.is_null(kind)):
        return (call.text,)
    if function in ("first_value", "last_value"):
        return (_ordered(call, source),)
    if function == "avg" and pt.is_float64(kind):
        return (f"sum(({call.argument}) * 1e0)", f"count({call.argument})")
    return ()


def _choose_form(times: Times, calls: Sequence[PlannedCall]) -> tuple[Form, int]:
    if times.steps == 1:
        return Form.SINGLE, times.align
    width = math.gcd(times.align, *times.spans)
    is_coarse = times.align // width <= BINS_PER_SLOT_MAX or times.steps > STEPS_MAX
    if is_coarse and all(call.parts for call in calls):
        return Form.BINNED, width
    return Form.STEPPED, times.align


@dataclass(frozen=True, slots=True)
class _Shape:
    """Writes the statements of a plan."""

    query: RangeQuery
    source: TimeSource
    times: Times
    by: tuple[BinColumn, ...]
    calls: tuple[PlannedCall, ...]

    def direct(self) -> str:
        """Every row goes straight to its slots."""
        times = self.times
        distance, steps = times.distance(times.align), ""
        if times.steps > 1:
            series = f"SELECT value AS __range_step FROM generate_series(0, {times.steps - 1})"
            steps = f" CROSS JOIN ({series}) AS __range_steps"
            distance = f"({distance} + __range_steps.__range_step * {times.align})"
        values = []
        for call, span in zip(self.calls, times.spans, strict=True):
            narrow = "" if span == times.widest else f" FILTER (WHERE {distance} < {span})"
            values.append(f"{call.column.sql}{narrow} AS {call.column.name}")
        is_dense = times.steps == 1 and times.widest >= times.align
        conditions = [] if is_dense else [f"{distance} < {times.widest}"]
        return self._grouped(distance, values, steps, conditions)

    def binned(self, width: int) -> str:
        """Every row goes to its bin."""
        return self._grouped(self.times.distance(width), self._parts(), "", [])

    def _parts(self) -> list[str]:
        return [f"{part} AS {part_name(call, number)}" for call in self.calls for number, part in enumerate(call.parts)]

    def by_bucket(self, form: Form, width: int) -> str | None:
        """Every row goes to one bucket of time, or None."""
        is_dense = form is Form.SINGLE and set(self.times.spans) == {self.times.align}
        bucket = self.times.bucket(self.source.column, width) if is_dense or form is Form.BINNED else None
        if bucket is None:
            return None
        values = (
            self._parts()
            if form is Form.BINNED
            else [f"{each.column.sql} AS {each.column.name}" for each in self.calls]
        )
        keys = [f"{column.sql} AS {column.name}" for column in self.by]
        where = "" if self.query.where is None else f" WHERE ({self.query.where})"
        return (
            f"SELECT {', '.join([f'{bucket} AS {SLOT}', *keys, *values])} FROM {_source_text(self.query)}{where}"
            f"{_group_and_order(len(keys))}"
        )

    def empty(self) -> str:
        values = ", ".join(f"{call.column.sql} AS {call.column.name}" for call in self.calls)
        return f"SELECT {values} FROM {_source_text(self.query)} WHERE false"

    def _grouped(self, distance: str, values: list[str], steps: str, conditions: list[str]) -> str:
        times = self.times
        keys = [f"{column.sql} AS {column.name}" for column in self.by]
        wheres = [] if self.query.where is None else [f"({self.query.where})"]
        wheres += [] if times.guard is None else [times.guard]
        wheres += [f"{times.time} >= {times.low} + {distance}", *conditions]
        columns = ", ".join([f"{times.time} - {distance} AS {SLOT}", *keys, *values])
        return (
            f"SELECT {columns} FROM {_source_text(self.query)}{steps} WHERE {' AND '.join(wheres)}"
            f"{_group_and_order(len(keys))}"
        )


def _group_and_order(keys: int) -> str:
    """By the slot, which comes first, and keys behind it; in the order of keys and slot."""
    groups = ", ".join(str(number) for number in range(1, keys + 2))
    order = ", ".join(str(number) for number in [*range(2, keys + 2), 1])
    return f" GROUP BY {groups} ORDER BY {order}"


def part_name(call: PlannedCall, number: int) -> str:
    """Return the name of a column that holds a part of a call."""
    return f"{call.column.name}_{number}"
