"""Aggregates over a range inside expressions: `round(max(v) RANGE '1m' + 1)`.

RANGE binds to what stands right before it: a call, or a parenthesised expression whose every call it then covers. As
the keyword of a window frame RANGE is left alone; so is the function of that name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tsdb.errors import Unsupported
from tsdb.sql.lexer import Token, TokenKind, syntax_error, unquote
from tsdb.sql.range_query._blocks import level
from tsdb.sql.range_query._duration import parse_duration_ms
from tsdb.sql.range_query._model import CallEdit, Fill, FillKind, RangeCall, RangeExpression, Span

_LITERALS = (TokenKind.STRING, TokenKind.NUMBER, TokenKind.HEX)
_FRAME_BOUNDS = frozenset({"PRECEDING", "FOLLOWING"})
_NOT_OPERANDS_WORDS = """
    SELECT DISTINCT ALL FROM WHERE BY AS AND OR NOT IN IS LIKE ILIKE BETWEEN CASE WHEN THEN ELSE ON USING EXISTS ANY
    SOME INTERVAL OVER FILTER GROUP WITHIN ORDER LIMIT OFFSET RANGE ASC DESC VALUES DIV ESCAPE CAST TRY_CAST
"""
_NOT_OPERANDS = frozenset(_NOT_OPERANDS_WORDS.split())
"""Words behind which a parenthesis or RANGE begins something new, or which are no functions."""


@dataclass(slots=True)
class CallReader:
    """Reads the expressions of one query and gathers the different calls in them."""

    text: str
    tokens: Sequence[Token]
    partners: dict[int, int]
    default_fill: Fill | None = None
    calls: list[RangeCall] = field(default_factory=list)

    def expression(self, begin: int, end: int) -> RangeExpression:
        """Read the tokens of an expression."""
        edits: list[CallEdit] = []
        position = begin
        while position < end:
            token = self.tokens[position]
            if token.text == "(" and self._is_other_scope(position):
                position = self.partners[position] + 1
            elif token.word == "RANGE" and self._is_range(position, begin, end):
                position = self._read_range(position, begin, end, edits)
            elif token.word == "FILL" and self._is_stray_fill(position, begin, end):
                raise syntax_error(self.text, token.start, "FILL must follow the RANGE of an aggregate")
            else:
                position += 1
        if begin == end:
            at = self.tokens[begin].start
            return RangeExpression(at, at, ())
        return RangeExpression(
            self.tokens[begin].start, self.tokens[end - 1].end, tuple(self.tokens[begin:end]), tuple(edits)
        )

    def span(self, position: int) -> tuple[Span, int]:
        """Read a duration or `(interval)`; return it and the position behind it."""
        token = self.tokens[position]
        if token.text == "(":
            close = self.partners[position]
            if close == position + 1:
                raise syntax_error(self.text, token.start, "an interval must stand in the parentheses")
            return Span(self.text[token.end : self.tokens[close].start].strip(), None), close + 1
        if token.kind not in _LITERALS:
            raise syntax_error(
                self.text, token.start, "expected a duration such as '5m', or an interval in parentheses"
            )
        return Span(unquote(token), parse_duration_ms(self.text, token)), position + 1

    def fill(self, position: int) -> tuple[Fill, int]:
        """Read what stands behind FILL; return it and the position behind it."""
        token = self.tokens[position]
        if token.word in ("NULL", "PREV", "LINEAR"):
            return Fill(FillKind(token.word)), position + 1
        following = self.tokens[position + 1] if position + 1 < len(self.tokens) else token
        if token.text in ("-", "+") and following.kind == TokenKind.NUMBER:
            sign = "-" if token.text == "-" else ""
            return Fill(FillKind.CONSTANT, sign + following.text), position + 2
        if token.kind in _LITERALS or token.word in ("TRUE", "FALSE"):
            return Fill(FillKind.CONSTANT, unquote(token)), position + 1
        raise syntax_error(self.text, token.start, "expected NULL, PREV, LINEAR or a constant after FILL")

    def _is_other_scope(self, position: int) -> bool:
        """Whether a parenthesis holds a query or a window, whose RANGE is not ours."""
        return self.tokens[position + 1].word in ("SELECT", "WITH") or self.tokens[position - 1].word == "OVER"

    def _is_operand(self, position: int) -> bool:
        token = self.tokens[position]
        if token.kind in (*_LITERALS, TokenKind.QUOTED) or token.text == ")":
            return True
        return token.kind == TokenKind.WORD and token.word not in _NOT_OPERANDS

    def _is_range(self, position: int, begin: int, end: int) -> bool:
        if position == begin or position + 1 >= end or not self._is_operand(position - 1):
            return False
        token = self.tokens[position + 1]
        if token.text == "(":
            return True
        is_frame = position + 2 < end and self.tokens[position + 2].word in _FRAME_BOUNDS
        return token.kind in _LITERALS and not is_frame

    def _is_stray_fill(self, position: int, begin: int, end: int) -> bool:
        if position == begin or position + 1 >= end or not self._is_operand(position - 1):
            return False
        token = self.tokens[position + 1]
        return token.kind in _LITERALS or token.word in ("NULL", "PREV", "LINEAR", "RANGE")

    def _read_range(self, position: int, begin: int, end: int, edits: list[CallEdit]) -> int:
        token = self.tokens[position]
        if self.tokens[position - 1].text != ")":
            message = "RANGE must follow a call of an aggregate, or such calls in parentheses,"
            raise syntax_error(self.text, token.start, message)
        first, spans = self._operand(position - 1, begin)
        start = self.tokens[first].start
        if any(edit.start >= start for edit in edits):
            raise syntax_error(self.text, token.start, "a range cannot stand inside another range,")
        span, position = self.span(position + 1)
        fill = self.default_fill
        if position < end and self.tokens[position].word == "FILL":
            fill, position = self.fill(position + 1)
        for opening, last, name in spans:
            call = self._add(self._call(opening, last, name, span, fill))
            edits.append(CallEdit(self.tokens[name].start, self.tokens[last].end, call))
        edits.append(CallEdit(token.start, self.tokens[position - 1].end, None))
        return position

    def _operand(self, close: int, begin: int) -> tuple[int, list[tuple[int, int, int]]]:
        """Return where the operand that ends with a parenthesis begins, and its calls: (opening, last, name)."""
        opening = self.partners[close]
        before = self.tokens[opening - 1] if opening > begin else None
        word = before.word if before is not None else ""
        if word in ("OVER", "FILTER"):
            self._refuse(opening - 1)
        if word == "GROUP" and self.tokens[opening - 2].word == "WITHIN" and self.tokens[opening - 3].text == ")":
            opening = self.partners[opening - 3]
            return self._name_start(opening), [(opening, close, self._name_start(opening))]
        if before is not None and self._names_function(opening - 1):
            first = self._name_start(opening)
            return first, [(opening, close, first)]
        calls = list(self._calls_within(opening + 1, close))
        if not calls:
            message = "there is no call of an aggregate in the parentheses that RANGE follows"
            raise syntax_error(self.text, self.tokens[opening].start, message)
        return opening, calls

    def _calls_within(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        position = begin
        while position < end:
            if self.tokens[position].text != "(" or not self._names_function(position - 1):
                if self.tokens[position].text == "(" and self.tokens[position + 1].word in ("SELECT", "WITH"):
                    position = self.partners[position]
                position += 1
                continue
            last = self.partners[position]
            following = self.tokens[last + 1].word
            if following in ("OVER", "FILTER"):
                self._refuse(last + 1)
            if following == "WITHIN" and self.tokens[last + 3].text == "(":
                last = self.partners[last + 3]
            yield position, last, self._name_start(position)
            position = last + 1

    def _refuse(self, position: int) -> None:
        token = self.tokens[position]
        if token.word == "FILTER":
            raise Unsupported("the aggregate of a range cannot have a FILTER", hint="use CASE in its argument")
        raise syntax_error(self.text, token.start, "a window function cannot be taken over a range")

    def _names_function(self, position: int) -> bool:
        token = self.tokens[position]
        if token.kind == TokenKind.QUOTED:
            return True
        return token.kind == TokenKind.WORD and token.word not in _NOT_OPERANDS

    def _name_start(self, opening: int) -> int:
        first = opening - 1
        while first >= 2 and self.tokens[first - 1].text == ".":
            first -= 2
        return first

    def _call(self, opening: int, last: int, name: int, span: Span, fill: Fill | None) -> RangeCall:
        close = self.partners[opening]
        start = self.tokens[name].start
        inside = list(level(self.partners, opening + 1, close))
        words = {self.tokens[place].word for place in inside}
        is_plain = (
            inside
            and close == last
            and not words & {"DISTINCT", "ALL", "ORDER", "NULLS"}
            and all(self.tokens[place].text != "," for place in inside)
        )
        return RangeCall(
            text=self.text[start : self.tokens[last].end],
            function=unquote(self.tokens[opening - 1]),
            argument=self.text[self.tokens[opening].end : self.tokens[close].start].strip() if is_plain else None,
            close=self.tokens[close].start - start,
            has_order="ORDER" in words or close != last,
            span=span,
            fill=fill,
        )

    def _add(self, call: RangeCall) -> int:
        """Return the number of a call; the same call twice is one."""
        if call not in self.calls:
            self.calls.append(call)
        return self.calls.index(call)
