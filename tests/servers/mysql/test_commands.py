"""Commands and packets beside what libraries send: limits, kills, pieces, errors of the protocol itself."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.servers.mysql.raw_client import RawClient, errno_of, login_packet
from tests.servers.mysql.served import SECONDS_MAX, Served, serving
from tsdb.servers.mysql import MysqlLimits
from tsdb.units import Duration

LONG = "SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d, numbers e"
COM_FIELD_LIST, COM_STATISTICS, COM_PROCESS_INFO, COM_PROCESS_KILL = b"\x04", b"\x09", b"\x0a", b"\x0c"
COM_RESET_CONNECTION = b"\x1f"
COM_DEBUG, COM_PING, COM_SET_OPTION, COM_STMT_FETCH = b"\x0d", b"\x0e", b"\x1b", b"\x1c"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("mysql")) as served:
        served.fetch("CREATE TABLE t (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE, b VARBINARY)")
        yield served


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def _processes(server: Served) -> list[str]:
    """What runs; a statement that was answered, and whose work has not come to its end, is not waited for."""
    return [each.text for each in server.database.services.processes.all() if not each.is_finishing]


@pytest.mark.parametrize("command", [COM_PING, COM_DEBUG, COM_SET_OPTION + b"\x00\x00"])
def test_small_commands_are_answered(server: Served, command: bytes) -> None:
    with RawClient(server.port) as client:
        assert client.ask(command)[:1] in (b"\x00", b"\xfe")
        assert client.ask(COM_PING)[:1] == b"\x00"


def test_statistics_begin_with_the_seconds_since_the_start(server: Served) -> None:
    with RawClient(server.port) as client:
        told = client.ask(COM_STATISTICS).decode()
        found = re.fullmatch(r"Uptime: (\d+)  Threads: (\d+)", told)
        assert found is not None, told
        assert int(found[2]) >= 1
        assert client.ask(COM_PING)[:1] == b"\x00"


def test_an_unknown_command_is_an_error_and_the_connection_goes_on(server: Served) -> None:
    with RawClient(server.port) as client:
        assert errno_of(client.ask(b"\x7f")) == 1047
        assert errno_of(client.ask(COM_STMT_FETCH + bytes(8))) == 1421
        assert errno_of(client.ask(b"\x17" + bytes(9))) == 1243
        assert client.ask(COM_PING)[:1] == b"\x00"


def test_the_columns_of_a_table_are_listed(server: Served) -> None:
    with RawClient(server.port) as client:
        first = client.ask(COM_FIELD_LIST + b"t\x00")
        assert b"\x02ts\x02ts" in first
        assert first.endswith(b"\xfb")
        names = [first.split(b"\x00\x00")[1][:3]]
        while (packet := client.read())[:1] != b"\xfe":
            names.append(packet)
        assert len(names) == 4
        assert errno_of(client.ask(COM_FIELD_LIST + b"nowhere\x00")) == 1146


def test_several_statements_can_be_switched_on_and_off(server: Served) -> None:
    with RawClient(server.port) as client:
        assert client.ask(COM_SET_OPTION + b"\x01\x00")[:1] == b"\xfe"
        assert errno_of(client.ask(b"\x03SELECT 1; SELECT 2")) == 1149
        assert client.ask(COM_SET_OPTION + b"\x00\x00")[:1] == b"\xfe"
        assert client.ask(b"\x03SET time_zone='UTC'; SET time_zone='UTC'")[:1] == b"\x00"
        assert client.read()[:1] == b"\x00"


def test_rows_longer_than_a_packet_come_in_pieces(server: Served) -> None:
    size = (1 << 24) + 1000
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT repeat('x', {size}), 1")
        text, one = cursor.fetchone()
        assert (len(text), one) == (size, 1)
        cursor.execute(f"SELECT repeat('x', {(1 << 24) - 5})")
        assert len(cursor.fetchone()[0]) == (1 << 24) - 5
        cursor.execute("SELECT length('" + "y" * size + "')")
        assert cursor.fetchone() == (size,)


def test_a_query_is_killed_by_another_connection(server: Served) -> None:
    failures: list[pymysql.err.MySQLError] = []
    with server.connect() as victim, server.connect() as other:
        number = victim.thread_id()

        def run() -> None:
            try:
                victim.cursor().execute(LONG)
            except pymysql.err.MySQLError as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        _wait_until(lambda: LONG in _processes(server))
        with other.cursor() as cursor:
            cursor.execute("SHOW PROCESSLIST")
            assert LONG in {row[2] for row in cursor.fetchall()}
            cursor.execute(f"KILL QUERY {number}")
        thread.join(SECONDS_MAX)
        assert failures[0].args[0] == 1317
        victim.ping(reconnect=False)


def test_connections_that_run_nothing_sleep(server: Served) -> None:
    sleeper = server.connect()
    with server.connect() as other, other.cursor() as cursor:
        sleeper.cursor().execute("SELECT 1")
        cursor.execute("SHOW PROCESSLIST")
        found = {row[0]: row for row in cursor.fetchall()}
        assert found[str(sleeper.thread_id())][1:3] == ("tsdb", "Sleep")
        assert str(other.thread_id()) not in found, "it runs the statement that asks"
        cursor.execute(f"SHOW FULL PROCESSLIST WHERE Id = '{sleeper.thread_id()}'")
        ((_, _, database, client, *_, text),) = cursor.fetchall()
        assert (database, text) == ("public", "Sleep")
        assert client.startswith("127.0.0.1")
        number = str(sleeper.thread_id())
        sleeper.close()
        _wait_until(lambda: number not in _sleeping(other))


def test_the_list_is_a_table_as_tools_of_mysql_ask_for_it(server: Served) -> None:
    asked = "SELECT ID, USER, HOST, DB, COMMAND, STATE, INFO FROM information_schema.PROCESSLIST"
    with server.connect() as sleeper, server.connect() as other, other.cursor() as cursor:
        cursor.execute(f"{asked} WHERE ID IN ({sleeper.thread_id()}, {other.thread_id()}) ORDER BY ID")
        idle, busy = cursor.fetchall()
        assert (idle[0], idle[3:]) == (sleeper.thread_id(), ("public", "Sleep", "", None))
        assert (busy[0], busy[3:6]) == (other.thread_id(), ("public", "Query", "executing"))
        assert busy[6].startswith(asked)
        cursor.execute("SHOW TABLES FROM information_schema LIKE 'processlist'")
        assert cursor.fetchall() == (("processlist",),)


def _sleeping(connection: pymysql.Connection[Any]) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW PROCESSLIST WHERE Query = 'Sleep'")
        return {row[0] for row in cursor.fetchall()}


def test_a_connection_that_was_reset_is_listed_once(server: Served) -> None:
    with RawClient(server.port) as client, server.connect() as other:
        number = str(int.from_bytes(client.greeting.split(b"\x00", 1)[1][:4], "little"))
        assert client.ask(COM_RESET_CONNECTION)[:1] == b"\x00"
        with other.cursor() as cursor:
            cursor.execute("SHOW PROCESSLIST")
            assert [row[0] for row in cursor.fetchall()].count(number) == 1


def test_too_many_queries_of_promql_at_the_same_time_are_told(server: Served) -> None:
    server.fetch("CREATE TABLE IF NOT EXISTS busy (ts TIMESTAMP TIME INDEX, v DOUBLE, host STRING PRIMARY KEY)")
    server.fetch("INSERT INTO busy VALUES (1, 1.0, 'a')")
    budget = server.database.promql._budget
    budget.take(budget.samples_max)
    try:
        with pytest.raises(pymysql.err.MySQLError) as caught:
            server.fetch("TQL EVAL (0, 10, '5s') busy")
    finally:
        budget.give(budget.samples_max)
    assert caught.value.args[0] == 1041


def test_what_nobody_wants_any_more_is_no_error_of_the_server(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level("INFO"),
        RawClient(server.port) as leaver,
        RawClient(server.port) as killed,
        server.connect() as other,
        other.cursor() as cursor,
    ):
        for client in (leaver, killed):
            client.send(b"\x03" + LONG.encode())
        _wait_until(lambda: _processes(server).count(LONG) == 2)
        leaver.socket.close()
        number = int.from_bytes(killed.greeting.split(b"\x00", 1)[1][:4], "little")
        cursor.execute(f"KILL QUERY {number}")
        while (packet := killed.read())[:1] != b"\xff":
            assert packet
        assert errno_of(packet) == 1317
        _wait_until(lambda: LONG not in _processes(server))
    assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


def test_a_connection_is_killed_while_all_threads_are_busy(server: Served) -> None:
    with RawClient(server.port) as first, RawClient(server.port) as second, RawClient(server.port) as killer:
        for client in (first, second):
            client.send(b"\x03" + LONG.encode())
        _wait_until(lambda: _processes(server).count(LONG) == 2)
        for client in (first, second):
            number = client.greeting.split(b"\x00", 1)[1][:4]
            assert killer.ask(COM_PROCESS_KILL + number)[:1] == b"\x00"
            assert client.is_closed()
        _wait_until(lambda: LONG not in _processes(server))


def test_a_statement_stops_when_its_client_goes_away(server: Served) -> None:
    with RawClient(server.port) as client:
        client.send(b"\x03" + LONG.encode())
        _wait_until(lambda: LONG in _processes(server))
    _wait_until(lambda: LONG not in _processes(server))
    assert server.fetch("SELECT 1") == ((1,),)


def test_a_client_that_does_not_read_stops_the_rows_and_holds_no_thread(server: Served) -> None:
    with RawClient(server.port) as lazy:
        lazy.send(b"\x03SELECT a.number, b.number FROM numbers a, numbers b")
        assert lazy.read()
        for _ in range(20):
            assert server.fetch("SELECT 1") == ((1,),)
    _wait_until(lambda: not [text for text in _processes(server) if "a.number" in text])


def test_packets_out_of_order_end_the_connection(server: Served) -> None:
    with RawClient(server.port) as client:
        client.send(COM_PING, 7)
        assert errno_of(client.read()) == 1156
        assert client.read() == b""


def test_a_packet_over_the_limit_ends_the_connection(tmp_path: Path) -> None:
    limits = MysqlLimits(packet_bytes_max=1000)
    with serving(tmp_path, limits=limits) as server, RawClient(server.port) as client:
        client.send(b"\x03" + b"x" * 1000)
        assert errno_of(client.read()) == 1153
        assert client.is_closed()


def test_before_the_login_packets_are_small(server: Served) -> None:
    with RawClient(server.port, logs_in=False) as client:
        client.socket.sendall(b"\xff\xff\x7f\x01" + bytes(1000))
        assert errno_of(client.read()) == 1153


def test_clients_over_the_limit_are_told_so(tmp_path: Path) -> None:
    with serving(tmp_path, limits=MysqlLimits(connections_max=2)) as server:
        with server.connect(), server.connect():
            with pytest.raises(pymysql.err.OperationalError) as failure:
                server.connect()
            assert failure.value.args == (1040, "Too many connections")
        _wait_until(lambda: server.server.open_connections == 0)
        assert server.fetch("SELECT 1") == ((1,),)


def test_an_idle_client_is_told_and_closed(tmp_path: Path) -> None:
    with (
        serving(tmp_path, limits=MysqlLimits(idle=Duration.parse("100ms"))) as server,
        RawClient(server.port) as client,
    ):
        assert errno_of(client.read()) == 4031
        assert client.read() == b""


def test_a_client_may_ask_to_be_closed_sooner(server: Served) -> None:
    with RawClient(server.port) as client:
        assert client.ask(b"\x03SET wait_timeout = 1")[:1] == b"\x00"
        assert errno_of(client.read()) == 4031


def test_slow_clients_are_cut(tmp_path: Path) -> None:
    with serving(tmp_path, limits=MysqlLimits(login_seconds_max=0.2, pace_seconds_max=0.2)) as server:
        with RawClient(server.port, logs_in=False) as silent:
            assert silent.is_closed()
        with RawClient(server.port, logs_in=False) as slow:
            slow.socket.sendall(b"\x50\x00\x00\x01half")
            assert slow.is_closed()
        with RawClient(server.port) as client:
            client.socket.sendall(b"\x50\x00\x00\x00\x03SELECT")
            assert client.is_closed()


def test_a_database_can_be_demanded(tmp_path: Path) -> None:
    with serving(tmp_path, requires_database=True) as server:
        assert server.fetch("SELECT 1") == ((1,),)
        with pytest.raises(pymysql.err.MySQLError) as failure:
            server.connect(database=None)
        assert failure.value.args[0] == 1046


def test_prepared_statements_are_bounded_and_can_be_closed(tmp_path: Path) -> None:
    with serving(tmp_path, limits=MysqlLimits(prepared_max=2)) as server, RawClient(server.port) as client:
        for number in (1, 2):
            answer = client.ask(b"\x16SELECT 1")
            assert answer[:5] == b"\x00" + number.to_bytes(4, "little")
            client.read(), client.read()
        assert errno_of(client.ask(b"\x16SELECT 1")) == 1461
        client.send(b"\x19\x01\x00\x00\x00")
        assert client.ask(b"\x16SELECT 1")[:1] == b"\x00"


def test_a_long_value_is_sent_ahead_in_pieces(server: Served) -> None:
    with RawClient(server.port) as client:
        assert client.ask(b"\x16SELECT length(?), ?")[5:9] == b"\x02\x00\x02\x00"
        for _ in range(6):
            client.read()
        for _ in range(3):
            client.send(b"\x18\x01\x00\x00\x00\x00\x00" + b"abc" * 1000)
        client.send(b"\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\xfd\x00\x03\x00\x2a\x00\x00\x00")
        for _ in range(4):
            client.read()
        row = client.read()
        assert row[2:].startswith((9000).to_bytes(4, "little"))
        assert client.read()[:1] == b"\xfe"
        assert client.ask(b"\x1a\x01\x00\x00\x00")[:1] == b"\x00"


def test_a_statement_that_cannot_be_prepared_is_refused_at_once(server: Served) -> None:
    with RawClient(server.port) as client:
        assert errno_of(client.ask(b"\x16SELECT * FROM nowhere WHERE a = ?")) == 1146
        assert errno_of(client.ask(b"\x16SELECT 'open")) == 1149
        assert errno_of(client.ask(b"\x16SELECT 1; SELECT 2")) == 1149


def test_a_server_that_stops_ends_its_idle_clients(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        client = RawClient(server.port)
    assert client.is_closed()
    client.socket.close()


def test_many_idle_connections_are_kept(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        clients = [RawClient(server.port) for _ in range(200)]
        assert server.server.open_connections == 200
        assert all(client.ask(COM_PING)[:1] == b"\x00" for client in clients)
        for client in clients:
            client.socket.shutdown(socket.SHUT_RDWR)
            client.socket.close()
        _wait_until(lambda: server.server.open_connections == 0)


def test_a_client_without_a_plugin_or_a_database_can_log_in(server: Served) -> None:
    with RawClient(server.port, logs_in=False) as client:
        client.send(login_packet(capabilities=0x8200, database=b"")[:36], 1)
        assert client.read()[:1] == b"\x00"
