"""Syntax errors of DataFusion's parser, with places in the text that the user wrote.

The parser reads the edited text of a query, so its line and column may point beyond the user's own. The user's text is
parsed as well, and the place is taken from there if the same token is refused; without one, the message has no place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tsdb.errors import InvalidSyntax, Reason, TsdbError, Unsupported
from tsdb.query._datafusion_texts import END_OF_STATEMENT, EXPECTED_TOKEN, NO_OPERATOR, PARSER_ERROR, PARSER_MESSAGE
from tsdb.sql.keywords import keyword_hint
from tsdb.sql.lexer import locate, tokenize

SUBQUERIES_MAX = 20
"""How many subqueries of a text with a syntax error are parsed on their own, to find the one that is wrong."""
_PLACE = re.compile(r" at line \d+, column \d+")

Parse = Callable[[str], object]


@contextmanager
def without_places() -> Iterator[None]:
    """Leave places out of errors about a text that was made from the user's."""
    try:
        yield
    except (InvalidSyntax, Unsupported) as error:
        error.message = _PLACE.sub("", error.message)
        raise


def located(error: Exception, edited: str, written: str, parse: Parse) -> Exception:
    """Return a syntax error with its place in the text as it was written; any other error as it is."""
    match = PARSER_ERROR.match(str(error))
    if match is None:
        return error
    message = _innermost(edited, parse) or _plain(match)
    if edited != written:
        own = _innermost(written, parse) or _message_of(written, parse)
        message = own if _without_place(own) == _without_place(message) else _without_place(message)
    return syntax_error_of(message, written)


def _innermost(text: str, parse: Parse) -> str:
    """Return the message about the innermost subquery that cannot be parsed, with its place in the text; '' for none.

    The parser reports what is wrong within a derived table as something that is wrong with the brackets around it.
    """
    for start, end in _subqueries(text):
        message = _message_of(text[start:end], parse)
        match = PARSER_MESSAGE.fullmatch(message) if message else None
        if match is not None and match["line"]:
            line, column = locate(text, start)
            column = int(match["column"]) + (column - 1 if match["line"] == "1" else 0)
            return f"{match['what']} at Line: {line + int(match['line']) - 1}, Column: {column}"
        if message:
            return message
    return ""


def _subqueries(text: str) -> list[tuple[int, int]]:
    """Return where the first subqueries in brackets begin and end, inner ones before outer ones."""
    opened: list[int] = []
    found: list[tuple[int, int]] = []
    tokens = tokenize(text)
    for index, token in enumerate(tokens):
        if token.text == "(":
            opened.append(index)
        elif token.text == ")" and opened:
            begin = opened.pop() + 1
            if tokens[begin].word in ("SELECT", "WITH"):
                found.append((tokens[begin].start, token.start))
    # A bracket that is missing may be one within a subquery.
    found += [(tokens[each + 1].start, len(text)) for each in reversed(opened) if tokens[each + 1].word == "SELECT"]
    return found[:SUBQUERIES_MAX]


def _plain(match: re.Match[str]) -> str:
    return match[1].replace('\\"', '"').replace("\\'", "'")


def _message_of(text: str, parse: Parse) -> str:
    try:
        parse(text)
    except Exception as error:  # noqa: BLE001 - whatever else is wrong with the text does not matter here
        match = PARSER_ERROR.match(str(error))
        return "" if match is None else _plain(match)
    return ""


def _without_place(message: str) -> str:
    match = PARSER_MESSAGE.fullmatch(message)
    return message if match is None else match["what"]


def syntax_error_in(text: str) -> TsdbError:
    """Return the error for a text of the query engine; the place is left out, because the text may be edited."""
    match = PARSER_ERROR.match(text)
    return syntax_error_of(_without_place(text if match is None else _plain(match)))


def syntax_error_of(message: str, written: str = "") -> TsdbError:
    """Return the error for a message of the parser: what is wrong, and where."""
    match = PARSER_MESSAGE.fullmatch(message)
    if match is None:
        return InvalidSyntax(f"Invalid SQL syntax: {message}")
    what, place = match["what"], ""
    if match["line"]:
        place = f" at line {match['line']}, column {match['column']}"
    before, token = _tokens_at(written, int(match["line"] or 0), int(match["column"] or 0))
    if NO_OPERATOR.match(what) and token:
        return InvalidSyntax(f"Invalid SQL syntax: unexpected '{token}'{place}")
    expected = EXPECTED_TOKEN.fullmatch(what)
    if expected is None:
        return InvalidSyntax(f"Invalid SQL syntax: {what}{place}")
    found = "the end of the statement" if expected["found"] == "EOF" else f"'{expected['found']}'"
    # A misspelt keyword is refused itself, or read as an alias, and what follows is refused.
    hint = keyword_hint(token, before)
    if expected["expected"] == END_OF_STATEMENT and re.fullmatch(r"\w+", expected["found"]):
        error: TsdbError = Unsupported(f"syntax error near {found}{place}", hint=hint)
        error.sql_reason = Reason.SYNTAX
        return error
    wanted = "the end of the statement" if expected["expected"] == END_OF_STATEMENT else expected["expected"]
    return InvalidSyntax(f"Invalid SQL syntax: expected {wanted}, found {found}{place}", hint=hint)


def _tokens_at(text: str, line: int, column: int) -> tuple[str, str]:
    """Return the token at a place and the one before it, '' for what is not there."""
    if not line or not text:
        return "", ""
    before = ""
    for token in tokenize(text):
        if locate(text, token.start) == (line, column):
            return before, token.text
        before = token.text
    return "", ""
