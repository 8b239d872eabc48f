"""A query engine with only the functions: evaluates what users write, with calls rewritten as those of a query are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext

from tsdb.query.functions import function_error, functions_for
from tsdb.query.session import Session
from tsdb.sql.lexer import tokenize
from tsdb.sql.rewrite import RewriteRules, TokenLayout, header_of, rewrite


def edited(text: str) -> str:
    """The text that the query engine gets."""
    return rewrite(TokenLayout(text, tokenize(text)), RewriteRules())


def register(context: SessionContext, function: Any) -> None:
    is_window = type(function).__name__ == "WindowUDF"
    (context.register_udwf if is_window else context.register_udf)(function)


def ask(query: str, *, session: Session | None = None, table: pa.Table | None = None) -> pa.Table:
    """Run a query; `t` is the table."""
    context = SessionContext()
    for each in functions_for(session or Session()):
        register(context, each)
    if table is not None:
        context.register_record_batches("t", [table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]])
    answer = context.sql(edited(query)).to_arrow_table()
    return answer.rename_columns([header_of(name) for name in answer.column_names])


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
    found = function_error(str(caught.value))
    assert found is not None
    return found[0]


def check(expression: str, expected: Any, *, zone: str = "UTC") -> None:
    """Equal in value and in type: 1, 1.0 and True are three things."""
    got = value(expression, zone=zone)
    assert (got, type(got)) == (expected, type(expected))
