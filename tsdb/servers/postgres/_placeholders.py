"""The placeholders of a statement, `$1`, and the types of their values.

A client may declare the type of a parameter. Otherwise it is inferred from the text: a parameter that is compared with
a column, or written to one, has the type of that column; a cast parameter has the type of the cast; LIMIT takes an
integer. Everything else is text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tsdb.model import DataType
from tsdb.query.pg_catalog import TYPES, TYPES_BY_OID, type_oid
from tsdb.servers.postgres._errors import PgError
from tsdb.servers.postgres._values import FLOAT8, INT8, TEXT, TIMESTAMP
from tsdb.sql.lexer import TokenKind, tokenize, unquote
from tsdb.sql.statements import Dialect
from tsdb.sql.template import Placeholder, StatementTemplate, find_cells

PARAMETERS_MAX = 65_535
"""As many as Bind can carry."""

_ORDERS = frozenset({"=", "<", ">", "<=", ">=", "<>", "!="})
_COMPARISONS = _ORDERS | {"+", "-", "*", "/", "%"}
_TEXT_WORDS = frozenset({"LIKE", "ILIKE"})
_TEXT_SIGNS = frozenset({"~", "~*", "!~", "!~*", "||"})
_TYPE_NAMES = {each.name: each.oid for each in TYPES} | {
    "bigint": 20,
    "int": 23,
    "integer": 23,
    "smallint": 21,
    "tinyint": 21,
    "boolean": 16,
    "float": 701,
    "double": 701,
    "real": 700,
    "string": 25,
    "decimal": 1700,
    "character": 1043,
    "timestamp_s": 1114,
    "timestamp_ms": 1114,
    "timestamp_us": 1114,
    "timestamp_ns": 1114,
    "binary": 17,
    "varbinary": 17,
}
_CALLS = {"count": INT8, "length": INT8, "char_length": INT8, "now": TIMESTAMP, "date_bin": TIMESTAMP, "avg": FLOAT8}

ColumnTypes = Callable[[Sequence[str]], Mapping[str, DataType] | None]
"""Types of the columns of the table with a name of one to three parts, in the table's order; None: no such table."""


def parse_template(text: str) -> StatementTemplate:
    """Find the placeholders `$n` of a statement."""
    if "$" not in text:
        return StatementTemplate(text, (), ())
    tokens = tokenize(text, Dialect.POSTGRESQL)
    places = []
    for at, (token, following) in enumerate(pairwise(tokens)):
        is_place = token.kind == TokenKind.OPERATOR and token.text == "$" and following.start == token.end
        if not is_place or following.kind != TokenKind.NUMBER or not following.text.isdigit():
            continue
        number = int(following.text[:6])
        if not 1 <= number <= PARAMETERS_MAX:
            raise PgError("42P02", f"there is no parameter ${following.text[:10]}")
        places.append(Placeholder(at, token.start, following.end, number - 1))
    return StatementTemplate(text, tokens, tuple(places))


@dataclass(frozen=True, slots=True)
class InferredType:
    """The type of a placeholder, and whether it is that of a column it is compared with."""

    oid: int
    is_compared: bool = False
    unit: str | None = None
    """Of a timestamp column it is compared with, where a number counts such units: that is planned quickest."""


def infer_types(template: StatementTemplate, columns: ColumnTypes) -> dict[int, InferredType]:
    """Return the types that the text implies, by the number of the placeholder."""
    if not template.places:
        return {}
    reader = _TypeInference(template, columns)
    found: dict[int, InferredType] = {}
    for place in template.places:
        kind = reader.type_of(place)
        if kind is not None:
            before = found.get(place.number)
            if before is not None and before != kind:
                kind = InferredType(before.oid, is_compared=kind.is_compared and before.is_compared)
            found[place.number] = kind
        elif place.number in found:
            found[place.number] = InferredType(found[place.number].oid)
    return found


def _without_unit(found: InferredType | None) -> InferredType | None:
    return None if found is None else InferredType(found.oid, found.is_compared)


