"""psql: its backslash commands, COPY, cursors, parameters, time zones, errors, logins, cancellation."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import PASSWORD, Guarded
from tests.clients.programs import find_program, wait_gone, wait_rows
from tests.server_process import ServerProcess


def _command(server: ServerProcess, *commands: str) -> list[str]:
    address = ["-h", "127.0.0.1", "-p", str(server.port_of("Postgres")), "-U", "me", "-d", "public"]
    return [
        find_program("psql"),
        "-X",
        *address,
        "-P",
        "pager=off",
        *(each for text in commands for each in ("-c", text)),
    ]


def _psql(server: ServerProcess, *commands: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(server, *commands),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PGCONNECT_TIMEOUT": "10", "LC_ALL": "C.UTF-8", **environment},
    )


@pytest.fixture(scope="module")
def filled(server: ServerProcess) -> ServerProcess:
    done = _psql(
        server,
        "CREATE TABLE seen (host STRING PRIMARY KEY, usage DOUBLE, ts TIMESTAMP TIME INDEX)",
        "INSERT INTO seen VALUES ('a', 0.5, 1000), ('b', NULL, 2000)",
        "CREATE VIEW busy AS SELECT * FROM seen WHERE usage > 0.1",
    )
    assert done.stdout.split("\n")[:2] == ["CREATE TABLE", "INSERT 0 2"], done.stderr
    return server


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (r"\d", "public | seen "),
        (r"\d seen", "usage  | double precision"),
        (r"\d seen", '"seen_pkey" PRIMARY KEY, btree (host, ts)'),
        (r"\di", "seen_pkey "),
        (r"\d+ seen", "timestamp without time zone"),
        (r"\dt", "public | seen "),
        (r"\dt+", "public | seen "),
        (r"\dv", "public | busy | view"),
        (r"\l", "tsdb"),
        (r"\dn", "public"),
        (r"\df", "List of functions"),
        (r"\du", "Superuser"),
        (r"\dT", "List of data types"),
        (r"\db", "pg_default"),
        (r"\dx", "List of installed extensions"),
        (r"\dp seen", "Access privileges"),
        (r"\conninfo", 'connected to database "public" as user "me"'),
    ],
)
def test_backslash_commands_show_what_exists(filled: ServerProcess, command: str, shown: str) -> None:
    done = _psql(filled, command)
    assert shown in done.stdout, done.stdout + done.stderr
    assert done.stderr == ""


def test_rows_are_printed_and_copied(filled: ServerProcess) -> None:
    assert "a    |   0.5 | 1970-01-01 00:00:01.000000" in _psql(filled, "SELECT * FROM seen ORDER BY ts").stdout
    copied = _psql(filled, r"\copy (SELECT host, usage FROM seen ORDER BY ts) TO STDOUT CSV HEADER")
    assert copied.stdout == "host,usage\na,0.5\nb,\n"
    assert _psql(filled, "COPY seen TO STDOUT").stdout.count("\n") == 2


def test_rows_are_copied_from_a_file(filled: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('host,usage,ts\n"c,1",2.5,2024-01-01 00:00:00\nd,,2024-01-01 00:00:01\n')
    done = _psql(
        filled,
        "CREATE TABLE copied (host STRING PRIMARY KEY, usage DOUBLE, ts TIMESTAMP TIME INDEX)",
        rf"\copy copied FROM '{file}' CSV HEADER",
        "COPY copied TO STDOUT",
    )
    lines = "c,1\t2.5\t2024-01-01 00:00:00.000000\nd\t\\N\t2024-01-01 00:00:01.000000\n"
    assert done.stdout == f"CREATE TABLE\nCOPY 2\n{lines}", done.stderr
    file.write_text("bad\n")
    assert "ERROR:" in _psql(filled, rf"\copy copied FROM '{file}'").stderr


def test_errors_point_at_their_place(filled: ServerProcess) -> None:
    done = _psql(filled, "CREATE TABLE (")
    assert done.returncode == 1
    assert "LINE 1: CREATE TABLE (\n                     ^" in done.stderr


def test_cursors_are_used_where_psql_wants_few_rows_at_a_time(filled: ServerProcess) -> None:
    done = _psql(filled, r"\set FETCH_COUNT 1", "SELECT host FROM seen ORDER BY ts")
    assert done.stdout.split() == ["host", "------", "a", "b", "(2", "rows)"], done.stderr


def test_statements_are_prepared_and_run_with_values(filled: ServerProcess) -> None:
    done = _psql(
        filled,
        "PREPARE used AS SELECT host FROM seen WHERE usage > $1 AND host <> $2",
        "EXECUTE used(0.25, 'b')",
        "EXECUTE used(1, 'b')",
        "DEALLOCATE used",
    )
    assert done.stdout.split() == ["PREPARE", "host", "------", "a", "(1", "row)", "host", "------", "(0", "rows)",
                                   "DEALLOCATE"], done.stderr  # fmt: skip


def test_the_time_zone_of_the_environment_is_that_of_the_session(filled: ServerProcess) -> None:
    done = _psql(
        filled,
        r"\pset format unaligned",
        r"\t on",
        "SHOW timezone",
        "SELECT ts FROM seen ORDER BY ts",
        PGTZ="Asia/Tokyo",
    )
    assert done.stdout.splitlines()[-3:] == [
        "Asia/Tokyo",
        "1970-01-01 09:00:01.000000",
        "1970-01-01 09:00:02.000000",
    ], done.stderr


def test_the_right_password_gets_in_and_a_wrong_one_does_not(guarded: Guarded) -> None:
    assert "(1 row)" in _psql(guarded.server, "SELECT 1", PGPASSWORD=PASSWORD).stdout
    refused = _psql(guarded.server, "SELECT 1", PGPASSWORD="wrong")
    assert refused.returncode == 2
    assert "password" in refused.stderr


def test_an_interrupted_psql_cancels_its_statement(filled: ServerProcess) -> None:
    text = "SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d, numbers e /* interrupted */"
    with subprocess.Popen(_command(filled, text), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as psql:
        running = "SELECT id FROM information_schema.process_list WHERE query LIKE 'SELECT count%/* interrupted */'"
        wait_rows(filled, running)
        psql.send_signal(signal.SIGINT)
        _, said = psql.communicate(timeout=60)
    assert "cancel" in said.lower()
    wait_gone(filled, "/* interrupted */")
