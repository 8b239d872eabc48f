"""Prepared statements of one connection: their text, split at the placeholders, and their bound values.

The number of statements and the size of values sent ahead of an execution are bounded. The lexer splits a statement, so
that a `?` inside a string, a name or a comment is not a placeholder.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from tsdb.errors import InvalidArguments
from tsdb.servers.mysql._parameters import as_count, parse_literals, parse_types
from tsdb.servers.mysql._protocol import PACKET_BYTES_MAX, BadPacket, ColumnType, Reader, WireError
from tsdb.sql import Dialect, Token, TokenKind, tokenize

PARAMETERS_MAX = 0xFFFF
_COUNT_WORDS = frozenset({"LIMIT", "OFFSET"})
_ROW_WORDS = frozenset({"INSERT", "REPLACE"})
_ITEM_STARTS = frozenset({"SELECT", "DISTINCT", "ALL", ","})
_ITEM_ENDS = frozenset({",", ")", ";", "", "FROM", "UNION", "EXCEPT", "INTERSECT", "LIMIT", "WHERE", "ORDER"})


class UnknownStatement(WireError):
    """There is no prepared statement of this number."""

    def __init__(self, number: int, command: str) -> None:
        super().__init__(1243, "HY000", f"Unknown prepared statement handler ({number}) given to {command}")


@dataclass(slots=True)
class MysqlStatement:
    """One prepared statement."""

    number: int
    pieces: tuple[str, ...]
    """The text before, between and behind the places."""
    are_limits: tuple[bool, ...]
    """Of each place, whether it stands behind LIMIT or OFFSET."""
    are_items: tuple[bool, ...]
    """Of each place, whether it is a column of the answer by itself."""
    has_rows: bool
    """It is an INSERT."""
    types: list[tuple[ColumnType, bool]] = field(default_factory=list)
    """As the client said when it last executed the statement."""
    long_data: dict[int, bytearray] = field(default_factory=dict)

    @property
    def places(self) -> int:
        return len(self.are_limits)

    def with_nulls(self) -> str:
        """Return a statement of the same form, to be read and planned."""
        return self.with_literals(["1" if is_limit else "NULL" for is_limit in self.are_limits])

    def with_literals(self, literals: list[str]) -> str:
        """Return the statement with literals in its places; a column that is a value is named by its place.

        Otherwise the value would be its name, and the same value twice the same name twice.
        """
        literals = [
            f"{literal} AS `?{number}`" if is_item else literal
            for number, (literal, is_item) in enumerate(zip(literals, self.are_items, strict=True), 1)
        ]
        return "".join(itertools.chain.from_iterable(itertools.zip_longest(self.pieces, literals, fillvalue="")))

    def bind(self, reader: Reader) -> str:
        """Return the text to execute, with the values of COM_STMT_EXECUTE, behind its fixed part, in their places."""
        if not self.places:
            return self.pieces[0]
        nulls = reader.take((self.places + 7) // 8)
        if reader.integer(1):
            self.types = parse_types(reader, self.places)
        elif len(self.types) != self.places:
            raise BadPacket("a statement is executed without the types of its values")
        sent = {position: bytes(data) for position, data in self.long_data.items()}
        are_counts = [is_limit or self.has_rows for is_limit in self.are_limits]
        literals = parse_literals(reader, self.types, nulls, sent, are_counts)
        self.long_data.clear()
        for position, is_limit in enumerate(self.are_limits):
            if is_limit:
                literals[position] = as_count(literals[position])
        return self.with_literals(literals)

    def append_long_data(self, position: int, data: bytes) -> None:
        """Keep a piece of a value that comes ahead; what is wrong with it comes out when the statement is executed."""
        if position < self.places:
            self.long_data.setdefault(position, bytearray()).extend(data)


class MysqlStatements:
    """The prepared statements of one connection."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._numbers = itertools.count(1)
        self._statements: dict[int, MysqlStatement] = {}

    def __len__(self) -> int:
        return len(self._statements)

    def __iter__(self) -> Iterator[MysqlStatement]:
        return iter(self._statements.values())

    def cut(self, text: str) -> MysqlStatement:
        """Cut a statement at its places; `keep` it if it can be used."""
        if len(self._statements) >= self._count_max:
            raise WireError(
                1461, "42000", f"Can't create more than mysql.prepared_stmt_cache_size statements ({self._count_max})"
            )
        tokens = tokenize(text, Dialect.MYSQL)
        places = [
            position for position, token in enumerate(tokens) if token.kind == TokenKind.OPERATOR and token.text == "?"
        ]
        if len(places) > PARAMETERS_MAX:
            raise WireError(1390, "HY000", "Prepared statement contains too many placeholders")
        starts = [tokens[position].start for position in places]
        ends = [0, *(tokens[position].end for position in places)]
        pieces = tuple(text[begin:end] for begin, end in zip(ends, [*starts, len(text)], strict=True))
        are_limits = tuple(_is_limit(tokens, position) for position in places)
        items = _find_items(tokens)
        are_items = tuple(position in items for position in places)
        return MysqlStatement(next(self._numbers), pieces, are_limits, are_items, tokens[0].word in _ROW_WORDS)

    def keep(self, prepared: MysqlStatement) -> None:
        self._statements[prepared.number] = prepared

    def get(self, number: int, command: str) -> MysqlStatement:
        found = self._statements.get(number)
        if found is None:
            raise UnknownStatement(number, command)
        return found

    def append_long_data(self, packet: bytes) -> None:
        """Handle COM_STMT_SEND_LONG_DATA, which has no answer."""
        if len(packet) < 7:
            return
        reader = Reader(packet, 1)
        found = self._statements.get(reader.integer(4))
        position = reader.integer(2)
        if found is None:
            return
        held = sum(len(data) for each in self for data in each.long_data.values())
        if held + reader.left > PACKET_BYTES_MAX:
            raise InvalidArguments(f"values that were sent ahead are larger than {PACKET_BYTES_MAX} bytes")
        found.append_long_data(position, reader.rest())

    def close(self, number: int) -> None:
        self._statements.pop(number, None)

    def clear(self) -> None:
        self._statements.clear()


def _is_limit(tokens: list[Token], position: int) -> bool:
    """Whether a token is the number of LIMIT or OFFSET, be it the second one of `LIMIT 5, 10`."""
    if position >= 3 and tokens[position - 1].text == ",":
        return tokens[position - 3].word == "LIMIT"
    return position >= 1 and tokens[position - 1].word in _COUNT_WORDS


def _find_items(tokens: list[Token]) -> set[int]:
    """Return the `?` that are alone an item of a SELECT list."""
    items: set[int] = set()
    lists = [False]  # whether the innermost parentheses are in a list of SELECT, for each level of them
    for position, token in enumerate(tokens):
        if token.text == "(":
            lists.append(False)
        elif token.text == ")":
            lists[-2:] = lists[-2:-1] or [False]
        elif token.word in ("SELECT", "FROM"):
            lists[-1] = token.word == "SELECT"
        elif token.text == "?" and position and lists[-1]:
            before, behind = tokens[position - 1], tokens[position + 1]
            if before.text.upper() in _ITEM_STARTS and behind.text.upper() in _ITEM_ENDS:
                items.add(position)
    return items
