"""The life of a connection with each of Python's drivers: parameters, time zones, errors, unread results, restarts."""

from __future__ import annotations

import datetime as dt
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.clients.conftest import PASSWORD, USER, Guarded
from tests.clients.drivers import DRIVERS, Driver, Login, each_driver, run
from tests.clients.programs import free_port, wait_gone
from tests.server_process import ServerProcess, running

MOMENT = dt.datetime(2023, 11, 14, 22, 13, 20, 123000)
LONG = "SELECT a.number + b.number * 1000000 FROM numbers a, numbers b, numbers c, numbers d"


@pytest.fixture(scope="module")
def filled(server: ServerProcess) -> ServerProcess:
    for text in (
        "CREATE TABLE driven (host STRING PRIMARY KEY, v DOUBLE, n BIGINT, up BOOLEAN, ts TIMESTAMP(3) TIME INDEX)",
        "INSERT INTO driven VALUES ('it''s', 1.5, 7, true, 1700000000123), ('b', NULL, NULL, NULL, 1700000001000)",
    ):
        answer = httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=10)
        assert answer.status_code == 200, answer.text
    return server


def _login(server: ServerProcess, driver: Driver, **changes: Any) -> Login:
    return Login(server.port_of(driver.protocol))._replace(**changes)


def _is_true(value: Any) -> bool:
    """MySQL has no booleans: they are the numbers 0 and 1."""
    return value is True or value == 1


@each_driver
def test_values_are_written_and_compared_by_parameters(filled: ServerProcess, driver: Driver) -> None:
    with driver.connect(_login(filled, driver)) as connection:
        table = f"written_by_{driver}"
        columns = "host STRING PRIMARY KEY, v DOUBLE, n BIGINT, up BOOLEAN, ts TIMESTAMP(6) TIME INDEX"
        run(driver, connection, f"CREATE TABLE {table} ({columns})")
        insert = f"INSERT INTO {table} (host, v, n, up, ts) VALUES (?, ?, ?, ?, ?)"
        for i in range(8):
            run(driver, connection, insert, (f"o'{i}", i / 4, i, i % 2 == 0, MOMENT + dt.timedelta(microseconds=i)))
        run(driver, connection, f"INSERT INTO {table} (host, v, ts) VALUES (?, ?, ?)", ("none", None, MOMENT))
        # Drivers prepare a statement, or change to binary values, after some executions.
        text = f"SELECT host, v, n, up, ts FROM {table} WHERE n >= ? AND host <> ? AND ts < ? ORDER BY n"
        for i in range(7):
            found = run(driver, connection, text, (i, "o'7", MOMENT + dt.timedelta(seconds=1)))
            assert [row[2] for row in found] == list(range(i, 7))
        ((host, v, n, up, ts),) = found
        assert (host, v, n, _is_true(up)) == ("o'6", 1.5, 6, True)
        assert ts == MOMENT + dt.timedelta(microseconds=6)
        assert run(driver, connection, f"SELECT v, n, up FROM {table} WHERE host = ?", ("none",)) == [(None,) * 3]


@each_driver
def test_the_session_has_the_time_zone_that_was_asked_for_while_connecting(
    filled: ServerProcess, driver: Driver
) -> None:
    zone = "+09:00" if driver.protocol == "MySQL" else "Asia/Tokyo"
    with driver.connect(_login(filled, driver, zone=zone)) as connection:
        ((hour, text),) = run(
            driver, connection, "SELECT extract(hour FROM ts), CAST(ts AS STRING) FROM driven WHERE n = ?", (7,)
        )
        assert (int(hour), text[:19].replace("T", " ")) == (7, "2023-11-15 07:13:20")
        text = "SELECT n FROM driven WHERE ts < '2023-11-15 07:13:20.5'"
        assert run(driver, connection, text) == [(7,)]


@each_driver
def test_errors_name_what_is_wrong_and_leave_the_connection_usable(filled: ServerProcess, driver: Driver) -> None:
    with driver.connect(_login(filled, driver)) as connection:
        for text, wrong in (
            ("SELEC 1", "SELEC"),
            ("SELECT * FROM nowhere_at_all", "nowhere_at_all"),
            ("SELECT nothing FROM driven", "nothing"),
        ):
            with pytest.raises(Exception, match=wrong) as refused:
                run(driver, connection, text)
            package = driver.module.partition("_" if "adbc" in driver.module else ".")[0]
            assert type(refused.value).__module__.startswith(package)
            assert run(driver, connection, "SELECT 1") == [(1,)]


