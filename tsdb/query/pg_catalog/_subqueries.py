"""Queries inside expressions: where they stand, and how the query engine can be made to plan them.

The engine plans a query inside an expression that refers to the row around it only if it is an aggregate over one
table, compared by equality. PostgreSQL's clients select single values: such a query gets `max` around its value, and
conditions on the outer row alone move outside. A query over a table that is always empty has a known answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tsdb.query.pg_catalog._calls import NULL_TEXT
from tsdb.query.pg_catalog._schemas import PG_TABLES
from tsdb.sql.lexer import Token, TokenKind

LIVE_TABLES = frozenset(
    {
        *("pg_am", "pg_attrdef", "pg_attribute", "pg_class", "pg_collation", "pg_constraint", "pg_database"),
        *(
            "pg_description",
            "pg_index",
            "pg_indexes",
            "pg_language",
            "pg_namespace",
            "pg_proc",
            "pg_roles",
            "pg_settings",
            "pg_stat_activity",
            "pg_stat_user_tables",
            "pg_tables",
        ),
        *("pg_tablespace", "pg_type", "pg_user", "pg_views"),
    }
)
"""The tables of pg_catalog that can have rows."""

_CLAUSES = {
    "SELECT": "SELECT",
    "FROM": "FROM",
    "JOIN": "FROM",
    "ON": "ON",
    "USING": "ON",
    "WHERE": "WHERE",
    "GROUP": "GROUP",
    "HAVING": "HAVING",
    "ORDER": "ORDER",
    "LIMIT": "LIMIT",
    "UNION": "",
    "EXCEPT": "",
    "INTERSECT": "",
}
_NOT_VALUES = frozenset({"IN", "ANY", "ALL", "SOME", "AS", "LATERAL", "UNION", "EXCEPT", "INTERSECT"})
_KEYWORDS = frozenset({"AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "IN", "LIKE", "BETWEEN", "CASE", "END"})
_NAMES = (TokenKind.WORD, TokenKind.QUOTED)
_ENDS = frozenset({"WHERE", "GROUP", "ORDER", "LIMIT", "HAVING", "UNION"})


class Rewritten(NamedTuple):
    """What becomes of a query in brackets: another text for all of it, or edits inside of it."""

    first: int
    """The token its replacement begins with."""
    replacement: str | None = None
    edits: tuple[tuple[int, int, str], ...] = ()


class Structure:
    """The brackets of a text, and the clause each token stands in."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self._close: dict[int, int] = {}
        self._clauses: list[str] = []
        self._skipped: list[tuple[int, int]] = []
        stack: list[tuple[int, str]] = []
        clause = ""
        for at, token in enumerate(tokens):
            if token.kind == TokenKind.OPERATOR and token.text == "(":
                self._clauses.append(clause)
                stack.append((at, clause))
                clause = "" if tokens[at + 1].word in ("SELECT", "WITH", "VALUES") else clause
                continue
            if token.kind == TokenKind.OPERATOR and token.text == ")" and stack:
                opened, clause = stack.pop()
                self._close[opened] = at
            else:
                clause = _CLAUSES.get(token.word, clause)
            self._clauses.append(clause)

    def close_of(self, opened: int) -> int:
        """The closing bracket of an opening one; the end of the text if there is none."""
        return self._close.get(opened, len(self.tokens) - 1)

    def clause(self, at: int) -> str:
        return self._clauses[at]

    def is_projection(self, at: int) -> bool:
        return self._clauses[at] == "SELECT"

    def is_relation(self, at: int) -> bool:
        """Whether the name at a place is that of a table: it stands in FROM, behind FROM, JOIN or a comma."""
        before = self.tokens[at - 1] if at else None
        is_first = before is not None and (
            before.word in ("FROM", "JOIN", "LATERAL", "ONLY") or before.text in (",", "(")
        )
        return self._clauses[at] == "FROM" and is_first

    def is_in_case(self, at: int) -> bool:
        """Whether a place lies between CASE and END of its own query."""
        depth = nested = 0
        for index in range(at - 1, -1, -1):
            token = self.tokens[index]
            if token.kind == TokenKind.OPERATOR and token.text in "()":
                depth += 1 if token.text == ")" else -1
            if depth < 0 or (depth == 0 and token.word in ("SELECT", "FROM", "WHERE")):
                return False
            if depth == 0 and token.word in ("CASE", "END"):
                nested += 1 if token.word == "END" else -1
                if nested < 0:
                    return True
        return False

    def operand_start(self, last: int) -> int | None:
        """Return where the name or call begins that ends at a token; None for anything else."""
        begin = last
        if self.tokens[last].text == ")":
            opened = [each for each in range(last) if self.tokens[each].text == "(" and self.close_of(each) == last]
            begin = opened[-1] - 1 if opened else -1
        if begin < 0 or self.tokens[begin].kind not in (TokenKind.WORD, TokenKind.QUOTED):
            return None
        while begin >= 2 and self.tokens[begin - 1].text == ".":
            begin -= 2
        return begin

    def skip(self, first: int, after: int) -> None:
        """Note that tokens are taken away."""
        self._skipped.append((first, after))

    def is_skipped(self, at: int) -> bool:
        return any(first <= at < after for first, after in self._skipped)

    def arguments(self, opened: int) -> list[tuple[int, int]]:
        """First token and the place behind the last, of each argument in brackets."""
        close = self.close_of(opened)
        found, begin = [], opened + 1
        for at in self.level(opened + 1, close):
            if self.tokens[at].text == "," and self.tokens[at].kind == TokenKind.OPERATOR:
                found.append((begin, at))
                begin = at + 1
        return [*found, (begin, close)] if close > opened + 1 else []

    def level(self, begin: int, end: int) -> list[int]:
        """The places between two that stand in no further brackets; an opening bracket counts, what is in it not."""
        found, at = [], begin
        while at < end:
            found.append(at)
            at = self.close_of(at) if at in self._close else at + 1
            if found[-1] in self._close:
                at += 1
        return found


