"""Columns of derived tables and CTEs under the names that MySQL and PostgreSQL give them.

    SELECT s.count FROM (SELECT count(*) FROM cpu) s

Tools wrap a query in another one and name its columns as their own server would. An item without a name of its own gets
its heading as an alias, unless two items of its list share it. What is inside an expression is left alone.
"""

from __future__ import annotations

from tsdb.sql.headings import item_heading, select_items
from tsdb.sql.lexer import Token, unquote
from tsdb.sql.rewrite import Edits, TokenLayout
from tsdb.sql.statements import Dialect

_BEFORE_TABLES = frozenset({"FROM", "JOIN", "LATERAL"})
_SORTS = frozenset({"ORDER", "DISTINCT"})


def name_derived(text: str, tokens: list[Token], dialect: Dialect) -> str:
    """Return a query whose inner SELECT lists have names for their columns."""
    if sum(token.word == "SELECT" for token in tokens) < 2:
        return text
    layout, edits = TokenLayout(text, tokens), Edits(text)
    for index, word in enumerate(layout.words):
        if word == "SELECT" and index and layout.is_operator(index - 1, "(") and _is_table(layout, index - 1):
            _name_items(layout, edits, index, dialect)
    return edits.render() if edits else text


def _is_table(layout: TokenLayout, opening: int) -> bool:
    """Whether a bracket opens a derived table, or the query of a CTE."""
    if layout.words[opening - 1] in _BEFORE_TABLES:
        return True
    is_cte = layout.words[opening - 1] == "AS" and "WITH" in layout.words[:opening]
    behind_with = is_cte and (layout.is_name(opening - 2) or layout.is_operator(opening - 2, ")"))
    return behind_with and layout.words[opening - 2] != "MATERIALIZED"


def _name_items(layout: TokenLayout, edits: Edits, select: int, dialect: Dialect) -> None:
    closing = layout.partner.get(select - 1)
    if closing is None or not _SORTS.isdisjoint(layout.words[select:closing]):
        return  # what is sorted by must be an item as it is written
    items = select_items(layout, select)
    headings = [item_heading(layout, *item, dialect) for item in items]
    taken = {_own_name(layout, end, dialect) for (_, end), each in zip(items, headings, strict=True) if each is None}
    quote = "`" if dialect is Dialect.MYSQL else '"'
    for (start, end), heading in zip(items, headings, strict=True):
        if not isinstance(heading, str) or heading in taken or headings.count(heading) > 1:
            continue
        if layout.is_name(start) and layout.chain_end(start) == end - 1:
            continue  # a column has its name
        edits.insert(layout.tokens[end - 1].end, f" AS {quote}{heading.replace(quote, quote * 2)}{quote}")


def _own_name(layout: TokenLayout, end: int, dialect: Dialect) -> str:
    return unquote(layout.tokens[end - 1], dialect)
