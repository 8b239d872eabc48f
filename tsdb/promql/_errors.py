"""Errors of a PromQL query: in its text, or during its evaluation."""

from __future__ import annotations

from tsdb.errors import InvalidSyntax, Status, TsdbError

MESSAGE_CHARS_MAX = 1000
"""Messages quote the query, which may be long; they are sent in headers, too."""


class PromqlSyntax(InvalidSyntax):
    """The text is no PromQL; the message begins with line and column."""

    def __init__(self, text: str, position: int, message: str) -> None:
        before = text[:position]
        line = before.count("\n") + 1
        column = position - (before.rfind("\n") + 1) + 1
        super().__init__(f"{line}:{column}: parse error: {message[:MESSAGE_CHARS_MAX]}")
        self.position = position


class PromqlFailure(TsdbError):
    """The query is well formed, and its evaluation met something it cannot go on with."""

    status = Status.PLAN_QUERY


class PromqlTooLarge(PromqlFailure):
    """The query would touch more than one query may: ask for less."""
