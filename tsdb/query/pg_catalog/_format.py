"""`format('%I.%s', a, b)` as `concat(quote_ident(a), '.', b)`, where the template is a literal."""

from __future__ import annotations

import re

_PLACES = re.compile(r"%([sIL%])")
_WRAPPED = {"s": ("", ""), "I": ("quote_ident(", ")"), "L": ("coalesce(quote_literal(CAST(", " AS TEXT)), 'NULL')")}


def format_pieces(template: str, count: int) -> list[str] | None:
    """Return what stands before, between and behind the arguments of `concat`; None if the template is not supported.

    `count` is the number of values. Positions and widths (`%2$s`, `%10s`) are not supported.
    """
    parts = _PLACES.split(template)
    if any("%" in text for text in parts[::2]):
        return None
    pieces, literal = [""], ""
    for text, place in zip(parts[::2], [*parts[1::2], ""], strict=True):
        literal += text
        if place == "%":
            literal += "%"
        elif place:
            opening, closing = _WRAPPED[place]
            pieces[-1] += (_member(literal) + ", " if literal else "") + opening
            pieces.append(closing + ", ")
            literal = ""
    if len(pieces) != count + 1:
        return None
    pieces[-1] = pieces[-1].removesuffix(", ") + (", " if count else "") + _member(literal)
    return pieces


def _member(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
