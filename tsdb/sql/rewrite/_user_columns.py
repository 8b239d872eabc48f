"""Columns called `user`: DataFusion takes the bare word for the function that returns the name of the session's user.

Where a table of the query has such a column, the word means the column, as in MySQL and in the fast paths.
"""

from __future__ import annotations

from tsdb.sql.rewrite._edits import Edits
from tsdb.sql.rewrite._layout import TokenLayout
from tsdb.sql.statements import Dialect

USER = "USER"


def quote_user(layout: TokenLayout, dialect: Dialect) -> str:
    """Return the text with each bare `user` as a quoted name, but for calls."""
    edits = Edits(layout.text)
    quote = "`" if dialect is Dialect.MYSQL else '"'
    for index, word in enumerate(layout.words):
        if word == USER and not layout.is_operator(index + 1, "("):
            token = layout.tokens[index]
            edits.replace(token.start, token.end, f"{quote}user{quote}")
    return edits.render()
