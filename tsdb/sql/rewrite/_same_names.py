"""Result columns with the same name: the query engine refuses them, SQL does not.

The second of two is planned under a name that says which one it repeats, `same__0__1`, and gets its name back in the
result. So does the first, as `own__` and the name in hexadecimal digits, if the second is a column that only ORDER BY
names, as in `SELECT v::INT FROM t ORDER BY v`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tsdb.sql.lexer import tokenize
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout
from tsdb.sql.rewrite._refused import behind_operand
from tsdb.sql.statements import Dialect

_NAME = re.compile(r"same__(\d+)__\d+")
_OWN = re.compile(r"own__([0-9a-f]+)")
_LIST_ENDS = frozenset({
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT", "QUALIFY", "WINDOW",
})  # fmt: skip


def name_of_same(name: str, before: Sequence[str]) -> str | None:
    """Return the name of a result column that was planned under another, given those before it; None for one that was
    not."""
    if match := _NAME.fullmatch(name):
        return before[int(match[1])]
    match = _OWN.fullmatch(name)
    return bytes.fromhex(match[1]).decode() if match else None


def rename_item(text: str, dialect: Dialect, first: int, second: int, name: str) -> Iterator[str]:
    """Name an item of the outermost query after another one; positions are those of columns, which have a `name`.

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
    if second >= len(lists[0]) and wildcard >= second:
        # Only ORDER BY names the second.
        positions, renamed = range(first, first + 1), _own_name(layout, dialect, name)
    else:
        positions = range(second, second + 1) if wildcard >= second else range(wildcard + 1, min(len(lists[0]), second))
        renamed = f"same__{first}__{second}"
    for position in positions:
        edits = Edits(text)
        for items in lists:
            if position < len(items):
                _rename(layout, edits, items[position], renamed)
        if edits:
            yield edits.render()


def _own_name(layout: TokenLayout, dialect: Dialect, name: str) -> str:
    """Return what to call an item whose name a column of ORDER BY has.

    In PostgreSQL `v::INT` is called `v`, and `ORDER BY v` sorts by the item; elsewhere it sorts by the column.
    """
    last = name.rpartition(".")[2]
    order = max((index for index, word in enumerate(layout.words) if word == "ORDER"), default=0)
    is_qualified = any(layout.is_operator(index, ".") for index in range(order, len(layout.tokens)))
    if dialect is Dialect.POSTGRESQL and not is_qualified and last.isidentifier():
        return f'"{last}"'
    return f"own__{name.encode().hex()}"


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
