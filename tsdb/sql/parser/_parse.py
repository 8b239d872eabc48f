"""Text to statements: the entry point of the parser.

A text is split at each `;` outside of quotes and comments, and the first words of a statement choose its parser.
Queries are not parsed: they go to the query engine as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tsdb.errors import Reason, Unsupported
from tsdb.nearest import nearest
from tsdb.sql.lexer import (
    Token,
    TokenKind,
    check_length,
    first_word,
    locate,
    scan,
    skip_blanks,
    statement_end,
    syntax_error,
    tokenize,
)
from tsdb.sql.parser._alter import parse_alter
from tsdb.sql.parser._copy import parse_copy
from tsdb.sql.parser._create import parse_create
from tsdb.sql.parser._cursor import NESTING_MAX, TokenCursor, check_nesting
from tsdb.sql.parser._drop import parse_comment, parse_delete, parse_drop, parse_truncate
from tsdb.sql.parser._insert import parse_insert
from tsdb.sql.parser._session import (
    parse_admin,
    parse_close,
    parse_deallocate,
    parse_declare,
    parse_execute,
    parse_fetch,
    parse_kill,
    parse_move,
    parse_prepare,
    parse_reset,
    parse_transaction,
    parse_use,
)
from tsdb.sql.parser._set import parse_set
from tsdb.sql.parser._show import parse_describe, parse_show
from tsdb.sql.parser._tql import parse_tql
from tsdb.sql.parser._update import parse_update
from tsdb.sql.parser._users import parse_grant, parse_revoke
from tsdb.sql.statements import Dialect, Explain, Query, Slice, Statement

CACHED_TEXTS_MAX = 1024
CACHED_CHARS_MAX = 4096
"""Longer texts are parsed each time: they are rarely sent twice."""

STATEMENTS_MAX = 10_000
"""How many statements one text may hold."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement and its own text, without the `;`."""

    statement: Statement
    text: str


_ROWS = re.compile(r"\b(?:insert|replace)\s", re.I)
_PASSWORDS = re.compile(r"\b(?:identified|password)\b", re.I)


def parse(text: str, dialect: Dialect = Dialect.GENERIC) -> list[Parsed]:
    """Return the statements of a text, empty ones left out; a TsdbError for anything that is none."""
    check_length(text)
    if len(text) <= CACHED_CHARS_MAX and not _is_private(text):
        return list(_parse_cached(text, dialect))
    return list(_parse(text, dialect))


def _is_private(text: str) -> bool:
    """Return whether the parsed text is for one caller only.

    The cells of an INSERT are lists: two callers must not be given the same ones. Passwords are not kept.
    """
    lowered = text.lower()
    # To look for words is twenty times as fast as to look for them where a word begins, and mostly there is none.
    if ("insert" in lowered or "replace" in lowered) and _ROWS.search(text):
        return True
    return ("identified" in lowered or "password" in lowered) and _PASSWORDS.search(text) is not None


def _parse(text: str, dialect: Dialect) -> tuple[Parsed, ...]:
    found: list[Parsed] = []
    position = 0
    while True:
        position = skip_blanks(text, position, dialect)
        if position >= len(text):
            return tuple(found)
        if text[position] == ";":
            position += 1
            continue
        if len(found) == STATEMENTS_MAX:
            raise Unsupported(f"one text holds more than {STATEMENTS_MAX} statements")
        statement, end = _statement(text, position, dialect)
        found.append(Parsed(statement, text[position:end].rstrip()))
        position = end + 1


_parse_cached = lru_cache(CACHED_TEXTS_MAX)(_parse)


def _statement(text: str, start: int, dialect: Dialect) -> tuple[Statement, int]:
    """Parse the statement that begins at `start`; return it and the offset of its `;` or of the end."""
    word = first_word(text, start, dialect)
    if word in _QUERIES or text[start] == "(":
        end = statement_end(text, start, dialect)
        return Query(Slice(text[start:end].rstrip(), start)), end
    if word in ("INSERT", "REPLACE"):
        return parse_insert(text, start, dialect)
    if word == "TQL":
        return parse_tql(text, start, dialect)
    if word == "EXPLAIN":
        return _explain(text, start, dialect)
    rule = _RULES.get(word)
    if rule is None:
        raise _unknown(text, start, word)
    end = statement_end(text, start, dialect)
    tokens = tokenize(text, dialect, start, end)
    check_nesting(text, tokens, NESTING_MAX)
    cursor = TokenCursor(text, tokens, dialect)
    if rule not in (parse_transaction, parse_reset):
        cursor.take()
    if rule is parse_describe and cursor.word in _QUERIES - {"TABLE"}:
        statement, end = _statement(text, cursor.token.start, dialect)
        return Explain(statement), end
    statement = rule(cursor)
    cursor.finish()
    return statement, end


