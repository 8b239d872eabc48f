"""Statements with placeholders, `?`, `$1` and `$name`: their positions, and the text with values in them.

A value becomes one literal that parses back to the same value. INSERT … VALUES (?, …) becomes INSERT … SELECT from the
values instead, which writes any number of rows as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

import pyarrow as pa
import pyarrow.types as pt

from tsdb.errors import InvalidArguments
from tsdb.sql.lexer import Token, TokenKind, tokenize
from tsdb.sql.statements import Dialect

PARAMETERS_MAX = 10_000
PARAMETERS_TABLE = "__tsdb_parameters"
"""The name by which an INSERT reads its values."""

_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_DIALECT = Dialect.GENERIC


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder and its position in the text."""

    token: int
    """The index of its first token."""
    start: int
    end: int
    number: int
    """From 0."""


@dataclass(frozen=True, slots=True)
class StatementTemplate:
    """A statement and its placeholders."""

    text: str
    tokens: Sequence[Token]
    places: tuple[Placeholder, ...]
    names: tuple[str, ...] = ()
    """The names of `$name` placeholders in the order of their numbers; empty for `?` and `$1`."""

    @property
    def count(self) -> int:
        """How many values it takes."""
        return max((place.number + 1 for place in self.places), default=0)

    def fill(self, write: Callable[[Placeholder], str], *, start: int = 0, end: int | None = None) -> str:
        """Return the text, or a part of it, with each placeholder replaced."""
        pieces, at = [], start
        end = len(self.text) if end is None else end
        for place in self.places:
            if start <= place.start < end:
                pieces += [self.text[at : place.start], write(place)]
                at = place.end
        return "".join([*pieces, self.text[at:end]])

    def with_nulls(self) -> str:
        """Return a text that can be planned: nulls in the places, a count where only one can stand."""
        counted = {place.number for place in self.places if self.word_before(place) in ("LIMIT", "OFFSET")}
        return self.fill(lambda place: "1" if place.number in counted else "NULL")

    def with_row(self, row: Sequence[pa.Scalar]) -> str:
        """Return the text with the values of a row."""
        written = [literal(value) for value in row]
        return self.fill(lambda place: written[place.number])

    def as_insert_select(self) -> str | None:
        """Return INSERT … SELECT … FROM the values, None if this is not an INSERT of one row of expressions."""
        found = self._single_row()
        if found is None:
            return None
        values, opening, closing = found
        cells = self.fill(lambda place: f'"p{place.number}"', start=opening.end, end=closing.start)
        return f"{self.text[: values.start]}SELECT {cells} FROM {PARAMETERS_TABLE}"

    def _single_row(self) -> tuple[Token, Token, Token] | None:
        """VALUES and the brackets of the only row behind it."""
        tokens = self.tokens
        if not tokens or tokens[0].word not in ("INSERT", "REPLACE"):
            return None
        at = next((index for index, token in enumerate(tokens) if token.word == "VALUES"), None)
        if at is None or tokens[at + 1].text != "(" or any(token.word == "SELECT" for token in tokens[:at]):
            return None
        depth = 0
        for index in range(at + 1, len(tokens)):
            token = tokens[index]
            if token.word == "DEFAULT":
                return None
            if token.kind == TokenKind.OPERATOR:
                depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                behind = [each for each in tokens[index + 1 :] if each.kind != TokenKind.END and each.text != ";"]
                return None if behind else (tokens[at], tokens[at + 1], token)
        return None

    def word_before(self, place: Placeholder) -> str:
        """Return the keyword in front of a placeholder, '' for anything else."""
        return self.tokens[place.token - 1].word if place.token else ""


