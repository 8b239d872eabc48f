"""Result columns with the same name: the query engine refuses them, SQL does not.

The second of two is planned under a name that says which one it repeats, `same__0__1`, and gets its name back in the
result. So does the first, as `own__` and the name in hexadecimal digits, if the second is a column of a wildcard, or
one that only ORDER BY names, as in `SELECT v::INT FROM t ORDER BY v`; and an alias that is also the name of a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tsdb.sql.lexer import tokenize, unquote
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

    Which item a column comes from is not known behind a wildcard, so that each of those there is tried. A column of the
    wildcard itself cannot be named: the item before it that has the same name is.
    """
    layout = TokenLayout(text, tokenize(text, dialect))
    lists = _lists(layout)
    if not lists:
        return
    wildcard = next((number for number, (_, end) in enumerate(lists[0]) if layout.is_operator(end, "*")), None)
    again = f"same__{first}__{second}"
    if wildcard is not None and wildcard <= second:
        # From the end: of the two items, the second is named.
        last = min(len(lists[0]), second) - 1
        choices = [(position, again) for position in range(last, wildcard, -1)]
        if first < wildcard:
            choices.append((first, _own(_header(layout, dialect, lists[0][first], name))))
    elif second < len(lists[0]):
        choices = [(second, again)]
    else:
        # Only ORDER BY names the second.
        choices = [(first, _own_name(layout, dialect, name))]
    for position, renamed in choices:
        edits = Edits(text)
        for items in lists:
            if position < len(items):
                _rename(layout, edits, items[position], renamed)
        if edits:
            yield edits.render()


def rename_alias(text: str, dialect: Dialect, name: str) -> Iterator[str]:
    """Name the items of the outermost query in another way that have an alias which is also the name of a column."""
    layout = TokenLayout(text, tokenize(text, dialect))
    edits = Edits(text)
    for items in _lists(layout):
        for item in items:
            if _has_alias(layout, item) and unquote(layout.tokens[item[1]], dialect) == name:
                _rename(layout, edits, item, _own(name))
    if edits:
        yield edits.render()


def _lists(layout: TokenLayout) -> list[list[tuple[int, int]]]:
    """Return the items of the outermost query, of each part of a UNION."""
    return [
        _items(layout, index + 1)
        for index, word in enumerate(layout.words)
        if word == "SELECT" and layout.depths[index] == 0
    ]


def _own_name(layout: TokenLayout, dialect: Dialect, name: str) -> str:
    """Return what to call an item whose name a column of ORDER BY has.

    In PostgreSQL `v::INT` is called `v`, and `ORDER BY v` sorts by the item; elsewhere it sorts by the column.
    """
    last = name.rpartition(".")[2]
    order = max((index for index, word in enumerate(layout.words) if word == "ORDER"), default=0)
    is_qualified = any(layout.is_operator(index, ".") for index in range(order, len(layout.tokens)))
    if dialect is Dialect.POSTGRESQL and not is_qualified and last.isidentifier():
        return f'"{last}"'
    return _own(name)


def _own(name: str) -> str:
    return f"own__{name.encode().hex()}"


def _header(layout: TokenLayout, dialect: Dialect, item: tuple[int, int], name: str) -> str:
    """Return the heading of an item with a name: a column and an alias have their own, without a table."""
    start, end = item
    is_column = all(layout.is_name(index) or layout.is_operator(index, ".") for index in range(start, end + 1))
    return unquote(layout.tokens[end], dialect) if is_column or _has_alias(layout, item) else name


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
    end = layout.tokens[item[1]]
    if _has_alias(layout, item):
        edits.replace(end.start, end.end, name)
    else:
        edits.insert(end.end, f" AS {name}")


def _has_alias(layout: TokenLayout, item: tuple[int, int]) -> bool:
    start, end = item
    is_named = end > start and layout.is_name(end) and not layout.is_operator(end - 1, ".")
    return is_named and (layout.word(end - 1) == "AS" or behind_operand(layout, end))
