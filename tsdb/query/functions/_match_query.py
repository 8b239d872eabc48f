"""matches: a small query language over texts.

    query    = any { OR any }                  lowest; items beside each other without an operator are joined by OR
    any      = item { AND item }
    item     = [+|-] ( word | "phrase" | ( query ) )

Each word or phrase is a substring test, case counts. `+x` must be there, `-x` must not. In a list joined by OR the
marked items rule: plain items count only where no item is marked `+`, and the texts must satisfy every marked one.
A backslash takes the next character as it is. AND and OR are words in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tsdb.engine.reading import TextAll, TextAny, TextHolds, TextNode
from tsdb.query.functions._define import STRING, FunctionError, by_distinct, function

_DEPTH_MAX = 64


@dataclass(frozen=True, slots=True)
class Term:
    text: str


@dataclass(frozen=True, slots=True)
class Negation:
    item: Node


@dataclass(frozen=True, slots=True)
class Must:
    """`+item`; gone once the list around it is in order."""

    item: Node


@dataclass(frozen=True, slots=True)
class AllOf:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    items: tuple[Node, ...]


Node: TypeAlias = Term | Negation | Must | AllOf | AnyOf


@function("matches", [STRING, STRING], pa.bool_())
def matches(text: pa.Array, query: pa.Array) -> pa.Array:
    return by_distinct(text, query, pa.bool_(), lambda texts, query: _test(texts, parse_query(query)))


def _test(texts: pa.Array, node: Node) -> pa.Array:
    match node:
        case Term(text):
            return pc.match_substring(texts, text)
        case Negation(item):
            return pc.invert(_test(texts, item))
        case Must(item):
            return _test(texts, item)
        case AllOf(items):
            return _fold(texts, items, pc.and_)
        case AnyOf(items):
            return _fold(texts, items, pc.or_)


def _fold(texts: pa.Array, items: Sequence[Node], join: Callable[[pa.Array, pa.Array], pa.Array]) -> pa.Array:
    result = _test(texts, items[0])
    for item in items[1:]:
        result = join(result, _test(texts, item))
    return result


def query_needs(query: str) -> TextNode | None:
    """Return what every text must hold that a query finds; None if that is not known, or the query is wrong."""
    try:
        return _needs(parse_query(query))
    except FunctionError:
        return None


def _needs(node: Node) -> TextNode | None:
    match node:
        case Term(text):
            return TextHolds(text) if text else None
        case Negation():
            return None
        case Must(item):
            return _needs(item)
        case AllOf(items):
            known = [each for item in items if (each := _needs(item)) is not None]
            return TextAll(tuple(known)) if known else None
        case AnyOf(items):
            known = [each for item in items if (each := _needs(item)) is not None]
            return TextAny(tuple(known)) if len(known) == len(items) else None


@lru_cache(maxsize=256)
def parse_query(query: str) -> Node:
    """Parse a query; FunctionError says where it is wrong."""
    parser = _MatchParser(query)
    node = parser.parse_any(0)
    if parser.token is not None:
        parser.fail("an opening bracket is missing")
    return node


class _MatchParser:
    """Recursive descent with one token of look-ahead; a token is (what, text, where)."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._position = 0
        self.token: tuple[str, str, int] | None = None
        self.advance()

    def fail(self, reason: str) -> NoReturn:
        at = self.token[2] if self.token else len(self._query)
        raise FunctionError(f"matches() got a query it cannot read: {reason} at character {at + 1} of {self._query!r}")

    def advance(self) -> None:
        query = self._query
        while self._position < len(query) and query[self._position].isspace():
            self._position += 1
        start = self._position
        if start == len(query):
            self.token = None
        elif query[start] in "+-()":
            self._position += 1
            self.token = (query[start], query[start], start)
        elif query[start] == '"':
            self.token = ("literal", self._read_phrase(), start)
        else:
            word = self._read_word()
            what = word.lower() if word.lower() in ("and", "or") else "literal"
            self.token = (what, word, start)

    def _read_phrase(self) -> str:
        query, position, characters = self._query, self._position + 1, []
        while position < len(query) and query[position] != '"':
            position += query[position] == "\\" and position + 1 < len(query)
            characters.append(query[position])
            position += 1
        if position == len(query):
            self.token = ("literal", "", self._position)
            self.fail("the quote does not end")
        self._position = position + 1
        if self._position < len(query) and not (query[self._position].isspace() or query[self._position] == ")"):
            self.token = ("literal", "", self._position)
            self.fail("a blank must follow a closing quote")
        return "".join(characters)

    def _read_word(self) -> str:
        query, position, characters = self._query, self._position, []
        while position < len(query) and not query[position].isspace() and query[position] not in "+-()":
            position += query[position] == "\\" and position + 1 < len(query)
            characters.append(query[position])
            position += 1
        self._position = position
        return "".join(characters)

    def parse_any(self, depth: int) -> Node:
        items = [self._parse_all(depth)]
        while self.token is not None and self.token[0] != ")":
            if self.token[0] == "or":
                self.advance()
            items.append(self._parse_all(depth))
        return _normalised(items)

    def _parse_all(self, depth: int) -> Node:
        items = [self._parse_item(depth)]
        while self.token is not None and self.token[0] == "and":
            self.advance()
            items.append(self._parse_item(depth))
        return items[0] if len(items) == 1 else AllOf(tuple(items))

    def _parse_item(self, depth: int) -> Node:
        if depth > _DEPTH_MAX:
            self.fail(f"more than {_DEPTH_MAX} brackets inside each other")
        if self.token is None or self.token[0] in (")", "and", "or"):
            self.fail("a word is missing")
        what, text, where = self.token
        self.advance()
        if what == "literal":
            return Term(text)
        if what == "(":
            node = self.parse_any(depth + 1)
            if self.token is None or self.token[0] != ")":
                self.fail("a closing bracket is missing")
            self.advance()
            return node
        if self.token is None or self.token[2] != where + 1 or self.token[0] not in ("literal", "("):
            self.fail(f"a word must follow {what!r} without a blank")
        item = self._parse_item(depth + 1)
        return Must(item) if what == "+" else Negation(item)


def _normalised(items: list[Node]) -> Node:
    """Put a list joined by OR in order: marked items are all required, plain ones only without `+`."""
    required = [item.item for item in items if isinstance(item, Must)]
    forbidden = [item for item in items if isinstance(item, Negation)]
    plain = [] if required else [item for item in items if not isinstance(item, Must | Negation)]
    together: list[Node] = [*required, *forbidden]
    if plain:
        together.append(plain[0] if len(plain) == 1 else AnyOf(tuple(plain)))
    return together[0] if len(together) == 1 else AllOf(tuple(together))


FUNCTIONS = [matches]
