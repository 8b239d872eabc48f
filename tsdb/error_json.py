"""Errors as JSON, so that what one process of a cluster raises is raised again, as the same class, by another.

    {"class": "tsdb.catalog._errors.TableNotFound", "status": 4001, "message": "…", "hint": "…", "fields": {…}, …}

A class that the receiver does not have becomes a plain error of the same status: a process of another version still
learns what went wrong. Fields and attributes travel as they are if JSON has them; other fields as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tsdb.errors import Reason, Status, TsdbError

_CARRIED = ("message", "hint", "fields", "sql_reason")


def error_to_json(error: TsdbError) -> dict[str, Any]:
    own = {name: value for name, value in vars(error).items() if name not in _CARRIED and _is_plain(value)}
    return {
        "class": _name(type(error)),
        "status": int(error.status),
        "message": error.message,
        "hint": error.hint,
        "fields": {name: value if _is_plain(value) else str(value) for name, value in error.fields.items()},
        "own": own,
        "reason": None if error.sql_reason is None else error.sql_reason.name,
    }


def error_from_json(value: Mapping[str, Any], *, unknown: type[TsdbError] = TsdbError) -> TsdbError:
    """Make the error again; its own constructor is not called, because its message is complete.

    `unknown` is the class of an error whose own class is not known here.
    """
    kind = _classes().get(str(value["class"]))
    error: TsdbError = TsdbError.__new__(unknown if kind is None else kind)
    TsdbError.__init__(error, str(value["message"]), hint=value.get("hint"), **value.get("fields", {}))
    for attribute, own in value.get("own", {}).items():
        setattr(error, attribute, own)
    if kind is None:
        error.status = Status(int(value["status"]))  # type: ignore[misc]
    if value.get("reason") in Reason.__members__:
        error.sql_reason = Reason[value["reason"]]
    return error


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _classes() -> dict[str, type[TsdbError]]:
    """All classes of errors that are known in this process, by name; errors are rare enough to look each time."""
    found: dict[str, type[TsdbError]] = {}
    left: list[type[TsdbError]] = [TsdbError]
    while left:
        kind = left.pop()
        found[_name(kind)] = kind
        left += kind.__subclasses__()
    return found


def _is_plain(value: object) -> bool:
    if isinstance(value, int):
        return type(value) is bool or -(1 << 63) <= value < 1 << 63
    return value is None or isinstance(value, str)
