"""Text into tokens that remember where they stood, so that any stretch of a statement can be used as it was written.

One regular expression does the work. Nothing is lost: `text[token.start:token.end]` is the token, and what lies between
two tokens is white space or comments. The dialects differ in what quotes mean:

    'x'     a string, everywhere; with backslash escapes in MySQL
    "x"     an identifier; in MySQL a string
    `x`     an identifier; PostgreSQL does not know it
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple

from tsdb.errors import InvalidSyntax
from tsdb.sql.statements import Dialect

STATEMENT_BYTES_MAX = 64 * 1024 * 1024
"""A longer text is refused before it is read."""


class TokenKind(IntEnum):
    """What a token is."""

    WORD = 0
    """A keyword or an identifier without quotes."""
    QUOTED = 1
    """An identifier in quotes."""
    STRING = 2
    NUMBER = 3
    HEX = 4
    """X'…' or 0x…"""
    OPERATOR = 5
    """Everything else: `::`, `<=`, `(`, `,`, `;`."""
    END = 6
    """Behind the last token."""


class Token(NamedTuple):
    """A token and where it stands."""

    kind: TokenKind
    text: str
    """As written, quotes included."""
    start: int
    end: int

    @property
    def word(self) -> str:
        """An unquoted word in upper case, '' for every other token: what keywords are compared with."""
        return self.text.upper() if self.kind == TokenKind.WORD else ""


_GENERIC_STRING = r"'(?:[^']|'')*'"
_MYSQL_STRING = r"'(?:[^'\\]|''|\\[\s\S])*'|\"(?:[^\"\\]|\"\"|\\[\s\S])*\""
_ESCAPE_STRING = r"[eE]'(?:[^'\\]|''|\\[\s\S])*'|"
_DOUBLE_QUOTED = r"\"(?:[^\"]|\"\")*\""
_BACKTICKED = r"`(?:[^`]|``)*`"

_STRINGS = {
    Dialect.GENERIC: _GENERIC_STRING,
    Dialect.MYSQL: _MYSQL_STRING,
    Dialect.POSTGRESQL: _ESCAPE_STRING + _GENERIC_STRING,
}
_IDENTIFIERS = {
    Dialect.GENERIC: f"{_DOUBLE_QUOTED}|{_BACKTICKED}",
    Dialect.MYSQL: _BACKTICKED,
    Dialect.POSTGRESQL: _DOUBLE_QUOTED,
}


class _Lexer:
    """The pattern of one dialect and what its groups mean."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        strings, identifiers = _STRINGS[dialect], _IDENTIFIERS[dialect]
        self.pattern = re.compile(
            r"(?P<blank>\s+|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)"
            rf"|(?P<hex>[xX]'[0-9a-fA-F]*'|0[xX][0-9a-fA-F]+\b)"
            rf"|(?P<string>{strings})"
            r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w))"
            r"|(?P<word>\w[\w$]*)"
            rf"|(?P<quoted>{identifiers})"
            r"|(?P<operator>::|:=|<=>|<=|>=|<>|!=|==|\|\||&&|@@|=~|!~\*|!~|~\*|<<|>>|->>|->|[^\s\w])"
        )
        names = {
            "word": TokenKind.WORD,
            "quoted": TokenKind.QUOTED,
            "string": TokenKind.STRING,
            "number": TokenKind.NUMBER,
            "hex": TokenKind.HEX,
            "operator": TokenKind.OPERATOR,
        }
        groups = self.pattern.groupindex
        self.kinds: dict[int, TokenKind] = {groups[name]: kind for name, kind in names.items()}
        self.blank = groups["blank"]


_LEXERS = {dialect: _Lexer(dialect) for dialect in Dialect}


def tokenize(text: str, dialect: Dialect = Dialect.GENERIC) -> list[Token]:
    """Return the tokens of a text, the END token last; InvalidSyntax for a quote or comment that does not end."""
    if len(text) > STATEMENT_BYTES_MAX:
        raise InvalidSyntax(f"the statement is longer than {STATEMENT_BYTES_MAX} characters")
    lexer = _LEXERS[dialect]
    kinds, blank = lexer.kinds, lexer.blank
    tokens = [
        Token(kinds[match.lastindex], match.group(), match.start(), match.end())  # type: ignore[index]
        for match in lexer.pattern.finditer(text)
        if match.lastindex != blank
    ]
    _check_ends(text, tokens, dialect)
    tokens.append(Token(TokenKind.END, "", len(text), len(text)))
    return tokens


# A quote or `/*` that never ends is read as an operator of one character: no such operator exists.
_OPENERS = {
    Dialect.GENERIC: frozenset("'\"`"),
    Dialect.MYSQL: frozenset("'\"`"),
    Dialect.POSTGRESQL: frozenset("'\""),
}


def _check_ends(text: str, tokens: list[Token], dialect: Dialect) -> None:
    openers = _OPENERS[dialect]
    for position, token in enumerate(tokens):
        if token.kind != TokenKind.OPERATOR:
            continue
        if token.text in openers:
            what = "string" if token.text == "'" else "quoted name"
            raise syntax_error(text, token.start, f"the {what} that begins here does not end")
        if token.text == "/" and text.startswith("/*", token.start):
            raise syntax_error(text, tokens[position].start, "the comment that begins here does not end")


def locate(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of an offset, both from 1."""
    line = text.count("\n", 0, offset) + 1
    return line, offset - (text.rfind("\n", 0, offset) + 1) + 1


def syntax_error(text: str, offset: int, message: str) -> InvalidSyntax:
    """An error that says where: line, column and what stands there."""
    line, column = locate(text, offset)
    found = text[offset : offset + 40].split("\n", 1)[0].rstrip()
    where = f"at line {line}, column {column}"
    return InvalidSyntax(f"{message} {where}, near {found!r}" if found else f"{message} {where}, at the end")


def unquote(token: Token, dialect: Dialect = Dialect.GENERIC) -> str:
    """Return what a string or a quoted name says, or a word folded to lower case."""
    text = token.text
    if token.kind == TokenKind.WORD:
        return text.lower()
    if token.kind == TokenKind.QUOTED:
        quote = text[0]
        return text[1:-1].replace(quote * 2, quote)
    if token.kind == TokenKind.STRING:
        if text[0] in "eE":
            return unescape(text[2:-1].replace("''", "'"))
        quote = text[0]
        body = text[1:-1].replace(quote * 2, quote)
        return unescape(body) if dialect is Dialect.MYSQL else body
    return text


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def unescape(body: str) -> str:
    """Resolve backslash escapes."""
    if "\\" not in body:
        return body
    return re.sub(r"\\([\s\S])", lambda match: _ESCAPES.get(match[1], match[1]), body)


def split_statements(text: str, tokens: list[Token]) -> list[tuple[int, int]]:
    """Return the ranges of tokens between semicolons, the empty ones left out; the END token belongs to none."""
    ranges, begin = [], 0
    for position, token in enumerate(tokens):
        if token.kind == TokenKind.END or (token.kind == TokenKind.OPERATOR and token.text == ";"):
            if position > begin:
                ranges.append((begin, position))
            begin = position + 1
    return ranges
