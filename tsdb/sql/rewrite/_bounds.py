"""Counts that make values large, handed through a function that checks them.

`lpad(x, n)` and `array_repeat(x, n)` make values of any size of a number in a row, outside of every limit on memory.
Where that number is an expression, `lpad(x, tsdb__bounded(n))` has it checked before the value is made. A number that
is written in the text is checked there, see `tsdb.sql.expansion`.
"""

from __future__ import annotations

from tsdb.sql.lexer import TokenKind
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout

BOUNDED = "tsdb__bounded"
COUNTED = frozenset({"LPAD", "RPAD", "ARRAY_REPEAT", "LIST_REPEAT", "ARRAY_RESIZE", "LIST_RESIZE"})
"""Functions whose second argument says how large their result becomes."""

_MARK = f"{BOUNDED}("


def edit_bounds(layout: TokenLayout, edits: Edits) -> None:
    """Have the counts of calls checked that are not plain numbers."""
    for index in layout.calls():
        if layout.words[index] not in COUNTED:
            continue
        arguments = layout.arguments(index + 1)
        if len(arguments) < 2:
            continue
        start, end = arguments[1]
        inside = [token for token in layout.tokens if start <= token.start and token.end <= end]
        if any(token.kind not in (TokenKind.NUMBER, TokenKind.OPERATOR) for token in inside) or len(inside) > 2:
            edits.absorb(start, end, f" {_MARK}{edits.render(start, end).strip()})")


def strip_bounds(header: str) -> str:
    """Return the name of a result column without the calls added here."""
    while (start := header.find(_MARK)) >= 0:
        depth, end = 1, start + len(_MARK)
        while end < len(header) and depth:
            depth += {"(": 1, ")": -1}.get(header[end], 0)
            end += 1
        header = header[:start] + header[start + len(_MARK) : end - (depth == 0)] + header[end:]
    return header
