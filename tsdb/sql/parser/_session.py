"""Statements about the session: USE, ADMIN, KILL, prepared statements, cursors, transactions."""

from __future__ import annotations

from tsdb.errors import InvalidArguments
from tsdb.model import CATALOG
from tsdb.sql.lexer import Token, TokenKind, unquote
from tsdb.sql.parser._create import parse_query_slice
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.statements import (
    FETCH_ALL,
    Admin,
    CloseCursor,
    CursorStep,
    Deallocate,
    DeclareCursor,
    Dialect,
    Execute,
    FetchCursor,
    Kill,
    MoveCursor,
    Prepare,
    Reset,
    Slice,
    Transaction,
    Use,
)

Argument = str | int | float | bool | None


def parse_use(cursor: TokenCursor) -> Use:
    """`USE [tsdb.]database`, USE passed."""
    token = cursor.token
    name = cursor.name("the name of a database", parts_max=2)
    if len(name.parts) == 2 and name.parts[0] != CATALOG:
        raise cursor.error(token, f"there is no catalog {name.parts[0]}, only {CATALOG}")
    return Use(name.last)


def parse_admin(cursor: TokenCursor) -> Admin:
    """`ADMIN function(literal, …)`, ADMIN passed."""
    token = cursor.token
    if token.kind != TokenKind.WORD:
        cursor.fail("the name of a function")
    cursor.take()
    arguments = cursor.parenthesised(lambda: _argument(cursor), may_be_empty=True)
    shown = ", ".join(_shown(argument) for argument in arguments)
    return Admin(token.text, tuple(arguments), f"ADMIN {token.text}({shown})")


def _argument(cursor: TokenCursor) -> Argument:
    token = cursor.take()
    if token.kind in (TokenKind.STRING, TokenKind.QUOTED):
        return unquote(token, cursor.dialect)
    if token.kind == TokenKind.NUMBER:
        return _number(token, "")
    if token.kind == TokenKind.OPERATOR and token.text == "-" and cursor.token.kind == TokenKind.NUMBER:
        return _number(cursor.take(), "-")
    if token.word in ("TRUE", "FALSE"):
        return token.word == "TRUE"
    if token.word == "NULL":
        return None
    if token.kind == TokenKind.END:
        cursor.fail("a literal")
    raise InvalidArguments(f"arguments of ADMIN functions are literals, found '{token.text[:40]}'")


def _number(token: Token, sign: str) -> int | float:
    if len(token.text) > 40:
        raise InvalidArguments(f"the number {token.text[:40]}… is too long")
    return int(sign + token.text) if token.text.isdigit() else float(sign + token.text)


def _shown(argument: Argument) -> str:
    if isinstance(argument, str):
        return "'" + argument.replace("'", "''") + "'"
    if argument is None:
        return "NULL"
    return str(argument).lower() if isinstance(argument, bool) else str(argument)


def parse_kill(cursor: TokenCursor) -> Kill:
    """`KILL 'process' | KILL [QUERY | CONNECTION] number`, KILL passed."""
    cursor.accept_any("QUERY", "CONNECTION")
    if cursor.token.kind == TokenKind.STRING:
        return Kill(process=cursor.string())
    return Kill(connection=cursor.integer("the id of a process or connection"))


def parse_prepare(cursor: TokenCursor) -> Prepare:
    """`PREPARE s FROM 'text' | PREPARE s [(types)] AS statement`, PREPARE passed."""
    name = cursor.identifier("the name of a prepared statement")
    if cursor.accept("FROM"):
        return Prepare(name, cursor.string("a statement in quotes"))
    if cursor.is_operator("("):
        cursor.parenthesised(lambda: cursor.expression("a type"))
    if not cursor.accept("AS"):
        cursor.fail("FROM or AS")
    return Prepare(name, cursor.rest("a statement").text)


def parse_execute(cursor: TokenCursor) -> Execute:
    """`EXECUTE s [USING a, … | (a, …)]`, EXECUTE passed."""
    name = cursor.identifier("the name of a prepared statement")
    arguments: list[Slice] = []
    if cursor.accept("USING"):
        arguments = cursor.listed(lambda: cursor.expression("an argument"))
    elif cursor.is_operator("("):
        arguments = cursor.parenthesised(lambda: cursor.expression("an argument"), may_be_empty=True)
    return Execute(name, tuple(arguments))


def parse_deallocate(cursor: TokenCursor) -> Deallocate:
    """`DEALLOCATE [PREPARE] s | ALL`, DEALLOCATE passed."""
    if cursor.word == "PREPARE" and cursor.ahead(1).kind != TokenKind.END:
        cursor.take()
    if cursor.accept("ALL"):
        return Deallocate(None)
    return Deallocate(cursor.identifier("the name of a prepared statement"))


def parse_declare(cursor: TokenCursor) -> DeclareCursor:
    """`DECLARE c [[NO] SCROLL] CURSOR [WITH | WITHOUT HOLD] FOR query`, DECLARE passed."""
    name = cursor.identifier("the name of a cursor")
    cursor.accept_any("INSENSITIVE", "ASENSITIVE")
    is_scrollable = not cursor.accept("NO", "SCROLL") and cursor.accept("SCROLL")
    cursor.expect("CURSOR")
    _ = cursor.accept("WITHOUT", "HOLD") or cursor.accept("WITH", "HOLD")
    cursor.expect("FOR")
    return DeclareCursor(name, parse_query_slice(cursor, "TQL"), is_scrollable)


_STEPS = {
    "NEXT": CursorStep(),
    "PRIOR": CursorStep("forward", -1),
    "FIRST": CursorStep("absolute", 1),
    "LAST": CursorStep("absolute", -1),
    "ALL": CursorStep("forward", FETCH_ALL),
}


