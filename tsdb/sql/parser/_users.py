"""CREATE USER, ALTER USER, DROP USER, GRANT and REVOKE, in the words of MySQL and of PostgreSQL.

    CREATE USER [IF NOT EXISTS] u IDENTIFIED BY 'password' | [WITH] PASSWORD 'password'
    ALTER USER [IF EXISTS] u IDENTIFIED BY 'password' | [WITH] PASSWORD 'password'
    DROP USER [IF EXISTS] u[, …]
    GRANT READ | WRITE | ALL ON *.* | db.* | DATABASE db TO u[, …] [WITH GRANT OPTION]
    REVOKE … ON … FROM u[, …]

A user has no host: `'u'@'%'` is u, any other host is refused. Errors never repeat a string, it may be a password.
"""

from __future__ import annotations

from collections.abc import Callable

from tsdb.errors import InvalidSyntax, Unsupported
from tsdb.sql.lexer import TokenKind
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.statements import AlterUser, CreateUser, DropUser, Grant, Revoke, Statement

_PRIVILEGES = {"READ": "read", "SELECT": "read", "WRITE": "write"}
_TOO_FINE = frozenset(
    {
        *("INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX", "TRUNCATE", "EXECUTE", "SHOW", "RELOAD"),
        *("PROCESS", "SUPER", "REFERENCES", "TRIGGER", "EVENT", "LOCK", "FILE", "CONNECT", "TEMPORARY", "USAGE"),
    }
)


def parse_create_user(cursor: TokenCursor) -> Statement:
    """CREATE USER passed."""

    def rule() -> Statement:
        if_not_exists = cursor.if_not_exists()
        return CreateUser(parse_user_name(cursor), _password(cursor), if_not_exists)

    return _discreetly(cursor, rule)


def parse_alter_user(cursor: TokenCursor) -> Statement:
    """ALTER USER passed."""

    def rule() -> Statement:
        if_exists = cursor.if_exists()
        return AlterUser(parse_user_name(cursor), _password(cursor), if_exists)

    return _discreetly(cursor, rule)


def parse_drop_user(cursor: TokenCursor) -> Statement:
    """DROP USER passed."""
    if_exists = cursor.if_exists()
    return DropUser(tuple(cursor.listed(lambda: parse_user_name(cursor))), if_exists)


def parse_grant(cursor: TokenCursor) -> Statement:
    """GRANT passed."""
    privileges = _privileges(cursor)
    database, is_everywhere = _scope(cursor)
    cursor.expect("TO")
    users = tuple(cursor.listed(lambda: parse_user_name(cursor)))
    with_option = cursor.accept("WITH", "GRANT", "OPTION")
    return Grant(privileges, users, database, is_everywhere, with_option)


def parse_revoke(cursor: TokenCursor) -> Statement:
    """REVOKE passed. Without ON it takes away all that the users have, wherever they have it."""
    privileges: frozenset[str] = frozenset()
    takes_option = cursor.accept("GRANT", "OPTION")
    if not takes_option:
        privileges = _privileges(cursor)
        if cursor.accept_operator(","):
            cursor.expect("GRANT", "OPTION")
            takes_option = True
    has_scope = cursor.word == "ON"
    if not has_scope and not takes_option:
        cursor.fail("ON")
    database, is_everywhere = _scope(cursor) if has_scope else (None, True)
    cursor.expect("FROM")
    users = tuple(cursor.listed(lambda: parse_user_name(cursor)))
    is_whole = not has_scope and bool(privileges)
    return Revoke(privileges, users, database, is_everywhere, takes_option, is_whole)


def parse_user_name(cursor: TokenCursor) -> str:
    """`u`, `'u'` or `'u'@'%'`."""
    name = cursor.name_part("the name of a user")
    if not name:
        raise cursor.error(cursor.token, "the name of a user must not be empty")
    if cursor.accept_operator("@"):
        host = "%" if cursor.accept_operator("%") else cursor.name_part("a host")
        if host != "%":
            raise Unsupported(f"users have no host here: {host}", hint="write the name alone, or '%' as the host")
    return name


def _password(cursor: TokenCursor) -> str:
    if cursor.accept("IDENTIFIED"):
        if cursor.accept("WITH"):
            cursor.name_part("the name of a plugin")
        if cursor.word == "AS":
            raise Unsupported("a password is given as plain text, not as a hash", hint="use IDENTIFIED BY")
        cursor.expect("BY")
    else:
        cursor.accept("WITH")
        cursor.accept("LOGIN")
        cursor.accept("ENCRYPTED")
        if not cursor.accept("PASSWORD"):
            cursor.fail("IDENTIFIED BY or PASSWORD")
    return cursor.string("a password in quotes")


def _privileges(cursor: TokenCursor) -> frozenset[str]:
    if cursor.accept("ALL"):
        cursor.accept("PRIVILEGES")
        return frozenset({"read", "write"})
    found = {_privilege(cursor)}
    while cursor.is_operator(",") and cursor.ahead(1).word != "GRANT":
        cursor.take()
        found.add(_privilege(cursor))
    return frozenset(found)


def _privilege(cursor: TokenCursor) -> str:
    word = cursor.word
    if word in _TOO_FINE:
        raise Unsupported(f"{word} cannot be granted by itself", hint="use READ, WRITE (rows and tables) or ALL")
    if word not in _PRIVILEGES:
        cursor.fail("READ, WRITE or ALL")
    cursor.take()
    return _PRIVILEGES[word]


def _scope(cursor: TokenCursor) -> tuple[str | None, bool]:
    """Return the database and whether it is all of them; None and False is the session's."""
    cursor.expect("ON")
    if cursor.accept_operator("*"):
        if not cursor.accept_operator("."):
            return None, False
        cursor.expect_operator("*")
        return None, True
    if cursor.accept("ALL", "TABLES", "IN", "SCHEMA") or cursor.accept_any("DATABASE", "SCHEMA"):
        return cursor.name("the name of a database", parts_max=2).last, False
    cursor.accept("TABLE")
    database = cursor.name_part("the name of a database")
    if not cursor.accept_operator(".") or not cursor.accept_operator("*"):
        raise Unsupported("permissions are granted on databases, not on tables", hint="write ON database.*")
    return database, False


def _discreetly(cursor: TokenCursor, rule: Callable[[], Statement]) -> Statement:
    """Read a statement to its end; an error about a string does not repeat it."""
    try:
        statement = rule()
        cursor.finish()
    except (InvalidSyntax, Unsupported):
        if cursor.token.kind == TokenKind.STRING:
            raise cursor.error(cursor.token, "a string is not expected") from None
        raise
    return statement
