"""The shape of a text: what is left of it without its literals.

    SELECT max(x) FROM t WHERE host = 'a' AND ts > 5   ─▶   SELECT max(x) FROM t WHERE host = ' AND ts > 0, and 'a', 5

Programs send the same statement again and again with other literals. With the plan of a shape in a cache, only the
literals are parsed. Strings and numbers keep their kind in the shape, because a statement may mean something else
with the other; names, comments and white space stay as they are. One regular expression goes over the text, and what
lies between two literals is one match for it, so this takes a small part of the time that reading all tokens does.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tsdb.sql.lexer import IDENTIFIERS, LINE_COMMENTS, NUMBER, STRINGS
from tsdb.sql.statements import Dialect

SHAPE_CHARS_MAX = 8192
"""A longer text has no shape: it is rarely sent twice."""

_BLOCK_COMMENT = r"/\*[\s\S]*?\*/"


class Shape(NamedTuple):
    """A text without its literals, and these as they were written."""

    text: str
    literals: list[str]
    offsets: list[int]
    """Where each literal begins."""


def _compile(dialect: Dialect) -> re.Pattern[str]:
    strings, identifiers = STRINGS[dialect], IDENTIFIERS[dialect]
    literal = rf"(?:{strings}|{NUMBER})"
    # The usual first, a run of characters at a time; looking ahead for literals only where one can begin.
    between = (
        r"(?:[^\w'\"`./\-#]++|(?![eE]')[^\W\dxX][\w$]*+"
        rf"|{LINE_COMMENTS[dialect]}|{_BLOCK_COMMENT}|[xX]'[0-9a-fA-F]*+'|0[xX][0-9a-fA-F]++\b"
        rf"|{identifiers}|(?!{literal})(?:\w[\w$]*+|[./\-#]))*+"
    )
    return re.compile(rf"({between})({literal}|\Z)")


_PATTERNS = {dialect: _compile(dialect) for dialect in Dialect}


def find_shape(text: str, dialect: Dialect) -> Shape | None:
    """Return the shape of a text; None if it is too long, or holds a quote or comment that does not end."""
    if len(text) > SHAPE_CHARS_MAX:
        return None
    parts = _PATTERNS[dialect].findall(text)
    pieces: list[str] = []
    literals: list[str] = []
    offsets: list[int] = []
    at = 0
    for between, literal in parts:
        at += len(between)
        pieces.append(between)
        if literal:
            offsets.append(at)
            literals.append(literal)
            pieces.append("0" if literal[0].isdigit() or literal[0] == "." else "'")
            at += len(literal)
    return Shape("".join(pieces), literals, offsets) if at == len(text) else None
