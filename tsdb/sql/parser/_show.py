"""SHOW in all of its forms, and DESCRIBE.

A form is recognised by its words; `SHOW x` with any other word shows the variable x.
"""

from __future__ import annotations

from collections.abc import Callable

from tsdb.sql.lexer import TokenKind, unquote
from tsdb.sql.parser._cursor import TokenCursor
from tsdb.sql.parser._users import parse_user_name
from tsdb.sql.statements import Describe, Filter, Name, Show

_UNSUPPORTED = frozenset(
    {
        "PRIVILEGES",
        "PROCEDURE",
        "FUNCTION",
        "FUNCTIONS",
        "TRIGGERS",
        "EVENTS",
        "PLUGINS",
        "PROFILES",
        "MASTER",
    }
)


def parse_show(cursor: TokenCursor) -> Show:
    """SHOW, which the caller has passed, and what to show."""
    _ = cursor.word in ("SESSION", "GLOBAL") and cursor.ahead(1).word in ("VARIABLES", "STATUS") and cursor.take()
    is_full = cursor.word == "FULL" and cursor.ahead(1).word in _FULL_FORMS and bool(cursor.take())
    word = cursor.word
    form = _FORMS.get(word)
    if form is not None:
        cursor.take()
        return form(cursor, is_full)
    if word in _UNSUPPORTED:
        raise cursor.unsupported(cursor.token)
    return _variable(cursor)


def parse_describe(cursor: TokenCursor) -> Describe:
    """`DESC | DESCRIBE [TABLE] t`, the first word passed."""
    if cursor.word == "TABLE" and cursor.ahead(1).kind != TokenKind.END:
        cursor.take()
    return Describe(cursor.name("the name of a table"))


def _filter(cursor: TokenCursor) -> Filter:
    """`[LIKE pattern | WHERE expression]`."""
    if cursor.accept("LIKE"):
        return Filter(like=_pattern(cursor))
    if cursor.accept("WHERE"):
        return Filter(where=cursor.rest("a condition"))
    return Filter()


def _pattern(cursor: TokenCursor) -> str:
    token = cursor.token
    if token.kind == TokenKind.WORD:
        cursor.take()
        return token.text
    if token.kind not in (TokenKind.STRING, TokenKind.QUOTED):
        cursor.fail("a pattern")
    return unquote(cursor.take(), cursor.dialect)


def _database(cursor: TokenCursor) -> str | None:
    """`[FROM | IN database]`."""
    if not cursor.accept_any("FROM", "IN"):
        return None
    return cursor.name("the name of a database", parts_max=2).last


def _databases(cursor: TokenCursor, is_full: bool) -> Show:
    return Show("databases", is_full, filter=_filter(cursor))


def _tables(cursor: TokenCursor, is_full: bool) -> Show:
    return Show("tables", is_full, database=_database(cursor), filter=_filter(cursor))


def _table_status(cursor: TokenCursor, is_full: bool) -> Show:
    cursor.expect("STATUS")
    return Show("table_status", is_full, database=_database(cursor), filter=_filter(cursor))


def _of_table(what: str, *, has_like: bool) -> Callable[[TokenCursor, bool], Show]:
    def form(cursor: TokenCursor, is_full: bool) -> Show:
        if not cursor.accept_any("FROM", "IN"):
            cursor.fail("'{FROM | IN} table'")
        table = cursor.name("the name of a table")
        database = _database(cursor)
        found = _filter(cursor) if has_like or cursor.word == "WHERE" else Filter()
        return Show(what, is_full, name=table, database=database, filter=found)

    return form


def _of_database(what: str) -> Callable[[TokenCursor, bool], Show]:
    def form(cursor: TokenCursor, is_full: bool) -> Show:
        return Show(what, is_full, database=_database(cursor), filter=_filter(cursor))

    return form


def _filtered(what: str) -> Callable[[TokenCursor, bool], Show]:
    def form(cursor: TokenCursor, is_full: bool) -> Show:
        return Show(what, is_full, filter=_filter(cursor))

    return form