def _unknown(text: str, start: int, word: str) -> Exception:
    if not word:
        return syntax_error(text, start, "expected a statement")
    line, column = locate(text, start)
    near = (
        nearest(word, (*_RULES, *_QUERIES, "EXPLAIN", "TQL", "INSERT", "REPLACE"))
        if word not in _OTHER_STATEMENTS
        else None
    )
    error = Unsupported(
        f"SQL statement is not supported, keyword: {word[:40]} at line {line}, column {column}",
        hint=None if near is None else f"did you mean {near}?",
    )
    error.sql_reason = None if word in _OTHER_STATEMENTS else Reason.SYNTAX
    return error


_OTHER_STATEMENTS = frozenset(
    {
        "MERGE",
        "REPLACE",
        "CALL",
        "DO",
        "LOCK",
        "UNLOCK",
        "VACUUM",
        "ANALYZE",
        "OPTIMIZE",
        "CLUSTER",
        "REINDEX",
    }
    | {"REFRESH", "LISTEN", "NOTIFY", "UNLISTEN", "LOAD", "RENAME", "GRANT", "REVOKE", "REASSIGN", "SECURITY", "PRAGMA"}
    | {"ATTACH", "DETACH", "IMPORT", "EXPORT", "INSTALL", "CHECKPOINT", "HANDLER", "FLUSH", "CACHE", "BINLOG", "MSCK"}
)
"""Statements of SQL and its dialects that this server does not have; any other unknown first word is a typo."""


_EXPLAIN_OPTIONS = frozenset({"ANALYZE", "VERBOSE", "FORMAT"})


def _explain(text: str, start: int, dialect: Dialect) -> tuple[Explain, int]:
    """`EXPLAIN [ANALYZE] [VERBOSE] [FORMAT f] query`, or the options between parentheses as PostgreSQL writes them."""
    cursor = TokenCursor(text, _explain_head(text, start, dialect), dialect)
    cursor.take()
    options: dict[str, str] = {}
    if cursor.is_operator("(") and cursor.ahead(1).word in _EXPLAIN_OPTIONS:
        for name, value in cursor.parenthesised(lambda: _explain_option(cursor)):
            options[name] = value
    else:
        while cursor.word in _EXPLAIN_OPTIONS:
            name, value = _explain_option(cursor)
            options[name] = value
    inner_start = cursor.token.start
    word = first_word(text, inner_start, dialect)
    if not (word in _QUERIES or word == "TQL" or text[inner_start : inner_start + 1] == "("):
        raise cursor.unsupported(cursor.token) if word else syntax_error(text, inner_start, "expected a query")
    statement, end = _statement(text, inner_start, dialect)
    return Explain(statement, "ANALYZE" in options, "VERBOSE" in options, options.get("FORMAT")), end


def _explain_option(cursor: TokenCursor) -> tuple[str, str]:
    name = cursor.expect_any(*_EXPLAIN_OPTIONS)
    if name != "FORMAT":
        return name, ""
    cursor.accept_operator("=")
    return name, cursor.name_part("a format").lower()


def _explain_head(text: str, start: int, dialect: Dialect) -> list[Token]:
    """The first tokens, enough to hold all options and the first word of the query."""
    tokens: list[Token] = []
    for token in scan(text, dialect, start):
        tokens.append(token)
        if token.word in _QUERIES or token.word == "TQL" or token.text == ";" or len(tokens) == _EXPLAIN_TOKENS_MAX:
            break
    stop = tokens[-1].end
    tokens.append(Token(TokenKind.END, "", stop, stop))
    return tokens


_EXPLAIN_TOKENS_MAX = 16

_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM"})

_RULES: dict[str, Callable[[TokenCursor], Statement]] = {
    "CREATE": parse_create,
    "ALTER": parse_alter,
    "DROP": parse_drop,
    "TRUNCATE": parse_truncate,
    "COMMENT": parse_comment,
    "DELETE": parse_delete,
    "UPDATE": parse_update,
    "COPY": parse_copy,
    "SHOW": parse_show,
    "DESC": parse_describe,
    "DESCRIBE": parse_describe,
    "USE": parse_use,
    "SET": parse_set,
    "ADMIN": parse_admin,
    "KILL": parse_kill,
    "GRANT": parse_grant,
    "REVOKE": parse_revoke,
    "PREPARE": parse_prepare,
    "RESET": parse_reset,
    "DISCARD": parse_reset,
    "UNLISTEN": parse_reset,
    "EXECUTE": parse_execute,
    "DEALLOCATE": parse_deallocate,
    "DECLARE": parse_declare,
    "FETCH": parse_fetch,
    "MOVE": parse_move,
    "CLOSE": parse_close,
    "BEGIN": parse_transaction,
    "START": parse_transaction,
    "COMMIT": parse_transaction,
    "END": parse_transaction,
    "ROLLBACK": parse_transaction,
    "ABORT": parse_transaction,
    "SAVEPOINT": parse_transaction,
    "RELEASE": parse_transaction,
    "LOCK": parse_transaction,
    "UNLOCK": parse_transaction,
}
