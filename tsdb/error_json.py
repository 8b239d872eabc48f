"""Errors as JSON, so that what a server of the cluster raises is raised again, as the same class, by its client.

    {"class": "TableNotFound", "status": 4001, "message": "…", "hint": "…", "fields": {…}}

A class that the receiver does not have becomes a plain error of the same status: a client of another version still
learns what went wrong. Fields travel as text, unless they are numbers.
"""

from __future__ import annotations

from typing import Any

from tsdb.errors import Reason, Status, TsdbError


def error_to_json(error: TsdbError) -> dict[str, Any]:
    return {
        "class": type(error).__name__,
        "status": int(error.status),
        "message": error.message,
        "hint": error.hint,
        "fields": {name: _plain(value) for name, value in error.fields.items()},
        "reason": None if error.sql_reason is None else error.sql_reason.name,
    }


def error_from_json(value: dict[str, Any]) -> TsdbError:
    """Make the error again; its own constructor is not called, because its message is complete."""
    status = Status(int(value["status"]))
    kind = _find(str(value["class"]), status) or _plain_class(status)
    error = kind.__new__(kind)
    TsdbError.__init__(error, str(value["message"]), hint=value.get("hint"), **value.get("fields", {}))
    if value.get("reason") in Reason.__members__:
        error.sql_reason = Reason[value["reason"]]
    return error


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _find(name: str, status: Status) -> type[TsdbError] | None:
    waiting: list[type[TsdbError]] = [TsdbError]
    while waiting:
        kind = waiting.pop()
        if kind.__name__ == name and kind.status is status:
            return kind
        waiting += kind.__subclasses__()
    return None


def _plain_class(status: Status) -> type[TsdbError]:
    return type("TsdbError", (TsdbError,), {"status": status})
