"""A position in the tokens of one statement, and the checks that every rule of the grammar uses.

`accept_…` moves on when the next token is the wanted one and says whether it was; `expect_…` raises InvalidSyntax with
line, column, what was expected and what was found. Nothing recurses, so no text can exhaust the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from tsdb.errors import InvalidSyntax, Reason, Unsupported
from tsdb.sql.keywords import OBJECTS, keyword_hint
from tsdb.sql.lexer import Token, TokenKind, locate, unquote
from tsdb.sql.statements import Dialect, Name, Slice

NESTING_MAX = 200
"""How deep parentheses may nest in a statement that is not a query."""

NAME_PARTS_MAX = 3

_T = TypeVar("_T")


class TokenCursor:
    """The tokens of one statement, the END token last, and how far they are read."""

    def __init__(self, text: str, tokens: list[Token], dialect: Dialect) -> None:
        self.text = text
        self.tokens = tokens
        self.dialect = dialect
        self.position = 0

    # Looking ----------------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    @property
    def word(self) -> str:
        """The next token in upper case when it is an unquoted word, else ''."""
        return self.tokens[self.position].word

    def ahead(self, count: int) -> Token:
        """The token `count` places behind the next one; END when there is none."""
        return self.tokens[min(self.position + count, len(self.tokens) - 1)]

    @property
    def is_end(self) -> bool:
        return self.token.kind == TokenKind.END

    def is_operator(self, sign: str) -> bool:
        token = self.token
        return token.kind == TokenKind.OPERATOR and token.text == sign

    def is_words(self, *words: str) -> bool:
        return all(self.ahead(count).word == word for count, word in enumerate(words))

    # Moving -----------------------------------------------------------------------------------------------------------

    def take(self) -> Token:
        """Return the next token and move behind it; the END token is never passed."""
        token = self.token
        if token.kind != TokenKind.END:
            self.position += 1
        return token

    def accept(self, *words: str) -> bool:
        """Move behind a sequence of words if all of them come next."""
        if not self.is_words(*words):
            return False
        self.position += len(words)
        return True

    def accept_any(self, *words: str) -> str:
        """Move behind one of several words and return it, '' when none of them comes next."""
        word = self.word
        if word not in words:
            return ""
        self.position += 1
        return word

    def accept_operator(self, sign: str) -> bool:
        if not self.is_operator(sign):
            return False
        self.position += 1
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                self.fail(" ".join(words))

    def expect_any(self, *words: str) -> str:
        return self.accept_any(*words) or self.fail(" or ".join(words))

    def expect_operator(self, sign: str) -> None:
        if not self.accept_operator(sign):
            self.fail(f"'{sign}'")

    # Names and literals -----------------------------------------------------------------------------------------------

    def identifier(self, what: str = "a name") -> str:
        """One part of a name: a word folded to lower case, or what stands in quotes."""
        token = self.token
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            self.fail(what)
        self.position += 1
        return unquote(token, self.dialect)

    def name_part(self, what: str = "a name") -> str:
        """One part of a name where a quoted string counts as well."""
        if self.token.kind == TokenKind.STRING:
            return unquote(self.take(), self.dialect)
        return self.identifier(what)

    def name(self, what: str = "a name", *, parts_max: int = NAME_PARTS_MAX) -> Name:
        start = self.token
        parts = [self.name_part(what)]
        while self.accept_operator("."):
            parts.append(self.name_part(what))
        if len(parts) > parts_max:
            raise self.error(start, f"{what} has more than {parts_max} parts")
        if not all(parts):
            raise self.error(start, f"{what} must not be empty")
        return Name(tuple(parts))

    def string(self, what: str = "a string") -> str:
        if self.token.kind != TokenKind.STRING:
            self.fail(what)
        return unquote(self.take(), self.dialect)

    def integer(self, what: str = "a whole number") -> int:
        token = self.token
        if token.kind != TokenKind.NUMBER or not token.text.isdigit() or len(token.text) > 18:
            self.fail(what)
        self.position += 1
        return int(token.text)

    def if_exists(self) -> bool:
        return self.accept("IF", "EXISTS")

    def if_not_exists(self) -> bool:
        return self.accept("IF", "NOT", "EXISTS")

    # Lists and slices -------------------------------------------------------------------------------------------------

    def parenthesised(self, item: Callable[[], _T], *, may_be_empty: bool = False) -> list[_T]:
        """`( item, item, … [,] )`."""
        self.expect_operator("(")
        items: list[_T] = []
        if may_be_empty and self.accept_operator(")"):
            return items
        while True:
            items.append(item())
            if self.accept_operator(")"):
                return items
            if not self.accept_operator(","):
                self.fail("',' or ')'")
            if self.accept_operator(")"):
                return items

    def listed(self, item: Callable[[], _T]) -> list[_T]:
        """`item, item, …`."""
        items = [item()]
        while self.accept_operator(","):
            items.append(item())
        return items

    def expression(self, what: str = "an expression", stop_words: frozenset[str] = frozenset()) -> Slice:
        """Everything up to a `,`, a bracket that was not opened here, a stop word or the end; it must not be empty."""
        begin = self.position
        self.skip_expression(stop_words)
        if self.position == begin:
            self.fail(what)
        return self.slice(begin, self.position)

    def skip_expression(self, stop_words: frozenset[str] = frozenset(), *, stops_at_comma: bool = True) -> None:
        tokens, depth, position = self.tokens, 0, self.position
        while True:
            kind, sign, _, _ = tokens[position]
            if kind == TokenKind.OPERATOR:
                if sign in "([{":
                    depth += 1
                elif sign in ")]}":
                    if depth == 0:
                        break
                    depth -= 1
                elif sign == "," and depth == 0 and stops_at_comma:
                    break
            elif kind == TokenKind.END:
                self.position = position
                if depth:
                    self.fail("')'")
                return
            elif depth == 0 and stop_words and kind == TokenKind.WORD and sign.upper() in stop_words:
                break
            position += 1
        self.position = position

    def rest(self, what: str = "an expression", stop_words: frozenset[str] = frozenset()) -> Slice:
        """Everything up to a stop word or the end, commas included; it must not be empty."""
        begin = self.position
        self.skip_expression(stop_words, stops_at_comma=False)
        if self.position == begin:
            self.fail(what)
        return self.slice(begin, self.position)

    def slice(self, begin: int, end: int) -> Slice:
        """The text of the tokens from `begin` to `end`, as it was written."""
        start = self.tokens[begin].start
        return Slice(self.text[start : self.tokens[end - 1].end], start)

    # Refusing ---------------------------------------------------------------------------------------------------------

    def error(self, token: Token, message: str) -> InvalidSyntax:
        line, column = locate(self.text, token.start)
        return InvalidSyntax(f"{message} at line {line}, column {column}")

    def failure(self, expected: str) -> InvalidSyntax:
        """Say what should have come next instead of what came."""
        return self.error(self.token, f"expected {expected}, found {_shown(self.token)}")

    def fail(self, expected: str) -> NoReturn:
        raise self.failure(expected)

    def unsupported(self, token: Token) -> Unsupported:
        line, column = locate(self.text, token.start)
        return Unsupported(
            f"SQL statement is not supported, keyword: {token.text} at line {line}, column {column}",
            hint=keyword_hint(token.text, among=OBJECTS) if token.kind == TokenKind.WORD else None,
        )

    def trailing(self, token: Token) -> Unsupported:
        """Say that a token is behind the end of what can be a statement."""
        line, column = locate(self.text, token.start)
        # A misspelt keyword is refused itself, or read as a name, and what follows is refused.
        index = self.tokens.index(token)
        words = [each.text for each in (token, self.tokens[index - 1]) if each.kind == TokenKind.WORD]
        error = Unsupported(
            f"syntax error near {_shown(token)} at line {line}, column {column}", hint=keyword_hint(*words)
        )
        error.sql_reason = Reason.SYNTAX
        return error

    def finish(self) -> None:
        """Refuse what stands behind a complete statement."""
        if not self.is_end:
            raise self.trailing(self.token)


def check_nesting(text: str, tokens: list[Token], nesting_max: int) -> None:
    """Refuse parentheses, brackets and braces that nest deeper than allowed."""
    depth = 0
    for kind, sign, start, _ in tokens:
        if kind != TokenKind.OPERATOR:
            continue
        if sign in "([{":
            depth += 1
            if depth > nesting_max:
                line, column = locate(text, start)
                raise InvalidSyntax(f"parentheses nest deeper than {nesting_max} at line {line}, column {column}")
        elif sign in ")]}":
            depth = max(depth - 1, 0)


def _shown(token: Token) -> str:
    if token.kind == TokenKind.END:
        return "the end of the statement"
    return f"'{token.text[:40]}'"