def parse_fetch(cursor: TokenCursor) -> FetchCursor:
    """`FETCH [direction] [FROM | IN] c`, FETCH passed."""
    step = _step(cursor)
    return FetchCursor(cursor.identifier("the name of a cursor"), step)


def parse_move(cursor: TokenCursor) -> MoveCursor:
    """`MOVE [direction] [FROM | IN] c`, MOVE passed."""
    step = _step(cursor)
    return MoveCursor(cursor.identifier("the name of a cursor"), step)


def _step(cursor: TokenCursor) -> CursorStep:
    """`NEXT | PRIOR | FIRST | LAST | ABSOLUTE n | RELATIVE n | n | ALL | FORWARD [n | ALL] | BACKWARD [n | ALL]`."""
    step = CursorStep()
    if cursor.ahead(1).kind != TokenKind.END:
        word = cursor.word
        if word in _STEPS:
            cursor.take()
            step = _STEPS[word]
        elif word in ("ABSOLUTE", "RELATIVE"):
            cursor.take()
            step = CursorStep("absolute" if word == "ABSOLUTE" else "relative", _signed(cursor))
        elif word in ("FORWARD", "BACKWARD"):
            cursor.take()
            count = FETCH_ALL if cursor.accept("ALL") else _signed(cursor) if _has_number(cursor) else 1
            step = CursorStep("forward", count if word == "FORWARD" else -count)
        elif _has_number(cursor):
            step = CursorStep("forward", _signed(cursor))
    cursor.accept_any("FROM", "IN")
    return step


def _has_number(cursor: TokenCursor) -> bool:
    return cursor.token.kind == TokenKind.NUMBER or cursor.is_operator("-") or cursor.is_operator("+")


def _signed(cursor: TokenCursor) -> int:
    is_negative = cursor.accept_operator("-")
    if not is_negative:
        cursor.accept_operator("+")
    count = min(cursor.integer("a number of rows"), FETCH_ALL)
    return -count if is_negative else count


def parse_close(cursor: TokenCursor) -> CloseCursor:
    """`CLOSE c | ALL`, CLOSE passed."""
    if cursor.accept("ALL"):
        return CloseCursor(None)
    return CloseCursor(cursor.identifier("the name of a cursor"))


_TRANSACTION_WORDS: dict[str, frozenset[str]] = {
    "BEGIN": frozenset({"WORK", "TRANSACTION"}),
    "START": frozenset({"TRANSACTION"}),
    "COMMIT": frozenset({"WORK", "TRANSACTION", "AND", "NO", "CHAIN", "RELEASE"}),
    "END": frozenset({"WORK", "TRANSACTION", "AND", "NO", "CHAIN"}),
    "ROLLBACK": frozenset({"WORK", "TRANSACTION", "AND", "NO", "CHAIN", "RELEASE", "TO", "SAVEPOINT"}),
    "ABORT": frozenset({"WORK", "TRANSACTION", "AND", "NO", "CHAIN"}),
}
_MODE_WORDS = """
ISOLATION LEVEL READ WRITE ONLY COMMITTED UNCOMMITTED REPEATABLE SERIALIZABLE SNAPSHOT CONSISTENT WITH NOT DEFERRABLE
"""
_MODES = frozenset(_MODE_WORDS.split())


def parse_transaction(cursor: TokenCursor) -> Transaction:
    """BEGIN, COMMIT and their like, the first word included: only on the protocols whose clients send them unasked."""
    first = cursor.token
    if cursor.dialect is Dialect.GENERIC:
        raise cursor.unsupported(first)
    cursor.take()
    verb = first.word
    if verb in ("LOCK", "UNLOCK"):
        cursor.expect_any("TABLES", "TABLE")
        cursor.position = len(cursor.tokens) - 1
        return Transaction(verb.lower())
    if verb in ("SAVEPOINT", "RELEASE"):
        _ = verb == "RELEASE" and cursor.accept("SAVEPOINT")
        cursor.identifier("the name of a savepoint")
        return Transaction(verb.lower())
    if verb == "START":
        cursor.expect("TRANSACTION")
    allowed = _TRANSACTION_WORDS[verb] | _MODES
    while cursor.word in allowed or cursor.is_operator(","):
        word = cursor.take().word
        if verb == "ROLLBACK" and word in ("TO", "SAVEPOINT") and cursor.word != "SAVEPOINT":
            cursor.identifier("the name of a savepoint")
    return Transaction(verb.lower())


_DISCARDED = ("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY")


def parse_reset(cursor: TokenCursor) -> Reset:
    """`RESET name | ALL`, `DISCARD ALL | …`, `UNLISTEN channel | *`, the first word included."""
    first = cursor.token
    if cursor.dialect is not Dialect.POSTGRESQL:
        raise cursor.unsupported(first)
    cursor.take()
    verb = first.word.lower()
    if verb == "discard":
        what = cursor.expect_any(*_DISCARDED)
        return Reset(verb, None if what == "ALL" else what.lower())
    if verb == "unlisten":
        return Reset(verb, None if cursor.accept_operator("*") else cursor.identifier("the name of a channel"))
    if cursor.accept("ALL"):
        return Reset(verb)
    if cursor.accept("TIME", "ZONE"):
        return Reset(verb, "time_zone")
    if cursor.accept("SESSION", "AUTHORIZATION"):
        return Reset(verb, "session_authorization")
    parts = [cursor.identifier("the name of a variable")]
    while cursor.accept_operator("."):
        parts.append(cursor.identifier("the name of a variable"))
    name = ".".join(parts).lower()
    return Reset(verb, "time_zone" if name == "timezone" else name)
