"""The rows of INSERT … VALUES, column by column.

Two readers give the same cells. The fast one turns the text into JSON with a handful of whole-text operations (text
between single quotes apart from the text outside of them) and lets a C parser read it; it reads plain strings, numbers,
NULL, TRUE and FALSE, and gives up on everything else. The slow one reads token by token and knows the whole grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import orjson

from tsdb.errors import InvalidArguments, InvalidSyntax, Reason, Unsupported
from tsdb.sql.lexer import Token, TokenKind, locate, scan, skip_blanks, statement_end, unquote
from tsdb.sql.parser._columns import hex_digits
from tsdb.sql.parser._cursor import NESTING_MAX
from tsdb.sql.statements import Cell, Dialect, Expression, Literal, Slice, Special, Values

NUMBER_DIGITS_MAX = 1000
"""A longer number is refused: no type holds it."""

_EXACT_DIGITS = 15
"""A decimal of so many digits comes back from a double as it was written."""


def read_values(text: str, start: int, dialect: Dialect) -> tuple[Values, int]:
    """Read the rows that begin at `start`, behind VALUES; return them and where the statement ends."""
    end = _end(text, start, dialect)
    values = read_plain_values(text[start:end], dialect)
    return (values, end) if values is not None else read_any_values(text, start, dialect)


# The fast reader -----------------------------------------------------------------------------------------------------

_NUMBERS = re.compile(r"[0-9][0-9.]*+(?:e[-+]?[0-9]++)?")
_SHAPE = str.maketrans("123456789.", "0000000000")
_LONG = "0" * (_EXACT_DIGITS + 2)
"""More digits than are always exact, in a text whose digits and points have all become zeros."""
_INT64_MAX = 2**63 - 1


def _end(text: str, start: int, dialect: Dialect) -> int:
    """Where the statement ends; in most texts the first `;` is the last character and nothing must be looked at."""
    semicolon = text.find(";", start)
    if semicolon < 0:
        return len(text)
    if skip_blanks(text, semicolon + 1, dialect) == len(text):
        return semicolon
    return statement_end(text, start, dialect)


def read_plain_values(text: str, dialect: Dialect = Dialect.GENERIC) -> Values | None:
    """Read rows of nothing but plain literals; None when there is anything else, be it right or wrong."""
    if "\x00" in text or (dialect is Dialect.MYSQL and "\\" in text):
        return None
    pieces = text.split("'")
    if len(pieces) % 2 == 0:
        return None
    outside = "\x00".join(pieces[0::2]).lower()
    # Two strings with nothing between them are one string with a doubled quote.
    if "\x00\x00" in outside or any(sign in outside for sign in '[]{}":') or not _numbers_are_exact(outside):
        return None
    inside = "\x00".join(pieces[1::2])
    if "\\" in inside or '"' in inside:
        inside = inside.replace("\\", "\\\\").replace('"', '\\"')
    pieces[0::2] = outside.replace("(", "[").replace(")", "]").split("\x00")
    if len(pieces) > 1:
        pieces[1::2] = inside.split("\x00")
    try:
        rows = orjson.loads("[" + '"'.join(pieces) + "]")
    except ValueError:
        return None
    if not rows or set(map(type, rows)) != {list} or outside.count("(") != len(rows):
        return None
    widths = set(map(len, rows))
    if len(widths) != 1 or 0 in widths:
        return None
    return Values(tuple(map(list, zip(*rows, strict=True))), len(rows))


def _numbers_are_exact(outside: str) -> bool:
    """Whether JSON keeps every number as it was written. Short decimals are always kept and need no look."""
    has_exponent = outside.count("e") != outside.count("true") + outside.count("false")
    if not has_exponent and _LONG not in outside.translate(_SHAPE):
        return True
    return all(map(_is_exact, _NUMBERS.findall(outside)))


def _is_exact(number: str) -> bool:
    if len(number) <= _EXACT_DIGITS + 1 and "e" not in number:
        return True
    if len(number) > NUMBER_DIGITS_MAX:
        return False
    if number.isdigit():
        return int(number) <= _INT64_MAX
    try:
        return not isinstance(number_cell(number), Literal)
    except ValueError:
        return False


# The slow reader -----------------------------------------------------------------------------------------------------


def read_any_values(text: str, start: int, dialect: Dialect) -> tuple[Values, int]:
    """Read rows of any cells; return them and where the statement ends."""
    tokens = scan(text, dialect, start)
    rows: list[list[Cell]] = []
    reader = _RowReader(text, dialect)
    end_token = Token(TokenKind.END, "", len(text), len(text))
    token = next(tokens, end_token)
    while True:
        if token.text != "(" or token.kind != TokenKind.OPERATOR:
            raise _expected(text, token, "'(' and a row")
        row = reader.row(tokens, token)
        if rows and len(row) != len(rows[0]):
            raise InvalidArguments(
                f"row {len(rows) + 1} of VALUES has {len(row)} values, the rows before it have {len(rows[0])}"
            )
        rows.append(row)
        token = next(tokens, end_token)
        if token.kind == TokenKind.OPERATOR and token.text == ",":
            token = next(tokens, end_token)
            continue
        if token.kind != TokenKind.END and token.text != ";":
            line, column = locate(text, token.start)
            error = Unsupported(f"syntax error near '{token.text[:40]}' at line {line}, column {column}")
            error.hint = "rows are separated by commas" if token.text == "(" else None
            error.sql_reason = Reason.SYNTAX
            raise error
        columns = tuple(map(list, zip(*rows, strict=True)))
        return Values(columns, len(rows), reader.has_expressions), token.start


class _RowReader:
    """Reads one row after the other and remembers whether any cell was an expression."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.dialect = dialect
        self.has_expressions = False

    def row(self, tokens: Iterator[Token], opening: Token) -> list[Cell]:
        """The cells between `(`, which was read, and `)`."""
        cells: list[Cell] = []
        cell: list[Token] = []
        depth = 0
        for token in tokens:
            if token.kind == TokenKind.OPERATOR:
                sign = token.text
                if depth == 0 and sign in (",", ")"):
                    if cell:
                        cells.append(self._cell(cell))
                        cell = []
                    elif sign == "," or not cells:
                        raise _expected(self.text, token, "a value")
                    if sign == ")":
                        return cells
                    continue
                if depth == 0 and sign in ("]", "}"):
                    raise _expected(self.text, token, "',' or ')'")
                if sign in "([{":
                    depth += 1
                    if depth > NESTING_MAX:
                        raise InvalidSyntax(f"parentheses nest deeper than {NESTING_MAX} in VALUES")
                elif sign in ")]}":
                    depth -= 1
                elif sign == ";":
                    break
            cell.append(token)
        raise _expected(self.text, opening, "')' that ends this row")

    def _cell(self, tokens: list[Token]) -> Cell:
        first = tokens[0]
        if len(tokens) == 1:
            return self._single(first)
        if len(tokens) == 2 and first.text in ("-", "+") and tokens[1].kind == TokenKind.NUMBER:
            return number_cell(tokens[1].text, "-" if first.text == "-" else "")
        return self._expression(first.start, tokens[-1].end)

    def _single(self, token: Token) -> Cell:
        if token.kind == TokenKind.STRING or (token.kind == TokenKind.QUOTED and token.text[0] == '"'):
            return unquote(token, self.dialect)
        if token.kind == TokenKind.NUMBER:
            return number_cell(token.text)
        if token.kind == TokenKind.HEX:
            return Literal("hex", hex_digits(token.text))
        word = token.word
        if word in _WORDS:
            return _WORDS[word]
        return self._expression(token.start, token.end)

    def _expression(self, start: int, end: int) -> Expression:
        self.has_expressions = True
        return Expression(Slice(self.text[start:end], start))


