"""Names of result columns as MySQL and PostgreSQL give them, derived from the text of a query.

    SELECT 1, count(*), v::text, v + 1 AS w
    MySQL         1, count(*), …, w              the text of the expression
    PostgreSQL    ?column?, count, v, w          the name of a function, a column or a type, `?column?` for the rest

`headings` finds the SELECT list that gives the result its columns and returns one entry per item. An item that has a
name of its own, by an alias or because it is a column, is left to the query engine; `*` stands for any number of
columns. The rules of PostgreSQL are in `tsdb.sql.headings_pg`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tsdb.sql.headings_pg import VALUE_WORDS, pg_heading
from tsdb.sql.lexer import TokenKind, tokenize, unquote
from tsdb.sql.rewrite import KEYWORDS, TokenLayout
from tsdb.sql.statements import Dialect

TEXT_CHARS_MAX = 64 << 10
"""Headings of longer queries are left as the query engine gives them."""

KEPT_MAX = 256
KEPT_CHARS_MAX = 4 << 10
"""The headings of so many SELECT lists are kept, each of at most so many characters: dashboards repeat them."""

WILDCARD = object()
"""An item that stands for any number of columns."""

_SET_OPERATIONS = frozenset({"UNION", "INTERSECT", "EXCEPT"})
_LIST_ENDS = _SET_OPERATIONS | {
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "WINDOW", "QUALIFY", "ALIGN", "FOR",
    "INTO",
}  # fmt: skip
_MODIFIERS = frozenset({
    "ALL", "DISTINCT", "DISTINCTROW", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_SMALL_RESULT", "SQL_BIG_RESULT",
    "SQL_BUFFER_RESULT", "SQL_NO_CACHE", "SQL_CALC_FOUND_ROWS", "SQL_CACHE",
})  # fmt: skip
# A name behind one of these belongs to the expression, so it is no alias.
_JOINS_NAME = (KEYWORDS - {"END"}) | {
    "DIV", "MOD", "XOR", "REGEXP", "RLIKE", "BINARY", "COLLATE", "ZONE", "DOUBLE", "CHARACTER", "ESCAPE", "TIME",
    "INTERVAL", "WITHOUT",
}  # fmt: skip
_UNITS = frozenset({
    "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND",
    "YEARS", "MONTHS", "WEEKS", "DAYS", "HOURS", "MINUTES", "SECONDS",
})  # fmt: skip
_FROM = re.compile(r"\sfrom\s", re.IGNORECASE)
_PLAIN_HEAD = re.compile(r"\s*select\b(?:[^'\"`#/$-]|'[\w :.+]*'|(?!))*+(?<!\bdistinct)", re.IGNORECASE)
_CONSTANTS = frozenset({"NULL", "TRUE", "FALSE"})


def name_columns(names: Sequence[str], text: str, dialect: Dialect) -> list[str]:
    """Return the names of the columns of a query's result, from those the query engine gave."""
    if len(text) > TEXT_CHARS_MAX:
        return list(names)
    text = _decisive(text)
    found = _kept_headings(text, dialect) if len(text) <= KEPT_CHARS_MAX else headings(text, dialect)
    return list(names) if found is None else _aligned(names, found)


def _decisive(text: str) -> str:
    """Return the part of a query that decides: what stands before the first FROM, if that is clear without tokens."""
    match = _FROM.search(text)
    if match is None:
        return text
    head = text[: match.start()]
    is_clear = _PLAIN_HEAD.fullmatch(head) is not None and head.count("(") == head.count(")")
    return head if is_clear else text


def _aligned(names: Sequence[str], found: Sequence[object]) -> list[str]:
    """Put headings in their places: from the front to the first `*`, from the back to the last one."""
    shown = list(names)
    stars = [place for place, each in enumerate(found) if each is WILDCARD]
    if (not stars and len(found) != len(names)) or len(found) - len(stars) > len(names):
        return shown
    front = found[: stars[0]] if stars else found
    back = found[stars[-1] + 1 :] if stars else []
    for place, each in enumerate(front):
        shown[place] = each if isinstance(each, str) else shown[place]
    for place, each in enumerate(back, len(names) - len(back)):
        shown[place] = each if isinstance(each, str) else shown[place]
    return shown


def headings(text: str, dialect: Dialect) -> tuple[object, ...] | None:
    """Return what each item of the SELECT list is headed by: text, None for a name of its own, or WILDCARD."""
    layout = TokenLayout(text, tokenize(text, dialect))
    first = _find_select(layout, 0)
    return (
        None if first is None else tuple(item_heading(layout, *item, dialect) for item in select_items(layout, first))
    )


