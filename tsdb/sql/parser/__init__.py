"""The parser of every statement that is not a query: one file per verb over a cursor of tokens."""

from tsdb.sql.parser._limits import QUERY_NESTING_MAX, QUERY_OPERATORS_MAX, check_query_limits
from tsdb.sql.parser._parse import Parsed, parse
from tsdb.sql.parser._show import SHOW_WORDS

__all__ = [
    "QUERY_NESTING_MAX",
    "QUERY_OPERATORS_MAX",
    "SHOW_WORDS",
    "Parsed",
    "check_query_limits",
    "parse",
]
