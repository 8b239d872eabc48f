"""TQL: PromQL in SQL, as a statement of its own or in the place of a query.

TQL EVAL (start, end, step [, lookback]) promql      its rows
WITH x AS (TQL EVAL (…) promql) SELECT … FROM x      evaluated first, then read as a table
INSERT INTO t TQL EVAL (…) promql                    the same, and so in views, EXPLAIN and COPY
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tsdb.database._services import Services
from tsdb.errors import InvalidArguments, InvalidSyntax
from tsdb.promql import expr_to_json, format_query, parse_duration_ms, parse_promql
from tsdb.promql.evaluation import LOOKBACK_MS
from tsdb.query import Records, Session, TableRecords
from tsdb.query.promql import PromqlEngine, QueryTimes, rows_of
from tsdb.sql import Dialect, parse, statements
from tsdb.sql.lexer import scan

POINTS_MAX = 1_000_000
"""How many steps one statement may have."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_MAX = 1 << 53
_SIMPLE = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z|'(?:[^']|'')*'\Z")


def run_tql(
    statement: statements.Tql,
    services: Services,
    promql: PromqlEngine,
    session: Session,
    check: Callable[[], None],
) -> Records:
    """Run a TQL statement."""
    if statement.verb == "explain":
        return TableRecords(_explained(statement))
    rows = evaluate_tql(statement, services, promql, session, check)
    return TableRecords(_analyzed(statement, rows) if statement.verb == "analyze" else rows)


def evaluate_tql(
    statement: statements.Tql,
    services: Services,
    promql: PromqlEngine,
    session: Session,
    check: Callable[[], None],
) -> pa.Table:
    """Return the rows of a TQL statement."""
    span = _span(statement, services, session)
    return rows_of(promql, statement.promql.text, promql.source(session, check), span, statement.alias)


def explained_tql(statement: statements.Explain) -> statements.Tql:
    """Return `TQL EXPLAIN` or `TQL ANALYZE` for an EXPLAIN of TQL."""
    assert isinstance(statement.statement, statements.Tql)
    verb = "analyze" if statement.is_analyze else "explain"
    return replace(statement.statement, verb=verb, is_verbose=statement.is_verbose, format=statement.format)


def _span(statement: statements.Tql, services: Services, session: Session) -> QueryTimes:
    texts = [each.text.strip() for each in statement.parameters]
    values = [_literal(text) if _SIMPLE.match(text) else None for text in texts]
    unknown = [text for text, value in zip(texts, values, strict=True) if value is None]
    found = iter(services.queries.evaluate(unknown, session))
    given = [value if value is not None else next(found).as_py() for value in values]
    start, end = _time_ms("start", given[0]), _time_ms("end", given[1])
    step = _duration_ms("step", given[2])
    lookback = _duration_ms("lookback", given[3]) if len(given) > 3 else LOOKBACK_MS
    if (end - start) // step + 1 > POINTS_MAX:
        raise InvalidArguments(f"the query has more than {POINTS_MAX} steps", hint="choose a longer step")
    return (
        QueryTimes(start, max(end, start - step), step, lookback)
        if end >= start
        else QueryTimes(start, start - 1, step, lookback)
    )


def _literal(text: str) -> str | float:
    return text[1:-1].replace("''", "'") if text.startswith("'") else float(text)


def _time_ms(name: str, value: Any) -> int:
    """Read seconds, a date and time, or what an expression gave."""
    if isinstance(value, str):
        try:
            return _time_ms(name, float(value))
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidArguments(f"the {name} of TQL is not a time: {value!r}") from None
        return _time_ms(name, moment)
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    return _seconds(name, value)


def _duration_ms(name: str, value: Any) -> int:
    ms = parse_duration_ms(value) if isinstance(value, str) else None
    if ms is None:
        try:
            ms = _seconds(name, float(value) if isinstance(value, str) else value)
        except ValueError:
            raise InvalidArguments(f"the {name} of TQL is not a duration: {value!r}") from None
    if ms <= 0:
        raise InvalidArguments(f"the {name} of TQL must be greater than 0")
    return ms


