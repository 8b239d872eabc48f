"""The variables of a session as SHOW lists them.

A variable that statements can set shows its value under its name in upper case. Beside those, clients of PostgreSQL
and MySQL ask for what their own servers have; it is answered with what holds here.
"""

from __future__ import annotations

from tsdb.errors import Unsupported
from tsdb.nearest import nearest
from tsdb.query import SERIES_AGGREGATE, Channel, Session
from tsdb.query.mysql_variables import shown_mysql_variables
from tsdb.query.pg_catalog import settings_of
from tsdb.sql.parser import SHOW_WORDS

_OWN = ("time_zone", "system_time_zone", "read_preference", "datestyle", "intervalstyle", SERIES_AGGREGATE)

_SPELLINGS = {
    "timezone": "time_zone",
    "time zone": "time_zone",
    "transaction isolation level": "transaction_isolation",
    "session transaction isolation level": "transaction_isolation",
}


def variables_of(session: Session, version: str) -> dict[str, str]:
    """All variables of a session by their names in lower case, sorted."""
    if session.channel is Channel.POSTGRES:
        found = settings_of(session, version)
        found["statement_timeout"] = _timeout(session, unit="ms")
    else:
        found = shown_mysql_variables(session) if session.channel is Channel.MYSQL else dict(session.variables)
        found["max_execution_time"] = _timeout(session)
    found["time_zone"] = session.time_zone
    found[SERIES_AGGREGATE] = session.variables.get(SERIES_AGGREGATE, "on")
    found["system_time_zone"] = "UTC"
    found["read_preference"] = session.variables.get("read_preference", "LEADER").upper()
    found["datestyle"] = session.variables.get("datestyle", "ISO, MDY")
    found["intervalstyle"] = session.variables.get("intervalstyle", "postgres")
    return dict(sorted(found.items()))


def variable_value(name: str, session: Session, version: str) -> tuple[str, str]:
    """Return title and value of one variable; Unsupported when there is none of that name."""
    name = _SPELLINGS.get(name, name)
    known = variables_of(session, version)
    found = known.get(name)
    if found is None:
        near = nearest(name, (*SHOW_WORDS, *known))
        hint = None if near is None else f"did you mean {near}?"
        raise Unsupported(f"there is no variable {name!r} to show", hint=hint)
    is_setting = session.channel is Channel.POSTGRES and name not in (*_OWN, "statement_timeout")
    return name if is_setting else name.upper(), found


def _timeout(session: Session, *, unit: str = "") -> str:
    """How long a statement may take, in milliseconds; 0 is without end."""
    milliseconds = 0 if session.timeout is None else int(session.timeout) // 1_000_000
    return f"{milliseconds}{unit}" if milliseconds else "0"
