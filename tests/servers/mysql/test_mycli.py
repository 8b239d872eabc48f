"""mycli: statements from its command line, its own commands, what its completion asks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mycli.packages.execution.sql_execute import SQLExecute

from tests.servers.mysql.served import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("mycli")) as found:
        found.fetch("CREATE TABLE seen (host STRING PRIMARY KEY, v DOUBLE, ts TIMESTAMP TIME INDEX)")
        found.fetch("INSERT INTO seen VALUES ('a', 1.5, 1000)")
        yield found


def _mycli(served: Served, home: Path, statement: str) -> str:
    """Run the program with a statement; it keeps its files in a home of its own."""
    command = [sys.executable, "-m", "mycli.main", "-h127.0.0.1", f"-P{served.port}", "-ume", "-psecret", "--csv"]
    done = subprocess.run(
        [*command, "--execute", statement, "public"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
        check=False,
        env={**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "PAGER": "cat"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SELECT host, v FROM seen", '"host","v"\n"a","1.5"\n'),
        ("SHOW TABLES LIKE 'se%'", '"seen"'),
        (r"\dt seen", '"host"'),
        ("SHOW DATABASES", '"information_schema"'),
    ],
)
def test_a_statement_of_its_command_line_is_run(served: Served, tmp_path: Path, statement: str, shown: str) -> None:
    assert shown in _mycli(served, tmp_path, statement).replace("\r\n", "\n")


def test_its_completion_finds_what_exists(served: Served) -> None:
    names = ("character_set", "local_infile", "ssl")
    unset = dict.fromkeys(names)
    found = SQLExecute(
        database="public", user="me", password="secret", host="127.0.0.1", port=served.port, socket=None, **unset
    )
    try:
        assert ("seen",) in list(found.tables())
        assert [row for row in found.table_columns() if row[0] == "seen"] == [
            ("seen", "host"),
            ("seen", "v"),
            ("seen", "ts"),
        ]
        assert "public" in found.databases()
        list(found.functions())
        list(found.procedures())
        list(found.show_candidates())
        list(found.users())
        list(found.indexed_columns())
        list(found.enum_values())
        list(found.foreign_keys())
        list(found.character_sets())
        list(found.collations())
    finally:
        found.close()
