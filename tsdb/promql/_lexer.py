"""Text to tokens, in one pass and linear time.

Between `[` and `]` a colon is a token of its own, everywhere else it may be part of a metric name. Numbers and
durations are both numbers: `5m` is 300.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from tsdb.promql._durations import DURATION_PATTERN
from tsdb.promql._errors import PromqlSyntax

TOKENS_MAX = 50_000
"""A query with more is refused before it is read to its end."""


class PromTokenKind(Enum):
    """The kind of a token."""

    END = "end of input"
    NUMBER = "number"
    DURATION = "duration"
    STRING = "string"
    NAME = "identifier"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class PromToken:
    """A piece of the text; `text` of a string is its value, `end` the offset behind the token."""

    kind: PromTokenKind
    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        return self.text.lower()

    def describe(self) -> str:
        """Return its name in messages."""
        if self.kind is PromTokenKind.END:
            return "end of input"
        if self.kind is PromTokenKind.STRING:
            return f"string {go_quote(self.text)}"
        return (
            f"{self.kind.value} {go_quote(self.text)}" if self.kind is not PromTokenKind.OPERATOR else f"<{self.text}>"
        )


_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+|\#[^\n]*)"
    rf"|(?P<duration>{DURATION_PATTERN})"
    r"|(?P<number>0[xX](?:_?[0-9a-fA-F])+|(?:[0-9](?:_?[0-9])*(?:\.(?:[0-9](?:_?[0-9])*)?)?|\.[0-9](?:_?[0-9])*)"
    r"(?:[eE][+-]?[0-9](?:_?[0-9])*)?)"
    r"|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r"|(?P<operator>=~|!~|==|!=|<=|>=|</|>/|[-+*/%^<>=,(){}\[\]@:])"
    r"|(?P<quote>[\"'`])"
)
_PLAIN_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NAME_FOLLOWS = re.compile(r"[0-9a-zA-Z_]")
_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34, "'": 39}


def tokenize(text: str) -> list[PromToken]:
    """Return the tokens of a query, with one of kind END behind them."""
    tokens: list[PromToken] = []
    position, brackets = 0, 0
    while position < len(text):
        if len(tokens) >= TOKENS_MAX:
            raise PromqlSyntax(text, position, f"the query has more than {TOKENS_MAX} tokens")
        match = _TOKEN.match(text, position)
        if match is None:
            raise PromqlSyntax(text, position, f"unexpected character: {text[position]!r}")
        group, piece, end = match.lastgroup, match.group(), match.end()
        if group == "quote":
            value, end = _read_string(text, position)
            tokens.append(PromToken(PromTokenKind.STRING, value, position, end))
        elif group == "name" and brackets:
            position = _add_in_brackets(tokens, text, position)
            continue
        elif group in ("number", "duration"):
            _check_number_end(text, position, end)
            tokens.append(
                PromToken(PromTokenKind.NUMBER if group == "number" else PromTokenKind.DURATION, piece, position, end)
            )
        elif group == "name":
            tokens.append(PromToken(_kind_of_name(piece), piece, position, end))
        elif group == "operator":
            brackets += (piece == "[") - (piece == "]")
            tokens.append(PromToken(PromTokenKind.OPERATOR, piece, position, end))
        position = end
    tokens.append(PromToken(PromTokenKind.END, "", len(text), len(text)))
    return tokens


def _kind_of_name(name: str) -> PromTokenKind:
    return PromTokenKind.NUMBER if name.lower() in ("nan", "inf") else PromTokenKind.NAME


def _add_in_brackets(tokens: list[PromToken], text: str, position: int) -> int:
    """Add a colon or a name without colons; return where it ends."""
    if text[position] == ":":
        tokens.append(PromToken(PromTokenKind.OPERATOR, ":", position, position + 1))
        return position + 1
    match = _PLAIN_NAME.match(text, position)
    assert match is not None
    tokens.append(PromToken(_kind_of_name(match.group()), match.group(), position, match.end()))
    return match.end()


def _check_number_end(text: str, start: int, end: int) -> None:
    if _NAME_FOLLOWS.match(text, end):
        stop = end
        while stop < len(text) and _NAME_FOLLOWS.match(text, stop):
            stop += 1
        raise PromqlSyntax(text, start, f'bad number or duration syntax: "{text[start:stop]}"')


def _read_string(text: str, start: int) -> tuple[str, int]:
    quote = text[start]
    if quote == "`":
        end = text.find("`", start + 1)
        if end < 0:
            raise PromqlSyntax(text, start, "unterminated raw string")
        return text[start + 1 : end], end + 1
    out = bytearray()
    position = start + 1
    while True:
        stop = position
        while stop < len(text) and text[stop] not in (quote, "\\", "\n"):
            stop += 1
        out += text[position:stop].encode("utf-8", "surrogatepass")
        if stop >= len(text) or text[stop] == "\n":
            raise PromqlSyntax(text, start, "unterminated quoted string")
        if text[stop] == quote:
            return out.decode("utf-8", "surrogateescape"), stop + 1
        position = _read_escape(text, stop, out)


def _read_escape(text: str, position: int, out: bytearray) -> int:
    """Add what the escape at a backslash stands for; return where it ends."""
    letter = text[position + 1 : position + 2]
    if letter in _ESCAPES and letter:
        out.append(_ESCAPES[letter])
        return position + 2
    width, base = {"x": (2, 16), "u": (4, 16), "U": (8, 16)}.get(letter, (3, 8))
    begin = position + (1 if base == 8 else 2)
    digits = text[begin : begin + width]
    try:
        if len(digits) < width or not digits.isalnum():
            raise ValueError
        code = int(digits, base)
        if letter in ("u", "U"):
            out += chr(code).encode("utf-8")
        else:
            out.append(code)
    except (ValueError, OverflowError):
        raise PromqlSyntax(text, position, f'unknown escape sequence "\\{letter}"') from None
    return begin + width


def go_quote(text: str) -> str:
    """Return a text in double quotes, escaped."""
    out = []
    for character in text:
        code = ord(character)
        if character in '"\\':
            out.append("\\" + character)
        elif character in "\a\b\f\n\r\t\v":
            out.append("\\" + "abfnrtv"["\a\b\f\n\r\t\v".index(character)])
        elif 0xDC80 <= code <= 0xDCFF:
            out.append(f"\\x{code - 0xDC00:02x}")
        elif code < 32 or code == 127:
            out.append(f"\\x{code:02x}")
        else:
            out.append(character)
    return '"' + "".join(out) + '"'
