"""Formats a query, on one line or, when that is too long, on several."""

from __future__ import annotations

from tsdb.promql._ast import (
    Aggregation,
    Binary,
    DurationExpr,
    Expr,
    FunctionCall,
    Matching,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    TimeShift,
    Unary,
    VectorSelector,
)
from tsdb.promql._durations import format_duration_ms
from tsdb.promql._lexer import go_quote

LINE_CHARS_MAX = 100
_INDENT = "  "


def format_query(expr: Expr) -> str:
    """Return a query in its usual layout."""
    return _pretty(expr, 0)


def format_expr(expr: Expr) -> str:
    """Return an expression on one line."""
    if isinstance(expr, Binary):
        return _chain(expr)
    if isinstance(expr, NumberLiteral):
        return _number(expr)
    if isinstance(expr, StringLiteral):
        return go_quote(expr.value)
    if isinstance(expr, DurationExpr):
        return _duration(expr)
    if isinstance(expr, VectorSelector):
        return _selector(expr) + _extension(expr) + _shift(expr.shift)
    if isinstance(expr, MatrixSelector):
        inner = expr.selector
        return f"{_selector(inner)}[{_range(expr)}]{_extension(inner)}{_shift(inner.shift)}"
    if isinstance(expr, Subquery):
        return f"{format_expr(expr.expr)}{_subquery_range(expr)}{_shift(expr.shift)}"
    if isinstance(expr, Unary):
        return f"{expr.op}{format_expr(expr.expr)}"
    if isinstance(expr, Paren):
        return f"({format_expr(expr.expr)})"
    if isinstance(expr, FunctionCall):
        return f"{expr.name}({', '.join(format_expr(arg) for arg in expr.args)})"
    assert isinstance(expr, Aggregation)
    param = "" if expr.param is None else f"{format_expr(expr.param)}, "
    return f"{expr.op}{_grouping(expr)}({param}{format_expr(expr.expr)})"


def _chain(expr: Binary) -> str:
    """Write a chain of operators from its left end: it may be longer than the stack is deep."""
    spine = [expr]
    while isinstance(spine[-1].lhs, Binary):
        spine.append(spine[-1].lhs)
    pieces = [format_expr(spine[-1].lhs)]
    for node in reversed(spine):
        pieces.append(f"{_operator(node)} {format_expr(node.rhs)}")
    return " ".join(pieces)


def _operator(expr: Binary) -> str:
    return expr.op + (" bool" if expr.is_bool else "") + _matching(expr.matching)


def _matching(matching: Matching | None) -> str:
    if matching is None:
        return ""
    text = ""
    if matching.is_on or matching.labels:
        text += f" {'on' if matching.is_on else 'ignoring'} ({_names(matching.labels)})"
    if matching.card in ("many-to-one", "one-to-many"):
        text += " group_left" if matching.card == "many-to-one" else " group_right"
        text += f" ({_names(matching.include)})"
    if matching.fill_left is not None and matching.fill_left == matching.fill_right:
        return f"{text} fill ({_float(matching.fill_left)})"
    if matching.fill_left is not None:
        text += f" fill_left ({_float(matching.fill_left)})"
    if matching.fill_right is not None:
        text += f" fill_right ({_float(matching.fill_right)})"
    return text


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(name if _is_plain(name) else go_quote(name) for name in names)


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _is_metric(name: str) -> bool:
    return name.isascii() and name.replace(":", "_").isidentifier()


def _grouping(expr: Aggregation) -> str:
    if expr.is_without:
        return f" without ({_names(expr.grouping)}) "
    return f" by ({_names(expr.grouping)}) " if expr.grouping else ""


def _float(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa.removesuffix('.0')}e{exponent}"
    return text.removesuffix(".0")


def _number(expr: NumberLiteral) -> str:
    return format_duration_ms(round(expr.value * 1000)) if expr.is_duration else _float(expr.value)


