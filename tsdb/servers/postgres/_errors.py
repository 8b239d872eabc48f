"""Errors as PostgreSQL sends them: a severity, an SQLSTATE, a message, and a hint if there is one.

Errors of the database are mapped by the tables of `tsdb.errors`. Errors of this protocol (an unknown portal, a
malformed message) have their own SQLSTATE here.

    PgError                      carries its SQLSTATE
    └── ProtocolViolation        a message that is malformed, or out of place
"""

from __future__ import annotations

import re

from tsdb.errors import Status, TsdbError, wire_of

FATAL_STATES = frozenset({"28000", "28P01", "3D000", "53300", "57P01", "57P05"})
_PLACE = re.compile(r" at line (\d+), column (\d+)")


class PgError(TsdbError):
    """An error that only this protocol has."""

    status = Status.INVALID_ARGUMENTS

    def __init__(self, sqlstate: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.sqlstate = sqlstate


class ProtocolViolation(PgError):
    """A message that is malformed, or out of place."""

    def __init__(self, message: str) -> None:
        super().__init__("08P01", message)


def error_fields(error: TsdbError, *, text: str | None = None, is_fatal: bool = False) -> dict[str, str]:
    """Return the fields of an ErrorResponse; `text` is the statement, for the place of an error in it."""
    state = sqlstate(error)
    severity = "FATAL" if is_fatal or (isinstance(error, PgError) and state in FATAL_STATES) else "ERROR"
    where = ", ".join(f"{name}: {value}" for name, value in error.fields.items())
    shown = f"{error.message} ({where})" if where else error.message
    fields = {"S": severity, "V": severity, "C": state, "M": shown}
    if error.hint:
        fields["H"] = error.hint
    if text is not None and (position := _position(shown, text)) is not None:
        fields["P"] = str(position)
    return fields


def sqlstate(error: TsdbError) -> str:
    """Return the state of an error."""
    if isinstance(error, PgError):
        return error.sqlstate
    return wire_of(error).sqlstate


def internal_error_fields() -> dict[str, str]:
    """Of an unexpected error: the log has the rest."""
    return {"S": "ERROR", "V": "ERROR", "C": "XX000", "M": "internal error", "H": "the log of the server says more"}


def notice_fields(message: str, *, severity: str = "WARNING", state: str = "01000") -> dict[str, str]:
    return {"S": severity, "V": severity, "C": state, "M": message}


def _position(message: str, text: str) -> int | None:
    """The character, from 1, that a message names by line and column."""
    found = _PLACE.search(message)
    if found is None:
        return None
    lines = text.split("\n")
    line, column = int(found[1]), int(found[2])
    if line > len(lines):
        return None
    return sum(len(each) + 1 for each in lines[: line - 1]) + column