def _create(cursor: TokenCursor, is_full: bool) -> Show:
    what = cursor.accept_any("TABLE", "DATABASE", "SCHEMA", "VIEW", "FLOW")
    if not what:
        if cursor.token.kind == TokenKind.WORD:
            raise cursor.unsupported(cursor.token)
        cursor.fail("TABLE, DATABASE, VIEW or FLOW")
    if what in ("DATABASE", "SCHEMA"):
        cursor.if_not_exists()
        return Show("create_database", name=cursor.name("the name of a database", parts_max=2))
    name = cursor.name(f"the name of a {what.lower()}")
    if what == "TABLE" and cursor.accept("FOR"):
        cursor.expect("POSTGRES_FOREIGN_TABLE")
        return Show("create_table", name=name, is_foreign=True)
    return Show(f"create_{what.lower()}", name=name)


def _flow(cursor: TokenCursor, is_full: bool) -> Show:
    cursor.expect("STATUS")
    return Show("flow_status", filter=_filter(cursor))


def _character(cursor: TokenCursor, is_full: bool) -> Show:
    cursor.expect("SET")
    return Show("charset", filter=_filter(cursor))


def _variables(cursor: TokenCursor, is_full: bool) -> Show:
    if cursor.is_end or cursor.word in ("LIKE", "WHERE"):
        return Show("variables", filter=_filter(cursor))
    return Show("variables", name=_variable_name(cursor))


def _search_path(cursor: TokenCursor, is_full: bool) -> Show:
    return Show("search_path")


def _warnings(cursor: TokenCursor, is_full: bool) -> Show:
    if cursor.accept("LIMIT"):
        cursor.listed(cursor.integer)
    return Show("warnings")


def _engines(cursor: TokenCursor, is_full: bool) -> Show:
    return Show("engines")


def _grants(cursor: TokenCursor, is_full: bool) -> Show:
    if not cursor.accept("FOR") or cursor.accept("CURRENT_USER"):
        if cursor.accept_operator("("):
            cursor.expect_operator(")")
        return Show("grants")
    return Show("grants", name=Name((parse_user_name(cursor),)))


def _users(cursor: TokenCursor, is_full: bool) -> Show:
    return Show("users", filter=_filter(cursor))


def _storage(cursor: TokenCursor, is_full: bool) -> Show:
    cursor.expect("ENGINES")
    return Show("engines")


def _variable(cursor: TokenCursor) -> Show:
    if cursor.is_end:
        cursor.fail("what to show")
    if cursor.accept("TIME", "ZONE"):
        return Show("variable", name=Name(("timezone",)))
    if cursor.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        return Show("variable", name=Name(("transaction_isolation",)))
    return Show("variable", name=_variable_name(cursor))


def _variable_name(cursor: TokenCursor) -> Name:
    cursor.accept_operator("@@")
    if cursor.accept_any("SESSION", "GLOBAL"):
        cursor.expect_operator(".")
    return Name(tuple(part.lower() for part in cursor.name("the name of a variable").parts))


_FULL_FORMS = frozenset({"DATABASES", "SCHEMAS", "TABLES", "COLUMNS", "FIELDS", "PROCESSLIST"})

_FORMS: dict[str, Callable[[TokenCursor, bool], Show]] = {
    "DATABASES": _databases,
    "SCHEMAS": _databases,
    "TABLES": _tables,
    "TABLE": _table_status,
    "COLUMNS": _of_table("columns", has_like=True),
    "FIELDS": _of_table("columns", has_like=True),
    "INDEX": _of_table("index", has_like=False),
    "INDEXES": _of_table("index", has_like=False),
    "KEYS": _of_table("index", has_like=False),
    "REGION": _of_table("region", has_like=False),
    "REGIONS": _of_table("region", has_like=False),
    "CREATE": _create,
    "VIEWS": _of_database("views"),
    "FLOWS": _of_database("flows"),
    "FLOW": _flow,
    "CHARSET": _filtered("charset"),
    "CHARACTER": _character,
    "COLLATION": _filtered("collation"),
    "PROCESSLIST": _filtered("processlist"),
    "VARIABLES": _variables,
    "STATUS": _filtered("status"),
    "SEARCH_PATH": _search_path,
    "WARNINGS": _warnings,
    "ENGINES": _engines,
    "STORAGE": _storage,
    "GRANTS": _grants,
    "USERS": _users,
}

SHOW_WORDS = tuple(word for word in _FORMS if word != "TABLE")
"""The words that can follow SHOW, besides names of variables."""