_WORDS: dict[str, Cell] = {"NULL": None, "TRUE": True, "FALSE": False, "DEFAULT": Special.DEFAULT}


def number_cell(text: str, sign: str = "") -> int | float | Literal:
    """A number as int, as float, or as a Literal when a float would be another number."""
    if len(text) > NUMBER_DIGITS_MAX:
        raise InvalidSyntax(f"a number of more than {NUMBER_DIGITS_MAX} digits: {text[:40]}…")
    if text.isdigit():
        return int(sign + text)
    value = float(sign + text)
    if repr(value) == sign + text:
        return value
    has_exponent = "e" in text or "E" in text
    if not has_exponent and len(text) <= _EXACT_DIGITS + 1:
        return value
    if value in (float("inf"), float("-inf")):
        return Literal("number", sign + text)
    if value == 0:
        mantissa = re.split("[eE]", text, maxsplit=1)[0]
        return Literal("number", sign + text) if mantissa.strip("0.") else value
    return value if Decimal(repr(value)) == Decimal(sign + text) else Literal("number", sign + text)


def _expected(text: str, token: Token, expected: str) -> InvalidSyntax:
    line, column = locate(text, token.start)
    found = f"'{token.text[:40]}'" if token.kind != TokenKind.END else "the end of the statement"
    return InvalidSyntax(f"expected {expected}, found {found} at line {line}, column {column}")
