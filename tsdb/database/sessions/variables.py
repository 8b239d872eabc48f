"""SET and USE: what a session may choose for itself."""

from __future__ import annotations

import re
from collections.abc import Callable

from tsdb.catalog import DatabaseNotFound
from tsdb.database._names import READ_ONLY_DATABASES
from tsdb.database._services import Services
from tsdb.errors import InvalidArguments, Unsupported
from tsdb.model import InvalidTimeZone, canonical_zone
from tsdb.query import SERIES_AGGREGATE, Affected, Channel, Session
from tsdb.sql.statements import SetMany, SetVariable, Use
from tsdb.units import Duration

_DATE_STYLES = frozenset({"ISO", "SQL", "POSTGRES", "GERMAN"})
_DATE_ORDERS = frozenset({"MDY", "DMY", "YMD", "US", "NONEUROPEAN", "EUROPEAN", "EURO"})
_INTERVAL_STYLES = frozenset({"ISO_8601", "SQL_STANDARD", "POSTGRES", "POSTGRES_VERBOSE"})
_TIMEOUT = re.compile(r"\s*(\d+)\s*(us|ms|s|min|h|d)?\s*", re.IGNORECASE)
_TIMEOUT_MS = {"us": 0.001, "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def use(statement: Use, services: Services, session: Session) -> Affected:
    """Choose the database that names without one mean; those of the system are known in any case of letters."""
    name = statement.database
    if services.catalog.find_database(name) is None:
        name = name.lower()
        if name not in READ_ONLY_DATABASES:
            raise DatabaseNotFound(statement.database)
    session.database = name
    return Affected(0)


def set_many(statement: SetMany, services: Services, session: Session) -> Affected:
    for setting in statement.settings:
        set_variable(setting, services, session)
    return Affected(0)


def set_variable(statement: SetVariable, services: Services, session: Session) -> Affected:
    """Set one variable. An unknown one is an error, or a warning where clients set what other servers have."""
    setter = _SETTERS.get(statement.name)
    values = tuple(_resolved(each, session) for each in statement.values)
    if setter is not None:
        setter(values, session)
    elif session.channel in (Channel.MYSQL, Channel.POSTGRES):
        session.warnings.append(f"Unsupported set variable {statement.name.upper()}")
        session.variables[statement.name] = ", ".join(values)
    else:
        raise Unsupported(f"there is no variable {statement.name!r} to set")
    return Affected(0)


def _resolved(value: str, session: Session) -> str:
    """Return the value of another variable: `@name` is one that the client has set, `@@name` one of the session.

    Dumps keep the time zone in a variable and set it again at their end.
    """
    if session.channel is not Channel.MYSQL or not value.startswith("@"):
        return value
    if not value.startswith("@@"):
        return session.variables.get(value.lower(), value)
    name = value[2:].lower().removeprefix("session.")
    return session.time_zone if name == "time_zone" else session.variables.get(name, value)


def _one(values: tuple[str, ...], name: str) -> str:
    if len(values) != 1:
        raise InvalidArguments(f"{name} takes one value, not {len(values)}")
    return values[0]


def _set_time_zone(values: tuple[str, ...], session: Session) -> None:
    zone = _one(values, "time_zone")
    try:
        session.time_zone = canonical_zone(zone)
    except InvalidTimeZone as error:
        raise Unsupported(str(error)) from error


def _set_max_execution_time(values: tuple[str, ...], session: Session) -> None:
    text = _one(values, "max_execution_time")
    if not text.isdigit():
        raise Unsupported(f"max_execution_time is a number of milliseconds, not {text!r}")
    _set_timeout_ms(int(text), session)


def _set_statement_timeout(values: tuple[str, ...], session: Session) -> None:
    text = _one(values, "statement_timeout")
    match = _TIMEOUT.fullmatch(text)
    if match is None:
        raise Unsupported(f"statement_timeout is a time such as 5s or 300ms, not {text!r}")
    _set_timeout_ms(int(int(match[1]) * _TIMEOUT_MS[(match[2] or "ms").lower()]), session)


def _set_timeout_ms(milliseconds: int, session: Session) -> None:
    session.timeout = Duration(milliseconds * 1_000_000) if milliseconds else None
    session.variables["statement_timeout"] = f"{milliseconds}ms"
    session.variables["max_execution_time"] = str(milliseconds)


def _set_date_style(values: tuple[str, ...], session: Session) -> None:
    words = [word.strip().upper() for value in values for word in value.split(",")]
    for word in words:
        if word not in _DATE_STYLES and word not in _DATE_ORDERS:
            raise Unsupported(f"Unsupported DateStyle: {word!r}")
    style, _, order = session.variables.get("datestyle", "ISO, MDY").partition(", ")
    for word in words:
        if word in _DATE_STYLES:
            style = word
        else:
            order = {"US": "MDY", "NONEUROPEAN": "MDY", "EUROPEAN": "DMY", "EURO": "DMY"}.get(word, word)
    session.variables["datestyle"] = f"{style}, {order}"


def _choice(name: str, allowed: frozenset[str]) -> Callable[[tuple[str, ...], Session], None]:
    def setter(values: tuple[str, ...], session: Session) -> None:
        value = _one(values, name).upper()
        if value not in allowed:
            raise Unsupported(f"{name} is one of {', '.join(sorted(allowed))}, not {value!r}")
        session.variables[name] = value

    return setter


def _set_client_encoding(values: tuple[str, ...], session: Session) -> None:
    if _one(values, "client_encoding").upper().replace("-", "") not in ("UTF8", "UNICODE", "SQL_ASCII"):
        raise InvalidArguments("the only client encoding is UTF8")


def _set_search_path(values: tuple[str, ...], session: Session) -> None:
    session.variables["search_path"] = ", ".join(values)
    first = values[0].strip()
    if first and not first.startswith("$"):
        session.database = first


def _set_series_aggregate(values: tuple[str, ...], session: Session) -> None:
    value = _one(values, SERIES_AGGREGATE).lower()
    if value not in ("on", "off"):
        raise Unsupported(f"{SERIES_AGGREGATE} is on or off, not {value!r}")
    session.variables[SERIES_AGGREGATE] = value


def _ignore(values: tuple[str, ...], session: Session) -> None:
    """Accepted because every client sends it and there is nothing to choose."""


_SETTERS: dict[str, Callable[[tuple[str, ...], Session], None]] = {
    "time_zone": _set_time_zone,
    "timezone": _set_time_zone,
    "max_execution_time": _set_max_execution_time,
    "statement_timeout": _set_statement_timeout,
    "datestyle": _set_date_style,
    "intervalstyle": _choice("intervalstyle", _INTERVAL_STYLES),
    "bytea_output": _choice("bytea_output", frozenset({"HEX", "ESCAPE"})),
    "read_preference": _choice("read_preference", frozenset({"LEADER"})),
    "client_encoding": _set_client_encoding,
    SERIES_AGGREGATE: _set_series_aggregate,
    "names": _ignore,
    "search_path": _set_search_path,
    "allow_query_fallback": _choice("allow_query_fallback", frozenset({"TRUE", "FALSE", "ON", "OFF", "1", "0"})),
}
