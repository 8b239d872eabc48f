"""EXISTS outside of conditions, which the query engine plans only there.

SELECT EXISTS (SELECT 1 FROM t WHERE a)     SELECT (coalesce((SELECT count(*) FROM t WHERE a), 0) > 0)
"""

from __future__ import annotations

from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout

_CLAUSES = frozenset({"SELECT", "FROM", "WHERE", "ON", "HAVING", "GROUP", "ORDER", "QUALIFY", "VALUES"})
_VALUES = frozenset({"SELECT", "ORDER", "GROUP", "VALUES"})
"""Clauses in which it is a value."""
_SHAPING = frozenset({"GROUP", "HAVING", "UNION", "INTERSECT", "EXCEPT", "LIMIT", "OFFSET", "FETCH", "QUALIFY"})


def edit_exists(layout: TokenLayout, edits: Edits) -> None:
    """Write EXISTS as a number of rows where it is a value."""
    clauses = [""]
    for index, token in enumerate(layout.tokens):
        word = layout.words[index]
        if word in _CLAUSES:
            clauses[-1] = word
        elif token.text == "(":
            clauses.append("")
        elif token.text == ")" and len(clauses) > 1:
            clauses.pop()
        elif word == "EXISTS" and index + 1 in layout.partner:
            clause = next((each for each in reversed(clauses) if each), "")
            if clause in _VALUES:
                _edit(layout, edits, index)


def _edit(layout: TokenLayout, edits: Edits, index: int) -> None:
    opening = index + 1
    closing = layout.partner[opening]
    depth = layout.depths[opening] + 1
    inside = [each for each in range(opening + 1, closing) if layout.depths[each] == depth]
    source = next((each for each in inside if layout.words[each] == "FROM"), None)
    is_plain = layout.word(opening + 1) == "SELECT" and layout.word(opening + 2) != "DISTINCT"
    tokens = layout.tokens
    if source is None or not is_plain or any(layout.words[each] in _SHAPING for each in inside):
        edits.replace(tokens[index].start, tokens[index].end, "((SELECT count(*) FROM")
        end = " AS exists__rows) > 0)"
    else:
        # The rows are counted where they are read, so that a condition may compare with columns from outside.
        edits.absorb(tokens[index].start, tokens[source].start, "(coalesce((SELECT count(*) ")
        end = ", 0) > 0)"
    edits.insert(tokens[closing].end, end + _heading(layout, index, closing))


def _heading(layout: TokenLayout, index: int, closing: int) -> str:
    """Return the name of a result column that is EXISTS and nothing else."""
    before, behind = layout.word(index - 1), layout.tokens[closing + 1]
    if not (before in ("SELECT", "DISTINCT") or layout.is_operator(index - 1, ",")):
        return ""
    is_last = behind.text in (",", ")", ";", "") or layout.word(closing + 1) == "FROM"
    is_listed = layout.depths[index] == 0 or before == "SELECT"
    return ' AS "exists"' if is_last and is_listed else ""
