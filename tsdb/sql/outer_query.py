"""Aggregates that something is computed with, taken apart: a plain aggregate below, and a query over its few rows.

    SELECT host, max(f) - min(f) FROM t WHERE … GROUP BY host HAVING count(*) > 3 ORDER BY 2

        below   SELECT host AS __k0, max(f) AS __a0, min(f) AS __a1, count(*) AS __a2 FROM t WHERE … GROUP BY host
        above   SELECT __k0, __a0 - __a1 FROM __cells WHERE __a2 > 3 ORDER BY 2

Only names are put in the place of calls and keys; everything else stays as it was written. What neither is a key nor
stands in an aggregate is no column of the rows below, so a query that was taken apart wrongly cannot be planned.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from tsdb.sql.clauses import COMPARISONS, Declined
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.select import GroupKey, Select, SelectItem, Tokens, find_key, is_name_token
from tsdb.sql.terms import AGGREGATES

CELLS = "__cells"
"""The name of the rows below in the query above."""

_FOREIGN = frozenset({"ALL", "RANGE", "UNNEST", "ROLLUP", "CUBE", "GROUPING"})
_BY_TEXT = frozenset({"BETWEEN", "IN", "LIKE", "ILIKE"})


@dataclass(frozen=True, slots=True)
class Apart:
    """A query in two."""

    below: str
    above: str
    shift: int
    """How much further back the conditions stand in the whole than below: they are written the same in both."""


def take_apart(select: Select, columns: Container[str]) -> Apart | Declined:
    """Take a query apart; `columns` are those of its table."""
    keys = []
    for each in select.group or ():
        key = find_key(select, each, columns)
        if isinstance(key, Declined):
            return key
        keys.append(key)
    reason = _why_not(select, keys)
    return Declined(reason) if reason else _Splitter(select, keys).split()


def _why_not(select: Select, keys: list[GroupKey]) -> str:
    """Return why a query cannot be taken apart."""
    if not select.items:
        return "it has no aggregate"
    pieces = [item.tokens for item in select.items] + [select.having or (), select.order_tokens]
    pieces += [key.tokens for key in keys]
    for token in (token for piece in pieces for token in piece):
        if token.word in _FOREIGN:
            return f"it has {token.word}"
    if any(token.word.lower() in AGGREGATES for key in keys for token in key.tokens):
        return "it is grouped by an aggregate"
    names = [unquote(key.tokens[0], select.dialect) for key in keys if _is_one_name(key.tokens)]
    for item in select.items:
        # A name of the answer could be mistaken for a key.
        if item.alias in names and not (
            _is_one_name(item.tokens) and unquote(item.tokens[0], select.dialect) == item.alias
        ):
            return f"the answer calls something else {item.alias}"
    return _compares_texts(select.having or ())


def _compares_texts(having: Tokens) -> str:
    """Refuse comparisons with texts: what they mean depends on the column, which is not known above."""
    has_text = any(token.kind == TokenKind.STRING for token in having)
    is_compared = has_text and any(token.word in _BY_TEXT or token.text in COMPARISONS for token in having)
    return "HAVING compares something with a text" if is_compared else ""


def _is_one_name(tokens: Tokens) -> bool:
    return len(tokens) == 1 and is_name_token(tokens[0])


class _Splitter:
    def __init__(self, select: Select, keys: list[GroupKey]) -> None:
        self._select = select
        self._keys = keys
        self._aggregates: dict[str, str] = {}
        """The name of each, by how it is written."""

    def split(self) -> Apart | Declined:
        above = self._above()
        if not self._aggregates and not self._keys:
            return Declined("it has no aggregate")
        select = self._select
        keys = [select.written(key.tokens) for key in self._keys]
        items = [f"{key} AS __k{at}" for at, key in enumerate(keys)]
        items += [f"{call} AS {name}" for call, name in self._aggregates.items()]
        below, shift = f"SELECT {', '.join(items)} FROM {select.written(select.source_tokens)}", 0
        if select.where_tokens:
            below += " WHERE "
            shift = select.where_tokens[0].start - len(below)
            below += select.written(select.where_tokens)
        return Apart(below + (f" GROUP BY {', '.join(keys)}" if keys else ""), above, shift)

    def _above(self) -> str:
        select = self._select
        above = f"SELECT {', '.join(self._item(item) for item in select.items)} FROM {CELLS}"
        if select.having is not None:
            above += f" WHERE {self._edit(select.having)}"
        if select.order:
            above += f" ORDER BY {self._edit(select.order_tokens)}"
        if select.limit is not None:
            above += f" LIMIT {select.written(select.limit)}"
        if select.offset is not None:
            above += f" OFFSET {select.written(select.offset)}"
        return above

    def _item(self, item: SelectItem) -> str:
        edited = self._edit(item.tokens)
        return f"{edited} AS {item.alias_tokens[0].text}" if item.alias_tokens else edited

    def _edit(self, tokens: Tokens) -> str:
        """Return tokens as they were written, with names in the place of aggregates and keys."""
        text, position = self._select.text, tokens[0].start
        pieces: list[str] = []
        at = 0
        while at < len(tokens):
            name, end = self._name_at(tokens, at)
            if name:
                pieces += [text[position : tokens[at].start], f" {name} "]
                position = tokens[end - 1].end
            at = end
        return "".join([*pieces, text[position : tokens[-1].end]]).strip()

    def _name_at(self, tokens: Tokens, at: int) -> tuple[str, int]:
        """Return the name that stands for what begins at a token, and where that ends."""
        token = tokens[at]
        behind = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if token.word == "AS":
            return "", at + 2
        if token.word.lower() in AGGREGATES and behind == "(":
            end = _closing(tokens, at + 1) + 1
            call = self._select.written(tokens[at:end])
            return self._aggregates.setdefault(call, f"__a{len(self._aggregates)}"), end
        for number, key in enumerate(self._keys):
            end = at + len(key.tokens)
            if _is_same(tokens[at:end], key.tokens) and _stands_alone(tokens, at, end):
                return f"__k{number}", end
        return "", at + 1


def _stands_alone(tokens: Tokens, at: int, end: int) -> bool:
    behind = tokens[end].text if end < len(tokens) else ""
    before = tokens[at - 1].text if at else ""
    return "." not in (before, behind) and behind != "("


def _closing(tokens: Tokens, opening: int) -> int:
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        if depth == 0:
            return at
    return len(tokens) - 1


def _is_same(left: Tokens, right: Tokens) -> bool:
    return len(left) == len(right) and all(map(_is_same_token, left, right))


def _is_same_token(left: Token, right: Token) -> bool:
    return left.kind == right.kind and (left.text == right.text or bool(left.word and left.word == right.word))
