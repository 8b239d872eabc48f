"""Finds the range query to evaluate first, and cuts it at its clauses.

    SELECT [DISTINCT] item, … FROM source [WHERE …] ALIGN span [TO origin] [BY (…)] [FILL f] [ORDER BY …] [LIMIT …]

The parts behind ALIGN come in any order, each once; FILL may also stand before ALIGN.

`tsdb.sql.select` cuts the same clauses but cannot be used for this. It reads a statement that is one SELECT over one
table, reads every item and condition as a term, and declines everything else. A range query may be in a CTE, a subquery
or a set operation, over any source, with any expression as an item or condition; its pieces stay text for DataFusion,
and its mistakes are syntax errors with a place. `parse_query` is the one entry to both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tsdb.sql.lexer import Token, TokenKind, syntax_error, unquote
from tsdb.sql.range_query._blocks import SelectBlock, find_selects, level, match_parentheses
from tsdb.sql.range_query._items import CallReader
from tsdb.sql.range_query._model import AlignOrigin, Fill, Item, RangeExpression, RangeQuery, Span

_TAIL = frozenset({"ORDER", "LIMIT", "OFFSET", "FETCH"})
_REFUSED = frozenset({"GROUP", "HAVING", "WINDOW", "QUALIFY"})
_NEVER_ALIAS_WORDS = """
    FILL END NULL TRUE FALSE UNKNOWN PRECISION ZONE YEAR YEARS MONTH MONTHS WEEK WEEKS DAY DAYS HOUR HOURS MINUTE
    MINUTES SECOND SECONDS MILLISECOND MILLISECONDS MICROSECOND MICROSECONDS NANOSECOND NANOSECONDS QUARTER
"""
_NEVER_ALIAS = frozenset(_NEVER_ALIAS_WORDS.split())
_NEVER_BEFORE_ALIAS_WORDS = """
    AND OR NOT IN IS LIKE ILIKE BETWEEN CASE WHEN THEN ELSE INTERVAL DISTINCT FROM COLLATE DATE TIMESTAMP TIME
