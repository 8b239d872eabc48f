"""SELECT DISTINCT with ORDER BY an expression of the SELECT list: the query engine only finds columns and positions.

    SELECT DISTINCT upper(s) FROM t ORDER BY upper(s)       SELECT DISTINCT upper(s) FROM t ORDER BY 1

An expression is found by its tokens. One that is not in the list stays, and the query engine refuses it.
"""

from __future__ import annotations

from tsdb.sql.lexer import TokenKind
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout

_SET_OPERATIONS = frozenset({"UNION", "INTERSECT", "EXCEPT"})
_ENDS = frozenset({"LIMIT", "OFFSET", "FETCH", "FOR"})
_DIRECTIONS = frozenset({"ASC", "DESC", "NULLS", "FIRST", "LAST"})

Key = tuple[str, ...]
Item = tuple[int, int]
"""The first token of an item, and the one behind it."""


def edit_distinct_order(layout: TokenLayout, edits: Edits) -> None:
    for index, word in enumerate(layout.words):
        if word == "DISTINCT" and index and layout.words[index - 1] == "SELECT" and layout.words[index + 1] != "ON":
            _edit_query(layout, edits, index)


def _edit_query(layout: TokenLayout, edits: Edits, distinct: int) -> None:
    depth = layout.depths[distinct]
    marks: dict[str, int] = {}
    end = distinct + 1
    while layout.tokens[end].kind != TokenKind.END and layout.depths[end] >= depth:
        if layout.depths[end] == depth:
            word = layout.words[end]
            if layout.is_operator(end, ";") or word in _SET_OPERATIONS or (word in _ENDS and "ORDER" in marks):
                break
            marks.setdefault(word, end)
        end += 1
    order = marks.get("ORDER")
    # The order of a set operation is that of all of its sides.
    if order is None or layout.words[order + 1] != "BY" or layout.words[end] in _SET_OPERATIONS:
        return
    places = _places(layout, _items(layout, distinct + 1, marks.get("FROM", order)))
    for start, behind in _items(layout, order + 2, end):
        while behind > start + 1 and layout.words[behind - 1] in _DIRECTIONS:
            behind -= 1
        place = places.get(_key(layout, start, behind))
        if place is not None and not _is_column(layout, start, behind):
            edits.take(layout.tokens[start].start, layout.tokens[behind - 1].end, str(place))


def _items(layout: TokenLayout, start: int, end: int) -> list[Item]:
    """Return the items of a list between two tokens."""
    found, depth, first = [], layout.depths[start], start
    for index in range(start, end):
        if layout.is_operator(index, ",") and layout.depths[index] == depth:
            found.append((first, index))
            first = index + 1
    return [*found, (first, end)]


def _places(layout: TokenLayout, items: list[Item]) -> dict[Key, int]:
    """Return the positions of expressions, up to a `*`, which stands for any number of them."""
    places: dict[Key, int] = {}
    for place, (start, end) in enumerate(items, start=1):
        if start >= end or layout.is_operator(end - 1, "*"):
            break
        places.setdefault(_key(layout, start, end), place)
        if layout.words[end - 2] == "AS":
            places.setdefault(_key(layout, start, end - 2), place)
        elif end > start + 1 and layout.is_name(end - 1):
            places.setdefault(_key(layout, start, end - 1), place)
    return places


def _key(layout: TokenLayout, start: int, end: int) -> Key:
    return tuple(layout.words[index] or layout.tokens[index].text for index in range(start, end))


def _is_column(layout: TokenLayout, start: int, end: int) -> bool:
    """Return whether an item is a name or a position, which the query engine finds by itself."""
    return end == start + 1 or (layout.is_name(start) and layout.chain_end(start) == end - 1)
