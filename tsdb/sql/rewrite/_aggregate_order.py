"""ORDER BY within an aggregate that names one column twice: the query engine fails on such a list under GROUP BY.

    first_value(v ORDER BY ts, t.ts)        first_value(v ORDER BY ts)

What is sorted by a column already is not changed by the same column again, in whichever direction.
"""

from __future__ import annotations

from tsdb.sql.lexer import unquote
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout
from tsdb.sql.statements import Dialect

_DIRECTIONS = frozenset({"ASC", "DESC", "NULLS", "FIRST", "LAST"})

Key = tuple[str, ...]


def edit_aggregate_order(layout: TokenLayout, edits: Edits, dialect: Dialect) -> None:
    for index in range(1, len(layout.tokens)):
        if layout.words[index] == "ORDER" and layout.words[index + 1] == "BY":
            opening = _opening(layout, index)
            if opening is not None and layout.is_name(opening - 1):
                _edit_list(layout, edits, dialect, index + 2, layout.partner[opening])


def _opening(layout: TokenLayout, index: int) -> int | None:
    """Return the bracket of the call whose arguments a token is among."""
    depth = layout.depths[index]
    for each in range(index - 1, 0, -1):
        if layout.depths[each] == depth - 1 and layout.is_operator(each, "(") and each in layout.partner:
            return each
        if layout.words[each] in ("SELECT", "OVER", "PARTITION") and layout.depths[each] == depth:
            return None
    return None


def _edit_list(layout: TokenLayout, edits: Edits, dialect: Dialect, start: int, closing: int) -> None:
    depth = layout.depths[start]
    commas = [each for each in range(start, closing) if layout.is_operator(each, ",") and layout.depths[each] == depth]
    seen: list[tuple[bool, Key]] = []
    for before, end in zip([start - 1, *commas], [*commas, closing], strict=True):
        item = _key(layout, dialect, before + 1, end)
        if any(_is_same(item, other) for other in seen):
            edits.take(layout.tokens[before].start, layout.tokens[end - 1].end, "")
        seen.append(item)


def _key(layout: TokenLayout, dialect: Dialect, start: int, end: int) -> tuple[bool, Key]:
    """Return whether an item is the name of a column, and its parts."""
    while end > start + 1 and layout.words[end - 1] in _DIRECTIONS:
        end -= 1
    if layout.is_name(start) and layout.chain_end(start) == end - 1:
        return True, tuple(unquote(layout.tokens[each], dialect) for each in range(start, end, 2))
    return False, tuple(layout.words[each] or layout.tokens[each].text for each in range(start, end))


def _is_same(one: tuple[bool, Key], other: tuple[bool, Key]) -> bool:
    """Return whether two items are the same. A name without that of its table is the only one of that name."""
    (is_column, left), (is_other, right) = one, other
    if not (is_column and is_other):
        return left == right
    length = min(len(left), len(right))
    return left[-length:] == right[-length:]