class _Query(NamedTuple):
    """The parts of `SELECT item FROM relation WHERE …`, as places of tokens."""

    item: tuple[int, int]
    relation: str
    is_system: bool
    """The relation is a table or a function of pg_catalog."""
    alias: str
    is_simple: bool
    """One relation, and nothing behind WHERE."""
    where: tuple[int, int] | None
    end: int


def _parse(structure: Structure, opened: int) -> _Query | None:
    tokens, close = structure.tokens, structure.close_of(opened)
    level = structure.level(opened + 1, close)
    source = next((at for at in level if tokens[at].word == "FROM"), None)
    if source is None:
        return None
    end = next((at for at in level if at > source and tokens[at].word in _ENDS), close)
    names = source + 1
    if tokens[names].word == "PG_CATALOG" and tokens[names + 1].text == ".":
        names += 2
    item = (opened + 2, source)
    titles = [at for at in level if at < source and tokens[at].word == "AS"]
    if titles:
        item = (opened + 2, titles[-1])
    relation = tokens[names].text.strip('"').lower()
    rest = [at for at in level if names < at < end]
    alias = tokens[rest[-1]].text.lower() if rest and tokens[rest[-1]].kind == TokenKind.WORD else relation
    is_single = len(rest) <= 2 and all(tokens[at].kind == TokenKind.WORD for at in rest)
    where, behind = None, close
    if end < close and tokens[end].word == "WHERE":
        behind = next((at for at in level if at > end and tokens[at].word in _ENDS), close)
        where = (end + 1, behind)
    is_plain = behind == close or tokens[behind].word == "LIMIT"
    is_system = names > source + 1 or relation in PG_TABLES
    return _Query(
        item, relation, is_system, alias, is_single and is_plain and (where is not None or end == close), where, behind
    )


def rewrite_subquery(structure: Structure, opened: int) -> Rewritten | None:
    """Say what becomes of the query in a bracket; None if it is planned as it is."""
    tokens = structure.tokens
    before = tokens[opened - 1].word if opened else ""
    query = _parse(structure, opened)
    if query is None or not query.is_system:
        return None
    is_empty = query.relation not in LIVE_TABLES
    if before == "EXISTS":
        return Rewritten(opened - 1, "false") if is_empty else None
    if before == "ARRAY":
        # Roles are only listed for members and policies, which there are none of.
        is_nothing = is_empty or query.relation == "pg_roles"
        return Rewritten(opened - 1, "CAST(NULL AS VARCHAR[])") if is_nothing else _array(structure, opened, query)
    if opened == 0 or before in _NOT_VALUES or structure.clause(opened) in ("FROM", ""):
        return None
    first_word = tokens[query.item[0]].word
    if is_empty or query.relation == "pg_collation":
        return Rewritten(opened, "0" if first_word == "COUNT" else NULL_TEXT)
    return _aggregated(structure, opened, query) if _is_correlated(structure, query) and query.is_simple else None


