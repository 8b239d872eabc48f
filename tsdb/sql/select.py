"""Parses a SELECT over one table once: its clauses and what each part means.

    SELECT item, … FROM table WHERE condition AND … GROUP BY key, … HAVING … ORDER BY key, … LIMIT n OFFSET n

Every part keeps its tokens, which have positions in the text: parts are passed on as the user wrote them. Nothing here
knows the table. A query of another kind is `Declined` with the reason.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tsdb.sql.clauses import Condition, Declined, joined_by_and, read_condition
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.range_query import RangeQuery, find_range
from tsdb.sql.rewrite import KEYWORDS
from tsdb.sql.statements import Dialect
from tsdb.sql.tag_expression import TagExpression, make_expression, split_at_and
from tsdb.sql.terms import Aggregate, ColumnItem, Term, read_leading_term, read_term

ITEMS_MAX = 512

_CLAUSES = {"FROM": 1, "WHERE": 2, "GROUP": 3, "HAVING": 4, "ORDER": 5, "LIMIT": 6, "OFFSET": 6}
"""The words that begin a clause, and the order in which they come."""
_FOREIGN = frozenset({
    "SELECT", "DISTINCT", "UNION", "INTERSECT", "EXCEPT", "JOIN", "WITH", "OVER", "FILTER", "WITHIN", "WINDOW",
    "QUALIFY", "ALIGN", "FILL", "LATERAL", "EXISTS", "FETCH", "INTO",
})  # fmt: skip
"""Words that no name is spelled like, and that no query of this kind has."""

Tokens: TypeAlias = Sequence[Token]


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One column of the answer."""

    tokens: Tokens
    """Without its name."""
    term: Term
    alias: str | None = None
    alias_tokens: Tokens = ()


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A key of GROUP BY."""

    tokens: Tokens
    term: Term


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A key of ORDER BY."""

    tokens: Tokens
    """Without its direction."""
    term: Term
    is_descending: bool
    nulls_first: bool
    says_nulls: bool
    """Whether the query says where nulls come."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One of the conditions that must all hold."""

    tokens: Tokens
    plain: Condition | None
    """None if it does not compare columns with literals."""
    reason: str
    """Why it is not plain, or would not be if its literals did not have the types of their columns."""


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT over one table."""

    text: str
    dialect: Dialect
    items: tuple[SelectItem, ...]
    """None for `*`."""
    table: tuple[str, ...]
    where: tuple[Wanted, ...]
    where_tokens: Tokens
    """Of the conditions; none without WHERE."""
    group: tuple[GroupKey, ...] | None
    having: Tokens | None
    order: tuple[OrderKey, ...]
    order_tokens: Tokens
    limit: Tokens | None
    offset: Tokens | None
    source_tokens: Tokens
    where_span: tuple[int, int]
    """Where WHERE and its conditions stand in the text."""

    @property
    def shape(self) -> str:
        """The text without its conditions: queries of one shape over one table have the same columns."""
        start, end = self.where_span
        return f"{self.text[:start]}\0{self.text[end:]}"

    @property
    def has_aggregates(self) -> bool:
        return self.group is not None or any(isinstance(item.term, Aggregate) for item in self.items)

    def written(self, tokens: Tokens) -> str:
        """Return tokens as the user wrote them."""
        return self.text[tokens[0].start : tokens[-1].end]

    def expression(self, wanted: Wanted) -> TagExpression | None:
        """Return a condition as an expression over tags; None if it certainly is none."""
        return make_expression(self.text, wanted.tokens, self.dialect, wanted.reason)

    def plain_where(self) -> Condition | Declined | None:
        """Return the conditions if all of them compare columns with literals."""
        parts = []
        for wanted in self.where:
            if wanted.plain is None:
                return Declined(wanted.reason)
            parts.append(wanted.plain)
        return joined_by_and(parts)


def parse_query(text: str, tokens: list[Token], dialect: Dialect) -> Select | RangeQuery | Declined:
    """Read a query. InvalidSyntax for RANGE and ALIGN that break their rules."""
    if (query := find_range(text, tokens)) is not None:
        return query
    return parse_select(text, tokens, dialect)


def parse_select(text: str, tokens: list[Token], dialect: Dialect) -> Select | Declined:
    """Read a SELECT over one table."""
    clauses = _cut(tokens)
    if isinstance(clauses, Declined):
        return clauses
    table = _table_name(clauses["FROM"].tokens, dialect)
    if isinstance(table, Declined):
        return table
    return _SelectParser(text, tokens, dialect, clauses, table).select()


@dataclass(slots=True)
class _SelectClause:
    begin: int
    """The place of its word."""
    tokens: Tokens = ()
    """The tokens after its word, and after BY."""


def _cut(tokens: list[Token]) -> dict[str, _SelectClause] | Declined:
    """Cut a query where its clauses begin, in one go over its tokens."""
    if tokens[0].word != "SELECT":
        return Declined("it is not a SELECT")
    found = {"SELECT": _SelectClause(0)}
    depth = last = 0
    for at in range(1, len(tokens) - 1):
        kind, text = tokens[at].kind, tokens[at].text
        if kind == TokenKind.OPERATOR:
            if text in "([":
                depth += 1
            elif text in ")]":
                depth -= 1
            elif text == ";":
                return Declined("it is not one statement")
        elif kind == TokenKind.WORD:
            word = text.upper()
            if word in _FOREIGN:
                return Declined("it has a second SELECT" if word == "SELECT" else f"it has {word}")
            if depth == 0 and word in _CLAUSES and tokens[at - 1].text != ".":
                if _CLAUSES[word] < last or word in found:
                    return Declined("its clauses are in another order")
                last = _CLAUSES[word]
                found[word] = _SelectClause(at)
    if depth:
        return Declined("a parenthesis is not closed")
    return _with_tokens(found, tokens)


def _with_tokens(found: dict[str, _SelectClause], tokens: list[Token]) -> dict[str, _SelectClause] | Declined:
    ends = [*(each.begin for each in found.values()), len(tokens) - 1]
    for (word, clause), end in zip(found.items(), ends[1:], strict=True):
        begin = clause.begin + 1
        if word in ("GROUP", "ORDER"):
            if tokens[begin].word != "BY":
                return Declined("a clause has no BY")
            begin += 1
        clause.tokens = tokens[begin:end]
        if not clause.tokens:
            return Declined("a clause is empty")
    return found if "FROM" in found else Declined("it has no FROM")


def _table_name(tokens: Tokens, dialect: Dialect) -> tuple[str, ...] | Declined:
    names, dots = tokens[::2], tokens[1::2]
    is_name = len(tokens) % 2 and all(dot.text == "." for dot in dots) and all(map(is_name_token, names))
    return (
        tuple(unquote(each, dialect) for each in names) if is_name else Declined("it does not read exactly one table")
    )


def is_name_token(token: Token) -> bool:
    """Return whether a token can be a name."""
    if token.kind == TokenKind.QUOTED:
        return True
    return token.kind == TokenKind.WORD and token.word not in KEYWORDS and not token.text[0].isdigit()


def at_commas(tokens: Tokens) -> list[Tokens]:
    """Cut tokens at the commas that no bracket encloses."""
    cuts, depth = [-1], 0
    for at, token in enumerate(tokens):
        if token.kind != TokenKind.OPERATOR:
            continue
        depth += (token.text in "([") - (token.text in ")]")
        if token.text == "," and depth == 0:
            cuts.append(at)
    return [tokens[cut + 1 : end] for cut, end in zip(cuts, [*cuts[1:], len(tokens)], strict=True)]


class _SelectParser:
    """Reads the pieces of a query that has been cut."""

    def __init__(
        self,
        text: str,
        tokens: list[Token],
        dialect: Dialect,
        clauses: dict[str, _SelectClause],
        table: tuple[str, ...],
    ) -> None:
        self._text = text
        self._tokens = tokens
        self._dialect = dialect
        self._clauses = clauses
        self._table = table

    def select(self) -> Select | Declined:
        pieces = {word: at_commas(self._of(word)) for word in ("SELECT", "GROUP", "ORDER") if word in self._clauses}
        if len(pieces["SELECT"]) > ITEMS_MAX:
            return Declined("it has too many columns")
        if not all(all(each) for each in pieces.values()):
            return Declined("a list has an empty item")
        is_star = [token.text for token in self._of("SELECT")] == ["*"]
        where = self._of("WHERE")
        return Select(
            text=self._text,
            dialect=self._dialect,
            items=() if is_star else tuple(self._item(each) for each in pieces["SELECT"]),
            table=self._table,
            where=tuple(self._wanted(each) for each in split_at_and(where)) if where else (),
            where_tokens=where,
            group=tuple(GroupKey(each, self._term(each)) for each in pieces["GROUP"]) if "GROUP" in pieces else None,
            having=self._of("HAVING") or None,
            order=tuple(self._order(each) for each in pieces.get("ORDER", ())),
            order_tokens=self._of("ORDER"),
            limit=self._of("LIMIT") or None,
            offset=self._of("OFFSET") or None,
            source_tokens=self._of("FROM"),
            where_span=self._where_span(),
        )

    def _of(self, word: str) -> Tokens:
        return self._clauses[word].tokens if word in self._clauses else ()

    def _where_span(self) -> tuple[int, int]:
        """Return where conditions stand, or would stand."""
        source = self._clauses["FROM"]
        begin = source.begin + 1 + len(source.tokens)
        end = begin + 1 + len(self._of("WHERE")) if "WHERE" in self._clauses else begin
        return self._tokens[begin].start, self._tokens[end].start

    def _term(self, tokens: Tokens) -> Term:
        return read_term(self._text, tokens, self._dialect, self._table[-1])

    def _item(self, tokens: Tokens) -> SelectItem:
        if len(tokens) > 2 and tokens[-2].word == "AS":
            if not _is_alias(tokens[-1]):
                return SelectItem(tokens, Declined("a column name is an SQL keyword"))
            return SelectItem(tokens[:-2], self._term(tokens[:-2]), unquote(tokens[-1], self._dialect), tokens[-1:])
        term, end = read_leading_term(tokens, self._dialect, self._table[-1])
        if end == len(tokens) - 1 and _is_alias(tokens[-1]):
            return SelectItem(tokens[:-1], term, unquote(tokens[-1], self._dialect), tokens[-1:])
        return SelectItem(tokens, term if end == len(tokens) else self._term(tokens))

    def _wanted(self, tokens: Tokens) -> Wanted:
        found = read_condition(tokens, self._dialect, self._table[-1]) if tokens else Declined("a condition is empty")
        if isinstance(found, Declined):
            return Wanted(tokens, None, found.reason)
        return Wanted(tokens, found, "a condition compares a column with a literal of another type")

    def _order(self, tokens: Tokens) -> OrderKey:
        says_nulls = len(tokens) > 2 and tokens[-2].word == "NULLS" and tokens[-1].word in ("FIRST", "LAST")
        body = tokens[:-2] if says_nulls else tokens
        direction = body[-1].word if len(body) > 1 else ""
        is_descending = direction == "DESC"
        if direction in ("ASC", "DESC"):
            body = body[:-1]
        nulls_first = tokens[-1].word == "FIRST" if says_nulls else is_descending
        return OrderKey(body, self._term(body), is_descending, nulls_first, says_nulls)


def _is_alias(token: Token) -> bool:
    return token.kind == TokenKind.QUOTED or (token.kind == TokenKind.WORD and token.word not in KEYWORDS)


def number_of(tokens: Tokens) -> int | None:
    """Return the number that tokens are; None for anything else."""
    is_number = len(tokens) == 1 and tokens[0].kind == TokenKind.NUMBER and tokens[0].text.isdigit()
    return int(tokens[0].text) if is_number else None


def find_key(select: Select, key: GroupKey, columns: Container[str]) -> GroupKey | Declined:
    """Return what a key of GROUP BY stands for: an item by its number or its name, unless a column has that name."""
    if key.tokens[0].kind == TokenKind.NUMBER and len(key.tokens) == 1:
        number = number_of(key.tokens) or 0
        if not 1 <= number <= len(select.items):
            return Declined("it refers to a column number that does not exist")
        return GroupKey(select.items[number - 1].tokens, select.items[number - 1].term)
    if isinstance(key.term, ColumnItem) and key.term.name not in columns:
        for item in select.items:
            if item.alias == key.term.name:
                return GroupKey(item.tokens, item.term)
        return Declined(f"there is no column {key.term.name}")
    return key