def _seconds(name: str, value: Any) -> int:
    if isinstance(value, timedelta):
        return int(value.total_seconds()) * 1000
    if hasattr(value, "months") and hasattr(value, "nanoseconds"):
        days = value.months * 30 + value.days
        return int((days * 86_400 + value.nanoseconds // 1_000_000_000) * 1000)
    try:
        ms = float(value) * 1000
    except (TypeError, ValueError):
        raise InvalidArguments(f"the {name} of TQL must be a time or a duration, received {value!r}") from None
    if not abs(ms) < _MS_MAX:
        raise InvalidArguments(f"the {name} of TQL is out of range")
    return round(ms)


def _explained(statement: statements.Tql) -> pa.Table:
    """Show the query as it is understood: its layout, or its tree as JSON."""
    expr = parse_promql(statement.promql.text)
    plan = str(expr_to_json(expr)) if statement.format == "json" else format_query(expr)
    parameters = ", ".join(each.text for each in statement.parameters)
    return pa.table({"plan_type": ["logical_plan"], "plan": [f"PromQL: ({parameters})\n  {plan}"]})


def _analyzed(statement: statements.Tql, rows: pa.Table) -> pa.Table:
    plan = format_query(parse_promql(statement.promql.text))
    return pa.table(
        {
            "stage": pa.array([0, None], pa.uint32()),
            "node": pa.array([0, None], pa.uint32()),
            "plan": [f"PromQL: {plan}", f"Total rows: {rows.num_rows}"],
        }
    )


# TQL inside of queries

_MAY_HOLD = re.compile(r"(?:\(|\A)\s*TQL\b", re.IGNORECASE)
_VERBS = frozenset({"EVAL", "EVALUATE", "EXPLAIN", "ANALYZE"})
_CTE_COLUMNS = re.compile(r"\(([^()]*)\)\s*AS\s*\Z", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)
_numbers = itertools.count(1)


def expand_tql(
    text: str, session: Session, evaluate: Callable[[statements.Tql], pa.Table]
) -> tuple[str, dict[str, pa.Table]]:
    """Evaluate the TQL of a query: all of it, or what stands between parentheses where a query may stand.

    Returns the query with a table in the place of each, and these tables by their names, which are unique.
    """
    tables: dict[str, pa.Table] = {}
    if not _MAY_HOLD.search(text):
        return text, tables
    pieces, position = [], 0
    for start, end in _find_tql(text, session.dialect):
        rows = evaluate(_parse_one(text[start:end], session))
        _check_columns(rows, text[position:start])
        name = f"__tql_{next(_numbers)}"
        tables[name] = rows
        pieces += [text[position:start], f"SELECT * FROM {_quoted_name(name, session)} "]
        position = end
    return "".join(pieces) + text[position:], tables


def _find_tql(text: str, dialect: Dialect) -> Iterator[tuple[int, int]]:
    """Yield where TQL begins and ends; what looks like it in strings and comments is none."""
    position = 0
    while True:
        found = _next_tql(text, dialect, position)
        if found is None:
            return
        start, is_whole = found
        position = len(text) if is_whole else _closing(text, start)
        yield start, position


def _next_tql(text: str, dialect: Dialect, start: int) -> tuple[int, bool] | None:
    """Return where the next TQL begins, and whether it is the whole text."""
    older, before = None, None
    for token in scan(text, dialect, start):
        if before is not None and before.word == "TQL" and token.word in _VERBS:
            is_whole = older is None and start == 0
            if is_whole or (older is not None and older.text == "("):
                return before.start, is_whole
        older, before = before, token
    return None


def _parse_one(body: str, session: Session) -> statements.Tql:
    found = parse(body, session.dialect)
    statement = found[0].statement if len(found) == 1 else None
    if not isinstance(statement, statements.Tql) or statement.verb != "eval":
        raise InvalidSyntax("Only TQL EVAL is supported in CTEs")
    return statement


def _closing(text: str, start: int) -> int:
    """Return where the parenthesis ends that was opened before `start`."""
    depth, position = 1, start
    while position < len(text):
        character = text[position]
        if character in "'\"`" and (quoted := _QUOTED.match(text, position)):
            position = quoted.end()
            continue
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position
        position += 1
    raise InvalidSyntax("the parenthesis of a TQL expression is not closed")


def _quoted_name(name: str, session: Session) -> str:
    return f"`{name}`" if session.dialect is Dialect.MYSQL else f'"{name}"'


def _check_columns(rows: pa.Table, before: str) -> None:
    """Refuse a list of column names before the `AS` of a WITH that is not as long as the answer is wide."""
    match = _CTE_COLUMNS.search(before.rstrip().removesuffix("("))
    if match is None:
        return
    names = [each for each in match[1].split(",") if each.strip()]
    if len(names) != rows.num_columns:
        raise InvalidArguments(
            f"the expression has {rows.num_columns} columns, and {len(names)} names are given for them"
        )
