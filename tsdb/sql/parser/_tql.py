"""TQL: a head of words and parameters, then PromQL as it was written.

PromQL is not SQL: its strings have backslash escapes and three kinds of quotes, and `#` begins a comment. So the tokens
end with the head, and the body is the raw text up to the `;` that stands outside of PromQL's own quotes.
"""

from __future__ import annotations

import re

from tsdb.sql.lexer import NEVER, Token, TokenKind, scan, skip_blanks, syntax_error, unquote
from tsdb.sql.parser._cursor import NESTING_MAX, TokenCursor, check_nesting
from tsdb.sql.statements import Dialect, Slice, Tql

_BODY = re.compile(
    rf"""(?:[^;"'`\#]++|"(?:[^"\\]++|\\[\s\S]|{NEVER})*+"|'(?:[^'\\]++|\\[\s\S]|{NEVER})*+'|`[^`]*+`|\#[^\n]*+|{NEVER})*+""",
    re.S,
)
_ALIAS = re.compile(rf"""\bAS\s+([A-Za-z_]\w*+|"(?:[^"]++|""|{NEVER})++"|`(?:[^`]++|``|{NEVER})++`)\s*+\Z""", re.I)
_ALIAS_CHARS_MAX = 400

_VERBS = {"EVAL": "eval", "EVALUATE": "eval", "EXPLAIN": "explain", "ANALYZE": "analyze"}

_NO_PARAMETERS = (Slice("0"), Slice("0"), Slice("'5m'"))
"""The parameters of EXPLAIN by default."""


def parse_tql(text: str, start: int, dialect: Dialect) -> tuple[Tql, int]:
    """Parse the TQL statement that begins at `start`; return it and where it ends."""
    cursor = TokenCursor(text, _head(text, start, dialect), dialect)
    cursor.expect("TQL")
    verb = _VERBS.get(cursor.word)
    if verb is None:
        cursor.fail("EVAL, EXPLAIN or ANALYZE")
    cursor.take()
    is_verbose = verb != "eval" and cursor.accept("VERBOSE")
    form = None
    if verb != "eval" and cursor.accept("FORMAT"):
        cursor.accept_operator("=")
        form = cursor.name_part("a format").lower()
    parameters: tuple[Slice, ...] = _NO_PARAMETERS
    if cursor.is_operator("("):
        parameters = _parameters(cursor)
    elif verb != "explain":
        cursor.fail("'(' and start, end, step")
    promql, alias, end = _body(text, cursor.token.start, dialect)
    return Tql(verb, parameters, promql, alias, is_verbose, form), end


def _head(text: str, start: int, dialect: Dialect) -> list[Token]:
    """The tokens up to the `)` that ends the parameters, or up to the word that begins PromQL without parameters."""
    tokens: list[Token] = []
    depth = 0
    for token in scan(text, dialect, start):
        if token.text == ";" and token.kind == TokenKind.OPERATOR:
            break
        tokens.append(token)
        if token.kind == TokenKind.OPERATOR:
            depth += (token.text == "(") - (token.text == ")")
            if depth <= 0 and token.text != "=":
                break
        if depth == 0 and len(tokens) > 2 and not _belongs_to_head(tokens):
            tokens.pop()
            break
    last = tokens[-1]
    stop = skip_blanks(text, last.end, dialect)
    tokens.append(Token(TokenKind.END, "", stop, stop))
    check_nesting(text, tokens, NESTING_MAX)
    return tokens


def _belongs_to_head(tokens: list[Token]) -> bool:
    word, before = tokens[-1].word, tokens[-2].word
    is_format = before == "FORMAT" or tokens[-2].text == "="
    return is_format or word in ("VERBOSE", "FORMAT") or tokens[-1].text == "="


def _parameters(cursor: TokenCursor) -> tuple[Slice, ...]:
    opening = cursor.token
    parameters = cursor.parenthesised(lambda: cursor.expression("a parameter"))
    if len(parameters) not in (3, 4):
        message = f"TQL takes start, end, step and perhaps a lookback, found {len(parameters)} parameters"
        raise cursor.error(opening, message)
    return tuple(parameters)


def _body(text: str, start: int, dialect: Dialect) -> tuple[Slice, str | None, int]:
    """The PromQL from `start` on, its alias, and where the statement ends."""
    match = _BODY.match(text, start)
    end = match.end() if match else start
    if end < len(text) and text[end] != ";":
        raise syntax_error(text, end, "the string that begins here is not terminated")
    body = text[start:end].rstrip()
    alias = None
    tail = max(len(body) - _ALIAS_CHARS_MAX, 0)
    found = _ALIAS.search(body, tail)
    if found:
        word = found.group(1)
        kind = TokenKind.WORD if word[0] not in '"`' else TokenKind.QUOTED
        alias = unquote(Token(kind, word, 0, 0), dialect)
        body = body[: found.start()].rstrip()
    if not body:
        raise syntax_error(text, end, "expected a PromQL expression")
    return Slice(body, start), alias, end
