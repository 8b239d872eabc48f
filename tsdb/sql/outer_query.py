"""Aggregates that something is computed with, taken apart: a plain aggregate below, and a query over its few rows.

    SELECT host, max(f) - min(f) FROM t WHERE … GROUP BY host HAVING count(*) > 3 ORDER BY 2

        below   SELECT host AS __k0, max(f) AS __a0, min(f) AS __a1, count(*) AS __a2 FROM t WHERE … GROUP BY host
        above   SELECT __k0, __a0 - __a1 FROM __cells WHERE __a2 > 3 ORDER BY 2

Only names are put in the place of calls and keys; everything else stays as it was written. What neither is a key nor
stands in an aggregate is no column of the rows below, so a query that was taken apart wrongly cannot be planned.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from tsdb.sql.clauses import COMPARISONS, OtherClause
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.rewrite import KEYWORDS
from tsdb.sql.statements import Dialect
from tsdb.sql.terms import AGGREGATES

CELLS = "__cells"
"""What the rows below are called above."""

_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET")
_FOREIGN = frozenset({
    "DISTINCT", "ALL", "UNION", "INTERSECT", "EXCEPT", "JOIN", "WITH", "OVER", "FILTER", "WITHIN", "WINDOW", "QUALIFY",
    "ALIGN", "FILL", "RANGE", "UNNEST", "LATERAL", "EXISTS", "ROLLUP", "CUBE", "GROUPING", "FETCH", "INTO",
})  # fmt: skip
_BY_TEXT = frozenset({"BETWEEN", "IN", "LIKE", "ILIKE"})


@dataclass(frozen=True, slots=True)
class Apart:
    """A query in two."""

    below: str
    above: str
    shift: int
    """How much further back the conditions stand in the whole than below: they are written the same in both."""


def take_apart(text: str, tokens: list[Token], dialect: Dialect, columns: Container[str]) -> Apart:
    """Take a query apart; OtherClause if it is none that can be. `columns` are those of its table."""
    return _Splitter(text, tokens, dialect, columns).split()


class _Splitter:
    def __init__(self, text: str, tokens: list[Token], dialect: Dialect, columns: Container[str]) -> None:
        self._text = text
        self._dialect = dialect
        self._columns = columns
        self._tokens = tokens[:-1] if tokens[-1].kind == TokenKind.END else tokens
        self._aggregates: dict[str, str] = {}
        """The name of each, by how it is written."""

    def split(self) -> Apart:
        parts = self._clauses()
        items = _at_commas(parts["SELECT"])
        keys = self._keys(parts.get("GROUP"), items)
        for item in items:
            self._check_alias(item, keys)
        edited = [self._edit(item, keys) for item in items]
        above = f"SELECT {', '.join(edited)} FROM {CELLS}"
        if (having := parts.get("HAVING")) is not None:
            _refuse_texts(having)
            above += f" WHERE {self._edit(having, keys)}"
        if (order := parts.get("ORDER")) is not None:
            above += f" ORDER BY {self._edit(_without_by(order), keys)}"
        for word in ("LIMIT", "OFFSET"):
            if (rest := parts.get(word)) is not None:
                above += f" {word} {self._slice(rest)}"
        if not self._aggregates and not keys:
            raise OtherClause("it has no aggregate")
        below = [f"{self._slice(key)} AS __k{at}" for at, key in enumerate(keys)]
        below += [f"{call} AS {name}" for call, name in self._aggregates.items()]
        source, shift = f"SELECT {', '.join(below)} FROM {self._slice(parts['FROM'])}", 0
        if (where := parts.get("WHERE")) is not None:
            source += " WHERE "
            shift = where[0].start - len(source)
            source += self._slice(where)
        group = ", ".join(self._slice(key) for key in keys)
        return Apart(source + (f" GROUP BY {group}" if group else ""), above, shift)

    def _clauses(self) -> dict[str, list[Token]]:
        """Cut the query where a clause begins."""
        if self._tokens[0].word != "SELECT":
            raise OtherClause("it is no SELECT")
        found: dict[str, list[Token]] = {"SELECT": []}
        current, depth, last = "SELECT", 0, -1
        for token in self._tokens[1:]:
            if token.word == "SELECT" or token.word in _FOREIGN:
                raise OtherClause(f"it has {token.word}")
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0 and token.word in _CLAUSES:
                place = _CLAUSES.index(token.word)
                if place <= last:
                    raise OtherClause("its clauses are in another order")
                current, last = token.word, place
                found[current] = []
            else:
                found[current].append(token)
        if "FROM" not in found or not all(found.values()):
            raise OtherClause("it has no FROM" if "FROM" not in found else "a clause is empty")
        return found

    def _keys(self, group: list[Token] | None, items: list[list[Token]]) -> list[list[Token]]:
        if group is None:
            return []
        keys = []
        for key in _at_commas(_without_by(group)):
            if len(key) == 1 and key[0].kind == TokenKind.NUMBER:
                number = int(key[0].text) if key[0].text.isdigit() else 0
                if not 1 <= number <= len(items):
                    raise OtherClause("it names a column by a number that there is not")
                key = _without_alias(items[number - 1])
            elif len(key) == 1 and (name := self._name(key[0])) is not None and name not in self._columns:
                named = [item for item in items if self._alias(item) == name]
                if not named:
                    raise OtherClause(f"there is no column {name}")
                key = _without_alias(named[0])
            if any(each.word.lower() in AGGREGATES for each in key):
                raise OtherClause("it is grouped by an aggregate")
            keys.append(key)
        return keys

    def _name(self, token: Token) -> str | None:
        if token.kind == TokenKind.QUOTED or (token.kind == TokenKind.WORD and token.word not in KEYWORDS):
            return unquote(token, self._dialect)
        return None

    def _alias(self, item: list[Token]) -> str | None:
        return self._name(item[-1]) if len(item) > 2 and item[-2].word == "AS" else None

    def _check_alias(self, item: list[Token], keys: list[list[Token]]) -> None:
        """Refuse a name that could be mistaken for a key."""
        alias = self._alias(item)
        names = [self._name(key[0]) for key in keys if len(key) == 1]
        if alias is not None and alias in names:
            body = _without_alias(item)
            if len(body) != 1 or self._name(body[0]) != alias:
                raise OtherClause(f"the answer calls something else {alias}")

    def _edit(self, tokens: list[Token], keys: list[list[Token]]) -> str:
        """Return tokens as text, with names in the place of aggregates and keys."""
        pieces: list[str] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            behind = tokens[at + 1].text if at + 1 < len(tokens) else ""
            if token.word == "AS":
                pieces += [token.text, *(each.text for each in tokens[at + 1 : at + 2])]
                at += 2
            elif token.word.lower() in AGGREGATES and behind == "(":
                end = _closing(tokens, at + 1)
                call = self._slice(tokens[at : end + 1])
                pieces.append(self._aggregates.setdefault(call, f"__a{len(self._aggregates)}"))
                at = end + 1
            elif (found := self._key_at(tokens, at, keys)) is not None:
                pieces.append(f"__k{found}")
                at += len(keys[found])
            else:
                pieces.append(token.text)
                at += 1
        return " ".join(pieces)

    def _key_at(self, tokens: list[Token], at: int, keys: list[list[Token]]) -> int | None:
        for number, key in enumerate(keys):
            if not _is_same(tokens[at : at + len(key)], key):
                continue
            behind = tokens[at + len(key)].text if at + len(key) < len(tokens) else ""
            before = tokens[at - 1].text if at else ""
            if "." not in (before, behind) and behind != "(":
                return number
        return None

    def _slice(self, tokens: Sequence[Token]) -> str:
        return self._text[tokens[0].start : tokens[-1].end]


def _at_commas(tokens: list[Token]) -> list[list[Token]]:
    """Cut tokens at the commas that no parenthesis encloses."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and depth == 0:
            found.append([])
        else:
            found[-1].append(token)
    if not all(found):
        raise OtherClause("a list has an empty place")
    return found


def _without_by(tokens: list[Token]) -> list[Token]:
    if tokens[0].word != "BY" or len(tokens) < 2:
        raise OtherClause("a clause has no BY")
    return tokens[1:]


def _without_alias(item: list[Token]) -> list[Token]:
    return item[:-2] if len(item) > 2 and item[-2].word == "AS" else item


def _closing(tokens: list[Token], opening: int) -> int:
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        if depth == 0:
            return at
    raise OtherClause("a parenthesis is not closed")


def _is_same(left: list[Token], right: list[Token]) -> bool:
    return len(left) == len(right) and all(
        one.kind == other.kind and (one.text == other.text or (one.word and one.word == other.word))
        for one, other in zip(left, right, strict=True)
    )


def _refuse_texts(tokens: list[Token]) -> None:
    """Refuse comparisons with texts: what they mean depends on the column, which is not known above."""
    has_text = any(token.kind == TokenKind.STRING for token in tokens)
    if has_text and any(token.word in _BY_TEXT or token.text in COMPARISONS for token in tokens):
        raise OtherClause("HAVING compares something with a text")
