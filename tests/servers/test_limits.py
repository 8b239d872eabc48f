"""The keys that bound connections, their silence and statements hold at a running server: MySQL and PostgreSQL.

Those of gRPC are tried in `grpc/test_server.py`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import psycopg
import pymysql
import pytest

from tests.clients.programs import port_of
from tests.server_process import ServerProcess, running
from tests.servers.postgres.running import RawClient, error_field

SECONDS = 60
CONNECTIONS = 3
ENVIRONMENT = {
    f"TSDB_STANDALONE__{protocol}__{key}": value
    for protocol in ("MYSQL", "POSTGRES")
    for key, value in {
        "RUNTIME_SIZE": "1",
        "MAX_CONNECTIONS": str(CONNECTIONS),
        "IDLE_TIMEOUT": "3s",
        "KEEP_ALIVE": "600s",
    }.items()
}
LONG = "SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d, numbers e WHERE a.number > {}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("limits"), environment=ENVIRONMENT) as started:
        yield started


def _mysql(server: ServerProcess) -> pymysql.Connection:  # type: ignore[type-arg]
    port = int(port_of(server, "MySQL"))
    return pymysql.connect(
        host="127.0.0.1", port=port, user="me", database="public", connect_timeout=SECONDS, read_timeout=SECONDS
    )


def _postgres(server: ServerProcess) -> psycopg.Connection:
    port = int(port_of(server, "Postgres"))
    return psycopg.connect(
        host="127.0.0.1", port=port, user="me", dbname="public", autocommit=True, connect_timeout=SECONDS
    )


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_one_client_too_many_is_told_so(server: ServerProcess) -> None:
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(_mysql(server))
        with pytest.raises(pymysql.err.OperationalError) as refused:
            _mysql(server)
        assert refused.value.args[0] == 1040
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(_postgres(server))
        with pytest.raises(psycopg.OperationalError, match="sorry, too many clients already"):
            _postgres(server)


def test_a_client_that_is_silent_for_too_long_is_told_why_it_was_closed(server: ServerProcess) -> None:
    with _mysql(server) as connection:
        connection.ping(reconnect=False)
        assert connection._sock.recv(1000)[4:].startswith(b"\xff" + (4031).to_bytes(2, "little"))
    with RawClient(int(port_of(server, "Postgres"))) as client:
        client.log_in()
        tag, body = client.read()
        assert (tag, error_field(body, "C")) == ("E", "57P05")


def _keep_alive_seconds(port: int) -> list[float]:
    """When the kernel will ask the other side of each connection that a server has accepted at a port."""
    found = []
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, _, state, _, timer, *_ = line.split()
        kind, _, expires = timer.partition(":")
        if int(local.partition(":")[2], 16) == port and (state, kind) == ("01", "02"):
            found.append(int(expires, 16) / os.sysconf("SC_CLK_TCK"))
    return found


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the timers of connections are read in /proc")
def test_connections_are_kept_alive_as_often_as_configured(server: ServerProcess) -> None:
    """Two hours would be the default of the system."""
    for name, connect in (("MySQL", _mysql), ("Postgres", _postgres)):
        with connect(server):
            port = int(port_of(server, name))
            # Another timer is shown while the last reply is not confirmed.
            _wait_until(lambda port=port: bool(_keep_alive_seconds(port)))  # type: ignore[misc]
            assert 0 < min(_keep_alive_seconds(port)) <= 600


def _ask_mysql(server: ServerProcess, text: str) -> None:
    with suppress(pymysql.err.MySQLError), _mysql(server) as connection:
        connection.cursor().execute(text)


def _ask_postgres(server: ServerProcess, text: str) -> None:
    with suppress(psycopg.Error), _postgres(server) as connection:
        connection.execute(text.encode())


@pytest.mark.parametrize("ask", [_ask_mysql, _ask_postgres])
def test_no_more_statements_run_than_a_protocol_has_threads(
    server: ServerProcess, ask: Callable[[ServerProcess, str], None]
) -> None:
    """With one thread the second statement begins when the first has ended, whatever else the machine does."""

    def listed() -> list[tuple[str, str]]:
        answer = httpx.post(f"{server.url}/v1/sql", data={"sql": "SHOW PROCESSLIST"}, timeout=SECONDS)
        rows = answer.json()["output"][0]["records"]["rows"]
        return [(row[0], row[2]) for row in rows if "numbers e" in row[2]]

    threads = [threading.Thread(target=ask, args=(server, LONG.format(number))) for number in (1, 2)]
    for thread in threads:
        thread.start()
    ended = []
    for _ in threads:
        _wait_until(lambda: bool(listed()))
        for _ in range(5):
            ((number, text),) = listed()
        ended.append(text)
        httpx.post(f"{server.url}/v1/sql", data={"sql": f"KILL '{number}'"}, timeout=SECONDS).raise_for_status()
        _wait_until(lambda number=number: number not in {each for each, _ in listed()})  # type: ignore[misc]
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert len(set(ended)) == 2
