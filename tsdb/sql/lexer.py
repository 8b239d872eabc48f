"""Text to tokens with positions, so that any part of a statement can be used as it was written.

One regular expression does the work. Nothing is lost: `text[token.start:token.end]` is the token, and what lies between
two tokens is white space or comments. The dialects differ in what quotes mean:

    'x'     a string, everywhere; with backslash escapes in MySQL
    "x"     an identifier; in MySQL a string
    `x`     an identifier; PostgreSQL does not know it
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from tsdb.errors import InvalidSyntax
from tsdb.sql.statements import Dialect

STATEMENT_BYTES_MAX = 64 * 1024 * 1024
"""A longer text is refused before it is read."""

TOKENS_MAX = 1_000_000
"""A statement of more tokens is refused; the rows of INSERT … VALUES are read one token at a time and do not count."""


class TokenKind(IntEnum):
    """The kind of a token."""

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


NEVER = "(?!)"
"""The last alternative of a group that is repeated possessively; it never matches. Python before 3.11.5 continues where
the failed alternatives left it (gh-106052), and each alternative begins where the group does."""

_GENERIC_STRING = rf"'(?:[^']++|''|{NEVER})*+'"
_ESCAPED_STRING = rf"'(?:[^'\\]++|''|\\[\s\S]|{NEVER})*+'"
_MYSQL_STRING = rf"{_ESCAPED_STRING}|\"(?:[^\"\\]++|\"\"|\\[\s\S]|{NEVER})*+\""
_DOUBLE_QUOTED = rf"\"(?:[^\"]++|\"\"|{NEVER})*+\""
_BACKTICKED = rf"`(?:[^`]++|``|{NEVER})*+`"

STRINGS = {
    Dialect.GENERIC: _GENERIC_STRING,
    Dialect.MYSQL: _MYSQL_STRING,
    Dialect.POSTGRESQL: f"[eE]{_ESCAPED_STRING}|{_GENERIC_STRING}",
}
IDENTIFIERS = {
    Dialect.GENERIC: f"{_DOUBLE_QUOTED}|{_BACKTICKED}",
    Dialect.MYSQL: _BACKTICKED,
    Dialect.POSTGRESQL: _DOUBLE_QUOTED,
}
LINE_COMMENTS = {
    Dialect.GENERIC: r"--[^\n]*+",
    Dialect.MYSQL: r"--(?=\s|\Z)[^\n]*+|\#[^\n]*+",
    Dialect.POSTGRESQL: r"--[^\n]*+",
}
NUMBER = r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?!\w)"
_BLOCK_COMMENT = r"/\*[\s\S]*?\*/"
# What opens and never ends. It stops the lexer at once: going on would look for the same end again and again.
_OPENERS = {
    Dialect.GENERIC: r"['\"`]|/\*",
    Dialect.MYSQL: r"['\"`]|/\*",
    Dialect.POSTGRESQL: r"['\"]|/\*",
}


class _Lexer:
    """The patterns of one dialect and what their groups mean."""

    def __init__(self, dialect: Dialect) -> None:
        strings, identifiers = STRINGS[dialect], IDENTIFIERS[dialect]
        comments = f"{LINE_COMMENTS[dialect]}|{_BLOCK_COMMENT}"
        self.pattern = re.compile(
            rf"(?P<blank>\s++|{comments})"
            r"|(?P<hex>[xX]'[0-9a-fA-F]*+'|0[xX][0-9a-fA-F]++\b)"
            rf"|(?P<string>{strings})"
            rf"|(?P<number>{NUMBER})"
            r"|(?P<word>\w[\w$]*+)"
            rf"|(?P<quoted>{identifiers})"
            rf"|(?P<opener>{_OPENERS[dialect]})"
            r"|(?P<operator>::|:=|<=>|<=|>=|<>|!=|==|\|\||&&|@@|=~|!~\*|!~|~\*|<<|>>|->>|->|[^\s\w])"
        )
        self.blanks = re.compile(rf"(?:\s++|{comments}|{NEVER})*+")
        self.statement = re.compile(
            rf"(?:[^;'\"`/\-#]++|{comments}|{strings}|{identifiers}|(?!{_OPENERS[dialect]}|;).|{NEVER})*+", re.S
        )
        self.words = re.compile(r"\w[\w$]*+")
        names = {
            "word": TokenKind.WORD,
            "quoted": TokenKind.QUOTED,
            "string": TokenKind.STRING,
            "number": TokenKind.NUMBER,
            "hex": TokenKind.HEX,
            "operator": TokenKind.OPERATOR,
        }
        groups = self.pattern.groupindex
        self.kinds: dict[int | None, TokenKind] = {groups[name]: kind for name, kind in names.items()}
        self.blank = groups["blank"]
        self.opener = groups["opener"]


_LEXERS = {dialect: _Lexer(dialect) for dialect in Dialect}


def scan(text: str, dialect: Dialect = Dialect.GENERIC, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """Yield the tokens between two offsets one by one, without an END token: for statements read only in part."""
    lexer = _LEXERS[dialect]
    kinds, blank, opener = lexer.kinds, lexer.blank, lexer.opener
    for match in lexer.pattern.finditer(text, start, len(text) if end is None else end):
        group = match.lastindex
        if group == blank:
            continue
        if group == opener:
            raise _open_ended(text, match.start())
        yield Token(kinds[group], match.group(), match.start(), match.end())


def tokenize(text: str, dialect: Dialect = Dialect.GENERIC, start: int = 0, end: int | None = None) -> list[Token]:
    """Return the tokens of a text, the END token last; InvalidSyntax for a quote or comment that does not end."""
    check_length(text)
    stop = len(text) if end is None else end
    lexer = _LEXERS[dialect]
    kinds, blank, opener = lexer.kinds, lexer.blank, lexer.opener
    tokens: list[Token] = []
    add = tokens.append
    behind = start
    for match in islice(lexer.pattern.finditer(text, start, stop), TOKENS_MAX):
        begin, behind = match.span()
        group = match.lastindex
        if group == blank:
            continue
        if group == opener:
            raise _open_ended(text, begin)
        add(Token(kinds[group], text[begin:behind], begin, behind))
    if behind < stop:
        raise InvalidSyntax(f"the statement has more than {TOKENS_MAX} tokens")
    add(Token(TokenKind.END, "", stop, stop))
    return tokens


def skip_blanks(text: str, start: int, dialect: Dialect) -> int:
    """Return where the next token begins, white space and comments passed."""
    match = _LEXERS[dialect].blanks.match(text, start)
    return match.end() if match else start


def first_word(text: str, start: int, dialect: Dialect) -> str:
    """Return the word that stands at an offset, in upper case; '' when something else stands there."""
    match = _LEXERS[dialect].words.match(text, start)
    return match.group().upper() if match else ""


def statement_end(text: str, start: int, dialect: Dialect) -> int:
    """Return the offset of the `;` that ends a statement, or of the end of the text."""
    match = _LEXERS[dialect].statement.match(text, start)
    end = match.end() if match else start
    if end < len(text) and text[end] != ";":
        raise _open_ended(text, end)
    return end


def check_length(text: str) -> None:
    """Refuse a text that is too long to be read."""
    if len(text) > STATEMENT_BYTES_MAX:
        raise InvalidSyntax(f"the statement is longer than {STATEMENT_BYTES_MAX} characters")


def _open_ended(text: str, offset: int) -> InvalidSyntax:
    what = {"'": "string", "/": "comment"}.get(text[offset], "quoted name")
    return syntax_error(text, offset, f"the {what} that begins here is not terminated")


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
