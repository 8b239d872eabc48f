"""pgcli: commands from its command line, its backslash commands, what its completion asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pgcli.pgexecute import PGExecute

from tests.servers.postgres.running import RunningServer


@pytest.fixture
def table(pg: RunningServer) -> RunningServer:
    with pg.connect() as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS pgcli_seen (host STRING PRIMARY KEY, v DOUBLE, ts TIMESTAMP TIME INDEX)"
        )
        connection.execute("INSERT INTO pgcli_seen VALUES ('a', 1.5, 1000)")
    return pg


def _pgcli(server: RunningServer, home: Path, *commands: str) -> str:
    """Run the program with commands; it keeps its files in a home of its own."""
    given = [argument for command in commands for argument in ("-c", command)]
    address = ["-h", "127.0.0.1", "-p", str(server.port), "-U", "me", "-d", "public"]
    done = subprocess.run(
        [sys.executable, "-m", "pgcli.main", *address, *given],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
        check=False,
        env={**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "PAGER": "cat", "TZ": "UTC"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_commands_of_its_command_line_are_run(table: RunningServer, tmp_path: Path) -> None:
    said = _pgcli(table, tmp_path, "SELECT host, v FROM pgcli_seen", r"\dt", r"\d pgcli_seen", r"\l")
    assert "| a    | 1.5 |" in said
    assert "pgcli_seen" in said.partition("SELECT 1")[2]
    assert "double precision" in said
    assert "tsdb_private" in said


def test_its_completion_finds_what_exists(table: RunningServer) -> None:
    found = PGExecute(database="public", user="me", password="", host="127.0.0.1", port=str(table.port))
    try:
        assert ("public", "pgcli_seen") in list(found.tables())
        columns = [row[2:4] for row in found.table_columns() if row[:2] == ("public", "pgcli_seen")]
        assert sorted(columns) == [
            ("host", "character varying"),
            ("ts", "timestamp without time zone"),
            ("v", "double precision"),
        ]
        assert "public" in found.schemata()
        assert "public" in found.databases()
        assert "public" in found.search_path()
        assert ("information_schema", "tables") in list(found.views())
        assert list(found.view_columns())
        assert list(found.foreignkeys()) == list(found.datatypes()) == []
        list(found.functions())
    finally:
        found.conn.close()
