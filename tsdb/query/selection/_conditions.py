"""Conditions of plain queries as filters of a table.

A literal must have the column's own type for certain; one that does not is None, and the planner decides what it means.
So is everything that would be an error.
"""

from __future__ import annotations

import re

import pyarrow as pa

from tsdb.engine.reading import Call, Constant, Node, Ref, joined
from tsdb.model import ColumnInfo, InvalidTimestamp, Kind, TableInfo, check_range, parse_timestamp
from tsdb.sql import clauses
from tsdb.sql.tag_expression import TagExpression

_INTEGERS = frozenset(
    {Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64}
)
_FUNCTIONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_DOUBLE_EXACT = 1 << 53
_INT64 = range(-(2**63), 2**63)
# What the planner reads as it is written, whatever the session's zone.
_CANONICAL = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?Z?)?")
_PATTERN = pa.struct([("pattern", pa.string()), ("ignore_case", pa.bool_())])
# No escapes, no counts, no flags, no classes within classes: these differ from one engine to the next.
_PLAIN_REGEX = re.compile(r"(?:[A-Za-z0-9_ \-:/,=@|()^$.]|\[\^?[A-Za-z0-9_-]+\]|[*+?](?![*+?]))*")
_NAN_IS_NOT_NULL = pa.scalar({"nan_is_null": False}, pa.struct([("nan_is_null", pa.bool_())]))


def is_canonical_time(text: str) -> bool:
    """Return whether the planner reads a time as it is written."""
    return _CANONICAL.fullmatch(text) is not None


def fit_condition(condition: clauses.Condition, table: TableInfo, zone: str) -> Node | None:
    """Return a condition as a filter of a table; None if anything about it needs a planner."""
    if isinstance(condition, clauses.Junction):
        parts = [fit_condition(part, table, zone) for part in condition.parts]
        function = "and_kleene" if condition.is_and else "or_kleene"
        found = [part for part in parts if part is not None]
        return joined(function, found) if len(found) == len(parts) else None
    if isinstance(condition, TagExpression):
        return None
    if isinstance(condition, clauses.Not):
        inner = fit_condition(condition.condition, table, zone)
        return None if inner is None else Call("invert", (inner,))
    column = table.by_name.get(condition.column)
    if column is None:
        return None
    if isinstance(condition, clauses.IsNull):
        return Call("is_null", (Ref(column.name),), _NAN_IS_NOT_NULL)
    if isinstance(condition, clauses.Membership):
        return _fit_membership(condition, column, zone)
    if isinstance(condition, clauses.Match):
        return _fit_match(condition, column)
    value = _fit_literal(condition.literal, column, zone)
    return None if value is None else Call(_FUNCTIONS[condition.operator], (Ref(column.name), Constant(value)))


def conjuncts(condition: clauses.Condition | None) -> list[clauses.Condition]:
    """Return what must all hold for a condition to hold."""
    if isinstance(condition, clauses.Junction) and condition.is_and:
        return [each for part in condition.parts for each in conjuncts(part)]
    return [] if condition is None else [condition]


def _fit_membership(condition: clauses.Membership, column: ColumnInfo, zone: str) -> Node | None:
    values = [_fit_literal(literal, column, zone) for literal in condition.literals]
    kinds = {value.type for value in values if value is not None}
    if len(kinds) != 1 or any(value is None for value in values):
        return None
    (kind,) = kinds
    options = pa.scalar({"value_set": values}, pa.struct([("value_set", pa.list_(kind))]))
    return Call("is_in", (Ref(column.name),), options)


def _fit_match(condition: clauses.Match, column: ColumnInfo) -> Node | None:
    """Return a match as a filter, if the pattern means the same in the scan as in the planner."""
    literal = condition.literal
    if column.type.kind is not Kind.STRING or not literal.is_string or literal.is_timestamp:
        return None
    if not (_is_plain_regex(literal.text) if condition.is_regex else "\\" not in literal.text):
        return None
    options = pa.scalar({"pattern": literal.text, "ignore_case": False}, _PATTERN)
    return Call("match_substring_regex" if condition.is_regex else "match_like", (Ref(column.name),), options)


def _is_plain_regex(pattern: str) -> bool:
    if _PLAIN_REGEX.fullmatch(pattern) is None:
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _fit_literal(literal: clauses.ConditionLiteral, column: ColumnInfo, zone: str) -> pa.Scalar | None:
    kind, arrow = column.type.kind, column.type.arrow
    if pa.types.is_timestamp(arrow):
        return _fit_time(literal, arrow, zone)
    if literal.is_string:
        return pa.scalar(literal.text, arrow) if kind is Kind.STRING and not literal.is_timestamp else None
    is_whole = literal.text.lstrip("-").isdigit()
    if kind is Kind.FLOAT64:
        if is_whole and abs(int(literal.text)) > _DOUBLE_EXACT:
            return None
        return pa.scalar(float(literal.text), arrow)
    if not is_whole or kind not in _INTEGERS:
        return None
    try:
        return pa.scalar(int(literal.text), arrow)
    except (pa.ArrowInvalid, OverflowError):
        return None


def _fit_time(literal: clauses.ConditionLiteral, arrow: pa.DataType, zone: str) -> pa.Scalar | None:
    """A number counts units of the column; a text is local time of the session, to the nanosecond."""
    try:
        if not literal.is_string:
            if not literal.text.lstrip("-").isdigit():
                return None
            number = int(literal.text)
            check_range(number, arrow.unit)
            return pa.scalar(number, arrow)
        if literal.is_timestamp and not is_canonical_time(literal.text):
            return None
        nanoseconds = parse_timestamp(literal.text, zone)
    except (InvalidTimestamp, pa.ArrowInvalid, OverflowError):
        return None
    return pa.scalar(nanoseconds, pa.timestamp("ns")) if nanoseconds in _INT64 else None
