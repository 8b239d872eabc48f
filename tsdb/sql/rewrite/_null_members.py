"""`x [NOT] IN (1, NULL)` in conditions, with the NULL outside of the list: DataFusion loses it when it joins lists.

`x IN (1, 40) AND x NOT IN (1, NULL)` is never true, and DataFusion makes `x = 40` of it. What a list means stays the
same: `(x NOT IN (1) AND NULL)` and `(x IN (1) OR NULL)`. The items of SELECT are left alone, because their text is the
name of a result column.
"""

from __future__ import annotations

from tsdb.sql.rewrite._distinct_from import first_operand
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout

_CLAUSES = frozenset({"SELECT", "WHERE", "HAVING", "ON", "QUALIFY"})
_NULL = "CAST(NULL AS BOOLEAN)"


def edit_null_members(layout: TokenLayout, edits: Edits) -> None:
    """Take NULL out of lists of values."""
    for index, word in enumerate(layout.words):
        if word != "IN" or not layout.is_operator(index + 1, "(") or index + 1 not in layout.partner:
            continue
        members = _members(layout, index + 1)
        nulls = [member for member in members if layout.words[member[0]] == "NULL" and _is_whole(layout, *member)]
        if nulls and _is_condition(layout, index):
            _edit(layout, edits, index, [member for member in members if member not in nulls], nulls)


def _edit(
    layout: TokenLayout, edits: Edits, index: int, others: list[tuple[int, int]], nulls: list[tuple[int, int]]
) -> None:
    is_negated = layout.words[index - 1] == "NOT"
    operator = index - 1 if is_negated else index
    closing = layout.partner[index + 1]
    if not others:
        comparison = "<> NULL" if is_negated else "= NULL"
        edits.absorb(layout.tokens[operator].start, layout.tokens[closing].end, comparison)
        return
    first, last = others[0]
    instead = layout.text[layout.tokens[first].start : layout.tokens[last].end]
    for begin, end in nulls:
        edits.absorb(layout.tokens[begin].start, layout.tokens[end].end, instead)
    edits.insert(layout.tokens[first_operand(layout, operator - 1)].start, "(")
    edits.insert(layout.tokens[closing].end, f" {'AND' if is_negated else 'OR'} {_NULL})")


def _members(layout: TokenLayout, opening: int) -> list[tuple[int, int]]:
    """Return the first and the last token of each member of a list; nothing for a subquery."""
    closing = layout.partner[opening]
    if layout.words[opening + 1] in ("SELECT", "WITH", "VALUES"):
        return []
    found, begin, index = [], opening + 1, opening + 1
    while index <= closing:
        if index == closing or layout.is_operator(index, ","):
            if begin < index:
                found.append((begin, index - 1))
            begin = index + 1
        index = layout.partner.get(index, index) + 1 if index < closing else index + 1
    return found


def _is_whole(layout: TokenLayout, begin: int, end: int) -> bool:
    """Whether a member that begins with NULL is nothing else, or only cast to a type."""
    return begin == end or layout.is_operator(begin + 1, "::")


def _is_condition(layout: TokenLayout, index: int) -> bool:
    clause = next((word for word in reversed(layout.words[:index]) if word in _CLAUSES), "SELECT")
    return clause != "SELECT"