def _array(structure: Structure, opened: int, query: _Query) -> Rewritten:
    """`ARRAY(SELECT x FROM …)` into `(SELECT array_agg(x) FROM …)`; an order is left out."""
    tokens = structure.tokens
    edits = [
        (tokens[opened - 1].start, tokens[opened - 1].end, ""),
        (tokens[query.item[0]].start, tokens[query.item[0]].start, "array_agg("),
        (tokens[query.item[1] - 1].end, tokens[query.item[1] - 1].end, ")"),
    ]
    if query.where is not None and query.end < structure.close_of(opened):
        edits.append((tokens[query.end].start, tokens[structure.close_of(opened)].start, ""))
        structure.skip(query.end, structure.close_of(opened))
    return Rewritten(opened, None, tuple(edits))


def _qualifiers(structure: Structure, begin: int, end: int) -> set[str]:
    """The tables that columns between two places are written with."""
    tokens = structure.tokens
    found = set()
    for at in range(begin, end):
        is_column = tokens[at].kind in (TokenKind.WORD, TokenKind.QUOTED) and tokens[at + 1].text == "."
        if (
            is_column
            and tokens[at + 2].kind in (TokenKind.WORD, TokenKind.QUOTED)
            and tokens[at + 3].text not in ("(", ".")
        ):
            found.add(tokens[at].text.strip('"').lower())
    return found - {"pg_catalog"}


def _is_correlated(structure: Structure, query: _Query) -> bool:
    return query.where is not None and bool(_qualifiers(structure, *query.where) - {query.alias})


def _aggregated(structure: Structure, opened: int, query: _Query) -> Rewritten:
    """Put `max` around the value, and conditions that speak of the outer row alone before the query."""
    assert query.where is not None
    tokens, close = structure.tokens, structure.close_of(opened)
    first, last = tokens[query.item[0]], tokens[query.item[1] - 1]
    edits = [(first.start, first.start, "max("), (last.end, last.end, ")")]
    moved = []
    for begin, end in _conjuncts(structure, *query.where):
        owners = _qualifiers(structure, begin, end)
        if owners and query.alias not in owners and not _has_bare_columns(structure, begin, end):
            moved.append((begin, end))
    texts = []
    for begin, end in moved:
        texts.append(" ".join(token.text for token in tokens[begin:end]).replace(" . ", "."))
        edits.append((tokens[begin].start, tokens[end - 1].end, "true"))
        structure.skip(begin, end)
    if texts:
        edits.append((tokens[opened].start, tokens[opened].start, f"CASE WHEN {' AND '.join(texts)} THEN "))
        edits.append((tokens[close].end, tokens[close].end, " END"))
    if query.end < close:
        edits.append((tokens[query.end].start, tokens[close].start, ""))
        structure.skip(query.end, close)
    return Rewritten(opened, None, tuple(edits))


def _conjuncts(structure: Structure, begin: int, end: int) -> list[tuple[int, int]]:
    """The parts of a condition between its ANDs; one part if there is an OR."""
    tokens = structure.tokens
    level = structure.level(begin, end)
    if any(tokens[at].word in ("OR", "BETWEEN", "CASE") for at in level):
        return [(begin, end)]
    found, start = [], begin
    for at in level:
        if tokens[at].word == "AND":
            found.append((start, at))
            start = at + 1
    return [*found, (start, end)]


def _has_bare_columns(structure: Structure, begin: int, end: int) -> bool:
    tokens = structure.tokens
    return any(
        tokens[at].kind == TokenKind.WORD
        and tokens[at].word not in _KEYWORDS
        and tokens[at + 1].text not in (".", "(")
        and (at == 0 or tokens[at - 1].text != ".")
        for at in range(begin, end)
    )