"""
_NEVER_BEFORE_ALIAS = frozenset(_NEVER_BEFORE_ALIAS_WORDS.split())


def find_range(text: str, tokens: list[Token]) -> RangeQuery | None:
    """Return the range query of a statement that is to be evaluated first, None when it has none.

    InvalidSyntax for RANGE without ALIGN, and for range queries that break the rules.
    """
    # Every query passes here, and nearly none has either word: a search takes a microsecond.
    lowered = text.lower()
    if "align" not in lowered and "range" not in lowered:
        return None
    if not any(token.word in ("ALIGN", "RANGE") for token in tokens):
        return None
    partners = match_parentheses(text, tokens)
    for select in find_selects(text, tokens, partners):
        cut = _cut(tokens, partners, select)
        if cut.align is not None:
            return _read(text, tokens, partners, select, cut)
        reader = CallReader(text, tokens, partners)
        reader.expression(select.begin + 1, cut.source_from if cut.source_from is not None else select.end)
        if reader.calls:
            raise syntax_error(text, tokens[select.begin].start, "an aggregate with RANGE needs ALIGN in the query")
    return None


@dataclass(slots=True)
class _Cut:
    """Positions of the clauses of one SELECT, None where there is none."""

    source_from: int | None = None
    where: int | None = None
    align: int | None = None
    early_fill: int | None = None
    tail: int | None = None
    refused: list[int] = field(default_factory=list)


def _cut(tokens: Sequence[Token], partners: dict[int, int], select: SelectBlock) -> _Cut:
    cut = _Cut()
    for place in level(partners, select.begin + 1, select.end):
        word = tokens[place].word
        if not word or tokens[place - 1].text == ".":
            continue
        if word == "FROM" and cut.source_from is None:
            cut.source_from = place
        if cut.source_from is None or cut.tail is not None:
            continue
        if word == "WHERE" and cut.where is None:
            cut.where = place
        elif word == "ALIGN" and cut.align is None and _begins_align(tokens, place):
            cut.align = place
        elif word == "FILL" and cut.align is None and not _is_name(tokens, place):
            cut.early_fill = place
        elif word in _REFUSED and (word != "GROUP" or tokens[place + 1].word == "BY"):
            cut.refused.append(place)
        elif word in _TAIL and (word != "ORDER" or tokens[place + 1].word == "BY"):
            cut.tail = place
    return cut


def _begins_align(tokens: Sequence[Token], place: int) -> bool:
    after = tokens[place + 1]
    if _is_name(tokens, place):
        return False
    return after.kind in (TokenKind.STRING, TokenKind.NUMBER) or after.text == "("


def _is_name(tokens: Sequence[Token], place: int) -> bool:
    """Whether a word stands where only the name of a table can stand."""
    before = tokens[place - 1]
    return before.text == "," or before.word in ("FROM", "JOIN", "AS")


def _read(text: str, tokens: list[Token], partners: dict[int, int], select: SelectBlock, cut: _Cut) -> RangeQuery:
    assert cut.align is not None
    assert cut.source_from is not None
    if cut.refused:
        token = tokens[cut.refused[0]]
        raise syntax_error(text, token.start, f"a range query has no {token.word}; BY says how it groups,")
    reader = CallReader(text, tokens, partners)
    clauses = _read_align(reader, cut, select.end)
    reader.default_fill = clauses.fill
    quantifier_end, items = _read_items(reader, select.begin + 1, cut.source_from)
    if not reader.calls:
        raise syntax_error(text, tokens[select.begin].start, "a query with ALIGN needs an aggregate with RANGE")
    condition_end = cut.early_fill if cut.early_fill is not None else cut.align
    source_end = cut.where if cut.where is not None else condition_end
    if source_end == cut.source_from + 1:
        raise syntax_error(text, tokens[source_end].start, "the name of a table must follow FROM")
    order, tail = _read_tail(reader, clauses.end, select.end)
    return RangeQuery(
        text=text,
        start=tokens[select.begin].start,
        end=tokens[select.end - 1].end,
        is_whole=select.is_whole,
        scopes=select.scopes,
        quantifier=_slice(text, tokens, select.begin + 1, quantifier_end),
        items=items,
        calls=tuple(reader.calls),
        source=_plain(tokens, cut.source_from + 1, source_end),
        where=None if cut.where is None else _slice(text, tokens, cut.where + 1, condition_end),
        align=clauses.align,
        origin=clauses.origin,
        by=clauses.by,
        order=order,
        tail=tail,
    )


@dataclass(slots=True)
class _Clauses:
    """Return the clauses from ALIGN on, and the position after them."""

    align: Span
    end: int
    origin: AlignOrigin | None = None
    by: tuple[RangeExpression, ...] | None = None
    fill: Fill | None = None


def _read_align(reader: CallReader, cut: _Cut, end: int) -> _Clauses:
    assert cut.align is not None
    tokens = reader.tokens
    align, position = reader.span(cut.align + 1)
    clauses = _Clauses(align, position)
    seen: set[str] = set()
    if cut.early_fill is not None:
        clauses.fill, position = reader.fill(cut.early_fill + 1)
        seen.add("FILL")
        if position != cut.align:
            raise syntax_error(reader.text, tokens[position].start, "expected ALIGN after FILL")
    position = clauses.end
    while position < end and tokens[position].word in ("TO", "BY", "FILL"):
        word = tokens[position].word
        if word in seen:
            raise syntax_error(reader.text, tokens[position].start, f"{word} stands twice")
        seen.add(word)
        if word == "TO":
            clauses.origin, position = _read_origin(reader, position + 1)
        elif word == "BY":
            clauses.by, position = _read_by(reader, position + 1)
        else:
            clauses.fill, position = reader.fill(position + 1)
    if position < end and tokens[position].word not in _TAIL:
        raise syntax_error(reader.text, tokens[position].start, "expected TO, BY, FILL, ORDER BY or LIMIT after ALIGN")
    clauses.end = position
    return clauses


def _read_origin(reader: CallReader, position: int) -> tuple[AlignOrigin, int]:
    token = reader.tokens[position]
    if token.word == "NOW":
        following = reader.tokens[position + 1 : position + 3]
        return AlignOrigin(is_now=True), position + (3 if [each.text for each in following] == ["(", ")"] else 1)
    if token.kind == TokenKind.STRING:
        written = unquote(token)
        return (AlignOrigin(is_now=True) if written.upper() == "NOW" else AlignOrigin(timestamp=written)), position + 1
    close = reader.partners.get(position)
    if token.text == "(" and close is not None and close > position + 1:
        return AlignOrigin(expression=reader.text[token.end : reader.tokens[close].start].strip()), close + 1
    message = "expected NOW, a timestamp in quotes or an expression in parentheses after TO"
    raise syntax_error(reader.text, token.start, message)


def _read_by(reader: CallReader, position: int) -> tuple[tuple[RangeExpression, ...], int]:
    token = reader.tokens[position]
    if token.text != "(":
        raise syntax_error(reader.text, token.start, "expected a list in parentheses after BY")
    close = reader.partners[position]
    parts = _split(reader, position + 1, close) if close > position + 1 else []
    by = []
    for first, last in parts:
        if first == last:
            raise syntax_error(reader.text, reader.tokens[first].start, "an expression is missing in BY")
        expression = reader.expression(first, last)
        if expression.edits:
            raise syntax_error(reader.text, expression.start, "BY cannot group by an aggregate")
        by.append(expression)
    return tuple(by), close + 1


def _split(reader: CallReader, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges between the commas of a list."""
    commas = [place for place in level(reader.partners, begin, end) if reader.tokens[place].text == ","]
    return list(zip([begin, *(comma + 1 for comma in commas)], [*commas, end], strict=True))


