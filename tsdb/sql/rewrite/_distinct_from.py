"""`a IS [NOT] DISTINCT FROM b`, in parentheses: DataFusion reads everything behind FROM as the right side.

`a IS DISTINCT FROM b AND c` would be read as `a IS DISTINCT FROM (b AND c)`: an error at best, and a wrong answer if
all three are booleans.
"""

from __future__ import annotations

from tsdb.sql.lexer import TokenKind
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout

_BEHIND = frozenset({
    "AND", "OR", "XOR", "THEN", "ELSE", "END", "WHEN", "AS", "ASC", "DESC", "NULLS", "FROM", "WHERE", "GROUP", "HAVING",
    "ORDER", "LIMIT", "OFFSET", "FETCH", "QUALIFY", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "IS", "JOIN", "INNER",
    "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ALIGN", "FILL", "RANGE",
})  # fmt: skip
_OPERANDS = (TokenKind.QUOTED, TokenKind.STRING, TokenKind.NUMBER)


def edit_distinct_from(layout: TokenLayout, edits: Edits) -> None:
    """Put every comparison by IS [NOT] DISTINCT FROM in parentheses."""
    for index, word in enumerate(layout.words):
        if word != "IS":
            continue
        distinct = index + 2 if layout.words[index + 1] == "NOT" else index + 1
        if layout.words[distinct : distinct + 2] == ["DISTINCT", "FROM"]:
            start, end = layout.comparison_start(index - 1), _last(layout, distinct + 2)
            edits.insert(layout.tokens[start].start, "(")
            edits.insert(layout.tokens[end].end, ")")


def _last(layout: TokenLayout, index: int) -> int:
    """The last token of the right side, which begins at a token."""
    begin, cases = index, 0
    while index < len(layout.tokens) - 1:
        word, token = layout.words[index], layout.tokens[index]
        if token.kind == TokenKind.OPERATOR and token.text in (")", "]", ",", ";"):
            break
        if word == "CASE":
            cases += 1
        elif word == "END" and cases:
            cases -= 1
        elif not cases and index > begin and (_ends_at(layout, index) or _is_alias(layout, index)):
            break
        index = layout.partner.get(index, index) + 1
    return index - 1


def _ends_at(layout: TokenLayout, index: int) -> bool:
    # left(…) and right(…) are functions, too.
    return layout.words[index] in _BEHIND and not layout.is_call(index)


def _is_alias(layout: TokenLayout, index: int) -> bool:
    """Whether a name follows an operand directly: `SELECT a IS DISTINCT FROM b differs`."""
    if not layout.is_name(index) or layout.words[index - 2] == "INTERVAL":
        return False
    before = layout.tokens[index - 1]
    return before.kind in _OPERANDS or before.text == ")" or layout.is_name(index - 1)
