"""Python's drivers behind one small interface: open a connection with the options of each, run a statement, be refused.

Every driver has its own way to name a parameter, to choose a time zone and to read a result row by row; this file holds
those differences, `test_drivers.py` what must hold for all of them.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.clients.programs import miss

CONNECT_SECONDS_MAX = 20

Values = Sequence[Any]


class Login(NamedTuple):
    """Where and as whom to connect; `zone` is the time zone of the session, chosen while connecting."""

    port: int
    user: str = "me"
    password: str = "any"
    zone: str | None = None
    database: str = "public"


class Driver(NamedTuple):
    """A driver with the interface of DB-API 2."""

    name: str
    module: str
    protocol: str
    """The name of its protocol in the start-up summary."""
    open: Callable[[Any, Login], Any]
    mark: str
    """How a parameter is written."""
    stream: Callable[[Any], Any] = lambda connection: connection.cursor()
    """Open a cursor that reads rows as they arrive."""

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def connect(self, login: Login) -> Iterator[Any]:
        connection = self.open(self.load(), login)
        try:
            yield connection
        finally:
            connection.close()

    def load(self) -> Any:
        """Import the driver; a test without it is skipped, or fails where every client must be installed."""
        try:
            return importlib.import_module(self.module)
        except ImportError:
            return miss(self.module)

    def mark_all(self, text: str) -> str:
        """Write a statement's `?` as this driver wants them."""
        first, *rest = text.split("?")
        number = iter(range(1, len(rest) + 1))
        return first + "".join(self.mark.replace("#", str(next(number))) + each for each in rest)


def run(driver: Driver, connection: Any, text: str, values: Values = ()) -> list[tuple[Any, ...]]:
    """Run a statement, whose parameters are written `?`, and return its rows."""
    cursor = connection.cursor()
    try:
        if values:
            cursor.execute(driver.mark_all(text), tuple(values))
        else:
            cursor.execute(text)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
    finally:
        cursor.close()


def _pymysql(module: Any, login: Login) -> Any:
    more = {} if login.zone is None else {"init_command": f"SET time_zone = '{login.zone}'"}
    return module.connect(
        host="127.0.0.1",
        port=login.port,
        user=login.user,
        password=login.password,
        database=login.database,
        connect_timeout=CONNECT_SECONDS_MAX,
        **more,
    )


def _pymysql_stream(connection: Any) -> Any:
    module = importlib.import_module(f"{type(connection).__module__.partition('.')[0]}.cursors")
    return connection.cursor(module.SSCursor)


def _connector(module: Any, login: Login) -> Any:
    return module.connect(
        host="127.0.0.1",
        port=login.port,
        user=login.user,
        password=login.password,
        database=login.database,
        connection_timeout=CONNECT_SECONDS_MAX,
        time_zone=login.zone,
    )


def _psycopg(module: Any, login: Login) -> Any:
    connection = module.connect(
        host="127.0.0.1",
        port=login.port,
        user=login.user,
        password=login.password,
        dbname=login.database,
        connect_timeout=CONNECT_SECONDS_MAX,
        options="" if login.zone is None else f"-c TimeZone={login.zone}",
    )
    connection.autocommit = True
    return connection


def _named_cursor(connection: Any) -> Any:
    connection.autocommit = False
    return connection.cursor("streamed")


def _pg8000(module: Any, login: Login) -> Any:
    parameters = {} if login.zone is None else {"TimeZone": login.zone}
    connection = module.connect(
        host="127.0.0.1",
        port=login.port,
        user=login.user,
        password=login.password,
        database=login.database,
        timeout=CONNECT_SECONDS_MAX,
        startup_params=parameters,
    )
    connection.autocommit = True
    return connection


def _adbc_postgresql(module: Any, login: Login) -> Any:
    address = f"postgresql://{login.user}@127.0.0.1:{login.port}/{login.database}"
    zone = "" if login.zone is None else f"&options=-c%20TimeZone%3D{login.zone}"
    return module.connect(f"{address}?password={quote(login.password)}{zone}", autocommit=True)


