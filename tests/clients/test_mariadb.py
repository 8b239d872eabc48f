"""The command line of MariaDB: statements, its own commands, a table that is made and read."""

from __future__ import annotations

import re
import subprocess

from tests.clients.programs import find_program
from tests.server_process import ServerProcess


def _mariadb(server: ServerProcess, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    port = re.search(r"^  MySQL +\S+:(\d+)$", server.output, flags=re.MULTILINE)
    assert port is not None, server.output
    command = [
        find_program("mariadb"),
        "-h127.0.0.1",
        f"-P{port[1]}",
        "-ume",
        "-psecret",
        "--batch",
        *options,
        "agents",
    ]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def test_statements_are_run_and_rows_are_shown(server: ServerProcess) -> None:
    done = _mariadb(
        server,
        "CREATE TABLE shown (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE);\n"
        "INSERT INTO shown VALUES (1700000000500, 'a', 1.5), (1700000001000, 'b', NULL);\n"
        "SELECT * FROM shown ORDER BY host;\nSHOW TABLES LIKE 'sho%';\n",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ts\thost\tv",
        "2023-11-14 22:13:20.500000\ta\t1.5",
        "2023-11-14 22:13:21\tb\tNULL",
        "Tables_in_agents",
        "shown",
    ]


def test_commands_of_the_program_itself_work(server: ServerProcess) -> None:
    done = _mariadb(server, "status\nuse information_schema\nselect database() as chosen;\n", "--auto-rehash")
    assert done.returncode == 0, done.stderr
    assert re.search(r"Server version:\s+8\.4\.2 tsdb", done.stdout)
    assert done.stdout.splitlines()[-2:] == ["chosen", "information_schema"]


def test_an_error_has_its_number_and_state(server: ServerProcess) -> None:
    done = _mariadb(server, "SELECT * FROM nowhere")
    assert done.returncode == 1
    assert "ERROR 1146 (42S02) at line 1: (TableNotFound)" in done.stderr
