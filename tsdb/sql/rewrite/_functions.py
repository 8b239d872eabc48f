"""Calls of functions under the names the query engine knows, the match operator `@@`, and system variables.

ucase(x)            upper(x)                      RENAMES
locate(a, b, 2)     locate__3(a, b, 2)            OVERLOADS
mod(a, b)           …                             EXPANSIONS
hll(x)              …                             AGGREGATES
text @@ 'term'      matches_term(text,'term')
@@time_zone         'UTC'
"""

from __future__ import annotations

from collections.abc import Callable

from tsdb.errors import InvalidArguments
from tsdb.sql.aggregate_calls import AGGREGATES, WINDOWS
from tsdb.sql.function_names import EXPANSIONS, OVERLOADS, RENAMES
from tsdb.sql.lexer import TokenKind
from tsdb.sql.rewrite._aggregates import edit_aggregate, edit_window
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout

VariableLookup = Callable[[str], str | int | None]
EDITED_NAMES = frozenset(name.upper() for name in (*RENAMES, *OVERLOADS, *EXPANSIONS, *AGGREGATES, *WINDOWS))
"""In upper case, the names of functions whose calls may be edited."""

_SCOPES = frozenset({"SESSION", "GLOBAL", "LOCAL"})


def edit_calls(layout: TokenLayout, edits: Edits) -> None:
    """Edit every call, inner ones before outer ones."""
    for index in layout.calls():
        edit_call(layout, edits, index)


def edit_call(layout: TokenLayout, edits: Edits, index: int) -> None:
    """Edit one call; those inside of it are edited already."""
    name = layout.tokens[index].text.lower()
    if name in RENAMES:
        name = RENAMES[name]
        edits.replace(layout.tokens[index].start, layout.tokens[index].end, name)
    if name in OVERLOADS:
        _overload(layout, edits, index, name)
    elif name in EXPANSIONS:
        _expand(layout, edits, index, name)
    elif name in AGGREGATES:
        edit_aggregate(layout, edits, index)
    elif name in WINDOWS:
        edit_window(layout, edits, index)


def _overload(layout: TokenLayout, edits: Edits, index: int, name: str) -> None:
    inner = OVERLOADS[name].get(len(layout.arguments(index + 1)))
    if inner is not None:
        edits.absorb(layout.tokens[index].start, layout.tokens[index].end, inner)


def _expand(layout: TokenLayout, edits: Edits, index: int, name: str) -> None:
    if layout.is_operator(index - 1, "."):
        return
    arguments = [edits.render(start, end).strip() for start, end in layout.arguments(index + 1)]
    replacement = EXPANSIONS[name](arguments)
    if replacement is not None:
        closing = layout.tokens[layout.partner[index + 1]]
        edits.absorb(layout.tokens[index].start, closing.end, replacement)


def edit_at_signs(layout: TokenLayout, edits: Edits, variable: VariableLookup) -> None:
    """Edit `a @@ 'term'` and `@@variable`, from the left to the right."""
    for index, token in enumerate(layout.tokens):
        if token.kind != TokenKind.OPERATOR or token.text != "@@":
            continue
        start = layout.operand_start(index - 1) if index else None
        if start is None:
            _edit_variable(layout, edits, index, variable)
            continue
        end = layout.operand_end(index + 1)
        if end is None:
            continue
        edits.insert(layout.tokens[start].start, "matches_term(")
        edits.replace(token.start, token.end, ",")
        edits.insert(layout.tokens[end].end, ")")
        layout.operand_starts[end] = start


def _edit_variable(layout: TokenLayout, edits: Edits, index: int, variable: VariableLookup) -> None:
    first = index + 1
    if not layout.is_name(first) and layout.words[first] not in _SCOPES:
        return
    last = first + 2 if layout.words[first] in _SCOPES and layout.is_operator(first + 1, ".") else first
    name = layout.tokens[last].text.strip('`"').lower()
    value = variable(name)
    if value is None:
        raise InvalidArguments("there is no such system variable", variable=name)
    written = layout.text[layout.tokens[index].start : layout.tokens[last].end]
    literal = str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
    quoted = f' AS "{written}"' if _is_whole_item(layout, index, last) else ""
    edits.replace(layout.tokens[index].start, layout.tokens[last].end, literal + quoted)


def _is_whole_item(layout: TokenLayout, first: int, last: int) -> bool:
    """Return whether tokens are an item of a SELECT list that has no name of its own."""
    before_ok = layout.words[first - 1] == "SELECT" or layout.is_operator(first - 1, ",")
    behind = layout.tokens[last + 1]
    is_end = (
        behind.kind == TokenKind.END or behind.text in (",", ";", ")") or layout.words[last + 1] in ("FROM", "LIMIT")
    )
    return before_ok and is_end
