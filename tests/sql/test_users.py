"""Statements about users: what is read, and what is refused without repeating a password."""

from __future__ import annotations

import pytest

from tsdb.errors import InvalidSyntax, Status, TsdbError, Unsupported
from tsdb.sql import Dialect, parse
from tsdb.sql.statements import AlterUser, CreateUser, DropUser, Grant, Name, Revoke, Show, Statement

READ, WRITE, ALL = frozenset({"read"}), frozenset({"write"}), frozenset({"read", "write"})


def one(text: str, dialect: Dialect = Dialect.GENERIC) -> Statement:
    (found,) = parse(text, dialect)
    return found.statement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE USER u IDENTIFIED BY 'p'", CreateUser("u", "p")),
        ("create user if not exists Bob identified by 'P w'", CreateUser("bob", "P w", True)),
        ("CREATE USER 'Bob'@'%' IDENTIFIED WITH mysql_native_password BY 'it''s'", CreateUser("Bob", "it's")),
        ("CREATE USER u PASSWORD 'p'", CreateUser("u", "p")),
        ("CREATE USER \"U\" WITH LOGIN ENCRYPTED PASSWORD 'p'", CreateUser("U", "p")),
        ("ALTER USER u IDENTIFIED BY 'p'", AlterUser("u", "p")),
        ("ALTER USER IF EXISTS u WITH PASSWORD 'p'", AlterUser("u", "p", True)),
        ("DROP USER a", DropUser(("a",))),
        ("DROP USER IF EXISTS a, 'b'@'%', \"C\"", DropUser(("a", "b", "C"), True)),
        ("GRANT READ ON db.* TO u", Grant(READ, ("u",), "db")),
        ('GRANT SELECT ON "Db".* TO u, v', Grant(READ, ("u", "v"), "Db")),
        ("GRANT READ, WRITE ON *.* TO u", Grant(ALL, ("u",), None, True)),
        ("GRANT ALL ON * TO u", Grant(ALL, ("u",))),
        ("GRANT WRITE ON DATABASE db TO 'u'@'%'", Grant(WRITE, ("u",), "db")),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA db TO u", Grant(READ, ("u",), "db")),
        ("GRANT ALL PRIVILEGES ON *.* TO u WITH GRANT OPTION", Grant(ALL, ("u",), None, True, True)),
        ("REVOKE WRITE ON db.* FROM u, v", Revoke(WRITE, ("u", "v"), "db")),
        ("REVOKE ALL ON *.* FROM u", Revoke(ALL, ("u",), None, True)),
        ("REVOKE GRANT OPTION ON *.* FROM u", Revoke(frozenset(), ("u",), None, True, True)),
        ("REVOKE ALL PRIVILEGES, GRANT OPTION FROM u", Revoke(ALL, ("u",), None, True, True, True)),
        ("REVOKE ALL, GRANT OPTION ON *.* FROM u", Revoke(ALL, ("u",), None, True, True)),
        ("SHOW GRANTS", Show("grants")),
        ("SHOW GRANTS FOR CURRENT_USER()", Show("grants")),
        ("SHOW GRANTS FOR CURRENT_USER", Show("grants")),
        ("SHOW GRANTS FOR 'u'@'%'", Show("grants", name=Name(("u",)))),
        ("SHOW USERS", Show("users")),
    ],
)
@pytest.mark.parametrize("dialect", [Dialect.GENERIC, Dialect.POSTGRESQL])
def test_a_statement_about_users_is_read(text: str, expected: Statement, dialect: Dialect) -> None:
    assert one(text, dialect) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CREATE USER", InvalidSyntax),
        ("CREATE USER u", InvalidSyntax),
        ("CREATE USER '' IDENTIFIED BY 'p'", InvalidSyntax),
        ("CREATE USER u IDENTIFIED BY p", InvalidSyntax),
        ("CREATE USER u PASSWORD NULL", InvalidSyntax),
        ("CREATE USER u@localhost IDENTIFIED BY 'p'", Unsupported),
        ("CREATE USER u IDENTIFIED WITH x AS 'hash'", Unsupported),
        ("CREATE OR REPLACE USER u IDENTIFIED BY 'p'", Unsupported),
        ("GRANT READ TO u", InvalidSyntax),
        ("GRANT READ ON db.* u", InvalidSyntax),
        ("GRANT nonsense ON db.* TO u", InvalidSyntax),
        ("GRANT INSERT ON db.* TO u", Unsupported),
        ("GRANT READ ON db.t TO u", Unsupported),
        ("GRANT READ ON t TO u", Unsupported),
        ("REVOKE READ FROM u", InvalidSyntax),
        ("REVOKE READ ON db.* TO u", InvalidSyntax),
        ("DROP USER", InvalidSyntax),
        ("ALTER USER u", InvalidSyntax),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, error: type[TsdbError]) -> None:
    with pytest.raises(error):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE USER u IDENTIFIED BY 'p' 'hunter2'",
        "CREATE USER u IDENTIFIED 'hunter2'",
        "CREATE USER u 'hunter2'",
        "ALTER USER u WITH 'hunter2'",
        "ALTER USER u PASSWORD 'x' VALID UNTIL 'hunter2'",
    ],
)
def test_an_error_does_not_repeat_what_may_be_a_password(text: str) -> None:
    with pytest.raises(TsdbError) as caught:
        parse(text)
    assert "hunter2" not in str(caught.value)
    assert caught.value.status in (Status.INVALID_SYNTAX, Status.UNSUPPORTED)


def test_a_statement_does_not_show_its_password() -> None:
    for text in ("CREATE USER u IDENTIFIED BY 'hunter2'", "ALTER USER u PASSWORD 'hunter2'"):
        assert "hunter2" not in repr(one(text))
