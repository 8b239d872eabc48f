"""The settings of a connection: initial values, reports to the client, and what RESET restores.

PostgreSQL reports the values of some settings when a client connects and when one changes: drivers decide by them how
to read dates and quote strings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tsdb.database import DatabasePort
from tsdb.errors import TsdbError
from tsdb.query import Session
from tsdb.query.pg_catalog import settings_of
from tsdb.servers.postgres._errors import PgError, notice_fields
from tsdb.servers.postgres._messages import notice, parameter_status
from tsdb.sql import Parsed
from tsdb.sql import statements as s
from tsdb.sql.statements import SetVariable, Statement

_REPORTED = {
    "server_version": "server_version",
    "server_encoding": "server_encoding",
    "client_encoding": "client_encoding",
    "application_name": "application_name",
    "datestyle": "DateStyle",
    "intervalstyle": "IntervalStyle",
    "timezone": "TimeZone",
    "integer_datetimes": "integer_datetimes",
    "is_superuser": "is_superuser",
    "session_authorization": "session_authorization",
    "standard_conforming_strings": "standard_conforming_strings",
    "search_path": "search_path",
}
"""The settings that are reported to clients, with the names that clients expect."""

_QUIET = frozenset(
    {
        *("application_name", "extra_float_digits", "transaction", "client_min_messages", "lock_timeout"),
        *("idle_in_transaction_session_timeout", "idle_session_timeout", "standard_conforming_strings", "row_security"),
        *("default_transaction_isolation", "default_transaction_read_only", "jit", "names", "synchronous_commit"),
        *("default_transaction_deferrable", "transaction_isolation", "transaction_read_only", "check_function_bodies"),
        *("xmloption", "default_table_access_method", "default_tablespace", "session characteristics"),
        *("max_parallel_workers_per_gather", "work_mem", "plan_cache_mode", "geqo", "gin_fuzzy_search_limit"),
    }
)
"""Settings that clients commonly set and that are ignored without harm."""

_NOT_SETTINGS = frozenset({"user", "database", "options", "replication"})
_UTF8 = frozenset({"UTF8", "UTF-8", "UNICODE", "SQL_ASCII", "AUTO"})


class SessionSettings:
    """The initial and reported settings of one connection."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._told: dict[str, str] = {}
        self._start: tuple[str, str, dict[str, str]] = ("", "", {})

    def begin(self, session: Session, parameters: Mapping[str, str], database: DatabasePort) -> Iterator[bytes]:
        """Apply the parameters of the start-up message; yield what is reported to the client."""
        for name, value in startup_settings(parameters).items():
            self._apply(name, value, session, database)
        session.warnings.clear()
        self._start = (session.database, session.time_zone, dict(session.variables))
        yield from self._report(session)

    def _apply(self, name: str, value: str, session: Session, database: DatabasePort) -> None:
        if name == "client_encoding":
            if value.upper() not in _UTF8:
                raise PgError("22023", f'invalid value for parameter "client_encoding": "{value}"', hint="use UTF8")
            return
        statement = SetVariable("time_zone" if name == "timezone" else name, (value,))
        try:
            database.run_parsed(Parsed(statement, f"SET {name}"), session)
        except TsdbError as error:
            raise PgError("22023", f'invalid value for parameter "{name}": "{value}"', hint=str(error)) from error

    def changes(self, session: Session, statement: Statement) -> Iterator[bytes]:
        """Yield the settings to report after a statement that may have changed some."""
        if not isinstance(statement, s.SetVariable | s.SetMany | s.Reset | s.Use):
            return
        names = {each.name for each in statement.settings} if isinstance(statement, s.SetMany) else set()
        if isinstance(statement, s.SetVariable):
            names = {statement.name}
        if not names <= _QUIET:
            for warning in session.warnings:
                yield notice(notice_fields(warning))
        yield from self._report(session)

    def reset(self, session: Session, name: str | None) -> None:
        """Set one variable, or all, back to how the connection began."""
        database, zone, variables = self._start
        if name in (None, "search_path"):
            session.database = database
        if name in (None, "time_zone"):
            session.time_zone = zone
        if name in (None, "statement_timeout"):
            session.timeout = None
            for each in ("statement_timeout", "max_execution_time"):
                session.variables.pop(each, None)
        if name is None:
            session.variables.clear()
            session.variables.update(variables)
        elif name in variables:
            session.variables[name] = variables[name]
        else:
            session.variables.pop(name, None)

    def _report(self, session: Session) -> Iterator[bytes]:
        settings = settings_of(session, self._version)
        for name, title in _REPORTED.items():
            if self._told.get(name) != settings[name]:
                self._told[name] = settings[name]
                yield parameter_status(title, settings[name])


def startup_settings(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a start-up message by their names in lower case, those in `options` included."""
    found: dict[str, str] = {}
    for name, value in _split_options(parameters.get("options", "")):
        found[name.lower().replace("-", "_")] = value
    for name, value in parameters.items():
        if name not in _NOT_SETTINGS and not name.startswith("_pq_."):
            found[name.lower()] = value.strip("'\"") if name.lower() == "client_encoding" else value
    return found


def _split_options(text: str) -> Iterator[tuple[str, str]]:
    """`-c name=value --name=value`, blanks in values written as `\\ `."""
    words = [word.replace("\0", " ") for word in text.replace("\\ ", "\0").split()]
    pending = iter(words)
    for word in pending:
        if word == "-c":
            word = next(pending, "")
        elif word.startswith(("-c", "--")):
            word = word[2:]
        name, equals, value = word.partition("=")
        if equals and name:
            yield name, value
