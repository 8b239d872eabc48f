"""Errors of queries, and what the texts of DataFusion mean.

DataFusion tells its errors as text. Where the text came from decides the status: parsing and planning happen in
`SessionContext.sql`, everything later is execution. What our own code raised below DataFusion (a scan, a deadline) is
kept aside by whoever raised it and never read back out of a text.
"""

from __future__ import annotations

import ast
import re

from tsdb.errors import InvalidSyntax, Status, TsdbError, Unsupported
from tsdb.query.functions import function_error_text


class PlanQuery(TsdbError):
    """The query is well formed and means nothing: an unknown column, operands that do not fit."""

    status = Status.PLAN_QUERY


class ExecuteQuery(TsdbError):
    """The query failed while it ran: a value that cannot be cast, a division by zero."""

    status = Status.ENGINE_EXECUTE_QUERY


class TableMissing(TsdbError):
    """A query names a table that does not exist."""

    status = Status.TABLE_NOT_FOUND


class OutOfMemory(TsdbError):
    """The queries that run now need more memory than they may take."""

    status = Status.RUNTIME_RESOURCES_EXHAUSTED


class QueryPanic(TsdbError):
    """The query engine met a state it does not know: an error in it, not in the query."""

    status = Status.UNEXPECTED


PLAN_PREFIX = "Failed to plan SQL: "

_MISSING_TABLE = re.compile(r"table '([^']+)' not found")
_PARSER_ERROR = re.compile(r'SQL error: (?:ParserError|TokenizerError)\("((?:[^"\\]|\\.)*)"\)', re.DOTALL)
_JUNK = re.compile(r"Expected: end of statement, found: (\w+) at Line")
_PYTHON_ERROR = re.compile(r"PyErr \{ type: <class '[^']*'>, value: \w+\((.*?)\), traceback: ", re.DOTALL)
_WRAPPERS = re.compile(
    r"^(?:DataFusion error: |External error: |Execution error: |Error during planning: |Schema error: "
    r"|Arrow error: |Optimizer rule '\w+' failed\s+caused by\s+|type_coercion\s+caused by\s+|External: )+"
)
_NOT_IMPLEMENTED = "This feature is not implemented: "
_UNSUPPORTED_LIMIT = f"{_NOT_IMPLEMENTED}Unsupported LIMIT"  # known from the text alone, told late
_FORBIDDEN = re.compile(r"Error during planning: (?:Statement|DDL|DML) not supported: ")
_BRIDGE_FAILURE = re.compile(r"unsupported operand type\(s\) for [&|]: .*(?:Scalar|Expression)")


def is_panic(error: BaseException) -> bool:
    """Tell whether Rust code panicked; such an error is not an Exception."""
    return type(error).__name__ == "PanicException"


def is_bridge_failure(error: BaseException) -> bool:
    """Tell whether a filter could not be handed to a table because part of it is a constant."""
    return _BRIDGE_FAILURE.search(str(error)) is not None


def planning_error(error: BaseException) -> TsdbError:
    """Return what failed while a query was parsed and planned."""
    if isinstance(error, TsdbError):
        return error
    text = str(error)
    if is_panic(error):
        return QueryPanic(f"the query could not be planned: {_first_line(text)}")
    if match := _PARSER_ERROR.match(text):
        message = match[1].replace('\\"', '"')
        if junk := _JUNK.match(message):
            return Unsupported(f"SQL statement is not supported, keyword: {junk[1]}")
        return InvalidSyntax(f"Invalid SQL syntax: {message}")
    if match := _MISSING_TABLE.search(text):
        return TableMissing(f"{PLAN_PREFIX}Table not found: {match[1]}")
    if _NOT_IMPLEMENTED in text:
        return Unsupported(text.split(_NOT_IMPLEMENTED, 1)[1])
    if match := _FORBIDDEN.match(text):
        return Unsupported(f"a query cannot do this: {text[match.end() :]}")
    if "Resources exhausted" in text:
        return _out_of_memory(text)
    return PlanQuery(f"{PLAN_PREFIX}{_clean(text)}")


def execution_error(error: BaseException) -> TsdbError:
    """Return what failed while a query was optimised or ran."""
    if isinstance(error, TsdbError):
        return error
    text = str(error)
    if is_panic(error):
        return QueryPanic(f"the query failed: {_first_line(text)}")
    if "Resources exhausted" in text:
        return _out_of_memory(text)
    message = _clean(text)
    if message.startswith(_UNSUPPORTED_LIMIT):
        return Unsupported(message)
    return ExecuteQuery(message)


def _out_of_memory(text: str) -> OutOfMemory:
    what = text.split("Resources exhausted: ", 1)[-1]
    return OutOfMemory(
        f"the query needs more memory than queries may take: {_first_line(what)}",
        hint="ask for less, or raise the memory limit of queries",
    )


def _clean(text: str) -> str:
    """Take the wrappings off a message; of an error in a function of ours, return its own message."""
    if (message := function_error_text(text)) is not None:
        return message
    if match := _PYTHON_ERROR.search(text):
        return _message_of(match[1])
    return _WRAPPERS.sub("", text).replace("\n", " ")


def _message_of(arguments: str) -> str:
    """Return the message in the printed arguments of a Python error."""
    try:
        values = ast.literal_eval(f"({arguments},)")
    except (SyntaxError, ValueError):
        return arguments
    return str(values[0]) if values else "unknown error"


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0]
