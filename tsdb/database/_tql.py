"""TQL: PromQL in SQL, as a statement of its own or as a common table expression.

TQL EVAL (start, end, step [, lookback]) promql      its rows
WITH x AS (TQL EVAL (…) promql) SELECT … FROM x      evaluated first, then read as a table of that name
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tsdb.database._processes import Process
from tsdb.database._services import Services
from tsdb.errors import InvalidArguments, InvalidSyntax
from tsdb.promql import expr_to_json, format_query, parse_duration_ms, parse_promql
from tsdb.promql.evaluation import LOOKBACK_MS
from tsdb.query import Records, Session, TableRecords
from tsdb.query.promql import PromqlEngine, Span, rows_of
from tsdb.sql import parse, statements

POINTS_MAX = 1_000_000
"""How many steps one statement may have."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_MAX = 1 << 53
_SIMPLE = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z|'(?:[^']|'')*'\Z")


def run_tql(
    statement: statements.Tql, services: Services, promql: PromqlEngine, session: Session, process: Process
) -> Records:
    """Run a TQL statement."""
    if statement.verb == "explain":
        return TableRecords(_explained(statement))
    rows = evaluate_tql(statement, services, promql, session, process)
    return TableRecords(_analyzed(statement, rows) if statement.verb == "analyze" else rows)


def evaluate_tql(
    statement: statements.Tql, services: Services, promql: PromqlEngine, session: Session, process: Process
) -> pa.Table:
    """Return the rows of a TQL statement."""
    span = _span(statement, services, session)
    return rows_of(promql, statement.promql.text, promql.source(session, process.check), span, statement.alias)


def _span(statement: statements.Tql, services: Services, session: Session) -> Span:
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
        Span(start, max(end, start - step), step, lookback) if end >= start else Span(start, start - 1, step, lookback)
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
            raise InvalidArguments(f"the {name} of TQL is no time: {value!r}") from None
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
            raise InvalidArguments(f"the {name} of TQL is no duration: {value!r}") from None
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


# Common table expressions

_CTE = re.compile(
    r"""(?P<name>[A-Za-z_]\w*|"(?:[^"]|"")+"|`(?:[^`]|``)+`)\s*(?:\((?P<columns>[^()]*)\)\s*)?AS\s*\(\s*(?=TQL\b)""",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)
_WITH = re.compile(r"\bWITH\s*$", re.IGNORECASE)
_WORD_TQL = re.compile(r"\(\s*TQL\b", re.IGNORECASE)


def extract_tql(
    text: str, session: Session, evaluate: Callable[[statements.Tql], pa.Table]
) -> tuple[str, dict[str, pa.Table]]:
    """Evaluate the TQL in the WITH of a query; return the query without it, and what it gave by name."""
    tables: dict[str, pa.Table] = {}
    if not _WORD_TQL.search(text):
        return text, tables
    while (match := _CTE.search(text)) is not None:
        end = _closing(text, match.end())
        rows = evaluate(_parse_one(text[match.end() : end], session))
        tables[_name(match["name"])] = _renamed(rows, match["columns"])
        text = _cut(text, match.start(), end + 1)
    return text, tables


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


def _cut(text: str, start: int, end: int) -> str:
    """Take one expression out of a WITH, and the WITH when it was the only one."""
    before, after = text[:start], text[end:].lstrip()
    if after.startswith(","):
        return before + after[1:]
    if before.rstrip().endswith(","):
        return before.rstrip()[:-1] + " " + after
    return _WITH.sub("", before) + after


def _name(text: str) -> str:
    if text[0] in '"`':
        return text[1:-1].replace(text[0] * 2, text[0])
    return text.lower()


def _renamed(rows: pa.Table, columns: str | None) -> pa.Table:
    if columns is None:
        return rows
    names = [_name(each.strip()) for each in columns.split(",") if each.strip()]
    if len(names) != rows.num_columns:
        raise InvalidArguments(
            f"the expression has {rows.num_columns} columns, and {len(names)} names are given for them"
        )
    return rows.rename_columns(names)
