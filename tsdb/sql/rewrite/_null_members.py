"""`x [NOT] IN (1, NULL)` in conditions, with a NULL beside the list: DataFusion loses that of a list it joins.

`x IN (1, 40) AND x NOT IN (1, NULL)` is never true, and DataFusion makes `x = 40` of it. What a list means stays the
same: `(x NOT IN (1, NULL) AND NULL)` and `(x IN (1, NULL) OR NULL)`. The items of SELECT are left alone, because their
text is the name of a result column.
"""

from __future__ import annotations

from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout

_CONDITIONS = frozenset({"WHERE", "HAVING", "ON", "QUALIFY"})
_NULL = "CAST(NULL AS BOOLEAN)"


def edit_null_members(layout: TokenLayout, edits: Edits) -> None:
    """Repeat the NULL of a list of values beside the list."""
    for index, word in enumerate(layout.words):
        if word != "IN" or not layout.is_operator(index + 1, "(") or index + 1 not in layout.partner:
            continue
        if layout.clauses[index] in _CONDITIONS and _has_null(layout, index + 1):
            is_negated = layout.words[index - 1] == "NOT"
            start = layout.comparison_start(index - 2 if is_negated else index - 1)
            edits.insert(layout.tokens[start].start, "(")
            edits.insert(layout.tokens[layout.partner[index + 1]].end, f" {'AND' if is_negated else 'OR'} {_NULL})")


def _has_null(layout: TokenLayout, opening: int) -> bool:
    """Whether a member of a list, which is no subquery, is NULL, or NULL cast to a type."""
    index = opening
    while index < layout.partner[opening]:
        is_member = index == opening or layout.is_operator(index, ",")
        if is_member and layout.words[index + 1] == "NULL" and _is_whole(layout, index + 2):
            return True
        index = index + 1 if index == opening else layout.partner.get(index, index) + 1
    return False


def _is_whole(layout: TokenLayout, index: int) -> bool:
    return any(layout.is_operator(index, text) for text in (",", ")", "::"))
