"""Sums, differences and products of integers that end in an error instead of wrapping around.

The query engine computes with integers in their own type and lets the result wrap around. Where the types of operands
are known and a result may leave its type, the operation is done with decimals, and casting its result back fails if it
does not fit. Casts do not show in the names of result columns.

    n * 2       CAST(CAST(n AS DECIMAL(20,0)) * CAST(2 AS DECIMAL(20,0)) AS BIGINT)
    sum(n)      CAST(sum(CAST(n AS DECIMAL(20,0))) AS BIGINT)
    n << 2      CAST(shift__left(CAST(n AS BIGINT), CAST(2 AS BIGINT)) AS BIGINT)

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
from tsdb.sql.rewrite._layout import KEYWORDS, TokenLayout
from tsdb.sql.rewrite._tables import ColumnTypes
from tsdb.sql.statements import Dialect

CASTS_MAX = 4
TOKENS_MAX = 600
"""Planning with decimals takes twice as long: of a query of hundreds of operations that would be felt."""
_DECIMAL = "DECIMAL(20,0)"
_PRODUCTS = frozenset({"*", "/", "%"})
_SUMS = frozenset({"+", "-"})
_SHIFTS = {"<<": "shift__left", ">>": "shift__right"}
_BITS = frozenset({"&", "^", "#", "~"})
"""Operators that the query engine binds like shifts, or tighter: next to them, shifts are left alone."""
_STARTERS = frozenset({"(", "[", ",", "=", "==", "<", ">", "<=", ">=", "<>", "!=", "||", "<<", ">>", "&", "|"})
# What may stand behind an operand without being part of it.
_ENDERS = (_STARTERS - {"(", "["}) | _PRODUCTS | _SUMS | {")", "]", ";"}
_TYPED_LITERALS = frozenset({"INTERVAL", "DATE", "TIMESTAMP", "TIME", "DATETIME"})
_QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "FROM"})
_TAILS = frozenset({"FILTER", "OVER", "WITHIN", "IGNORE", "RESPECT"})
_OF_ARGUMENT = frozenset({"min", "max", "abs", "first_value", "last_value", "any_value", "lag", "lead", "nullif"})
_OF_ARGUMENTS = frozenset({"coalesce", "ifnull", "nvl", "greatest", "least"})
_SET_OPERATIONS = frozenset({"UNION", "INTERSECT", "EXCEPT"})
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


def edit_integers(layout: TokenLayout, edits: Edits, dialect: Dialect, columns: Known) -> None:
    """Edit the operations on integers of a query, after everything inside of them; very long ones are left alone."""
    if len(layout.tokens) > TOKENS_MAX:
        return
    _IntegerReader(layout, edits, dialect, columns).scan(0, len(layout.tokens) - 1)


class _IntegerReader:
    def __init__(self, layout: TokenLayout, edits: Edits, dialect: Dialect, columns: Known) -> None:
        self._layout = layout
        self._edits = edits
        self._dialect = dialect
        self._columns, find_derived = columns
        self._derived = cache(find_derived)
        """Looked up only for a column that no table has."""

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
        """Return whether an expression may begin at a token: one that is the rest of another is none."""
        if index == start:
            return True
        before = self._layout.tokens[index - 1]
        if before.kind == TokenKind.OPERATOR:
            return before.text in _STARTERS
        return self._layout.words[index - 1] in KEYWORDS - {"END"}

    def _is_operand(self, index: int) -> bool:
        layout = self._layout
        if self._sign(index) in _SUMS:
            index += 1
        if layout.is_operator(index, "("):
            return index in layout.partner
        is_value = layout.tokens[index].kind == TokenKind.NUMBER or layout.is_name(index)
        return is_value or layout.word(index) in ("CAST", "CASE")

    def _edit(self, index: int, end: int) -> int:
        """Edit the expression that begins at a token; returns what is behind it."""
        node, behind = self._shift(index, end)
        self._take(index, behind, node)
        return behind

    def _take(self, index: int, behind: int, node: _Node) -> None:
        if node.is_edited:
            tokens = self._layout.tokens
            self._edits.take(tokens[index].start, tokens[behind - 1].end, node.text)

    def _shift(self, index: int, end: int) -> tuple[_Node, int]:
        start = index
        node, index = self._sum(index, end)
        while index < end and self._sign(index) in _SHIFTS:
            right, behind = self._sum(index + 1, end)
            if not self._may_shift(start, behind):
                # Both sides keep their own edits; what follows is read as part of another expression.
                self._take(start, index, node)
                self._take(index + 1, behind, right)
                node = self._unknown(start, behind)
            else:
                node = self._apply_shift(node, index, right)
            index = behind
        return node, index

    def _may_shift(self, start: int, behind: int) -> bool:
        """Return whether a shift is an expression of its own. PostgreSQL shifts as the query engine does."""
        is_apart = self._sign(start - 1) not in _BITS and self._sign(behind) not in _BITS
        return is_apart and self._dialect is not Dialect.POSTGRESQL

    def _apply_shift(self, left: _Node, index: int, right: _Node) -> _Node:
        operator = self._sign(index)
        if operator in "/%":
            left, right = _unsigned_together(left, right)
        text = f"{left.text} {operator} {right.text}"
        is_edited, casts = left.is_edited or right.is_edited, max(left.casts, right.casts)
        if self._dialect is Dialect.MYSQL:
            call = f"mysql_{_SHIFTS[operator]}(cast_unsigned({left.text}), cast_unsigned({right.text}))"
            return _Node(call, UINT64, True, casts=casts)
        kind = together(left.integers, right.integers) if left.integers and right.integers else None
        if kind is None or not kind.is_signed:
            return _Node(text, None, is_edited, casts=casts)
        call = f"{_SHIFTS[operator]}(CAST({left.text} AS BIGINT), CAST({right.text} AS BIGINT))"
        return _Node(call if kind.bits == 64 else f"CAST({call} AS {kind.sql})", kind, True, casts=casts + 1)

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
        if self._sign(index) not in _SUMS or index + 1 >= end:
            return self._operand(index, end)
        node, behind = self._unary(index + 1, end)
        if self._sign(index) == "+":
            return _Node(f"+ {node.text}", node.integers, node.is_edited, casts=node.casts), behind
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
        if layout.word(index) == "CASE":
            return self._case(index, end)
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
        if layout.word(index + 1) == "SELECT":
            return self._subquery(index), closing + 1
        if closing > index + 1 and layout.word(index + 1) not in _QUERY_WORDS and self._is_operand(index + 1):
            inner, behind = self._shift(index + 1, closing)
            if behind == closing:
                wide = f"({inner.wide})" if inner.wide else ""
                node = _Node(f"({inner.text})", inner.integers, inner.is_edited, wide=wide, casts=inner.casts)
                return node, closing + 1
        self.scan(index + 1, closing)
        return self._unknown(index, closing + 1), closing + 1

    def _subquery(self, index: int) -> _Node:
        """Read `(SELECT item FROM …)`: its value has the type of the item."""
        layout, closing = self._layout, self._layout.partner[index]
        item = index + 3 if layout.word(index + 2) in ("DISTINCT", "ALL") else index + 2
        kind, casts = None, 0
        if item < closing and self._is_operand(item):
            inner, behind = self._shift(item, closing)
            self._take(item, behind, inner)
            if behind == closing or layout.word(behind) in ("FROM", "AS"):
                kind, casts = inner.integers, inner.casts
            item = behind
        self.scan(item, closing)
        depth = layout.depths[index + 1]
        if any(layout.words[each] in _SET_OPERATIONS and layout.depths[each] == depth for each in range(item, closing)):
            kind = None
        node = self._unknown(index, closing + 1)
        node.integers, node.casts = kind and kind.whole, casts
        return node

    def _case(self, index: int, end: int) -> tuple[_Node, int]:
        """Read `CASE … END`: its value has the type of all branches together."""
        layout = self._layout
        kinds: list[Integers | None] = []
        casts, at = 0, index + 1
        while at < end and layout.words[at] != "END":
            if layout.words[at] in ("THEN", "ELSE") and layout.word(at + 1) == "NULL":
                at += 2
            elif layout.words[at] in ("THEN", "ELSE") and self._is_operand(at + 1):
                branch, behind = self._shift(at + 1, end)
                self._take(at + 1, behind, branch)
                kinds.append(branch.integers if layout.word(behind) in ("WHEN", "ELSE", "END") else None)
                casts, at = max(casts, branch.casts), behind
            elif layout.words[at] in ("THEN", "ELSE"):
                kinds.append(None)
                at += 1
            elif self._begins(at, index) and self._is_operand(at):
                at = self._edit(at, end)
            elif at in layout.partner and layout.partner[at] > at:
                self.scan(at + 1, layout.partner[at])
                at = layout.partner[at] + 1
            else:
                at += 1
        behind = min(at + 1, end)
        node = self._unknown(index, behind)
        node.integers, node.casts = _common(kinds), casts
        return node, behind

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
        """Return whether a column is an item of a list, with which nothing is computed: its type does not matter."""
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
            self._take(first, end, argument)
            if end < closing:
                self.scan(end, closing)
            is_whole = end == closing or (name == "nullif" and layout.is_operator(end, ","))
            node = self._unknown(index, behind)
            node.integers = argument.integers.whole if argument.integers is not None and is_whole else None
            node.casts = argument.casts
            return node, behind
        if name in _OF_ARGUMENTS:
            return self._common_call(index, opening, closing), behind
        if name == "if" and (comma := self._first_comma(opening, closing)) is not None:
            self.scan(opening + 1, comma)
            return self._common_call(index, comma, closing), behind
        self.scan(opening + 1, closing)
        node = self._unknown(index, behind)
        node.integers = _RESULTS.get(name)
        return node, behind

    def _first_comma(self, opening: int, closing: int) -> int | None:
        depth = self._layout.depths[opening + 1]
        commas = (each for each in range(opening + 1, closing) if self._layout.is_operator(each, ","))
        return next((each for each in commas if self._layout.depths[each] == depth), None)

    def _common_call(self, index: int, opening: int, closing: int) -> _Node:
        """Read a call that returns one of its arguments, those behind a bracket or comma."""
        kinds: list[Integers | None] = []
        casts, at = 0, opening + 1
        while at < closing:
            if self._layout.word(at) == "NULL":
                at += 2
                continue
            if not self._is_operand(at):
                kinds.append(None)
                break
            argument, behind = self._shift(at, closing)
            self._take(at, behind, argument)
            is_whole = behind == closing or self._layout.is_operator(behind, ",")
            kinds.append(argument.integers if is_whole else None)
            casts = max(casts, argument.casts)
            at = behind + 1 if is_whole else closing
            if not is_whole:
                self.scan(behind, closing)
        else:
            at = closing
        self.scan(at, closing)
        node = self._unknown(index, closing + 1)
        node.integers, node.casts = _common(kinds), casts
        return node

    def _sum_call(self, index: int, first: int, closing: int, behind: int) -> _Node:
        layout, tokens, edits = self._layout, self._layout.tokens, self._edits
        argument, end = self._shift(first, closing)
        is_whole = end == closing or layout.word(end) == "ORDER"
        self._take(first, end, argument)
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


def _common(kinds: list[Integers | None]) -> Integers | None:
    """Return the type that values of several types have together; None if one of them is not known."""
    found: Integers | None = None
    for number, kind in enumerate(kinds):
        if kind is None:
            return None
        found = kind.whole if number == 0 or found is None else together(found, kind)
        if found is None:
            return None
    return found


def _unsigned_together(left: _Node, right: _Node) -> tuple[_Node, _Node]:
    """Let an integer that is not negative be unsigned beside one of 64 bits, or the quotient would be a decimal."""
    if left.integers is None or right.integers is None or together(left.integers, right.integers) is not None:
        return left, right
    return _as_unsigned(left), _as_unsigned(right)


def _as_unsigned(node: _Node) -> _Node:
    if node.integers is None or not node.integers.is_signed or node.integers.low < 0:
        return node
    return _Node(f"CAST({node.text} AS {UINT64.sql})", UINT64, True, casts=node.casts + 1)
