"""The tables a query names, and what is known of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tsdb.model import DataType, Kind
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.rewrite._layout import TokenLayout
from tsdb.sql.statements import Dialect


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table where a query reads from it."""

    parts: tuple[str, ...]
    """Its name with the names of database and catalog, as far as they are given."""
    alias: str | None = None
    columns: tuple[str, ...] = ()
    """The names its first columns are given: `t AS x (a, b)`."""

    @property
    def name(self) -> str:
        return self.parts[-1]

    def renamed(self, kinds: dict[str, DataType]) -> dict[str, DataType]:
        """Return the types of columns by the names the query knows them by."""
        if not self.columns:
            return kinds
        names = [*self.columns, *list(kinds)[len(self.columns) :]]
        return dict(zip(names, kinds.values(), strict=False))


def is_compared(kind: DataType) -> bool:
    """Return whether literals are compared with such a column in ways of our own."""
    return kind.is_timestamp or kind.kind is Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """The types of columns by name, for all tables a query names."""

    tables: Mapping[str, Mapping[str, DataType]] = field(default_factory=dict)
    """By the name under which the query knows the table."""
    redefined: frozenset[str] = frozenset()
    """Names that the query gives to something else as well."""

    @property
    def compared(self) -> frozenset[str]:
        """The names of columns whose comparisons with literals may need an edit."""
        return frozenset(name for kinds in self.tables.values() for name, kind in kinds.items() if is_compared(kind))

    def find(self, qualifier: str | None, name: str) -> DataType | None:
        """Return the type of a column, None if it is not known for certain."""
        if name in self.redefined:
            return None
        if qualifier is not None:
            return self.tables.get(qualifier, {}).get(name)
        found = {kinds[name] for kinds in self.tables.values() if name in kinds}
        return found.pop() if len(found) == 1 else None


_CLAUSES = frozenset({
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "BY", "HAVING", "WITH", "VALUES", "LIMIT",
    "WINDOW", "QUALIFY", "SET",
})  # fmt: skip


def find_tables(layout: TokenLayout, dialect: Dialect) -> list[TableRef]:
    """Return the tables a query names, without those it defines itself."""
    own = _own_names(layout, dialect)
    found: list[TableRef] = []
    clauses = [""]
    for index, token in enumerate(layout.tokens):
        word = layout.words[index]
        if word:
            if word in _CLAUSES:
                clauses[-1] = word
        elif token.kind == TokenKind.OPERATOR:
            if token.text in "([":
                clauses.append("")
            elif token.text in ")]" and len(clauses) > 1:
                clauses.pop()
        if word in ("FROM", "JOIN") or (token.text == "," and clauses[-1] == "FROM"):
            reference = _read_table(layout, index + 1, dialect)
            if reference is not None and not (len(reference.parts) == 1 and reference.name in own):
                found.append(reference)
        if word == "JOIN":
            clauses[-1] = "FROM"
    return found


def _read_table(layout: TokenLayout, index: int, dialect: Dialect) -> TableRef | None:
    if not layout.is_name(index):
        return None
    end = layout.chain_end(index)
    if layout.is_operator(end + 1, "("):
        return None
    parts = tuple(unquote(layout.tokens[each], dialect) for each in range(index, end + 1, 2))
    behind = end + 2 if layout.words[end + 1] == "AS" else end + 1
    alias = unquote(layout.tokens[behind], dialect) if layout.is_name(behind) else None
    if alias is None or not layout.is_operator(behind + 1, "(") or behind + 1 not in layout.partner:
        return TableRef(parts, alias)
    inside = range(behind + 2, layout.partner[behind + 1])
    return TableRef(
        parts, alias, tuple(unquote(layout.tokens[each], dialect) for each in inside if layout.is_name(each))
    )


def _own_names(layout: TokenLayout, dialect: Dialect) -> set[str]:
    """Return the names of common table expressions: `name AS (` or `name (columns) AS (`."""
    if "WITH" not in layout.words:
        return set()
    names = set()
    for index in range(1, len(layout.tokens) - 1):
        if layout.words[index] != "AS" or not layout.is_operator(index + 1, "("):
            continue
        before = index - 1
        if layout.is_operator(before, ")") and before in layout.partner:
            before = layout.partner[before] - 1
        if layout.is_name(before):
            names.add(unquote(layout.tokens[before], dialect))
    return names


def redefined_names(layout: TokenLayout, dialect: Dialect) -> frozenset[str]:
    """Return the names a query gives with AS, which a column may share."""
    return frozenset(
        unquote(layout.tokens[index + 1], dialect)
        for index, word in enumerate(layout.words)
        if word == "AS" and layout.is_name(index + 1)
    )


_DECIDING_WORDS = frozenset({"ORDER", "GROUP", "JOIN", "UNION", "INTERSECT", "EXCEPT", "DISTINCT", "OVER", "HAVING"})


def keeps_order(layout: TokenLayout, aggregates: Iterable[str]) -> bool:
    """Return whether the rows of a query come in the order in which its only table is read."""
    if not _DECIDING_WORDS.isdisjoint(layout.words):
        return False
    names = frozenset(aggregates)
    return not any(
        token.kind == TokenKind.WORD and token.text.lower() in names and layout.is_operator(index + 1, "(")
        for index, token in enumerate(layout.tokens)
    )


_ORDER_SENSITIVE = frozenset({"FIRST_VALUE", "LAST_VALUE", "NTH_VALUE", "ARRAY_AGG", "STRING_AGG"})


def reads_in_order(layout: TokenLayout) -> bool:
    """Return whether an aggregate depends on the order of rows and does not say which: that of the table is meant."""
    return any(
        word in _ORDER_SENSITIVE
        and layout.is_call(index)
        and "ORDER" not in layout.words[index : layout.partner[index + 1]]
        for index, word in enumerate(layout.words)
    )


def limit_of(layout: TokenLayout) -> int | None:
    """Return the largest integer behind a LIMIT."""
    limits = [
        int(_next(layout, index).text)
        for index, word in enumerate(layout.words)
        if word == "LIMIT" and _next(layout, index).kind == TokenKind.NUMBER and _next(layout, index).text.isdigit()
    ]
    return max(limits, default=None)


def _next(layout: TokenLayout, index: int) -> Token:
    return layout.tokens[index + 1]
