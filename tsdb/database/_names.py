"""Names in statements: which database and table they mean, and which names may be given."""

from __future__ import annotations

import re

from tsdb.errors import InvalidArguments, Reason, Status, TsdbError, Unsupported
from tsdb.model import CATALOG
from tsdb.query import Session
from tsdb.sql.statements import Dialect, Name

_PATTERN = re.compile(r"[a-zA-Z_:-][a-zA-Z0-9_:\-.@#]*")

NAME_CHARS_MAX = 255
"""How long the name of a database, table or view may be."""

READ_ONLY_DATABASES = frozenset({"information_schema", "pg_catalog", "tsdb_private"})
"""Databases whose tables describe the others, or record what the server did."""


class InvalidName(TsdbError):
    """A name that nothing may have."""

    status = Status.UNEXPECTED
    sql_reason = Reason.INVALID_NAME


def resolve(name: Name, session: Session) -> tuple[str, str]:
    """Return database and table of a name, the session's database where it says none."""
    parts = name.parts
    if len(parts) == 1:
        return session.database, parts[0]
    if len(parts) == 2:
        return parts[0], parts[1]
    if len(parts) == 3:
        if parts[0] != CATALOG:
            raise InvalidArguments(f"there is no catalog {parts[0]!r}, the only one is {CATALOG!r}", name=str(name))
        return parts[1], parts[2]
    raise InvalidArguments("a name has one to three parts: table, database.table, catalog.database.table", name=name)


def resolve_database(name: Name) -> str:
    """Return the database of a name of one or two parts."""
    if len(name.parts) == 2 and name.parts[0] != CATALOG:
        raise InvalidArguments(f"there is no catalog {name.parts[0]!r}, the only one is {CATALOG!r}")
    if len(name.parts) > 2:
        raise InvalidArguments("the name of a database has one or two parts", name=str(name))
    return name.last


def check_writable(database: str) -> None:
    """Refuse changes of what only describes."""
    if database in READ_ONLY_DATABASES:
        raise Unsupported(f"the database {database} is read-only")


def _check_length(name: str) -> None:
    if len(name) > NAME_CHARS_MAX:
        raise InvalidArguments(f"a name has at most {NAME_CHARS_MAX} characters, {name[:40]!r}… has {len(name)}")


def check_table_name(name: str) -> None:
    _check_length(name)
    if _PATTERN.fullmatch(name) is None:
        raise InvalidArguments(f"Invalid table name: {name}")


def check_new_name(name: str) -> None:
    """Refuse a name that a table cannot be renamed to."""
    _check_length(name)
    if _PATTERN.fullmatch(name) is None:
        raise InvalidName(f"Invalid table name: {name}")


def check_database_name(name: str) -> None:
    _check_length(name)
    if _PATTERN.fullmatch(name) is None:
        raise InvalidName(f"Invalid database name: {name}")


def quoted(name: str, dialect: Dialect) -> str:
    """Write a name so that it means itself, whatever is in it."""
    quote = "`" if dialect is Dialect.MYSQL else '"'
    return quote + name.replace(quote, quote * 2) + quote
