"""Where the SELECTs of a statement stand, how far each reaches, and which CTEs it sees.

A block is the inside of a pair of parentheses, or the whole statement. The SELECTs of a block are those at its own
level; set operations separate them, and what follows the last one (ORDER BY, LIMIT) then belongs to all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tsdb.sql.lexer import Token, TokenKind, syntax_error, unquote
from tsdb.sql.range_query._model import Scope

_SET_OPERATIONS = frozenset({"UNION", "INTERSECT", "EXCEPT"})
_TAIL = frozenset({"ORDER", "LIMIT", "OFFSET", "FETCH"})


@dataclass(frozen=True, slots=True)
class SelectBlock:
    """One SELECT: a range of tokens."""

    begin: int
    end: int
    is_whole: bool
    scopes: tuple[Scope, ...]


def match_parentheses(text: str, tokens: Sequence[Token]) -> dict[int, int]:
    """Return for every parenthesis, opening or closing, the position of its partner."""
    partners: dict[int, int] = {}
    open_ones: list[int] = []
    for position, token in enumerate(tokens):
        if token.kind != TokenKind.OPERATOR:
            continue
        if token.text == "(":
            open_ones.append(position)
        elif token.text == ")":
            if not open_ones:
                raise syntax_error(text, token.start, "a parenthesis is closed that was not opened")
            begin = open_ones.pop()
            partners[begin], partners[position] = position, begin
    if open_ones:
        raise syntax_error(text, tokens[open_ones[-1]].start, "the parenthesis opened here is not closed")
    return partners


def level(partners: dict[int, int], begin: int, end: int) -> Iterator[int]:
    """Yield the tokens of one level: of a pair of parentheses only the opening one."""
    position = begin
    while position < end:
        yield position
        position = partners.get(position, position) + 1


def find_selects(text: str, tokens: Sequence[Token], partners: dict[int, int]) -> list[SelectBlock]:
    """Return every SELECT, those that end first first: what one reads has been seen before it."""
    found: list[SelectBlock] = []
    blocks: list[tuple[int, int, tuple[Scope, ...]]] = [(0, _last(tokens), ())]
    while blocks:
        begin, end, scopes = blocks.pop()
        body, inner = begin, scopes
        if begin < end and tokens[begin].word == "WITH":
            body, scope, definitions = _read_with(text, tokens, partners, begin, end)
            blocks += [(first, last, (*scopes, *seen)) for first, last, seen in definitions]
            inner = (*scopes, scope)
        blocks += [
            (position + 1, partners[position], inner) for position in level(partners, body, end) if position in partners
        ]
        is_top = begin == 0 and end == _last(tokens)
        found += _selects_of_block(tokens, partners, body, end, inner, is_top)
    return sorted(found, key=lambda select: select.end)


def _last(tokens: Sequence[Token]) -> int:
    return len(tokens) - 1 if tokens and tokens[-1].kind == TokenKind.END else len(tokens)


def _selects_of_block(
    tokens: Sequence[Token],
    partners: dict[int, int],
    begin: int,
    end: int,
    scopes: tuple[Scope, ...],
    is_top: bool,
) -> Iterator[SelectBlock]:
    places = list(level(partners, begin, end))
    cuts = [place for place in places if tokens[place].word in _SET_OPERATIONS and tokens[place - 1].text != "."]
    starts = [begin, *(cut + 1 for cut in cuts)]
    for first, last in zip(starts, [*cuts, end], strict=True):
        inside = [place for place in places if first <= place < last]
        select = next((place for place in inside if tokens[place].word == "SELECT"), None)
        if select is None:
            continue
        if cuts and last == end:
            last = next((place for place in inside if place > select and tokens[place].word in _TAIL), last)
        yield SelectBlock(select, last, is_top and not cuts and select == begin, scopes)


def _read_with(
    text: str, tokens: Sequence[Token], partners: dict[int, int], begin: int, end: int
) -> tuple[int, Scope, list[tuple[int, int, tuple[Scope, ...]]]]:
    """Read `WITH a AS (…), b (x) AS (…)`: where the body begins, all CTEs, and each CTE's inside with what it sees."""
    position = begin + 2 if tokens[begin + 1].word == "RECURSIVE" else begin + 1
    names: frozenset[str] = frozenset()
    definitions: list[tuple[int, int, tuple[Scope, ...]]] = []
    stop = tokens[begin].start
    while position < end:
        name = unquote(tokens[position])
        opening = next((at for at in level(partners, position, end) if _opens_definition(tokens, at)), None)
        if opening is None:
            break
        seen = (Scope(text[tokens[begin].start : stop], names),) if names else ()
        definitions.append((opening + 1, partners[opening], seen))
        names |= {name}
        stop = tokens[partners[opening]].end
        position = partners[opening] + 1
        if tokens[position].text != ",":
            break
        position += 1
    return position, Scope(text[tokens[begin].start : stop], names), definitions


def _opens_definition(tokens: Sequence[Token], position: int) -> bool:
    return tokens[position].text == "(" and tokens[position - 1].word in ("AS", "MATERIALIZED")
