"""Errors of queries, and what the texts of DataFusion mean.

DataFusion reports its errors as text. Where the text comes from decides the status: parsing and planning happen in
`SessionContext.sql`, everything later is execution. What our own code raises below DataFusion (a scan, a deadline) is
kept by the `QueryLife` and never read back out of a text.

    text ─▶ wrappers off ─▶ the first rule of `_rules` that matches: message, reason ─▶ names of types as in SQL

A message never shows the inside of the query engine: its own names of types, its syntax trees, or advice to its
developers. Everything that is not known to be an error inside of the engine is a mistake in the query.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from tsdb.errors import InvalidSyntax, Reason, Status, TsdbError, Unsupported
from tsdb.nearest import nearest
from tsdb.query._datafusion_texts import (
    BRIDGE_FAILURE,
    CAPACITY_OVERFLOW,
    COMPUTE_ERROR,
    CORRELATED,
    FORBIDDEN,
    INTERNAL,
    MISSING_TABLE,
    NO_FIELD,
    NO_FUNCTION,
    NOT_IMPLEMENTED,
    OUT_OF_MEMORY,
    PARSER_ERROR,
    PYTHON_ERROR,
    RECURSION_LIMIT,
    RUN_AGAIN,
    UNSUPPORTED_LIMIT,
)
from tsdb.query.errors._known_functions import known_functions, window_functions
from tsdb.query.errors._rules import FUNCTION_MISMATCH, RULES, explain_mismatch, in_sql_words
from tsdb.query.errors._syntax import syntax_error_in
from tsdb.query.functions import function_error


class PlanQuery(TsdbError):
    """The query is well formed and cannot be planned: an unknown column, operands that do not fit."""

    status = Status.PLAN_QUERY


class ExecuteQuery(TsdbError):
    """The query failed while it ran: a value that cannot be cast, a division by zero."""

    status = Status.ENGINE_EXECUTE_QUERY


class TableMissing(TsdbError):
    """A query names a table that does not exist."""

    status = Status.TABLE_NOT_FOUND

    def __init__(self, catalog: str, database: str, name: str) -> None:
        super().__init__(f"{PLAN_PREFIX}Table not found: {catalog}.{database}.{name}")
        self.database = database
        self.name = name


class OutOfMemory(TsdbError):
    """The running queries need more memory than they may take."""

    status = Status.RUNTIME_RESOURCES_EXHAUSTED


class QueryPanic(TsdbError):
    """The query engine failed: an error in it, not in the query."""

    status = Status.UNEXPECTED


PLAN_PREFIX = "Failed to plan SQL: "
ENGINE_FAILED = "the query engine failed on this query; the log of the server has the details"

_VALUE_ERRORS = frozenset(
    {
        "ValueError",
        "OverflowError",
        "pyarrow.lib.ArrowInvalid",
        "pyarrow.lib.ArrowNotImplementedError",
        "pyarrow.lib.ArrowTypeError",
    }
)
"""Errors of Python that a function raises because of the values it was given."""
_WRAPPERS = re.compile(
    r"^(?:DataFusion error: |External error: |Execution error: |Error during planning: |Schema error: "
    r"|Arrow error: |Optimizer rule '\w+' failed\s+caused by\s+|\w+\s+caused by\s+|External: |Compute error: "
    r"|Invalid \(non-executable\) plan after \w+\s+caused by\s+"
    r"|Cast error: |Parser error: |Invalid argument error: |Substrait error: )+"
)


def is_panic(error: BaseException) -> bool:
    """Return whether Rust code panicked; such an error is not an Exception."""
    return type(error).__name__ == "PanicException"


def is_bridge_failure(error: BaseException) -> bool:
    """Return whether a filter could not be handed to a table because part of it is a constant."""
    return BRIDGE_FAILURE.search(str(error)) is not None


def planning_error(error: BaseException) -> TsdbError:
    """Return what failed while a query was parsed and planned."""
    if isinstance(error, TsdbError):
        return error
    text = str(error)
    if is_panic(error):
        return QueryPanic(ENGINE_FAILED)
    if PARSER_ERROR.match(text):
        return syntax_error_in(text)
    if RECURSION_LIMIT.match(text):
        return InvalidSyntax("Invalid SQL syntax: the statement is nested too deeply")
    if match := MISSING_TABLE.search(text):
        catalog, database, name = match[1].split(".", 2)
        return TableMissing(catalog, database, name)
    if NOT_IMPLEMENTED in text:
        return Unsupported(_rewrite(text.split(NOT_IMPLEMENTED, 1)[1])[0])
    if match := FORBIDDEN.match(text):
        return Unsupported(f"a query cannot contain this statement: {in_sql_words(text[match.end() :])}")
    if OUT_OF_MEMORY in text:
        return _out_of_memory(text)
    message, reason = _rewrite(text)
    return _with_reason(PlanQuery(f"{PLAN_PREFIX}{message}"), reason)


def execution_error(error: BaseException) -> TsdbError:
    """Return what failed while a query was optimised or ran."""
    if isinstance(error, TsdbError):
        return error
    text = str(error)
    if is_panic(error):
        if CAPACITY_OVERFLOW in text:
            return _with_reason(ExecuteQuery("a value of the result would be too large"), Reason.OUT_OF_RANGE)
        if RUN_AGAIN.search(text):
            return _out_of_memory("a side of a join does not fit")
        return QueryPanic(ENGINE_FAILED)
    if OUT_OF_MEMORY in text:
        return _out_of_memory(text)
    if _is_fault(text):
        return QueryPanic(ENGINE_FAILED)
    message, reason = _rewrite(text)
    if UNSUPPORTED_LIMIT in text:
        return Unsupported(message)
    if reason is None and (NOT_IMPLEMENTED in text or CORRELATED in text):
        reason = Reason.NOT_SUPPORTED
    return _with_reason(ExecuteQuery(message), reason)


def _is_fault(text: str) -> bool:
    """Return whether an error of execution is one of the engine or of a function, not of the query."""
    if function_error(text) is not None or FUNCTION_MISMATCH.search(text):
        return False
    if match := PYTHON_ERROR.search(text):
        return match[1] not in _VALUE_ERRORS
    return INTERNAL.search(text) is not None and COMPUTE_ERROR not in text


def _with_reason(error: TsdbError, reason: Reason | None) -> TsdbError:
    error.sql_reason = reason
    return error


def _out_of_memory(text: str) -> OutOfMemory:
    what = text.split(OUT_OF_MEMORY, 1)[-1].split("\n", 1)[0]
    return OutOfMemory(
        f"the query needs more memory than queries may take: {what}",
        hint="select fewer rows or groups, or raise the memory limit of queries",
    )


def _rewrite(text: str) -> tuple[str, Reason | None]:
    """Return the message for a client and what exactly is wrong, if a rule knows it."""
    if (found := function_error(text)) is not None:
        return in_sql_words(found[0]), found[1]
    if match := PYTHON_ERROR.search(text):
        text = _message_of(match[2])
    if (mismatch := explain_mismatch(text)) is not None:
        return mismatch
    text = _WRAPPERS.sub("", text)
    flat = " ".join(text.split("\n"))
    if match := NO_FIELD.match(flat):
        return _unknown_column(match["name"], match["valid"])
    if match := NO_FUNCTION.match(flat):
        return unknown_function(match["name"], known_functions())
    for rule in RULES:
        if match := rule.pattern.search(text):
            return in_sql_words(rule.render(match, flat)), rule.reason
    return in_sql_words(flat), None


def _unknown_column(name: str, valid: str | None) -> tuple[str, Reason]:
    """Return the message for a column that does not exist, with the columns there are."""
    fields = list(dict.fromkeys(_fields_of(valid))) if valid else []
    by_name = {_plain_name(field): field for field in reversed(fields)}
    close = nearest(_plain_name(name), by_name) if _plain_name(name) not in by_name else _plain_name(name)
    hint = f" Did you mean '{by_name[close]}'?" if close is not None else ""
    listed = f" Valid fields are {', '.join(fields)}." if fields else ""
    return f"No field named {name}.{hint}{listed}", Reason.UNDEFINED_COLUMN


def _fields_of(valid: str) -> list[str]:
    """Split `a.b, "c, d"` at the commas outside of quotes."""
    return [each.strip() for each in re.findall(r'(?:"(?:[^"]|"")*"|[^,"])+', valid)]


def _plain_name(field: str) -> str:
    """Return the last part of a name, without quotes."""
    parts = re.findall(r'"(?:[^"]|"")*"|[^."]+', field)
    last = parts[-1] if parts else field
    return last[1:-1].replace('""', '"') if last.startswith('"') else last


def unknown_function(name: str, known: Iterable[str]) -> tuple[str, Reason]:
    """Return the message for a function that does not exist."""
    if name.lower() in window_functions():
        return f"Function '{name}' is a window function and needs OVER (…)", Reason.UNDEFINED_FUNCTION
    close = nearest(name, known)
    hint = f" Did you mean '{close}'?" if close is not None else ""
    return f"Invalid function '{name}'.{hint}", Reason.UNDEFINED_FUNCTION


def _message_of(arguments: str) -> str:
    """Return the message in the printed arguments of a Python error."""
    try:
        values = ast.literal_eval(f"({arguments},)")
    except (SyntaxError, ValueError):
        return arguments
    return str(values[0]) if values else "unknown error"