class _TypeInference:
    """Examines the tokens around the placeholders of one statement."""

    def __init__(self, template: StatementTemplate, columns: ColumnTypes) -> None:
        self.tokens = template.tokens
        self._columns = columns
        self._tables = self._find_tables()
        is_plain = len(self._tables) == 1 and sum(token.word == "SELECT" for token in self.tokens) <= 1
        self._counts_units = is_plain
        self._cells = self._find_cells()

    def type_of(self, place: Placeholder) -> InferredType | None:
        at = place.token
        if at in self._cells:
            return InferredType(self._cells[at])
        if self._text(at + 2) == "::":
            return self._type_at(at + 3)
        before = self._word(at - 1)
        if self._text(at - 1) == "(" and self._word(at - 2) == "CAST" and self._word(at + 2) == "AS":
            return self._type_at(at + 3)
        if before in ("LIMIT", "OFFSET") or (self._text(at - 1) == "(" and "_ADVISORY_" in self._word(at - 2)):
            return InferredType(INT8)
        if before in _TEXT_WORDS or self._text(at - 1) in _TEXT_SIGNS or self._text(at + 2) in _TEXT_SIGNS:
            return InferredType(TEXT)
        return self._compared(at)

    def _compared(self, at: int) -> InferredType | None:
        """From what stands on the other side of a comparison, of BETWEEN, of IN."""
        before = self._word(at - 1)
        if self._text(at - 1) in _COMPARISONS:
            return self._counted(self._operand_before(at - 2), self._text(at - 1))
        if before == "BETWEEN":
            return _without_unit(self._operand_before(at - 2))
        if before == "AND" and (begin := self._between_of(at - 1)) is not None:
            return _without_unit(self._operand_before(begin - 1))
        if self._text(at + 2) in _COMPARISONS:
            return self._counted(self._operand_behind(at + 3), self._text(at + 2))
        opened = self._opening(at)
        if opened is not None and self._word(opened - 1) == "IN":
            return _without_unit(self._operand_before(opened - 2))
        if opened is not None and self._word(opened - 1) in ("ANY", "ALL", "SOME"):
            found = self._operand_before(opened - 3)
            return InferredType(TYPES_BY_OID[TEXT if found is None else found.oid].array or TYPES_BY_OID[TEXT].array)
        return None

    def _counted(self, found: InferredType | None, sign: str) -> InferredType | None:
        """Leave out the unit where a number would not be taken for a count of it."""
        if found is None or (sign in _ORDERS and self._counts_units):
            return found
        return InferredType(found.oid, is_compared=found.is_compared and sign in _ORDERS)

    def _between_of(self, conjunction: int) -> int | None:
        """The BETWEEN whose AND this is, if its first bound is a single value."""
        for at in range(conjunction - 1, max(conjunction - 4, 0), -1):
            if self._word(at) == "BETWEEN":
                return at
        return None

    def _opening(self, at: int) -> int | None:
        """The bracket around a placeholder."""
        depth = 0
        for index in range(at - 1, -1, -1):
            sign = self._text(index)
            if sign == ")":
                depth += 1
            elif sign == "(":
                if depth == 0:
                    return index
                depth -= 1
        return None

    def _operand_before(self, at: int) -> InferredType | None:
        if self._word(at) == "NOT":
            at -= 1
        if self._text(at) == ")":
            opened = self._opening(at)
            call = "" if opened is None else self._word(opened - 1).lower()
            return InferredType(_CALLS[call]) if call in _CALLS else None
        return self._operand(at)

    def _operand_behind(self, at: int) -> InferredType | None:
        while self._text(at + 1) == ".":
            at += 2
        if self._text(at + 1) == "(":
            call = self._word(at).lower()
            return InferredType(_CALLS[call]) if call in _CALLS else None
        return self._operand(at)

    def _operand(self, at: int) -> InferredType | None:
        if not 0 <= at < len(self.tokens):
            return None
        token = self.tokens[at]
        if token.kind == TokenKind.NUMBER:
            if self._text(at - 1) == "$":
                return None
            return InferredType(INT8 if token.text.isdigit() else FLOAT8)
        if token.kind == TokenKind.STRING:
            return InferredType(TEXT)
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            return None
        name = unquote(token, Dialect.POSTGRESQL)
        kinds = {columns[name] for columns in self._tables if name in columns}
        if len(kinds) != 1:
            return None
        kind = kinds.pop()
        return InferredType(type_oid(kind), is_compared=True, unit=kind.arrow.unit if kind.is_timestamp else None)

    def _type_at(self, at: int) -> InferredType | None:
        if self._text(at + 1) == ".":
            at += 2
        name = unquote(self.tokens[at], Dialect.POSTGRESQL).lower() if at < len(self.tokens) else ""
        oid = _TYPE_NAMES.get(name)
        if oid is None:
            return None
        is_array = self._text(at + 1) == "[" and self._text(at + 2) == "]"
        return InferredType((TYPES_BY_OID[oid].array or TEXT) if is_array else oid)

    def _find_tables(self) -> list[Mapping[str, DataType]]:
        """The columns of every table that the text names behind FROM, JOIN, INTO and UPDATE."""
        found: list[Mapping[str, DataType]] = []
        for at, token in enumerate(self.tokens):
            if token.word not in ("FROM", "JOIN", "INTO", "UPDATE"):
                continue
            columns = self._columns(self._name_at(at + 1))
            if columns is not None:
                found.append(columns)
        return found

    def _name_at(self, at: int) -> list[str]:
        parts = []
        while at < len(self.tokens) and self.tokens[at].kind in (TokenKind.WORD, TokenKind.QUOTED):
            parts.append(unquote(self.tokens[at], Dialect.POSTGRESQL))
            if self._text(at + 1) != ".":
                break
            at += 2
        return parts

    def _find_cells(self) -> dict[int, int]:
        """The types of the cells of INSERT … VALUES, by the first token of a placeholder."""
        if self._word(0) not in ("INSERT", "REPLACE") or not self._tables:
            return {}
        columns = self._tables[0]
        names, at = self._insert_columns(list(columns))
        if self._word(at) != "VALUES":
            return {}
        found: dict[int, int] = {}
        for position, cell in find_cells(self.tokens, at + 1):
            is_whole = self._text(position) == "$" and self._text(position + 2) in (",", ")")
            kind = columns.get(names[cell]) if is_whole and cell < len(names) else None
            if kind is not None:
                found[position] = type_oid(kind)
        return found

    def _insert_columns(self, all_names: list[str]) -> tuple[list[str], int]:
        """The columns an INSERT names, all if none, and the token behind them."""
        at = 2
        while self._text(at + 1) == ".":
            at += 2
        at += 1
        if self._text(at) != "(":
            return all_names, at
        names = []
        at += 1
        while at < len(self.tokens) and self._text(at) != ")":
            if self.tokens[at].kind in (TokenKind.WORD, TokenKind.QUOTED):
                names.append(unquote(self.tokens[at], Dialect.POSTGRESQL))
            at += 1
        return names, at + 1

    def _text(self, at: int) -> str:
        """The operator at a position, '' for anything else."""
        if not 0 <= at < len(self.tokens):
            return ""
        token = self.tokens[at]
        return token.text if token.kind == TokenKind.OPERATOR else ""

    def _word(self, at: int) -> str:
        return self.tokens[at].word if 0 <= at < len(self.tokens) else ""