def outer_items(layout: TokenLayout) -> list[tuple[int, int]]:
    """Return the items that give a query its columns: the first token of each, and the one behind it."""
    select = _find_select(layout, 0)
    return [] if select is None else select_items(layout, select)


def is_distinct(layout: TokenLayout) -> bool:
    """Whether the SELECT list that gives a query its columns begins with DISTINCT."""
    select = _find_select(layout, 0)
    return select is not None and layout.words[select + 1] == "DISTINCT"


_kept_headings = lru_cache(maxsize=KEPT_MAX)(headings)


def _find_select(layout: TokenLayout, at: int) -> int | None:
    """Return the token SELECT whose list names the columns: the first one outside of the brackets of WITH."""
    while layout.is_operator(at, "("):
        at += 1
    depth = layout.depths[at]
    for index in range(at, len(layout.tokens)):
        if layout.depths[index] < depth or layout.words[index] in ("VALUES", "TABLE"):
            return None
        if layout.words[index] == "SELECT" and layout.depths[index] == depth:
            return index
        if layout.is_operator(index, "(") and index and layout.is_operator(index - 1, ")"):
            return _find_select(layout, index)  # WITH … (SELECT …)
    return None


def select_items(layout: TokenLayout, select: int) -> list[tuple[int, int]]:
    """Return the first token of each item of a SELECT list and the one behind it."""
    start = _list_start(layout, select + 1)
    depth, items = layout.depths[select], []
    at = start
    while True:
        token = layout.tokens[at]
        is_level = layout.depths[at] == depth
        if token.kind == TokenKind.END or layout.depths[at] < depth or (is_level and _ends_list(layout, at)):
            break
        if is_level and layout.is_operator(at, ","):
            items.append((start, at))
            start = at + 1
        at += 1
    return [*items, (start, at)] if at > start else items


def _list_start(layout: TokenLayout, at: int) -> int:
    while layout.words[at] in _MODIFIERS:
        at += 1
        if layout.words[at] == "ON" and layout.is_operator(at + 1, "("):
            return layout.partner.get(at + 1, at) + 1
    return at


def _ends_list(layout: TokenLayout, at: int) -> bool:
    if layout.is_operator(at, ";"):
        return True
    word = layout.words[at]
    if word not in _LIST_ENDS or layout.is_operator(at - 1, "."):
        return False
    return (layout.words[at - 1], word) not in (("DISTINCT", "FROM"), ("WITHIN", "GROUP"))


def item_heading(layout: TokenLayout, start: int, end: int, dialect: Dialect) -> object:
    """Return what an item is headed by: text, None for a name of its own, or WILDCARD."""
    if _is_wildcard(layout, start, end):
        return WILDCARD
    if _has_alias(layout, start, end, dialect):
        return None
    return pg_heading(layout, start, end) if dialect is Dialect.POSTGRESQL else _mysql_heading(layout, start, end)


def _is_wildcard(layout: TokenLayout, start: int, end: int) -> bool:
    while layout.is_name(start) and layout.is_operator(start + 1, ".") and start + 2 < end:
        start += 2
    return layout.is_operator(start, "*")


def _has_alias(layout: TokenLayout, start: int, end: int, dialect: Dialect) -> bool:
    if end - start < 2:
        return False
    last, before = layout.tokens[end - 1], layout.tokens[end - 2]
    if layout.words[end - 2] == "AS":
        return True
    is_name = layout.is_name(end - 1) or (dialect is Dialect.MYSQL and last.kind == TokenKind.STRING)
    if not is_name or layout.words[end - 2] in _JOINS_NAME:
        return False
    if before.kind == TokenKind.OPERATOR:
        return before.text in ")]"
    if layout.words[end - 1] in _UNITS and "INTERVAL" in layout.words[max(start, end - 3) : end]:
        return False
    if last.kind == TokenKind.STRING:  # 'a' 'b' is one string, DATE '…' one literal
        return before.kind in (TokenKind.NUMBER, TokenKind.QUOTED)
    return True


def _mysql_heading(layout: TokenLayout, start: int, end: int) -> str | None:
    """The text of an expression; a string is headed by what it says, a column has its own name."""
    first = layout.tokens[start]
    if end - start == 1:
        if first.kind == TokenKind.STRING:
            return unquote(first, Dialect.MYSQL)
        if layout.words[start] in _CONSTANTS:
            return layout.words[start]
        if layout.words[start] in VALUE_WORDS:
            return first.text
    inner, behind = start, end
    while layout.is_operator(inner, "(") and layout.partner.get(inner) == behind - 1:
        inner, behind = inner + 1, behind - 1
    if layout.is_name(inner) and layout.chain_end(inner) == behind - 1:
        return None
    return layout.text[first.start : layout.tokens[end - 1].end]
