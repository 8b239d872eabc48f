"""SQL text: lexer, statements, parser, and the edits that prepare a query for the query engine. Pure."""

from tsdb.sql import statements
from tsdb.sql._types import type_of_name
from tsdb.sql.lexer import Token, TokenKind, tokenize
from tsdb.sql.parser import Parsed, check_query_limits, parse
from tsdb.sql.render import format_statement, to_json
from tsdb.sql.statements import Dialect

__all__ = [
    "Dialect",
    "Parsed",
    "Token",
    "TokenKind",
    "check_query_limits",
    "format_statement",
    "parse",
    "statements",
    "to_json",
    "tokenize",
    "type_of_name",
]
