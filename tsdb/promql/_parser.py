"""Tokens to a syntax tree: operator precedence, one token of lookahead, no backtracking.

    or < and unless < == != < <= > >= < + - < * / % atan2 (and a sign) < ^ (to the right)

`offset`, `@`, `[…]`, `anchored` and `smoothed` apply to the expression directly before them. Types are checked while
the tree is built, in `_checks`. Depth and length are bounded, so that no text can exhaust the stack.
"""

from __future__ import annotations

import math

from tsdb.model import Matcher, MatchOp
from tsdb.promql import _checks as checks
from tsdb.promql._ast import (
    AGGREGATORS,
    Aggregation,
    Binary,
    Expr,
    FunctionCall,
    Matching,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    TextSpan,
    TimeShift,
    Unary,
    VectorSelector,
)
from tsdb.promql._durations import parse_duration_ms
from tsdb.promql._errors import PromqlSyntax
from tsdb.promql._functions import FUNCTIONS
from tsdb.promql._lexer import PromToken, PromTokenKind, go_quote, tokenize
from tsdb.promql._range_parser import DurationParser

TEXT_CHARS_MAX = 1 << 20
"""A longer query is refused before it is read."""

DEPTH_MAX = 100
"""How deep parentheses, calls and signs may be nested."""

NODES_MAX = 5000
"""How many operands a query may have."""

SUBQUERIES_MAX = 20
"""How many ranges may follow one another behind one expression."""

_PRECEDENCE = {
    "or": 1,
    "and": 2,
    "unless": 2,
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">=", "</", ">/"), 3),
    "+": 4,
    "-": 4,
    **dict.fromkeys(("*", "/", "%", "atan2"), 5),
    "^": 6,
}
_SIGN_PRECEDENCE = 5
_NOT_METRICS = frozenset({"bool", "on", "ignoring", "group_left", "group_right"})
_FILLS = ("fill", "fill_left", "fill_right")
AT_MS_MAX = (1 << 63) - 1


def parse_promql(text: str) -> Expr:
    """Read a query."""
    if len(text) > TEXT_CHARS_MAX:
        raise PromqlSyntax("", 0, f"the query is longer than {TEXT_CHARS_MAX} characters")
    return Parser(text).parse()


def parse_selector(text: str) -> VectorSelector:
    """Read `name{label="value"}`, which is all that metadata requests take."""
    expr = parse_promql(text)
    if not isinstance(expr, VectorSelector) or expr.shift != TimeShift():
        raise PromqlSyntax(text, 0, "expected a metric selector without modifiers")
    return expr


