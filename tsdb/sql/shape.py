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

from tsdb.sql.lexer import IDENTIFIERS, LINE_COMMENTS, NEVER, NUMBER, STRINGS
from tsdb.sql.statements import Dialect

SHAPE_CHARS_MAX = 8192
"""A longer text has no shape: it is rarely sent twice."""

_BLOCK_COMMENT = r"/\*[\s\S]*?\*/"


class Shape(NamedTuple):
    """A text without its literals, and these as they were written."""

    text: str
    literals: list[str]


def _compile(dialect: Dialect) -> re.Pattern[str]:
    strings, identifiers = STRINGS[dialect], IDENTIFIERS[dialect]
    literal = rf"(?:{strings}|{NUMBER})"
    # The usual first, a run of characters at a time; looking ahead for literals only where one can begin.
    between = (
        r"(?:[^\w'\"`./\-#]++|(?![eE]')[^\W\dxX][\w$]*+"
        rf"|{LINE_COMMENTS[dialect]}|{_BLOCK_COMMENT}|[xX]'[0-9a-fA-F]*+'|0[xX][0-9a-fA-F]++\b"
        rf"|{identifiers}|(?!{literal})(?:\w[\w$]*+|[./\-#])|{NEVER})*+"
    )
    return re.compile(rf"({between})({literal}|\Z)")


_PATTERNS = {dialect: _compile(dialect) for dialect in Dialect}


_NUMBER_STARTS = frozenset(".0123456789")


def find_shape(text: str, dialect: Dialect) -> Shape | None:
    """Return the shape of a text; None if it is too long, or holds a quote or comment that does not end."""
    if len(text) > SHAPE_CHARS_MAX:
        return None
    pairs = _PATTERNS[dialect].findall(text)
    literals = [literal for _, literal in pairs if literal]
    # Every query comes here: no function is called for each literal.
    kinds = ["" if not literal else "0" if literal[0] in _NUMBER_STARTS else "'" for _, literal in pairs]
    shape = "".join([between + kind for (between, _), kind in zip(pairs, kinds, strict=True)])
    covered = len(shape) - len(literals) + len("".join(literals))
    return Shape(shape, literals) if covered == len(text) else None


def find_offsets(text: str, dialect: Dialect) -> list[int]:
    """Return where the literals of a text that has a shape begin."""
    return [match.start(2) for match in _PATTERNS[dialect].finditer(text) if match[2]]
