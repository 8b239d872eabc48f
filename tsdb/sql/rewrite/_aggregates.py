"""Calls of aggregates and window functions together with the clauses behind their brackets."""

from __future__ import annotations

from tsdb.sql.aggregate_calls import AGGREGATES
from tsdb.sql.lexer import TokenKind
from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout

_UNITS = frozenset({"ROWS", "RANGE", "GROUPS"})
_DIRECTIONS = frozenset({"ASC", "DESC", "NULLS"})
_WHOLE = ("unbounded", "unbounded")


def edit_aggregate(layout: TokenLayout, edits: Edits, index: int) -> None:
    """Edit the call of an aggregate whose name is the token at an index."""
    closing = layout.partner[index + 1]
    end = _call_end(layout, closing)
    tail = edits.render(layout.tokens[closing].end, layout.tokens[end].end)
    replacement = AGGREGATES[layout.tokens[index].text.lower()](_arguments(layout, edits, index), tail)
    if replacement is not None:
        edits.absorb(layout.tokens[index].start, layout.tokens[end].end, replacement)


def edit_window(layout: TokenLayout, edits: Edits, index: int) -> None:
    """Pass a window function its frame, if the text after the call states it."""
    closing = layout.partner[index + 1]
    if layout.words[closing + 1] != "OVER" or not layout.is_operator(closing + 2, "("):
        return
    frame = _read_frame(layout, edits, closing + 2)
    if frame is None:
        return
    name = layout.tokens[index].text.lower()
    arguments = ", ".join([*_arguments(layout, edits, index), *frame])
    edits.absorb(layout.tokens[index].start, layout.tokens[closing].end, f"{name}__frame({arguments})")


def _arguments(layout: TokenLayout, edits: Edits, index: int) -> list[str]:
    return [edits.render(start, end).strip() for start, end in layout.arguments(index + 1)]


def _call_end(layout: TokenLayout, closing: int) -> int:
    """Return the last token of a call whose brackets close at a token, with WITHIN GROUP (…), FILTER (…), OVER (…)."""
    while layout.words[closing + 1] in ("FILTER", "OVER", "WITHIN"):
        following = closing + 3 if layout.words[closing + 1] == "WITHIN" else closing + 2
        if layout.is_operator(following, "(") and following in layout.partner:
            closing = layout.partner[following]
        elif layout.words[closing + 1] == "OVER" and layout.is_name(following):
            return following
        else:
            break
    return closing


def _read_frame(layout: TokenLayout, edits: Edits, opening: int) -> tuple[str, str] | None:
    """Return the frame of `OVER (…)` as text, `rows -4 0`, and the key of the order; None for frames of distances."""
    closing = layout.partner.get(opening)
    if closing is None:
        return None
    inside = [each for each in range(opening + 1, closing) if layout.depths[each] == layout.depths[opening] + 1]
    order = next((each for each in inside if layout.words[each] == "ORDER"), None)
    unit = next((each for each in inside if layout.words[each] in _UNITS), None)
    if inside and layout.words[inside[0]] not in ("PARTITION", "ORDER", *_UNITS):
        return None
    if unit is None:
        bounds: tuple[str, str] | None = ("unbounded", "0") if order is not None else _WHOLE
        kind = "range"
    else:
        kind, bounds = layout.words[unit].lower(), _read_bounds(layout, unit + 1, closing)
    if bounds is None or kind == "groups":
        return None
    if kind == "rows" or bounds == _WHOLE or order is None:
        bounds = bounds if kind == "rows" else _WHOLE
        return f"'rows {bounds[0]} {bounds[1]}'", "''"
    if not set(bounds) <= {"unbounded", "0"}:
        return None
    key = _read_key(layout, edits, order + 2, unit or closing)
    return None if key is None else (f"'range {bounds[0]} {bounds[1]}'", f"CAST({key} AS STRING)")


def _read_bounds(layout: TokenLayout, start: int, closing: int) -> tuple[str, str] | None:
    """Read `BETWEEN … AND …`, or one bound, as distances from the current row."""
    if layout.words[start] != "BETWEEN":
        first = _read_bound(layout, start)
        return (first, "0") if first is not None and start + 2 == closing else None
    if layout.words[start + 3] != "AND" or start + 6 != closing:
        return None
    first, last = _read_bound(layout, start + 1), _read_bound(layout, start + 4)
    return None if first is None or last is None else (first, last)


def _read_bound(layout: TokenLayout, index: int) -> str | None:
    token, word, side = layout.tokens[index], layout.words[index], layout.words[index + 1]
    if (word, side) == ("CURRENT", "ROW"):
        return "0"
    if side not in ("PRECEDING", "FOLLOWING"):
        return None
    if word == "UNBOUNDED":
        return "unbounded"
    if token.kind != TokenKind.NUMBER or not token.text.isdigit():
        return None
    return f"-{token.text}" if side == "PRECEDING" else token.text


def _read_key(layout: TokenLayout, edits: Edits, start: int, end: int) -> str | None:
    """Return the only expression of an ORDER BY between two tokens."""
    depth = layout.depths[start]
    same = [each for each in range(start, end) if layout.depths[each] == depth]
    if any(layout.is_operator(each, ",") for each in same):
        return None
    last = next((each for each in same if layout.words[each] in _DIRECTIONS), end)
    return edits.render(layout.tokens[start].start, layout.tokens[last - 1].end)
