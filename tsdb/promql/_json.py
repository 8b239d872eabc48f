"""A syntax tree as JSON, for tools."""

from __future__ import annotations

from typing import Any

from tsdb.promql._ast import (
    Aggregation,
    Binary,
    Expr,
    FunctionCall,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    TimeShift,
    Unary,
    ValueType,
    VectorSelector,
)
from tsdb.promql._errors import PromqlFailure
from tsdb.promql._functions import FUNCTIONS
from tsdb.promql._printer import format_expr

_TYPES = {
    ValueType.SCALAR: "scalar",
    ValueType.VECTOR: "vector",
    ValueType.MATRIX: "matrix",
    ValueType.STRING: "string",
}
_DEPTH_MAX = 200


def expr_to_json(expr: Expr, depth: int = 0) -> dict[str, Any]:
    """Return a tree of dictionaries."""
    if depth > _DEPTH_MAX:
        raise PromqlFailure(f"the query has a chain of more than {_DEPTH_MAX} operators, which is too deep for JSON")
    below = depth + 1
    if isinstance(expr, Aggregation):
        return {
            "type": "aggregation",
            "op": expr.op,
            "expr": expr_to_json(expr.expr, below),
            "param": None if expr.param is None else expr_to_json(expr.param, below),
            "grouping": list(expr.grouping),
            "without": expr.is_without,
        }
    if isinstance(expr, Binary):
        return _binary(expr, below)
    if isinstance(expr, FunctionCall):
        return _call(expr, below)
    if isinstance(expr, MatrixSelector):
        return {
            "type": "matrixSelector",
            "name": expr.selector.name,
            "range": expr.range_ms,
            **_shift(expr.selector.shift),
            "matchers": _matchers(expr.selector),
        }
    if isinstance(expr, VectorSelector):
        return {"type": "vectorSelector", "name": expr.name, "matchers": _matchers(expr), **_shift(expr.shift)}
    if isinstance(expr, Subquery):
        return {
            "type": "subquery",
            "expr": expr_to_json(expr.expr, below),
            "range": expr.range_ms,
            "step": expr.step_ms or 0,
            **_shift(expr.shift),
        }
    return _simple(expr, below)


def _simple(expr: Expr, depth: int) -> dict[str, Any]:
    if isinstance(expr, NumberLiteral):
        return {"type": "numberLiteral", "val": format_expr(expr)}
    if isinstance(expr, StringLiteral):
        return {"type": "stringLiteral", "val": expr.value}
    if isinstance(expr, Unary):
        return {"type": "unaryExpr", "op": expr.op, "expr": expr_to_json(expr.expr, depth)}
    assert isinstance(expr, Paren)
    return {"type": "parenExpr", "expr": expr_to_json(expr.expr, depth)}


def _binary(expr: Binary, depth: int) -> dict[str, Any]:
    matching = expr.matching
    return {
        "type": "binaryExpr",
        "op": expr.op,
        "lhs": expr_to_json(expr.lhs, depth),
        "rhs": expr_to_json(expr.rhs, depth),
        "matching": None
        if matching is None
        else {
            "card": matching.card,
            "labels": list(matching.labels),
            "on": matching.is_on,
            "include": list(matching.include),
        },
        "bool": expr.is_bool,
    }


def _call(expr: FunctionCall, depth: int) -> dict[str, Any]:
    signature = FUNCTIONS[expr.name]
    return {
        "type": "call",
        "func": {
            "name": expr.name,
            "argTypes": [_TYPES[each] for each in signature.types],
            "variadic": signature.optional,
            "returnType": _TYPES[signature.returns],
        },
        "args": [expr_to_json(arg, depth) for arg in expr.args],
    }


def _matchers(expr: VectorSelector) -> list[dict[str, str]]:
    return [
        {"name": each.name, "value": each.value, "type": each.op}
        for each in expr.matchers
        if not (each.name == "__name__" and each.op == "=" and each.value == expr.name)
    ]


def _shift(shift: TimeShift) -> dict[str, Any]:
    return {"offset": shift.offset_ms, "timestamp": shift.at_ms, "startOrEnd": shift.at_edge}
