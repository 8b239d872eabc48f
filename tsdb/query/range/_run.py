"""Evaluates the range queries of a statement, innermost first, and what is left of the statement.

Each range query is aggregated by SQL, its gaps are filled over Arrow columns, and its select list, ORDER BY and LIMIT
run as SQL over that small table, in which every aggregate is a column. Headers then get back the names of aggregates.
A range query inside a statement is replaced by its result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from tsdb.errors import Status, TsdbError
from tsdb.query.range._fill import check_fills, fill_gaps
from tsdb.query.range._plan import SLOT, Form, RangePlan, plan_range, stepped
from tsdb.query.range._references import references
from tsdb.query.range._runner import RangeRunner, TimeIndex
from tsdb.query.range._series import without_views
from tsdb.query.range._windows import BinsTooFarApart, slide
from tsdb.sql.lexer import Token, tokenize, unquote
from tsdb.sql.range_query import Item, RangeExecutionError, RangeQuery, find_range

_NO_TABLES: Mapping[str, pa.Table] = MappingProxyType({})
_RESULT = "__range_result"
_ROW = "__range_row"
_RELATION = "__range"
_PLACEHOLDER = re.compile(rf"(?:{_RELATION}\.)?(__range_(?:slot|by_\d+|call_\d+))\b")
_UNKNOWN_FIELD = re.compile(r"No field named [^\s;,]+?(?=\.?(?:\s|$|;))")


def run_range(query: RangeQuery, runner: RangeRunner) -> pa.Table:
    """Evaluate a statement that holds range queries; `query` is the one to evaluate first."""
    known = _RunnerWithResults(runner)
    while True:
        plan, result = _run_query(query, known)
        if query.is_whole:
            return result
        name = known.add(result, plan)
        text = f"{query.text[: query.start]}SELECT * FROM {name}{query.text[query.end :]}"
        following = find_range(text, tokenize(text, runner.dialect))
        if following is None:
            return known.run(text)
        query = following


class _RunnerWithResults:
    """The runner, with the results of the range queries that were evaluated before."""

    def __init__(self, runner: RangeRunner) -> None:
        self._runner = runner
        self._tables: dict[str, pa.Table] = {}
        self._times: dict[str, TimeIndex] = {}
        self.dialect = runner.dialect
        self.time_zone = runner.time_zone
        self.now_ms = runner.now_ms
        self.slots = runner.slots
        self.check = runner.check

    def add(self, result: pa.Table, plan: RangePlan) -> str:
        name = f"__range_{len(self._tables)}"
        self._tables[name] = result
        if (time := _time_header(plan)) in result.column_names:
            self._times[name] = TimeIndex(time, plan.source.kind.unit)
        return name

    def run(self, text: str, tables: Mapping[str, pa.Table] = _NO_TABLES) -> pa.Table:
        return self._runner.run(text, {**self._tables, **tables})

    def aggregate(self, text: str, tables: Mapping[str, pa.Table] = _NO_TABLES) -> pa.Table | None:
        return self._runner.aggregate(text, {**self._tables, **tables})

    def schema(self, text: str, tables: Mapping[str, pa.Table] = _NO_TABLES) -> pa.Schema:
        return self._runner.schema(text, {**self._tables, **tables})

    def time_index(self, source: str) -> TimeIndex | None:
        return self._times[source] if source in self._times else self._runner.time_index(source)


def _time_header(plan: RangePlan) -> str:
    """Return the name the time goes by in the result of a plan."""
    for item in plan.query.items:
        chain = [unquote(token) for token in item.expression.tokens if token.text != "."]
        if plan.source.is_time(chain) and not item.expression.edits:
            return plan.source.name if item.alias is None else unquote(_only_token(item.alias))
    return plan.source.name


def _only_token(text: str) -> Token:
    return tokenize(text)[0]


def _run_query(query: RangeQuery, runner: RangeRunner) -> tuple[RangePlan, pa.Table]:
    plan = plan_range(query, runner)
    check_fills(plan)
    table = _aggregated(plan, runner)
    if query.has_fill:
        table = fill_gaps(plan, table, runner)
    runner.check()
    slots = plan.times.to_column(table.column(SLOT).to_numpy())
    table = table.set_column(0, SLOT, slots).append_column(_ROW, pa.array(np.arange(table.num_rows)))
    return plan, _selected(plan, table, runner)


def _aggregated(plan: RangePlan, runner: RangeRunner) -> pa.Table:
    table = _read(plan, runner)
    if plan.form is not Form.BINNED:
        return table
    try:
        return slide(plan, table, runner)
    except BinsTooFarApart:
        return without_views(runner.run(stepped(plan).sql))


def _read(plan: RangePlan, runner: RangeRunner) -> pa.Table:
    """Aggregate the source: from runs of rows if they can answer, else by a plan."""
    found = None if plan.runs_sql is None else runner.aggregate(plan.runs_sql)
    if found is None:
        return without_views(runner.run(plan.sql))
    return without_views(found.set_column(0, SLOT, plan.times.from_column(found.column(0))))


def _selected(plan: RangePlan, table: pa.Table, runner: RangeRunner) -> pa.Table:
    """Evaluate select list, ORDER BY and LIMIT over the aggregated table."""
    query = plan.query
    calls = [call.column.name for call in plan.calls]
    aliases = {unquote(_only_token(item.alias)) for item in query.items if item.alias is not None}
    items = ", ".join(_render_item(plan, item, calls) for item in query.items)
    order = f" ORDER BY {_ROW}" if not query.quantifier else ""
    if query.order is not None:
        order = f" ORDER BY {query.order.render(query.text, calls, references(plan, query.order, aliases))}"
    text = f"SELECT {query.quantifier} {items} FROM {_RESULT} AS {_RELATION}{order} {query.tail}"
    try:
        result = runner.run(text, {_RESULT: table})
    except TsdbError as error:
        raise _without_placeholders(error, plan) from error
    return result.rename_columns([_header(name, plan) for name in result.column_names])


def _render_item(plan: RangePlan, item: Item, calls: Sequence[str]) -> str:
    text = item.expression.render(plan.query.text, calls, references(plan, item.expression, frozenset()))
    return text if item.alias is None else f"{text} AS {item.alias}"


def _header(name: str, plan: RangePlan) -> str:
    """Return the header of a column whose name may hold placeholders."""
    columns = {column.name: column for column in plan.columns}
    if name in columns:
        return columns[name].alone
    return _PLACEHOLDER.sub(lambda match: columns[match[1]].inside if match[1] in columns else match[0], name)


def _without_placeholders(error: TsdbError, plan: RangePlan) -> TsdbError:
    """Return an error as the user can understand it: a column that is not grouped by is not there."""
    match = _UNKNOWN_FIELD.search(error.message)
    if error.status is Status.PLAN_QUERY and match is not None:
        return RangeExecutionError(
            f"{match[0]}: a range query selects its time, what it groups by, and aggregates with RANGE"
        )
    error.message = _header(error.message, plan)
    return error
