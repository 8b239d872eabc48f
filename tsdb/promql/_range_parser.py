"""Durations inside a query: `[range]`, `[range:step]`, `offset`, and arithmetic in them.

A duration is a number of seconds, or arithmetic on such with `step()`, `range()`, `min_of(a, b)` and `max_of(a, b)`;
the last two were `min` and `max` in earlier versions of Prometheus, and both spellings are read. Behind `offset`,
arithmetic needs parentheses, because what follows could as well go on with the query itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsdb.promql import _checks as checks
from tsdb.promql._ast import DurationExpr, Expr, MatrixSelector, NumberLiteral, Subquery, TextSpan, VectorSelector
from tsdb.promql._lexer import PromTokenKind

if TYPE_CHECKING:
    from tsdb.promql._parser import Parser

_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "^": 4}
_SIGN_PRECEDENCE = 3
_OUT_OF_RANGE_SECONDS = float(1 << 53)
DEPTH_MAX = 50
OPERANDS_MAX = 200
"""How deep a duration may be nested, and how many numbers and calls it may have."""

_CALLS = {"step": "step", "range": "range", "min_of": "min_of", "max_of": "max_of", "min": "min_of", "max": "max_of"}


class DurationParser:
    """Reads the durations of one query."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._depth = 0
        self._operands = 0

    def range_of(self, expr: Expr) -> Expr:
        """Read `[…]` behind an expression: a range of a selector, or a subquery."""
        parser = self._parser
        opening = parser.advance()
        range_ms, range_expr = self._positive("subquery or range selector", "duration")
        if parser.at(":"):
            parser.advance()
            step_ms: int | None = None
            step_expr: Expr | None = None
            if not parser.at("]"):
                step_ms, step_expr = self._positive("subquery selector", 'duration or "]"')
            parser.expect("]", "subquery selector")
            subquery = Subquery(
                TextSpan(expr.span.start, parser.last_end), expr, range_ms, range_expr, step_ms, step_expr
            )
            checks.check_subquery(parser, subquery)
            return subquery
        if not parser.at("]"):
            raise parser.unexpected("subquery or range", '":" or "]"')
        parser.advance()
        if not isinstance(expr, VectorSelector):
            raise parser.error(opening.start, "ranges only allowed for vector selectors")
        if expr.shift.offset_ms or expr.shift.offset_expr is not None:
            raise parser.error(opening.start, "no offset modifiers allowed before range")
        if expr.shift.is_fixed:
            raise parser.error(opening.start, "no @ modifiers allowed before range")
        return MatrixSelector(TextSpan(expr.span.start, parser.last_end), expr, range_ms, range_expr)

    def offset(self) -> tuple[int, Expr | None]:
        """Read what follows `offset`."""
        expr = self._unary(is_bare=True)
        if isinstance(expr, NumberLiteral):
            return self._to_ms(expr), None
        return 0, expr

    def _positive(self, context: str, expected: str) -> tuple[int, Expr | None]:
        parser = self._parser
        if parser.at("]") or parser.at(":") or parser.token.kind is PromTokenKind.END:
            raise parser.unexpected(context, expected)
        expr = self._expression(0)
        if not isinstance(expr, NumberLiteral):
            return 0, expr
        ms = self._to_ms(expr)
        if ms <= 0:
            raise parser.error(expr.span.start, "duration must be greater than 0")
        return ms, None

    def _to_ms(self, literal: NumberLiteral) -> int:
        if not abs(literal.value) < _OUT_OF_RANGE_SECONDS:
            raise self._parser.error(literal.span.start, "duration out of range")
        return int(literal.value * 1000) if not literal.is_duration else round(literal.value * 1000)

    def _expression(self, least: int) -> Expr:
        self._enter()
        left = self._unary()
        while self._parser.token.kind is PromTokenKind.OPERATOR and self._parser.token.text in _PRECEDENCE:
            op = self._parser.token.text
            if _PRECEDENCE[op] < least:
                break
            self._parser.advance()
            right = self._expression(_PRECEDENCE[op] + (op != "^"))
            left = DurationExpr(TextSpan(left.span.start, right.span.end), op, left, right)
        self._depth -= 1
        return left

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._parser.error(self._parser.token.start, f"the duration is nested more than {DEPTH_MAX} deep")

    def _unary(self, *, is_bare: bool = False) -> Expr:
        parser = self._parser
        if parser.at("-") or parser.at("+"):
            sign = parser.advance()
            self._enter()
            inner = self._unary(is_bare=is_bare) if is_bare else self._expression(_SIGN_PRECEDENCE)
            self._depth -= 1
            span = TextSpan(sign.start, inner.span.end)
            if isinstance(inner, NumberLiteral):
                return NumberLiteral(span, -inner.value if sign.text == "-" else inner.value, inner.is_duration)
            return DurationExpr(span, sign.text, None, inner)
        return self._primary()

    def _primary(self) -> Expr:
        parser = self._parser
        token = parser.token
        self._operands += 1
        if self._operands > OPERANDS_MAX:
            raise parser.error(token.start, f"the duration has more than {OPERANDS_MAX} operands")
        if token.kind in (PromTokenKind.NUMBER, PromTokenKind.DURATION):
            return parser.number()
        if parser.at("("):
            parser.advance()
            inner = self._expression(0)
            parser.expect(")", "duration expression")
            span = TextSpan(token.start, parser.last_end)
            if isinstance(inner, DurationExpr):
                inner.is_wrapped = True
                inner.span = span
            return inner
        if parser.at_word(*_CALLS):
            return self._call()
        raise parser.unexpected("duration expression", "number, duration or step()")

    def _call(self) -> Expr:
        parser = self._parser
        name = parser.advance()
        parser.expect("(", "duration expression")
        if name.lower in ("step", "range"):
            parser.expect(")", "duration expression")
            return DurationExpr(TextSpan(name.start, parser.last_end), name.lower)
        left = self._expression(0)
        parser.expect(",", "duration expression")
        right = self._expression(0)
        parser.expect(")", "duration expression")
        return DurationExpr(TextSpan(name.start, parser.last_end), _CALLS[name.lower], left, right)
