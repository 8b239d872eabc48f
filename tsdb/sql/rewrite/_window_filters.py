"""`f(x) = column` below a window function, with the sides exchanged.

From such a filter DataFusion concludes that rows sorted by the column are sorted by the expression instead, and then
refuses its own plan of a window over the column ("Expects PARTITION BY expression to be ordered"). It draws the right
conclusion from `column = f(x)`.
"""

from __future__ import annotations

from tsdb.sql.lexer import TokenKind
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout

_COMPARISONS = frozenset({"=", "<", ">", "<=", ">=", "<>", "!=", "IN", "LIKE", "ILIKE", "IS", "BETWEEN", "SIMILAR"})
_BEHIND = frozenset({"AND", "OR", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "QUALIFY", "UNION", "WINDOW"})


def edit_window_filters(layout: TokenLayout, edits: Edits) -> None:
    """Exchange the sides of comparisons of WHERE that have an expression on the left and a column on the right."""
    for index in range(1, len(layout.tokens)):
        if not layout.is_operator(index, "=") or layout.clauses[index] != "WHERE":
            continue
        start, end = layout.comparison_start(index - 1), layout.chain_end(index + 1)
        if not layout.is_name(index + 1) or not _ends_behind(layout, end) or not _is_expression(layout, start, index):
            continue
        if _is_upper_bound(layout, start):
            continue
        first, last = layout.tokens[start].start, layout.tokens[end].end
        left = edits.render(first, layout.tokens[index - 1].end)
        column = edits.render(layout.tokens[index + 1].start, last)
        edits.absorb(first, last, f"{column} = ({left})")


def _is_expression(layout: TokenLayout, start: int, end: int) -> bool:
    """Whether the tokens of a side are a call or a CASE, and no comparison."""
    index = start
    if layout.words[start] == "CASE":
        return layout.words[end - 1] == "END" and layout.words[start:end].count("CASE") == 1
    while index < end:
        if layout.words[index] in _COMPARISONS or layout.tokens[index].text in _COMPARISONS:
            return False
        index = layout.partner.get(index, index) + 1
    return any(layout.is_operator(each, "(") for each in range(start, end))


def _is_upper_bound(layout: TokenLayout, start: int) -> bool:
    """Whether a side is the second bound of BETWEEN, of which the comparison is a part then."""
    index = start - 1
    if layout.word(index) != "AND":
        return False
    index -= 1
    while index >= 0 and layout.words[index] not in ("AND", "OR", "WHERE"):
        if layout.words[index] == "BETWEEN":
            return True
        index = layout.partner.get(index, index) - 1
    return False


def _ends_behind(layout: TokenLayout, index: int) -> bool:
    """Whether the right side ends with a token."""
    if index + 1 >= len(layout.tokens):
        return True
    token = layout.tokens[index + 1]
    if token.kind == TokenKind.OPERATOR:
        return token.text in (")", ";")
    return layout.words[index + 1] in _BEHIND or not token.text