def _read_items(reader: CallReader, begin: int, end: int) -> tuple[int, tuple[Item, ...]]:
    tokens = reader.tokens
    first = begin
    if tokens[first].word in ("DISTINCT", "ALL"):
        first += 1
        if tokens[first].word == "ON" and tokens[first + 1].text == "(":
            raise syntax_error(reader.text, tokens[first].start, "a range query cannot be DISTINCT ON")
    items = []
    parts = _split(reader, first, end)
    if len(parts) > 1 and parts[-1][0] == parts[-1][1]:
        parts.pop()
    for start, stop in parts:
        if start == stop:
            raise syntax_error(reader.text, tokens[start].start, "an expression is missing in the select list")
        if tokens[start].text == "*" or (
            stop - start > 2 and tokens[start + 1].text == "." and _is_star(tokens, start, stop)
        ):
            raise syntax_error(reader.text, tokens[start].start, "a range query names its columns, it has no *,")
        items.append(_read_item(reader, start, stop))
    return first, tuple(items)


def _is_star(tokens: Sequence[Token], start: int, stop: int) -> bool:
    position = start
    while position + 2 < stop and tokens[position + 1].text == ".":
        position += 2
    return tokens[position].text == "*"


def _read_item(reader: CallReader, start: int, stop: int) -> Item:
    tokens = reader.tokens
    last = tokens[stop - 1]
    if stop - start > 2 and tokens[stop - 2].word == "AS" and last.kind in (TokenKind.WORD, TokenKind.QUOTED):
        return Item(reader.expression(start, stop - 2), last.text)
    if stop - start > 1 and _is_bare_alias(tokens, start, stop):
        return Item(reader.expression(start, stop - 1), last.text)
    return Item(reader.expression(start, stop), None)


def _is_bare_alias(tokens: Sequence[Token], start: int, stop: int) -> bool:
    last, before = tokens[stop - 1], tokens[stop - 2]
    if last.kind not in (TokenKind.WORD, TokenKind.QUOTED) or last.word in _NEVER_ALIAS:
        return False
    if before.word == "FILL":
        return False
    if before.kind in (TokenKind.STRING, TokenKind.NUMBER, TokenKind.QUOTED) or before.text == ")":
        return True
    return before.kind == TokenKind.WORD and before.word not in _NEVER_BEFORE_ALIAS


def _read_tail(reader: CallReader, begin: int, end: int) -> tuple[RangeExpression | None, str]:
    tokens = reader.tokens
    if begin == end or tokens[begin].word != "ORDER":
        return None, _slice(reader.text, tokens, begin, end)
    if tokens[begin + 1].word != "BY":
        raise syntax_error(reader.text, tokens[begin + 1].start, "expected BY after ORDER")
    places = level(reader.partners, begin + 2, end)
    stop = next((place for place in places if tokens[place].word in _TAIL), end)
    if stop == begin + 2:
        raise syntax_error(reader.text, tokens[stop].start, "an expression is missing after ORDER BY")
    return reader.expression(begin + 2, stop), _slice(reader.text, tokens, stop, end)


def _plain(tokens: Sequence[Token], begin: int, end: int) -> RangeExpression:
    return RangeExpression(tokens[begin].start, tokens[end - 1].end, tuple(tokens[begin:end]))


def _slice(text: str, tokens: Sequence[Token], begin: int, end: int) -> str:
    return text[tokens[begin].start : tokens[end - 1].end] if end > begin else ""