def parse_template(text: str) -> StatementTemplate:
    """Find the placeholders of a statement."""
    if "?" not in text and "$" not in text:
        return StatementTemplate(text, (), ())
    tokens = tokenize(text, _DIALECT)
    places: list[Placeholder] = []
    names: dict[str, int] = {}
    kinds: set[str] = set()
    for at, (token, following) in enumerate(pairwise(tokens)):
        if token.kind != TokenKind.OPERATOR:
            continue
        if token.text == "?":
            kinds.add("?")
            places.append(Placeholder(at, token.start, token.end, len(places)))
        elif token.text == "$" and following.start == token.end:
            if following.kind == TokenKind.NUMBER:
                kinds.add("$1")
                places.append(Placeholder(at, token.start, following.end, _number(following.text)))
            elif following.kind == TokenKind.WORD:
                kinds.add("$name")
                number = names.setdefault(following.text, len(names))
                places.append(Placeholder(at, token.start, following.end, number))
    if len(kinds) > 1:
        raise InvalidArguments(
            "a statement uses one kind of placeholder: ?, $1 or $name", kinds=", ".join(sorted(kinds))
        )
    if len(places) > PARAMETERS_MAX:
        raise InvalidArguments(f"a statement has at most {PARAMETERS_MAX} placeholders")
    return StatementTemplate(text, tokens, tuple(places), tuple(names))


def _number(digits: str) -> int:
    number = int(digits) if digits.isdigit() and len(digits) < 6 else 0
    if not 1 <= number <= PARAMETERS_MAX:
        raise InvalidArguments(f"there is no parameter ${digits[:20]}: they are numbered from 1 to {PARAMETERS_MAX}")
    return number - 1


def find_cells(tokens: Sequence[Token], start: int) -> Iterator[tuple[int, int]]:
    """Yield the token of each placeholder that stands directly in a row of VALUES, and the number of its cell."""
    depth = cell = 0
    for at in range(start, len(tokens)):
        sign = tokens[at].text if tokens[at].kind == TokenKind.OPERATOR else ""
        if sign == "(":
            depth += 1
            cell = 0 if depth == 1 else cell
        elif sign == ")":
            depth -= 1
        elif sign == "," and depth == 1:
            cell += 1
        elif sign in ("?", "$") and depth == 1:
            yield at, cell


def literal(value: pa.Scalar) -> str:
    """Return a value as SQL."""
    kind = value.type
    if not value.is_valid:
        return "NULL"
    if pt.is_dictionary(kind):
        return literal(
            value.as_py() if isinstance(value.as_py(), pa.Scalar) else pa.scalar(value.as_py(), kind.value_type)
        )
    if pt.is_boolean(kind):
        return "true" if value.as_py() else "false"
    if pt.is_integer(kind):
        return _signed(str(value.as_py()))
    if pt.is_floating(kind):
        return _float(value)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return quoted(value.as_py())
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind):
        return f" X'{value.as_py().hex()}'"
    if pt.is_timestamp(kind):
        return f"arrow_cast({_signed(str(value.value))}, 'Timestamp({_UNITS[kind.unit]}, None)')"
    if pt.is_duration(kind):
        return f"arrow_cast(arrow_cast({_signed(str(value.value))}, 'Int64'), 'Duration({_UNITS[kind.unit]})')"
    if pt.is_date(kind):
        return f"CAST('{value.as_py().isoformat()}' AS DATE)"
    if pt.is_decimal(kind):
        return f"CAST('{value.as_py():f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if pt.is_list(kind) or pt.is_large_list(kind):
        return f"make_array({', '.join(literal(each) for each in value.values)})"
    raise InvalidArguments(f"a value of type {kind} cannot stand in a statement", hint="send it as text or as a number")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _signed(text: str) -> str:
    # A sign that follows another one directly would begin a comment.
    return f"({text})" if text.startswith("-") else f" {text}"


def _float(value: pa.Scalar) -> str:
    number = value.as_py()
    if not isfinite(number):
        word = "NaN" if number != number else "inf" if number > 0 else "-inf"
        return f"CAST('{word}' AS DOUBLE)"
    text = repr(number)
    return _signed(text) if "e" not in text else f"CAST({_signed(text)} AS DOUBLE)"
