"""Queries of MySQL's and PostgreSQL's clients in the words of the query engine, before anything else reads them."""

from __future__ import annotations

from tsdb.query.pg_catalog import rewrite_pg
from tsdb.sql.derived_names import name_derived
from tsdb.sql.lexer import Token, tokenize
from tsdb.sql.mysql_rewrite import rewrite_mysql
from tsdb.sql.rewrite import Edits
from tsdb.sql.statements import Dialect


def translate_query(text: str, tokens: list[Token], dialect: Dialect) -> str:
    """Return a query of a MySQL or PostgreSQL client in the words of the query engine."""
    if dialect is Dialect.POSTGRESQL and (edited := _edit_for_pg(text, tokens)) != text:
        return edited
    named = name_derived(text, tokens, dialect)
    if dialect is Dialect.MYSQL:
        return rewrite_mysql(named, tokens if named is text else tokenize(named, dialect))
    return named


def _edit_for_pg(text: str, tokens: list[Token]) -> str:
    """Return a text of a PostgreSQL client without what only PostgreSQL understands."""
    edits = Edits(text)
    for start, end, replacement in rewrite_pg(text, tokens):
        edits.replace(start, end, replacement)
    return edits.render() if edits else text
