"""Command tags: what a statement did. Drivers read the number of rows from them."""

from __future__ import annotations

import re

from tsdb.sql import statements as s
from tsdb.sql.statements import Statement

_BY_KIND: dict[type, str] = {
    s.SetVariable: "SET",
    s.SetMany: "SET",
    s.Show: "SHOW",
    s.Explain: "EXPLAIN",
    s.DeclareCursor: "DECLARE CURSOR",
    s.CloseCursor: "CLOSE CURSOR",
    s.CreateTableLike: "CREATE TABLE",
    s.Prepare: "PREPARE",
    s.Deallocate: "DEALLOCATE",
}
_COUNTED: dict[type, str] = {
    s.Insert: "INSERT 0",
    s.Delete: "DELETE",
    s.Update: "UPDATE",
    s.Copy: "COPY",
    s.FetchCursor: "FETCH",
    s.MoveCursor: "MOVE",
    s.Query: "SELECT",
    s.Tql: "SELECT",
    s.Describe: "SELECT",
    s.Admin: "SELECT",
}
_TRANSACTIONS = {"start": "START TRANSACTION", "end": "COMMIT", "abort": "ROLLBACK", "lock": "LOCK TABLE"}
_HUMPS = re.compile(r"(?<!^)(?=[A-Z])")


def command_tag(statement: Statement, rows: int) -> str:
    """Return the tag of a statement that has ended with so many rows."""
    kind = type(statement)
    if kind in _COUNTED:
        return f"{_COUNTED[kind]} {rows}"
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    if isinstance(statement, s.Transaction):
        return _TRANSACTIONS.get(statement.verb, statement.verb.upper())
    if isinstance(statement, s.Reset):
        return "DISCARD ALL" if statement.verb == "discard" else statement.verb.upper()
    return _HUMPS.sub(" ", kind.__name__).upper()