@each_driver
def test_a_wrong_password_and_an_unknown_database_are_refused(
    guarded: Guarded, filled: ServerProcess, driver: Driver
) -> None:
    if driver.protocol != "gRPC":  # the guarded server demands TLS there, see test_access.py of Flight
        login = _login(guarded.server, driver, user=USER, password=PASSWORD)
        with driver.connect(login) as connection:
            assert run(driver, connection, "SELECT 1") == [(1,)]
        with pytest.raises(Exception, match=r"(?i)denied|password"), driver.connect(login._replace(password="wrong")):
            pass
    with (
        pytest.raises(Exception, match="no_such_database"),
        driver.connect(_login(filled, driver, database="no_such_database")) as connection,
    ):
        run(driver, connection, "SELECT n FROM driven")


@each_driver
def test_tables_and_columns_are_listed(filled: ServerProcess, driver: Driver) -> None:
    text = (
        "SELECT column_name, is_nullable FROM information_schema.columns WHERE table_schema = ? AND table_name = ?"
        " ORDER BY ordinal_position"
    )
    with driver.connect(_login(filled, driver)) as connection:
        if driver.name != "adbc_postgresql":  # it reads by COPY, whose query cannot be a SHOW in PostgreSQL either
            assert ("driven",) in [row[:1] for row in run(driver, connection, "SHOW TABLES")]
        found = run(driver, connection, text, ("public", "driven"))
        assert [name for name, _ in found] == ["host", "v", "n", "up", "ts"]
        assert found[-1] == ("ts", "NO")


@pytest.mark.parametrize("driver", [each for each in DRIVERS if each.name != "pg8000"], ids=str)
def test_a_connection_closed_in_the_middle_of_a_result_stops_the_query(filled: ServerProcess, driver: Driver) -> None:
    mark = f"/* closed by {driver} */"
    connection = driver.open(driver.load(), _login(filled, driver))
    cursor = driver.stream(connection)
    cursor.execute(f"{LONG} {mark}")
    assert cursor.fetchone() is not None
    _abandon(driver, connection, cursor)
    wait_gone(filled, mark)


def _abandon(driver: Driver, connection: Any, cursor: Any) -> None:
    """Leave with the result unread, as a program does that is ended: closing politely would read it to its end."""
    if driver.name == "pymysql":
        cursor._result.unbuffered_active = False
        cursor.connection = None
        connection._force_close()
    elif driver.name == "connector":
        connection.shutdown()
    elif driver.name == "asyncpg":
        connection.abandon()
    else:
        if driver.name != "mysqlclient":
            cursor.close()
        connection.close()


@pytest.fixture
def ports(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """Addresses that a server keeps when it is started again."""
    names = {"MYSQL": free_port(), "POSTGRES": free_port(), "GRPC": free_port()}
    return {f"TSDB_STANDALONE__{name}__ADDR": f"127.0.0.1:{port}" for name, port in names.items()}, tmp_path


def test_every_driver_notices_a_restart_and_connects_again(ports: tuple[dict[str, str], Path]) -> None:
    environment, directory = ports
    text = "SELECT n FROM kept"
    with ExitStack() as before:
        with running("standalone", directory, environment=environment) as first:
            for each in ("CREATE TABLE kept (n BIGINT, ts TIMESTAMP TIME INDEX)", "INSERT INTO kept VALUES (7, 1000)"):
                assert httpx.post(f"{first.url}/v1/sql", data={"sql": each}, timeout=10).status_code == 200
            opened = [(each, each.open(each.load(), _login(first, each))) for each in DRIVERS]
            for driver, connection in opened:
                before.callback(_close_broken, connection)
                assert run(driver, connection, text) == [(7,)]
            assert first.stop() == 0
        with running("standalone", directory, environment=environment) as second:
            for driver, connection in opened:
                if driver.protocol == "gRPC":  # a channel connects again by itself
                    assert run(driver, connection, text) == [(7,)]
                    continue
                with pytest.raises(
                    Exception, match=r"(?i)clos|lost|gone|terminat|shut|broken|reset|expected|network|available"
                ):
                    run(driver, connection, text)
                with driver.connect(_login(second, driver)) as again:
                    assert run(driver, again, text) == [(7,)]
            assert second.stop() == 0


def _close_broken(connection: Any) -> None:
    with suppress(Exception):  # some drivers complain that there is nothing to close
        connection.close()
