"""Prepares the text of statements from MySQL clients for the parser.

- Clients write bytes into the text itself: `_binary'…'`. They become a hexadecimal literal, so that the text can be
  decoded.
- A comment that begins with `/*!` is a statement for servers that know it. `SET` and what is about views is executed;
  other such comments of dumps, about keys and locks, have no effect here and are skipped with a warning. A view may be
  spread over several of them. Dumps also begin with `CREATE DATABASE /*!32312 IF NOT EXISTS*/ …`, whose condition
  counts.
"""

from __future__ import annotations

import re

from tsdb.errors import InvalidSyntax
from tsdb.servers.mysql._parameters import quote_bytes
from tsdb.sql import Dialect
from tsdb.sql.lexer import skip_blanks, statement_end

# `(?!)` as in `tsdb.sql.lexer.NEVER`.
_BINARY = re.compile(
    rb"_binary\s*'((?:[^'\\]|''|\\.|(?!))*+)'"
    rb"|'(?:[^'\\]|''|\\.|(?!))*+'"
    rb'|"(?:[^"\\]|""|\\.|(?!))*+"'
    rb"|`[^`]*+`"
    rb"|/\*.*?\*/"
    rb"|(?:--[ \t]|\#)[^\n]*+",
    re.DOTALL | re.IGNORECASE,
)
_ESCAPE = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\x00", b"b": b"\b", b"Z": b"\x1a"}
_COMMENT = r"/\*(?!!).*?\*/|(?:--[ \t]|\#)[^\n]*\n"
_EXECUTABLE = re.compile(rf"(?:\s|{_COMMENT}|(?!))*+/\*!\d*\s*(.*?)\s*\*/\s*;?\s*", re.DOTALL)
_SEAM = re.compile(r"\s*\*/\s*/\*!\d*\s*")
_VIEW = re.compile(
    r"\A(create\s+(?:or\s+replace\s+)?)(?:algorithm\s*=\s*\w+\s+)?(?:definer\s*=\s*\S+\s+)?(?:sql\s+security\s+\w+\s+)?"
    r"(view\b)",
    re.IGNORECASE,
)
_EXECUTABLE_WITHIN = 1024
"""Where it begins at the latest: dumps have comments before it."""
_CONDITION = re.compile(r"\A(\s*(?:create|drop)\s+\w+\s+)/\*!\d*\s*(if\s+(?:not\s+)?exists)\s*\*/", re.IGNORECASE)
_URGENT = re.compile(r"\s*(?:/\*.*?\*/\s*)*(?:kill\b|show\s+(?:full\s+)?processlist\b)", re.DOTALL | re.IGNORECASE)
_KILL = re.compile(r"\s*kill\s+(?:connection\s+)?(\d{1,19})\s*;?\s*", re.IGNORECASE)
_WARNINGS = re.compile(
    r"\s*(?:/\*.*?\*/\s*)*(?:show\s+(?:count\(\s*\*\s*\)\s+)?(?:warnings|errors)\b|select\s+@@(?:session\.)?warning_count)",
    re.DOTALL | re.IGNORECASE,
)
_INTRODUCER = b"_binary"


class EmptyText(InvalidSyntax):
    """A text without a statement."""

    def __init__(self) -> None:
        super().__init__("Query was empty: there are only empty statements")


def read_text(packet: bytes) -> str:
    """Return the text that a client sent; InvalidSyntax if it cannot be decoded."""
    if _INTRODUCER in packet.lower():
        packet = _BINARY.sub(_to_hex, packet)
    try:
        return _CONDITION.sub(r"\1\2", packet.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidSyntax(
            "the text of the statement is not valid UTF-8", hint="set the character set of the client to utf8mb4"
        ) from error


def _to_hex(match: re.Match[bytes]) -> bytes:
    body = match[1]
    if body is None:
        return match[0]
    return quote_bytes(_ESCAPE.sub(_unescaped, body)).encode()


def _unescaped(match: re.Match[bytes]) -> bytes:
    return b"'" if match[1] is None else _ESCAPES.get(match[1], match[1])


def executable_comment(text: str) -> str | None:
    """Return the statement inside of a text that is nothing but `/*!40101 … */`, perhaps behind comments; else None."""
    match = _EXECUTABLE.fullmatch(text) if "/*!" in text[:_EXECUTABLE_WITHIN] else None
    return None if match is None else _VIEW.sub(r"\1\2", _SEAM.sub(" ", match[1]))


def is_urgent(text: str) -> bool:
    """Whether a statement must not wait behind long ones: it is there to stop them."""
    return _URGENT.match(text) is not None


def killed_connection(text: str) -> int | None:
    """Return the connection that a statement wants closed, None for any other statement."""
    match = _KILL.fullmatch(text)
    return None if match is None else int(match[1])


def count_statements(text: str) -> int:
    """Return how many statements a text has, without reading them; EmptyText if there is none."""
    count = at = 0
    while (at := skip_blanks(text, at, Dialect.MYSQL)) < len(text):
        semicolon = text.find(";", at)
        is_last = semicolon < 0 or skip_blanks(text, semicolon + 1, Dialect.MYSQL) == len(text)
        end = len(text) if is_last and semicolon != at else statement_end(text, at, Dialect.MYSQL)
        count += end > at
        at = end + 1
    if not count:
        raise EmptyText
    return count


def is_about_warnings(text: str) -> bool:
    """Whether a statement shows the warnings of the one before it."""
    return _WARNINGS.match(text) is not None
