"""Result columns with the same name: the query engine refuses them, SQL does not.

The second of two is planned under a name that says which one it repeats, `same__0__1`, and gets its name back in the
result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tsdb.sql.lexer import tokenize
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout
from tsdb.sql.rewrite._refused import behind_operand
from tsdb.sql.statements import Dialect

_NAME = re.compile(r"same__(\d+)__\d+")
_LIST_ENDS = frozenset({
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT", "QUALIFY", "WINDOW",
})  # fmt: skip


def first_of_same(name: str) -> int | None:
    """Return the position of the column whose name a result column shares; None for one with a name of its own."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def rename_item(text: str, dialect: Dialect, first: int, second: int) -> Iterator[str]:
    """Name an item of the outermost query after another one; positions are those of columns.

    Which item a column comes from is not known behind a wildcard, so that each of those there is tried.
    """
    layout = TokenLayout(text, tokenize(text, dialect))
    lists = [
        _items(layout, index + 1)
        for index, word in enumerate(layout.words)
        if word == "SELECT" and layout.depths[index] == 0
    ]
    if not lists:
        return
    wildcard = next((number for number, (_, end) in enumerate(lists[0]) if layout.is_operator(end, "*")), second)
    positions = [second] if wildcard >= second else range(wildcard + 1, min(len(lists[0]), second))
    for position in positions:
        edits = Edits(text)
        for items in lists:
            if position < len(items):
                _rename(layout, edits, items[position], f"same__{first}__{second}")
        if edits:
            yield edits.render()


def _items(layout: TokenLayout, start: int) -> list[tuple[int, int]]:
    """Return the first and the last token of every item of the list that begins at a token."""
    if layout.word(start) in ("DISTINCT", "ALL"):
        start += 1
        if layout.word(start) == "ON" and start + 1 in layout.partner:
            start = layout.partner[start + 1] + 1
    items, begin, index = [], start, start
    while index < len(layout.tokens) - 1:
        if layout.depths[index] == 0 and layout.words[index] in _LIST_ENDS and not _is_distinct_from(layout, index):
            break
        if layout.depths[index] < 0 or layout.is_operator(index, ";"):
            break
        if layout.depths[index] == 0 and layout.is_operator(index, ","):
            items.append((begin, index - 1))
            begin = index + 1
        index += 1
    items.append((begin, index - 1))
    return items


def _is_distinct_from(layout: TokenLayout, index: int) -> bool:
    """`a IS DISTINCT FROM b`."""
    return layout.words[index] == "FROM" and layout.word(index - 1) == "DISTINCT"


def _rename(layout: TokenLayout, edits: Edits, item: tuple[int, int], name: str) -> None:
    start, end = item
    tokens = layout.tokens
    has_alias = end > start and layout.is_name(end) and not layout.is_operator(end - 1, ".")
    if has_alias and (layout.word(end - 1) == "AS" or behind_operand(layout, end)):
        edits.replace(tokens[end].start, tokens[end].end, name)
    else:
        edits.insert(tokens[end].end, f" AS {name}")
