"""The structure of the tokens of a query: brackets, names in front of them, the operand before or after a position.

This is no parser. It looks up local properties of a text that DataFusion will parse; where one is unclear, callers
leave the text alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

from tsdb.sql.lexer import Token, TokenKind

# Words that end an operand or stand before one: an identifier is never one of them unless it is quoted.
KEYWORDS = frozenset({
    "ALL", "AND", "ANY", "AS", "ASC", "ASOF", "BETWEEN", "BY", "CASE", "CAST", "CROSS", "DESC", "DISTINCT",
    "ELSE", "END", "EXCEPT", "EXISTS", "FETCH", "FILTER", "FOR", "FROM", "FULL", "GLOBAL", "GROUP", "HAVING",
    "ILIKE", "IN", "INNER", "INTERSECT", "INTO", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT", "NATURAL",
    "NOT", "NULLS", "OFFSET", "ON", "OR", "ORDER", "OUTER", "OVER", "PARTITION", "QUALIFY", "RETURNING", "RIGHT",
    "SELECT", "SIMILAR", "SOME", "THEN", "TRY_CAST", "UNION", "USING", "VALUES", "WHEN", "WHERE", "WINDOW",
    "WITH", "WITHIN", "ALIGN", "FILL", "ANTI", "SEMI", "TABLESAMPLE",
})  # fmt: skip
_TYPED_LITERALS = frozenset({"INTERVAL", "DATE", "TIMESTAMP", "TIME", "DATETIME"})
_OPENING = {"(": ")", "[": "]"}
_CLAUSES = frozenset({"SELECT", "WHERE", "HAVING", "ON", "QUALIFY"})
_SORTED_CLAUSES = frozenset({"GROUP", "ORDER"})
_BEFORE_COMPARISON = frozenset({
    "AND", "OR", "NOT", "WHERE", "ON", "HAVING", "QUALIFY", "WHEN", "THEN", "ELSE", "CASE", "SELECT", "DISTINCT", "ALL",
    "BY", "RETURNING", "XOR",
})  # fmt: skip


class TokenLayout:
    """The tokens of one text, with the END token last."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.words = [token.text.upper() if token.kind == TokenKind.WORD else "" for token in tokens]
        self.partner: dict[int, int] = {}
        """Index of the bracket that closes or opens the one at an index."""
        self.operand_starts: dict[int, int] = {}
        """Where the operand starts that ends at a token, for those that casts have made."""
        self._match_brackets()

    def _match_brackets(self) -> None:
        opened: list[int] = []
        for index, token in enumerate(self.tokens):
            if token.kind != TokenKind.OPERATOR:
                continue
            if token.text in _OPENING:
                opened.append(index)
            elif token.text in ")]" and opened and _OPENING[self.tokens[opened[-1]].text] == token.text:
                begin = opened.pop()
                self.partner[begin] = index
                self.partner[index] = begin

    @cached_property
    def depths(self) -> list[int]:
        """How many brackets each token stands in; a bracket belongs to the outside."""
        depths, depth = [], 0
        for token in self.tokens:
            if token.kind == TokenKind.OPERATOR and token.text in ")]":
                depth -= 1
            depths.append(depth)
            if token.kind == TokenKind.OPERATOR and token.text in "([":
                depth += 1
        return depths

    @cached_property
    def clauses(self) -> list[str]:
        """The clause each token stands in, '' before the first; `FILTER (WHERE …)` belongs to the clause around it."""
        clauses, clause, outer = [], "", [""]
        for index, word in enumerate(self.words):
            if index in self.partner and index < self.partner[index]:
                outer.append(clause)
            elif index in self.partner:
                clause = outer.pop()
            elif self._begins_clause(index):
                clause = word
            clauses.append(clause)
        return clauses

    def _begins_clause(self, index: int) -> bool:
        word = self.words[index]
        if word in _SORTED_CLAUSES:
            return self.word(index + 1) == "BY"
        return word in _CLAUSES and self.word(index - 2) != "FILTER"

    def word(self, index: int) -> str:
        """Return the word at an index, '' where there is none."""
        return self.words[index] if 0 <= index < len(self.words) else ""

    def is_operator(self, index: int, text: str) -> bool:
        if not 0 <= index < len(self.tokens):
            return False
        token = self.tokens[index]
        return token.kind == TokenKind.OPERATOR and token.text == text

    def is_name(self, index: int) -> bool:
        """Return whether a token can be (part of) a name."""
        if not 0 <= index < len(self.tokens):
            return False
        kind = self.tokens[index].kind
        return kind == TokenKind.QUOTED or (kind == TokenKind.WORD and self.words[index] not in KEYWORDS)

    def is_call(self, index: int) -> bool:
        """Return whether a word is the name of a function that is called."""
        return (
            self.tokens[index].kind == TokenKind.WORD
            and self.is_operator(index + 1, "(")
            and index + 1 in self.partner
            and self.words[index] not in KEYWORDS - {"LEFT", "RIGHT"}
        )

    def chain_start(self, index: int) -> int:
        """Return where the dotted name starts whose last part is a token."""
        while self.is_operator(index - 1, ".") and self.is_name(index - 2):
            index -= 2
        return index

    def chain_end(self, index: int) -> int:
        """Return the last token of the dotted name that starts at a token."""
        while self.is_operator(index + 1, ".") and self.is_name(index + 2):
            index += 2
        return index

    def operand_start(self, end: int) -> int | None:
        """Return where the operand starts that ends at a token, None if that is not clear."""
        if end in self.operand_starts:
            return self.operand_starts[end]
        token = self.tokens[end]
        if token.kind in (TokenKind.STRING, TokenKind.NUMBER, TokenKind.HEX):
            is_typed = token.kind == TokenKind.STRING and end > 0 and self.words[end - 1] in _TYPED_LITERALS
            return end - 1 if is_typed else end
        if self.words[end] == "END":
            return self._case_start(end)
        if self.is_name(end):
            return self.chain_start(end)
        if token.kind != TokenKind.OPERATOR or end not in self.partner:
            return None
        begin = self.partner[end]
        if token.text == "]":
            return self.operand_start(begin - 1) if begin else None
        if begin and (self.is_name(begin - 1) or self.words[begin - 1] in ("CAST", "TRY_CAST", "LEFT", "RIGHT")):
            return self.chain_start(begin - 1)
        return begin

    def comparison_start(self, index: int) -> int:
        """Return the first token of the left side of a comparison, which ends at a token."""
        cases = 0
        while index >= 0:
            word = self.words[index]
            if self.tokens[index].kind == TokenKind.OPERATOR and self.tokens[index].text in ("(", "[", ",", ";"):
                break
            if word == "END":
                cases += 1
            elif word == "CASE" and cases:
                cases -= 1
            elif word in _BEFORE_COMPARISON and not cases:
                break
            index = self.partner.get(index, index) - 1
        return index + 1

    def _case_start(self, end: int) -> int | None:
        depth = 0
        for index in range(end, -1, -1):
            if self.words[index] == "END":
                depth += 1
            elif self.words[index] == "CASE":
                depth -= 1
                if not depth:
                    return index
        return None

    def operand_end(self, start: int) -> int | None:
        """Return where the operand ends that starts at a token, casts behind it included."""
        token = self.tokens[start]
        if token.kind in (TokenKind.STRING, TokenKind.NUMBER, TokenKind.HEX):
            return start
        if self.is_operator(start, "("):
            return self.partner.get(start)
        if not self.is_name(start):
            return None
        end = self.chain_end(start)
        return self.partner.get(end + 1) if self.is_operator(end + 1, "(") else end

    def arguments(self, opening: int) -> list[tuple[int, int]]:
        """Return the offsets of the arguments between a bracket and its partner."""
        closing = self.partner[opening]
        if closing == opening + 1:
            return []
        depth = self.depths[opening + 1]
        commas = [
            index
            for index in range(opening + 1, closing)
            if self.depths[index] == depth and self.is_operator(index, ",")
        ]
        bounds = [opening, *commas, closing]
        return [(self.tokens[left].end, self.tokens[right].start) for left, right in pairwise(bounds)]

    def calls(self) -> Iterator[int]:
        """Yield the names of functions that are called, the last one first, so that inner calls come before outer."""
        for index in range(len(self.tokens) - 1, -1, -1):
            if self.is_call(index):
                yield index
