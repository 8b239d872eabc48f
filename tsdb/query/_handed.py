"""Conditions that DataFusion does not hand to a table, and by which the table can leave rows out.

    WHERE ts >= 5  AND  matches_term(msg, 'disk')  AND  host LIKE 'web%'
          ───┬──        ────────────┬───────────        ────────┬──────
    DataFusion's filter      full-text index        series, inverted index

DataFusion hands over comparisons and checks everything else on the rows that a table returns. Such conditions are found
here in the text of a query that reads one table once. They are handed to the table beside the filter, and DataFusion
checks them all the same: what is found here decides which rows are not read, and nothing else. A condition that is not
recognised is not handed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from tsdb.engine.reading import Node, TextAll, TextAny, TextNode, TextTest, is_selective, joined, text_test
from tsdb.model import TableInfo
from tsdb.query.functions import query_needs, term_needs
from tsdb.query.selection import fit_condition
from tsdb.query.tables import Handed
from tsdb.sql.clauses import Condition, Declined, Junction, Match, Not, TokenReader, Unread, read_condition
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.rewrite import TokenLayout, find_tables
from tsdb.sql.statements import Dialect
from tsdb.sql.tag_expression import split_at_and

_WORTH_A_LOOK = re.compile(r"\b(?:matches|matches_term|like)\b|@@|~", re.IGNORECASE)
_AFTER_WHERE = frozenset({"GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "WINDOW", "QUALIFY"})
_FUNCTIONS = {"MATCHES": query_needs, "MATCHES_TERM": term_needs}
_DEPTH_MAX = 16

Tokens: TypeAlias = Sequence[Token]


def read_once(text: str, tokens: list[Token], dialect: Dialect) -> tuple[tuple[str, ...], str] | None:
    """Return the name of the only table that a query reads, once, and the name of it in the query.

    None if there is another SELECT, if rows are sampled, or if nothing in its text can be handed over.
    """
    if _WORTH_A_LOOK.search(text) is None or tokens[0].word != "SELECT":
        return None
    layout = TokenLayout(text, tokens)
    is_one = layout.words.count("SELECT") == 1 and "TABLESAMPLE" not in layout.words
    named = find_tables(layout, dialect) if is_one else []
    if len(named) != 1 or named[0].columns:
        return None
    return named[0].parts, named[0].alias or named[0].name


def find_handed(tokens: list[Token], dialect: Dialect, zone: str, table: TableInfo, name: str) -> Handed | None:
    """Return what a query that reads a table once, under a name, can hand to it; None if that is nothing."""
    where = _where(tokens)
    found = _Conditions(dialect, zone, table, name).read(where) if where else None
    return found if found is not None and (found.rest is not None or found.texts) else None


def _where(tokens: list[Token]) -> Tokens:
    """Return the tokens of the conditions, without WHERE."""
    depth, begin = 0, 0
    for at, token in enumerate(tokens):
        if token.kind == TokenKind.OPERATOR:
            depth += (token.text in "([") - (token.text in ")]")
        is_end = token.kind == TokenKind.END or token.text == ";" or token.word in _AFTER_WHERE
        if depth == 0 and begin and is_end:
            return tokens[begin:at]
        if depth == 0 and token.word == "WHERE":
            begin = at + 1
    return ()


class _Conditions:
    """Reads the conditions of a query."""

    def __init__(self, dialect: Dialect, zone: str, table: TableInfo, name: str) -> None:
        self._dialect = dialect
        self._zone = zone
        self._table = table
        self._name = name
        self._tags = frozenset(table.primary_key)

    def read(self, tokens: Tokens, depth: int = 0) -> Handed:
        """Return what must all hold for some conditions to hold."""
        rest: list[Node] = []
        texts: list[TextTest] = []
        for each in split_at_and(tokens):
            found = self._condition(each, depth)
            if isinstance(found, Handed):
                rest += () if found.rest is None else (found.rest,)
                texts += found.texts
            elif isinstance(found, TextTest):
                texts.append(found)
            elif found is not None:
                rest.append(found)
        chosen = tuple(each for each in texts if is_selective(each.wanted))
        return Handed(joined("and_kleene", rest) if rest else None, chosen)

    def _condition(self, tokens: Tokens, depth: int) -> Handed | TextTest | Node | None:
        if depth > _DEPTH_MAX or not tokens:
            return None
        branches = _split_at_or(tokens)
        if len(branches) > 1:
            return self._either([self.read(each, depth + 1).texts for each in branches])
        if (inside := _within_brackets(tokens)) is not None:
            return self.read(inside, depth + 1)
        return self._text_condition(tokens) or self._plain(tokens)

    def _either(self, branches: Sequence[tuple[TextTest, ...]]) -> Handed:
        """Return what the texts of a column fulfil if one of some branches holds, each of which asks for something."""
        columns = set.intersection(*({test.column for test in branch} for branch in branches))
        return Handed(None, tuple(TextTest(column, _any_of(column, branches)) for column in sorted(columns)))

    def _text_condition(self, tokens: Tokens) -> TextTest | None:
        """`matches(column, 'query')`, `matches_term(column, 'term')` or `column @@ 'term'`."""
        reader = TokenReader(tokens, self._dialect, self._name)
        try:
            needs = _FUNCTIONS.get(tokens[0].word) if tokens[1:] and tokens[1].text == "(" else None
            if needs is not None:
                reader.at = 2
            column = self._column(reader)
            reader.operator("," if needs is not None else "@@")
            literal = self._literal(reader.next())
            if needs is not None:
                reader.operator(")")
        except Unread:
            return None
        is_text = column in self._table.by_name and self._table.by_name[column].type.is_string
        if not reader.is_at_end or literal is None or not is_text:
            return None
        wanted = (needs or term_needs)(literal)
        return None if wanted is None else TextTest(column, wanted)

    def _column(self, reader: TokenReader) -> str:
        name = reader.name()
        if not reader.take_operator("."):
            return name
        if name != self._name:
            raise Unread("a column is of another table")
        return reader.name()

    def _literal(self, token: Token) -> str | None:
        """Return what a string says, if DataFusion reads it in the same way for certain."""
        is_plain = token.kind == TokenKind.STRING and token.text[0] == "'"
        if not is_plain or (self._dialect is Dialect.MYSQL and "\\" in token.text):
            return None
        return unquote(token, self._dialect)

    def _plain(self, tokens: Tokens) -> TextTest | Node | None:
        """A match of a tag, which series decide, or of a text."""
        condition = read_condition(tokens, self._dialect, self._name)
        if isinstance(condition, Declined) or not _has_match(condition):
            return None
        if any(token.kind == TokenKind.STRING and self._literal(token) is None for token in tokens):
            return None
        node = fit_condition(condition, self._table, self._zone)
        if node is None:
            return None
        return node if node.names <= self._tags else text_test(node)


def _any_of(column: str, branches: Sequence[tuple[TextTest, ...]]) -> TextNode:
    return TextAny(tuple(TextAll(tuple(test.wanted for test in each if test.column == column)) for each in branches))


def _has_match(condition: Condition) -> bool:
    """Whether there is something in a condition that DataFusion does not hand over."""
    if isinstance(condition, Junction):
        return any(_has_match(part) for part in condition.parts)
    return _has_match(condition.condition) if isinstance(condition, Not) else isinstance(condition, Match)


def _split_at_or(tokens: Tokens) -> list[Tokens]:
    """Cut a condition into those of which one must hold."""
    cuts = [-1]
    depth = cases = 0
    for at, token in enumerate(tokens):
        if token.kind == TokenKind.OPERATOR:
            depth += (token.text in "([") - (token.text in ")]")
        cases += (token.word == "CASE") - (token.word == "END")
        if token.word == "OR" and depth == 0 and cases == 0:
            cuts.append(at)
    return [tokens[cut + 1 : end] for cut, end in zip(cuts, [*cuts[1:], len(tokens)], strict=True)]


def _within_brackets(tokens: Tokens) -> Tokens | None:
    """Return what is in the brackets around a whole condition; None if there are none."""
    if tokens[0].text != "(" or tokens[-1].text != ")":
        return None
    depth = 0
    for at, token in enumerate(tokens):
        if token.kind == TokenKind.OPERATOR:
            depth += (token.text in "([") - (token.text in ")]")
        if depth == 0:
            return tokens[1:-1] if at == len(tokens) - 1 else None
    return None