def _adbc_flightsql(module: Any, login: Login) -> Any:
    header = "adbc.flight.sql.rpc.call_header."
    options = {
        "username": login.user,
        "password": login.password,
        f"{header}x-tsdb-db-name": login.database,
        **({} if login.zone is None else {f"{header}x-tsdb-timezone": login.zone}),
    }
    return module.connect(f"grpc://127.0.0.1:{login.port}", db_kwargs=options, autocommit=True)


class AsyncpgConnection:
    """asyncpg with the interface of DB-API 2, as far as these tests use it."""

    def __init__(self, module: Any, login: Login) -> None:
        self._runner = asyncio.Runner()
        settings = {} if login.zone is None else {"timezone": login.zone}
        try:
            self.connection = self.wait(
                module.connect(
                    host="127.0.0.1",
                    port=login.port,
                    user=login.user,
                    password=login.password,
                    database=login.database,
                    timeout=CONNECT_SECONDS_MAX,
                    server_settings=settings,
                )
            )
        except BaseException:
            self._runner.close()
            raise

    def wait(self, step: Any) -> Any:
        async def run() -> Any:
            return await step

        return self._runner.run(run())

    def cursor(self) -> AsyncpgCursor:
        return AsyncpgCursor(self)

    def close(self) -> None:
        try:
            self.wait(self.connection.close(timeout=CONNECT_SECONDS_MAX))
        finally:
            self._runner.close()

    def abandon(self) -> None:
        self.connection.terminate()
        self._runner.close()


class AsyncpgCursor:
    """What a statement of asyncpg has answered, and its rows as they arrive."""

    def __init__(self, owner: AsyncpgConnection) -> None:
        self._owner = owner
        self.description: tuple[Any, ...] = ()
        self._rows: list[Any] = []

    def execute(self, text: str, values: Values = ()) -> None:
        async def prepare_and_fetch() -> None:
            statement = await self._owner.connection.prepare(text)
            self.description = statement.get_attributes()
            self._rows = await statement.fetch(*values)

        self._owner.wait(prepare_and_fetch())

    def fetchall(self) -> list[Any]:
        return self._rows

    def close(self) -> None:
        pass


class AsyncpgStream(AsyncpgCursor):
    """Rows by a portal, fifty at a time."""

    def execute(self, text: str, values: Values = ()) -> None:
        async def begin() -> Any:
            transaction = self._owner.connection.transaction()
            await transaction.start()
            return await self._owner.connection.cursor(text, *values)

        self._portal = self._owner.wait(begin())

    def fetchone(self) -> Any:
        return self._owner.wait(self._portal.fetchrow())


DRIVERS = (
    Driver("pymysql", "pymysql", "MySQL", _pymysql, "%s", _pymysql_stream),
    Driver("mysqlclient", "MySQLdb", "MySQL", _pymysql, "%s", _pymysql_stream),
    Driver("connector", "mysql.connector", "MySQL", _connector, "%s"),
    Driver("psycopg", "psycopg", "Postgres", _psycopg, "%s", _named_cursor),
    Driver("psycopg2", "psycopg2", "Postgres", _psycopg, "%s", _named_cursor),
    Driver("pg8000", "pg8000.dbapi", "Postgres", _pg8000, "%s"),
    Driver("asyncpg", "asyncpg", "Postgres", AsyncpgConnection, "$#", AsyncpgStream),
    Driver("adbc_postgresql", "adbc_driver_postgresql.dbapi", "Postgres", _adbc_postgresql, "$#"),
    Driver("adbc_flightsql", "adbc_driver_flightsql.dbapi", "gRPC", _adbc_flightsql, "?"),
)

each_driver = pytest.mark.parametrize("driver", DRIVERS, ids=str)