class Parser:
    """Reads one query."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokenize(text)
        self._position = 0
        self._depth = 0
        self._nodes = 0
        self._is_info = False

    def parse(self) -> Expr:
        if self.is_at_end():
            raise PromqlSyntax(self.text, 0, "no expression found in input")
        expr = self.expression(0)
        if not self.is_at_end():
            raise self.unexpected()
        return expr

    # Tokens

    @property
    def token(self) -> PromToken:
        return self._tokens[self._position]

    @property
    def following(self) -> PromToken:
        return self._tokens[min(self._position + 1, len(self._tokens) - 1)]

    @property
    def last_end(self) -> int:
        return self._tokens[self._position - 1].end if self._position else 0

    def advance(self) -> PromToken:
        token = self.token
        self._position += 1
        return token

    def is_at_end(self) -> bool:
        return self.token.kind is PromTokenKind.END

    def at(self, operator: str) -> bool:
        return self.token.kind is PromTokenKind.OPERATOR and self.token.text == operator

    def at_word(self, *words: str) -> bool:
        return self.token.kind is PromTokenKind.NAME and self.token.lower in words

    def expect(self, operator: str, context: str) -> PromToken:
        if not self.at(operator):
            raise self.unexpected(context, f'"{operator}"')
        return self.advance()

    def unexpected(self, context: str = "", expected: str = "") -> PromqlSyntax:
        message = f"unexpected {self.token.describe()}"
        if context:
            message += f" in {context}"
        if expected:
            message += f", expected {expected}"
        return PromqlSyntax(self.text, self.token.start, message)

    def error(self, start: int, message: str) -> PromqlSyntax:
        return PromqlSyntax(self.text, start, message)

    # Expressions

    def expression(self, least: int) -> Expr:
        """Read operands and the operators between them that bind at least so strongly."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self.error(self.token.start, f"the query is nested more than {DEPTH_MAX} deep")
        left = self._signed()
        while (op := self._operator()) is not None and _PRECEDENCE[op] >= least:
            start = self.token.start
            self.advance()
            is_bool, matching = self._matching()
            right = self.expression(_PRECEDENCE[op] + (op != "^"))
            left = self._binary(op, left, right, is_bool=is_bool, matching=matching, start=start)
        self._depth -= 1
        return left

    def _operator(self) -> str | None:
        token = self.token
        if token.kind not in (PromTokenKind.OPERATOR, PromTokenKind.NAME):
            return None
        word = token.lower
        return word if word in _PRECEDENCE else None

    def _signed(self) -> Expr:
        self._count()
        if not (self.at("-") or self.at("+")):
            return self._postfix(self._primary())
        sign = self.advance()
        # A sign binds like `*`, so what it applies to goes up to the next weaker operator or `*` itself.
        inner = self.expression(_SIGN_PRECEDENCE + 1)
        span = TextSpan(sign.start, inner.span.end)
        if isinstance(inner, NumberLiteral):
            value = -inner.value if sign.text == "-" else inner.value
            return NumberLiteral(span, value, inner.is_duration)
        checks.check_unary(self, inner, sign)
        return Unary(span, sign.text, inner)

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise self.error(self.token.start, f"the query has more than {NODES_MAX} operands")

    def _binary(
        self, op: str, left: Expr, right: Expr, *, is_bool: bool, matching: Matching | None, start: int
    ) -> Binary:
        expr = Binary(TextSpan(left.span.start, right.span.end), op, left, right, matching, is_bool)
        checks.check_binary(self, expr, start)
        return expr

    def _matching(self) -> tuple[bool, Matching | None]:
        is_bool = False
        if self.at_word("bool"):
            self.advance()
            is_bool = True
        matching: Matching | None = None
        if self.at_word("on", "ignoring"):
            word = self.advance().lower
            matching = Matching(is_on=word == "on", labels=self._label_names("grouping opts"))
            if self.at_word("group_left", "group_right"):
                side = self.advance().lower
                matching.card = "many-to-one" if side == "group_left" else "one-to-many"
                if self.at("("):
                    matching.include = self._label_names("grouping opts")
        while self.at_word(*_FILLS) and self._is_fill():
            matching = matching or Matching()
            self._fill(matching)
        return is_bool, matching

    def _is_fill(self) -> bool:
        """Tell the modifier `fill(0)` from a metric of that name, which no number in parentheses follows."""
        following = self._tokens[self._position + 1 : self._position + 5]
        if len(following) < 3 or following[0].text != "(":
            return False
        at = 2 if following[1].text in ("-", "+") else 1
        return following[at].kind in (PromTokenKind.NUMBER, PromTokenKind.DURATION) and following[at + 1].text == ")"

    def _fill(self, matching: Matching) -> None:
        word = self.advance()
        self.expect("(", "fill modifier")
        sign = -1.0 if self.at("-") else 1.0
        if self.at("-") or self.at("+"):
            self.advance()
        value = sign * self.number().value
        self.expect(")", "fill modifier")
        side = word.lower
        if side != "fill_right":
            if matching.fill_left is not None:
                raise self.error(word.start, "the left side has two fill values")
            matching.fill_left = value
        if side != "fill_left":
            if matching.fill_right is not None:
                raise self.error(word.start, "the right side has two fill values")
            matching.fill_right = value

    def _label_names(self, context: str) -> tuple[str, ...]:
        self.expect("(", context)
        names: list[str] = []
        while not self.at(")"):
            token = self.token
            if token.kind is PromTokenKind.STRING:
                checks.check_label_name(self, token)
            elif (
                token.kind not in (PromTokenKind.NAME, PromTokenKind.NUMBER)
                or ":" in token.text
                or token.text[0].isdigit()
            ):
                raise self.unexpected(context, "label")
            names.append(self.advance().text)
            if self.at(","):
                self.advance()
            elif not self.at(")"):
                raise self.unexpected(context, '"," or ")"')
        self.advance()
        return tuple(names)

    # Operands

    def _primary(self) -> Expr:
        token = self.token
        if token.kind in (PromTokenKind.NUMBER, PromTokenKind.DURATION):
            return self.number()
        if token.kind is PromTokenKind.STRING:
            self.advance()
            return StringLiteral(TextSpan(token.start, token.end), token.text)
        if self.at("("):
            self.advance()
            inner = self.expression(0)
            end = self.expect(")", "paren expression").end if self.at(")") else None
            if end is None:
                raise self.unexpected("paren expression", '")"')
            return Paren(TextSpan(token.start, end), inner)
        if self.at("{"):
            return self._selector("", token.start)
        if token.kind is PromTokenKind.NAME:
            return self._named(token)
        raise self.unexpected()

    def _named(self, token: PromToken) -> Expr:
        following = self.following
        word = token.lower
        opens = following.kind is PromTokenKind.OPERATOR and following.text == "("
        if word in AGGREGATORS and (
            opens or (following.kind is PromTokenKind.NAME and following.lower in ("by", "without"))
        ):
            return self._aggregate()
        if opens:
            return self._call()
        if word in _NOT_METRICS:
            raise self.unexpected()
        self.advance()
        return self._selector(token.text, token.start)

    def number(self) -> NumberLiteral:
        token = self.token
        if token.kind not in (PromTokenKind.NUMBER, PromTokenKind.DURATION):
            raise self.unexpected("", "number")
        self.advance()
        span = TextSpan(token.start, token.end)
        if token.kind is PromTokenKind.DURATION:
            ms = parse_duration_ms(token.text)
            if ms is None:
                raise self.error(token.start, f'duration out of range: "{token.text}"')
            return NumberLiteral(span, ms / 1000, is_duration=True)
        return NumberLiteral(span, parse_number(token.text))

    def _call(self) -> Expr:
        name = self.advance()
        signature = FUNCTIONS.get(name.text)
        if signature is None:
            raise self.error(name.start, f"unknown function with name {go_quote(name.text)}")
        outer, self._is_info = self._is_info, name.text == "info"
        args = self._arguments("function call")
        self._is_info = outer
        call = FunctionCall(TextSpan(name.start, self.last_end), name.text, args, signature.returns)
        checks.check_call(self, call, signature)
        return call

    def _arguments(self, context: str) -> tuple[Expr, ...]:
        self.expect("(", context)
        args: list[Expr] = []
        while not self.at(")"):
            args.append(self.expression(0))
            if self.at(","):
                comma = self.advance()
                if self.at(")"):
                    raise self.error(comma.start, "trailing commas not allowed in function call args")
            elif not self.at(")"):
                raise self.unexpected(context, '"," or ")"')
        self.advance()
        return tuple(args)

    def _aggregate(self) -> Expr:
        op = self.advance()
        grouping: tuple[str, ...] | None = None
        is_without = False
        if self.at_word("by", "without"):
            is_without = self.advance().lower == "without"
            grouping = self._label_names("grouping opts")
        args = self._arguments("aggregation")
        if grouping is None and self.at_word("by", "without"):
            is_without = self.advance().lower == "without"
            grouping = self._label_names("grouping opts")
        span = TextSpan(op.start, self.last_end)
        param, inner = checks.check_aggregate(self, op, args)
        return Aggregation(span, op.lower, inner, param, grouping or (), is_without)

    def _selector(self, name: str, start: int) -> VectorSelector:
        matchers: list[Matcher] = []
        if self.at("{"):
            self.advance()
            while not self.at("}"):
                matcher = self._matcher()
                if matcher.name == "__name__" and name and matcher.op == "=":
                    raise self.error(
                        start, f"metric name must not be set twice: {go_quote(name)} or {go_quote(matcher.value)}"
                    )
                matchers.append(matcher)
                if self.at(","):
                    self.advance()
                elif not self.at("}"):
                    raise self.unexpected("label matching", '"," or "}"')
            self.advance()
        if name:
            matchers.append(Matcher("__name__", "=", name))
        else:
            name = next((each.value for each in matchers if each.name == "__name__" and each.op == "="), "")
        selector = VectorSelector(TextSpan(start, self.last_end), name, tuple(matchers))
        checks.check_selector(self, selector, is_info=self._is_info)
        return selector

    def _matcher(self) -> Matcher:
        token = self.token
        if token.kind is PromTokenKind.STRING:
            self.advance()
            if not any(self.at(op) for op in ("=", "!=", "=~", "!~")):
                return Matcher("__name__", "=", token.text)
            checks.check_label_name(self, token)
        elif (
            token.kind in (PromTokenKind.NAME, PromTokenKind.NUMBER)
            and ":" not in token.text
            and not token.text[0].isdigit()
        ):
            self.advance()
        else:
            raise self.unexpected("label matching", 'identifier or "}"')
        op = self._match_op()
        if self.token.kind is not PromTokenKind.STRING:
            raise self.unexpected("label matching", "string")
        value = self.advance()
        matcher = Matcher(token.text, op, value.text)
        checks.check_matcher(self, matcher, token)
        return matcher

    def _match_op(self) -> MatchOp:
        ops: tuple[MatchOp, ...] = ("=", "!=", "=~", "!~")
        for op in ops:
            if self.at(op):
                self.advance()
                return op
        raise self.unexpected("label matching", "label matching operator")

    # What stands behind an operand

    def _postfix(self, expr: Expr) -> Expr:
        ranges = 0
        while True:
            if self.at("["):
                ranges += 1
                if ranges > SUBQUERIES_MAX:
                    raise self.error(self.token.start, f"more than {SUBQUERIES_MAX} subqueries of one expression")
                expr = DurationParser(self).range_of(expr)
            elif self.at_word("offset"):
                self._offset(expr)
            elif self.at("@"):
                self._fix(expr)
            elif self.at_word("anchored", "smoothed"):
                self._extend(expr)
            else:
                return expr

    def _shift_of(self, expr: Expr, what: str) -> TimeShift:
        if isinstance(expr, VectorSelector):
            shift = expr.shift
        elif isinstance(expr, MatrixSelector):
            shift = expr.selector.shift
        elif isinstance(expr, Subquery):
            shift = expr.shift
        else:
            raise self.error(
                expr.span.start,
                f"{what} modifier must be preceded by an instant vector selector or range vector selector "
                "or a subquery",
            )
        return shift

    def _offset(self, expr: Expr) -> None:
        self.advance()
        shift = self._shift_of(expr, "offset")
        if shift.offset_ms or shift.offset_expr is not None:
            raise self.error(expr.span.start, "offset may not be set multiple times")
        shift.offset_ms, shift.offset_expr = DurationParser(self).offset()
        self._reach(expr)

    def _fix(self, expr: Expr) -> None:
        self.advance()
        shift = self._shift_of(expr, "@")
        if shift.is_fixed:
            raise self.error(expr.span.start, "@ <timestamp> may not be set multiple times")
        if self.at_word("start", "end"):
            shift.at_edge = "start" if self.advance().lower == "start" else "end"
            self.expect("(", "@")
            self.expect(")", "@")
        else:
            sign = 1
            if self.at("-") or self.at("+"):
                sign = -1 if self.advance().text == "-" else 1
            if self.token.kind not in (PromTokenKind.NUMBER, PromTokenKind.DURATION):
                raise self.unexpected("@", "timestamp")
            start = self.token.start
            seconds = sign * self.number().value
            if not math.isfinite(seconds) or abs(seconds * 1000) >= AT_MS_MAX:
                raise self.error(start, f"timestamp out of bounds for @ modifier: {seconds:f}")
            shift.at_ms = round_half_away(seconds * 1000)
        self._reach(expr)

    def _extend(self, expr: Expr) -> None:
        word = self.advance()
        selector = expr.selector if isinstance(expr, MatrixSelector) else expr
        if not isinstance(selector, VectorSelector):
            raise self.error(word.start, f"{word.lower} modifier not allowed here")
        if selector.extension:
            raise self.error(word.start, "anchored and smoothed modifiers cannot be set more than once")
        if word.lower == "anchored" and expr is selector:
            raise self.error(word.start, "anchored modifier can only be used with a range vector selector")
        selector.extension = "anchored" if word.lower == "anchored" else "smoothed"
        self._reach(expr)

    def _reach(self, expr: Expr) -> None:
        expr.span = TextSpan(expr.span.start, self.last_end)


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    return math.floor(value + 0.5) if value >= 0 else -math.floor(-value + 0.5)


def parse_number(text: str) -> float:
    """Read a number as the lexer found it."""
    plain = text.replace("_", "").lower()
    if plain in ("inf", "nan"):
        return float(plain)
    if plain.startswith("0x"):
        return float(int(plain, 16))
    if len(plain) > 1 and plain.isdigit() and plain[0] == "0" and not set(plain) - set("01234567"):
        return float(int(plain, 8))
    return float(plain)
