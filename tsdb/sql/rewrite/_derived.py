"""Names for derived tables that have none, where DataFusion would lose one of them.

A query that stacks derived tables without names, each of which redefines the same column, comes back with some of
the layers missing: of three times `i + 1 AS i` only two are computed. With names they are all kept. Names show in the
headers of expressions, so they are given only where layers share a column name; `strip_derived` takes them out again.
"""

from __future__ import annotations

import re

from tsdb.sql.lexer import TokenKind, unquote
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout
from tsdb.sql.statements import Dialect

_NAME = "tsdb__derived_"
_IN_HEADER = re.compile(rf"\b{_NAME}\d+\.")
_STARTS = frozenset({"SELECT", "WITH", "VALUES", "FROM"})


def edit_derived(layout: TokenLayout, edits: Edits, dialect: Dialect) -> None:
    """Give derived tables names if nested ones define the same column."""
    unnamed = [index for index in layout.partner if _is_unnamed(layout, index)]
    if len(unnamed) < 2 or not _share_names(layout, unnamed, dialect):
        return
    for number, opening in enumerate(sorted(unnamed)):
        edits.insert(layout.tokens[layout.partner[opening]].end, f" AS {_NAME}{number}")


def strip_derived(header: str) -> str:
    """Return the name of a result column without the names given here."""
    return _IN_HEADER.sub("", header) if _NAME in header else header


def _is_unnamed(layout: TokenLayout, opening: int) -> bool:
    """Return whether a bracket opens a derived table that is not given a name."""
    if not layout.is_operator(opening, "(") or not opening:
        return False
    is_from = layout.words[opening - 1] in ("FROM", "JOIN") or layout.is_operator(opening - 1, ",")
    if not is_from or layout.words[opening + 1] not in _STARTS:
        return False
    behind = layout.partner[opening] + 1
    if layout.words[behind] == "AS" or layout.is_name(behind):
        return False
    return layout.words[opening - 1] in ("FROM", "JOIN")


def _share_names(layout: TokenLayout, unnamed: list[int], dialect: Dialect) -> bool:
    """Return whether one of the derived tables lies in another and both define a column of the same name."""
    names = {opening: _defined(layout, opening, dialect) for opening in unnamed}
    return any(
        outer < inner < layout.partner[outer] and names[outer] & names[inner] for outer in unnamed for inner in unnamed
    )


def _defined(layout: TokenLayout, opening: int, dialect: Dialect) -> set[str]:
    """Return the names a derived table gives to the items of its own SELECT list."""
    depth = layout.depths[opening] + 1
    found = set()
    for index in range(opening + 1, layout.partner[opening]):
        if layout.depths[index] != depth:
            continue
        if layout.words[index] == "FROM":
            break
        ends = layout.words[index + 1] == "FROM" or layout.is_operator(index + 1, ",")
        before = layout.tokens[index - 1]
        follows_value = before.kind != TokenKind.OPERATOR or before.text in ")]"
        if layout.is_name(index) and ends and follows_value and layout.words[index - 1] not in ("SELECT", "DISTINCT"):
            found.add(unquote(layout.tokens[index], dialect))
    return found