def _duration(expr: DurationExpr) -> str:
    if expr.op in ("step", "range"):
        text = f"{expr.op}()"
    elif expr.op in ("min_of", "max_of"):
        assert expr.lhs is not None
        assert expr.rhs is not None
        text = f"{expr.op}({format_expr(expr.lhs)}, {format_expr(expr.rhs)})"
    else:
        assert expr.rhs is not None
        left = "" if expr.lhs is None else f"{format_expr(expr.lhs)} "
        gap = "" if expr.lhs is None else " "
        text = f"{left}{expr.op}{gap}{format_expr(expr.rhs)}"
    return f"({text})" if expr.is_wrapped else text


def _selector(expr: VectorSelector) -> str:
    name = expr.name if _is_metric(expr.name) else ""
    labels = [] if name or not expr.name else [go_quote(expr.name)]
    for matcher in expr.matchers:
        if matcher.name == "__name__" and matcher.op == "=" and matcher.value == expr.name:
            continue
        label = matcher.name if _is_plain(matcher.name) else go_quote(matcher.name)
        labels.append(f"{label}{matcher.op}{go_quote(matcher.value)}")
    return name + (f"{{{','.join(labels)}}}" if labels or not name else "")


def _extension(expr: VectorSelector) -> str:
    return f" {expr.extension}" if expr.extension else ""


def _range(expr: MatrixSelector) -> str:
    return format_duration_ms(expr.range_ms) if expr.range_expr is None else format_expr(expr.range_expr)


def _subquery_range(expr: Subquery) -> str:
    length = format_duration_ms(expr.range_ms) if expr.range_expr is None else format_expr(expr.range_expr)
    step = "" if expr.step_ms is None else format_duration_ms(expr.step_ms)
    if expr.step_expr is not None:
        step = format_expr(expr.step_expr)
    return f"[{length}:{step}]"


def _shift(shift: TimeShift) -> str:
    text = ""
    if shift.at_ms is not None:
        text += f" @ {shift.at_ms / 1000:.3f}"
    elif shift.at_edge is not None:
        text += f" @ {shift.at_edge}()"
    if shift.offset_expr is not None:
        text += f" offset {format_expr(shift.offset_expr)}"
    elif shift.offset_ms:
        text += f" offset {format_duration_ms(shift.offset_ms)}"
    return text


# Several lines


def _pretty(expr: Expr, level: int) -> str:
    indent = _INDENT * level
    line = indent + format_expr(expr)
    if len(line) <= LINE_CHARS_MAX:
        return line
    if isinstance(expr, Binary):
        return _pretty_chain(expr, level)
    if isinstance(expr, Aggregation):
        args = [expr.expr] if expr.param is None else [expr.param, expr.expr]
        return _pretty_call(f"{expr.op}{_grouping(expr)}", args, level)
    if isinstance(expr, FunctionCall) and expr.args:
        return _pretty_call(expr.name, list(expr.args), level)
    if isinstance(expr, Paren):
        return f"{indent}(\n{_pretty(expr.expr, level + 1)}\n{indent})"
    if isinstance(expr, Unary):
        return f"{indent}{expr.op}{_pretty(expr.expr, level).lstrip()}"
    if isinstance(expr, Subquery):
        return f"{_pretty(expr.expr, level)}{_subquery_range(expr)}{_shift(expr.shift)}"
    return line


def _pretty_call(head: str, args: list[Expr], level: int) -> str:
    indent = _INDENT * level
    inner = ",\n".join(_pretty(arg, level + 1) for arg in args)
    return f"{indent}{head}(\n{inner}\n{indent})"


def _pretty_chain(expr: Binary, level: int) -> str:
    indent = _INDENT * level
    spine = [expr]
    while isinstance(spine[-1].lhs, Binary):
        spine.append(spine[-1].lhs)
    text = _pretty(spine[-1].lhs, level + 1)
    for node in reversed(spine):
        text = f"{text}\n{indent}{_operator(node)}\n{_pretty(node.rhs, level + 1)}"
    return text
