"""Sums, differences and products of integers that end in an error instead of wrapping around.

The query engine computes with integers in their own type and lets the result wrap around. Where the types of operands
are known and a result may leave its type, the operation is done with decimals, and casting its result back fails if it
does not fit. Casts do not show in the names of result columns.

    n * 2       CAST(CAST(n AS DECIMAL(20,0)) * CAST(2 AS DECIMAL(20,0)) AS BIGINT)
    sum(n)      CAST(sum(CAST(n AS DECIMAL(20,0))) AS BIGINT)

A chain of operations stays in decimals to its end: the query engine takes three times as long to plan with each cast
of an operation within another. For the same reason what would be CASTS_MAX casts deep is left alone.

An expression is read only as far as it is known for certain; anything else is left alone, together with what it is
part of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tsdb.model import Kind
from tsdb.sql.lexer import TokenKind, unquote
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._integer_types import (
    CAST_NAMES,
    INT32,
    INT64,
    NAMED,
    UINT64,
    Integers,
    bounds,
    literal,
    together,
)
from tsdb.sql.rewrite._layout import KEYWORDS, Layout
from tsdb.sql.rewrite._tables import ColumnTypes
from tsdb.sql.statements import Dialect

CASTS_MAX = 4
TOKENS_MAX = 600
"""Planning with decimals takes twice as long: of a query of hundreds of operations that would be felt."""
_DECIMAL = "DECIMAL(20,0)"
_PRODUCTS = frozenset({"*", "/", "%"})
_SUMS = frozenset({"+", "-"})
_STARTERS = frozenset({"(", "[", ",", "=", "==", "<", ">", "<=", ">=", "<>", "!=", "||", "<<", ">>", "&", "|"})
# What may stand behind an operand without being part of it.
_ENDERS = (_STARTERS - {"(", "["}) | _PRODUCTS | _SUMS | {")", "]", ";"}
_TYPED_LITERALS = frozenset({"INTERVAL", "DATE", "TIMESTAMP", "TIME", "DATETIME"})
_QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "FROM"})
_TAILS = frozenset({"FILTER", "OVER", "WITHIN", "IGNORE", "RESPECT"})
_OF_ARGUMENT = frozenset({"min", "max", "abs", "first_value", "last_value", "any_value", "lag", "lead"})
_RESULTS = {
    "count": INT64._replace(low=0),
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile"), UINT64),
    **dict.fromkeys(("length", "char_length", "character_length", "date_part", "extract"), INT32),
    "to_unixtime": INT64,
}
_SUM_PRECISION_MAX = 28
"""Sums of decimals have ten digits more, of at most 38."""


Known = tuple[ColumnTypes, Callable[[], ColumnTypes]]
"""The types of columns of tables, and how to find out those of others."""


@dataclass(slots=True)
class _Node:
    """An expression that has been read, with its edits."""

    text: str
    integers: Integers | None
    """None for what is no integer, and for what is not known."""
    is_edited: bool = False
    decimal: tuple[int, int] | None = None
    wide: str = ""
    """The same before it is cast back from decimals, if it is."""
    casts: int = 0
    """How many operations in it are cast back, one within the other."""

    @property
    def as_decimal(self) -> str:
        return self.wide or f"CAST({self.text} AS {_DECIMAL})"


def edit_integers(layout: Layout, edits: Edits, dialect: Dialect, columns: Known) -> None:
    """Edit the operations on integers of a query, after everything inside of them; very long ones are left alone."""
    if len(layout.tokens) > TOKENS_MAX:
        return
    _Reader(layout, edits, dialect, columns).scan(0, len(layout.tokens) - 1)


class _Reader:
    def __init__(self, layout: Layout, edits: Edits, dialect: Dialect, columns: Known) -> None:
        self._layout = layout
        self._edits = edits
        self._dialect = dialect
        self._columns, find_derived = columns
        self._derived = cache(find_derived)
        """What is asked only for a column that no table has."""

    def scan(self, start: int, end: int) -> None:
        """Edit the expressions between two tokens."""
        index = start
        while index < end:
            if self._begins(index, start) and self._is_operand(index):
                index = self._edit(index, end)
            elif index in self._layout.partner and self._layout.partner[index] > index:
                self.scan(index + 1, self._layout.partner[index])
                index = self._layout.partner[index] + 1
            else:
                index += 1

    def _begins(self, index: int, start: int) -> bool:
        """Tell whether an expression may begin at a token: one that is the rest of another is none."""
        if index == start:
            return True
        before = self._layout.tokens[index - 1]
        if before.kind == TokenKind.OPERATOR:
            return before.text in _STARTERS
        return self._layout.words[index - 1] in KEYWORDS - {"END"}

    def _is_operand(self, index: int) -> bool:
        layout = self._layout
        if layout.is_operator(index, "-"):
            index += 1
        if layout.is_operator(index, "("):
            return index in layout.partner
        return layout.tokens[index].kind == TokenKind.NUMBER or layout.is_name(index) or layout.word(index) == "CAST"

    def _edit(self, index: int, end: int) -> int:
        """Edit the expression that begins at a token; returns what is behind it."""
        node, behind = self._sum(index, end)
        if node.is_edited:
            tokens = self._layout.tokens
            self._edits.take(tokens[index].start, tokens[behind - 1].end, node.text)
        return behind

    def _sum(self, index: int, end: int) -> tuple[_Node, int]:
        node, index = self._product(index, end)
        while index < end and self._sign(index) in _SUMS:
            right, behind = self._product(index + 1, end)
            node = self._apply(node, index, right)
            index = behind
        return node, index

    def _product(self, index: int, end: int) -> tuple[_Node, int]:
        node, index = self._unary(index, end)
        while index < end and self._sign(index) in _PRODUCTS:
            right, behind = self._unary(index + 1, end)
            node = self._apply(node, index, right)
            index = behind
        return node, index

    def _sign(self, index: int) -> str:
        token = self._layout.tokens[index]
        return token.text if token.kind == TokenKind.OPERATOR else ""

    def _apply(self, left: _Node, index: int, right: _Node) -> _Node:
        """Return an operation; one that may leave its type is done with decimals."""
        operator = self._sign(index)
        text = f"{left.text} {operator} {right.text}"
        is_edited, casts = left.is_edited or right.is_edited, max(left.casts, right.casts)
        kind = together(left.integers, right.integers) if left.integers and right.integers else None
        if kind is None or left.integers is None or right.integers is None:
            return _Node(text, None, is_edited, casts=casts)
        low, high = bounds(operator, left.integers, right.integers)
        if operator in "/%" or (kind.low <= low and high <= kind.high):
            known = kind._replace(low=max(low, kind.low), high=min(high, kind.high))
            return _Node(text, known, is_edited, casts=casts)
        # An operand that is a chain itself goes on in decimals; any other is cast, and with it what is in it.
        below = max((each.casts - (1 if each.wide else 0) for each in (left, right)), default=0)
        if below >= CASTS_MAX:
            return _Node(text, None, is_edited, casts=casts)
        wide = f"{left.as_decimal} {operator} {right.as_decimal}"
        return _Node(f"CAST({wide} AS {kind.sql})", kind, True, wide=wide, casts=below + 1)

    def _unary(self, index: int, end: int) -> tuple[_Node, int]:
        if self._sign(index) != "-" or index + 1 >= end:
            return self._operand(index, end)
        node, behind = self._unary(index + 1, end)
        kind = node.integers
        text = f"-{node.text}" if node.text[:1].isdigit() else f"- {node.text}"
        if kind is None or not kind.is_signed:
            if node.text == "9223372036854775808":
                return _Node(text, literal(INT64.low)), behind
            return _Node(text, None, node.is_edited, casts=node.casts), behind
        if -kind.low <= kind.whole.high:
            known = kind._replace(low=-kind.high, high=-kind.low)
            return _Node(text, known, node.is_edited, casts=node.casts), behind
        if node.casts >= CASTS_MAX:
            return _Node(text, None, node.is_edited, casts=node.casts), behind
        negated = f"CAST(- CAST({node.text} AS {_DECIMAL}) AS {kind.sql})"
        return _Node(negated, kind.whole, True, casts=node.casts + 1), behind

    def _operand(self, index: int, end: int) -> tuple[_Node, int]:
        """Read an operand with the casts behind it."""
        if index >= end:
            return _Node("", None), index
        node, behind = self._primary(index, end)
        layout, tokens = self._layout, self._layout.tokens
        while behind + 1 < end and layout.is_operator(behind, "::") and layout.is_name(behind + 1):
            kind = CAST_NAMES.get(layout.word(behind + 1))
            behind += 2
            if layout.is_operator(behind, "(") and behind in layout.partner:
                kind, behind = None, layout.partner[behind] + 1
            elif layout.word(behind) == "UNSIGNED":
                kind, behind = None, behind + 1
            # Casts have been edited already, in front of the operand and behind it.
            text = node.text if node.is_edited else self._edits.render(tokens[index].start, tokens[behind - 1].end)
            if node.is_edited:
                return self._unknown(index, behind), behind
            node = _Node(text, kind)
        if behind < end and layout.tokens[behind].kind == TokenKind.OPERATOR and self._sign(behind) not in _ENDERS:
            return self._rest(index, behind, end)
        if layout.word(behind) == "AT":
            return self._rest(index, behind, end)
        return node, behind

    def _rest(self, index: int, behind: int, end: int) -> tuple[_Node, int]:
        """Read on to the end of an expression of which only the beginning is known."""
        layout = self._layout
        while behind < end:
            if behind in layout.partner and layout.partner[behind] > behind:
                self.scan(behind + 1, layout.partner[behind])
                behind = layout.partner[behind] + 1
            elif self._sign(behind) in (",", ")", "]", ";") or layout.words[behind] in KEYWORDS:
                break
            else:
                behind += 1
        return self._unknown(index, behind), behind

    def _unknown(self, index: int, behind: int) -> _Node:
        tokens = self._layout.tokens
        return _Node(self._edits.render(tokens[index].start, tokens[behind - 1].end), None)

    def _primary(self, index: int, end: int) -> tuple[_Node, int]:
        layout, token = self._layout, self._layout.tokens[index]
        if token.kind == TokenKind.NUMBER:
            return _Node(token.text, literal(int(token.text)) if token.text.isdigit() else None), index + 1
        if layout.is_operator(index, "(") and index in layout.partner:
            return self._bracket(index)
        if layout.word(index) in _TYPED_LITERALS and layout.tokens[index + 1].kind == TokenKind.STRING:
            behind = index + 2
            while layout.word(index) == "INTERVAL" and layout.is_name(behind) and behind < end:
                behind += 1
            return self._unknown(index, behind), behind
        if layout.word(index) == "CAST" and index + 1 in layout.partner:
            return self._cast(index)
        if not layout.is_name(index):
            behind = layout.partner.get(index, index) + 1
            return self._unknown(index, max(behind, index + 1)), max(behind, index + 1)
        last = layout.chain_end(index)
        if layout.is_operator(last + 1, "(") and last + 1 in layout.partner:
            return self._call(index, last)
        return self._column(index, last), last + 1

    def _bracket(self, index: int) -> tuple[_Node, int]:
        layout = self._layout
        closing = layout.partner[index]
        if closing > index + 1 and layout.word(index + 1) not in _QUERY_WORDS and self._is_operand(index + 1):
            inner, behind = self._sum(index + 1, closing)
            if behind == closing:
                wide = f"({inner.wide})" if inner.wide else ""
                node = _Node(f"({inner.text})", inner.integers, inner.is_edited, wide=wide, casts=inner.casts)
                return node, closing + 1
        self.scan(index + 1, closing)
        return self._unknown(index, closing + 1), closing + 1

    def _cast(self, index: int) -> tuple[_Node, int]:
        layout, closing = self._layout, self._layout.partner[index + 1]
        self.scan(index + 2, closing)
        kind = CAST_NAMES.get(layout.word(closing - 1)) if layout.word(closing - 2) == "AS" else None
        node = self._unknown(index, closing + 1)
        node.integers = kind
        return node, closing + 1

    def _column(self, index: int, last: int) -> _Node:
        names = [unquote(self._layout.tokens[each], self._dialect) for each in range(index, last + 1, 2)]
        node = self._unknown(index, last + 1)
        qualifier, name = names[-2] if len(names) > 1 else None, names[-1]
        kind = self._columns.find(qualifier, name)
        if kind is None and not self._is_alone(index, last):
            kind = self._derived().find(None, name)
        if kind is not None and kind.is_integer:
            node.integers = NAMED.get(kind.kind.value)
        elif kind is not None and kind.kind is Kind.DECIMAL:
            node.decimal = (kind.precision or 38, kind.scale or 0)
        return node

    def _is_alone(self, index: int, last: int) -> bool:
        """Tell whether a column is an item of a list, with which nothing is computed: its type does not matter."""
        layout = self._layout
        if layout.words[index - 1] not in KEYWORDS and not layout.is_operator(index - 1, ","):
            return False
        after = layout.tokens[last + 1]
        return after.kind == TokenKind.END or after.text in (",", ")", ";") or layout.words[last + 1] in KEYWORDS

    def _call(self, index: int, last: int) -> tuple[_Node, int]:
        """Read a call with the clauses behind its brackets."""
        layout, opening = self._layout, last + 1
        closing = layout.partner[opening]
        behind = self._tails(closing + 1)
        name = layout.tokens[last].text.lower()
        first = opening + 1
        if layout.word(first) == "DISTINCT":
            first += 1
        if name == "sum" and first < closing and self._is_operand(first):
            return self._sum_call(index, first, closing, behind), behind
        if name in _OF_ARGUMENT and first < closing and self._is_operand(first):
            argument, end = self._sum(first, closing)
            if argument.is_edited:
                tokens = layout.tokens
                self._edits.take(tokens[first].start, tokens[end - 1].end, argument.text)
            if end < closing:
                self.scan(end, closing)
            node = self._unknown(index, behind)
            node.integers = argument.integers.whole if argument.integers is not None and end == closing else None
            node.casts = argument.casts
            return node, behind
        self.scan(opening + 1, closing)
        node = self._unknown(index, behind)
        node.integers = _RESULTS.get(name)
        return node, behind

    def _sum_call(self, index: int, first: int, closing: int, behind: int) -> _Node:
        layout, tokens, edits = self._layout, self._layout.tokens, self._edits
        argument, end = self._sum(first, closing)
        is_whole = end == closing or layout.word(end) == "ORDER"
        if argument.is_edited:
            edits.take(tokens[first].start, tokens[end - 1].end, argument.text)
        before = edits.render(tokens[index].start, tokens[first - 1].end)
        after = edits.render(tokens[end - 1].end, tokens[behind - 1].end)
        wide, result = self._sum_types(argument) if is_whole else ("", "")
        if not wide:
            node = self._unknown(index, behind)
            if is_whole and argument.integers is not None:
                node.integers = INT64 if argument.integers.is_signed else UINT64
            return node
        distinct = "" if before.endswith("(") else " "
        text = f"CAST({before}{distinct}CAST({argument.text} AS {wide}){after} AS {result})"
        known = None if argument.integers is None else argument.integers.whole
        return _Node(text, known, is_edited=True, casts=argument.casts + 1)

    def _sum_types(self, argument: _Node) -> tuple[str, str]:
        """Return in which type a sum is computed and which it has, '' if it can be left alone."""
        if argument.integers is not None and argument.integers.bits == 64:
            return _DECIMAL, argument.integers.sql
        if argument.decimal is not None and argument.decimal[0] > _SUM_PRECISION_MAX:
            scale = argument.decimal[1]
            return f"DECIMAL(66,{scale})", f"DECIMAL(38,{scale})"
        return "", ""

    def _tails(self, behind: int) -> int:
        """Return what is behind FILTER (…), OVER (…) and the like."""
        layout = self._layout
        while layout.word(behind) in _TAILS:
            following = behind + 2 if layout.word(behind) == "WITHIN" else behind + 1
            if layout.word(behind) in ("IGNORE", "RESPECT"):
                behind += 2
            elif layout.is_operator(following, "(") and following in layout.partner:
                self.scan(following + 1, layout.partner[following])
                behind = layout.partner[following] + 1
            elif layout.word(behind) == "OVER" and layout.is_name(following):
                behind = following + 1
            else:
                break
        return behind
