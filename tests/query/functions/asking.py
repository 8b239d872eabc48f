"""A query engine with only the functions: evaluates what users write, with calls rewritten as those of a query are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext

from tsdb.query.functions import function_error_text, functions_for
from tsdb.query.session import Session
from tsdb.sql.function_names import EXPANSIONS, OVERLOADS, RENAMES, visible_header
from tsdb.sql.lexer import tokenize


def rewrite(text: str) -> str:
    """Rewrite the calls in a text by the tables of names, inner ones first."""
    tokens = tokenize(text)
    for position in range(len(tokens) - 2, -1, -1):
        word, bracket = tokens[position], tokens[position + 1]
        name = word.text.lower()
        if not word.word or bracket.text != "(" or name not in {*RENAMES, *OVERLOADS, *EXPANSIONS}:
            continue
        end, arguments = _arguments(text, bracket.end)
        expand = EXPANSIONS.get(name)
        expanded = expand(arguments) if expand else None
        if expanded is None:
            inner = OVERLOADS.get(name, {}).get(len(arguments), RENAMES.get(name, name))
            expanded = f"{inner}({', '.join(arguments)})"
        text = text[: word.start] + expanded + text[end:]
    return text


def _arguments(text: str, begin: int) -> tuple[int, list[str]]:
    depth, arguments, start = 1, [], begin
    for token in tokenize(text[begin:]):
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth == 0 or (depth == 1 and token.text == ","):
            arguments.append(text[start : begin + token.start].strip())
            start = begin + token.end
        if depth == 0:
            return start, [each for each in arguments if each]
    raise AssertionError(f"brackets do not match in {text!r}")


def ask(query: str, *, session: Session | None = None, table: pa.Table | None = None) -> pa.Table:
    """Run a query; `t` is the table."""
    context = SessionContext()
    for each in functions_for(session or Session()):
        context.register_udf(each)
    if table is not None:
        context.register_record_batches("t", [table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]])
    answer = context.sql(rewrite(query)).to_arrow_table()
    return answer.rename_columns([visible_header(name) for name in answer.column_names])


def value(expression: str, *, zone: str = "UTC") -> Any:
    """The value of a constant expression."""
    return ask(f"SELECT {expression}", session=Session(time_zone=zone)).column(0)[0].as_py()


def column(expression: str, table: pa.Table, *, zone: str = "UTC") -> list[Any]:
    """The values of an expression over the columns of a table."""
    answer = ask(f"SELECT {expression} FROM t", session=Session(time_zone=zone), table=table)
    return answer.column(0).to_pylist()  # type: ignore[no-any-return]


def error(expression: str) -> str:
    """The message with which a function refuses its arguments."""
    with pytest.raises(Exception, match="FunctionError") as caught:
        value(expression)
    text = function_error_text(str(caught.value))
    assert text is not None
    return text


def check(expression: str, expected: Any, *, zone: str = "UTC") -> None:
    """Equal in value and in type: 1, 1.0 and True are three things."""
    got = value(expression, zone=zone)
    assert (got, type(got)) == (expected, type(expected))
