"""The command lines of MariaDB and of MySQL: statements, their own commands, errors, logins with and without TLS."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import PASSWORD, Guarded
from tests.clients.programs import find_driver, find_program, port_of
from tests.server_process import ServerProcess


@pytest.fixture(params=["mariadb", "mysql"])
def program(request: pytest.FixtureRequest) -> str:
    """Debian's `mysql` is MariaDB's, too; `tests/clients/install` fetches the other one."""
    if request.param == "mariadb":
        return find_program("mariadb")
    found = shutil.which("mysql")
    if found is not None and "MariaDB" not in subprocess.check_output([found, "--version"], text=True, timeout=60):
        return found
    return str(find_driver("mysql/mysql"))


def _run(
    program: str, server: ServerProcess, text: str, *options: str, password: str = "any", database: str = "agents"
) -> subprocess.CompletedProcess[str]:
    address = ["-h127.0.0.1", f"-P{port_of(server, 'MySQL')}", "-ume", f"-p{password}"]
    # Newer ones of MySQL pass over commands of their own unless they are told to run them.
    own = ["--commands"] if "mariadb" not in program else []
    command = [program, "--no-defaults", *address, *own, "--batch", *options, database]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def test_statements_are_run_and_rows_are_shown(server: ServerProcess, program: str) -> None:
    table = f"shown_by_{Path(program).name}"
    done = _run(
        program,
        server,
        f"CREATE TABLE {table} (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE);\n"
        f"INSERT INTO {table} VALUES (1700000000500, 'a', 1.5), (1700000001000, 'b', NULL);\n"
        f"SELECT * FROM {table} ORDER BY host;\nSHOW TABLES LIKE '{table[:-1]}%';\n",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ts\thost\tv",
        "2023-11-14 22:13:20.500000\ta\t1.5",
        "2023-11-14 22:13:21\tb\tNULL",
        "Tables_in_agents",
        table,
    ]


def test_commands_of_the_program_itself_work(server: ServerProcess, program: str) -> None:
    text = "status\nuse information_schema\nselect database() as chosen;\n"
    done = _run(program, server, text, "--auto-rehash")
    assert done.returncode == 0, done.stderr
    assert re.search(r"Server version:\s+8\.4\.2 tsdb", done.stdout)
    assert re.search(r"^Uptime:\s+(\d+ min )?\d+ sec$", done.stdout, flags=re.MULTILINE)
    assert re.search(r"^Threads: \d+$", done.stdout, flags=re.MULTILINE)
    assert done.stdout.splitlines()[-2:] == ["chosen", "information_schema"]


def test_a_session_has_the_time_zone_of_its_first_command(server: ServerProcess, program: str) -> None:
    text = "SELECT HOUR(FROM_UNIXTIME(0)) AS h, @@time_zone AS z;"
    done = _run(program, server, text, "--init-command=SET time_zone = '+09:00'")
    assert done.stdout.splitlines() == ["h\tz", "9\t+09:00"], done.stderr


def test_a_table_is_dumped_with_its_columns_and_rows(server: ServerProcess, program: str) -> None:
    table = f"dumped_by_{Path(program).name}"
    _run(
        program,
        server,
        f"CREATE TABLE {table} (host STRING PRIMARY KEY, v DOUBLE, ts TIMESTAMP(6) TIME INDEX);\n"
        f"INSERT INTO {table} VALUES ('it''s', 1.5, '2024-01-01 00:00:00.000001'), ('b', NULL, '2024-01-02');",
    )
    dump = str(Path(program).with_name("mariadb-dump" if "mariadb" in program else "mysqldump"))
    address = ["-h127.0.0.1", f"-P{port_of(server, 'MySQL')}", "-ume", "-pany"]
    command = [dump, "--no-defaults", *address, "--no-tablespaces", "--skip-triggers", "--compact", "agents", table]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    said = "".join(done.stdout.split("\n"))
    assert "`v` double" in said
    assert "PRIMARY KEY (`host`,`ts`)" in said
    first, second = r"('it\'s',1.5,'2024-01-01 00:00:00.000001')", "('b',NULL,'2024-01-02 00:00:00')"
    assert f"VALUES {first},{second};" in said.replace("VALUES(", "VALUES (") or f"{second},{first};" in said


def test_an_error_has_its_number_and_state(server: ServerProcess, program: str) -> None:
    done = _run(program, server, "SELECT * FROM nowhere")
    assert done.returncode == 1
    assert "ERROR 1146 (42S02) at line 1: (TableNotFound)" in done.stderr


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_the_right_password_gets_in_and_a_wrong_one_does_not(
    guarded: Guarded, program: str, is_encrypted: bool
) -> None:
    server, authority = guarded
    if "mariadb" in program:
        options = [f"--ssl-ca={authority}", "--ssl-verify-server-cert"] if is_encrypted else ["--skip-ssl"]
    else:
        options = [f"--ssl-ca={authority}", "--ssl-mode=VERIFY_IDENTITY"] if is_encrypted else ["--ssl-mode=DISABLED"]
    asked = "SELECT 1 AS one"
    done = _run(program, server, asked, *options, password=PASSWORD, database="public")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["one", "1"]
    status = _run(program, server, "status", *options, password=PASSWORD, database="public").stdout
    assert re.search(r"SSL:\s+(Cipher in use is|Not in use)", status), status
    assert ("Cipher in use" in status) is is_encrypted
    refused = _run(program, server, asked, *options, password="it is a secret", database="public")
    assert refused.returncode == 1
    assert "ERROR 1698 (28000)" in refused.stderr
    assert refused.stdout == ""
