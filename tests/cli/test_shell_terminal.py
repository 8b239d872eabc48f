"""`tsdb cli` in a terminal, typed at as a person would."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.clients import sql
from tests.cli.terminal import CTRL_C, CTRL_D, ENTER, TAB, Terminal, terminal
from tests.server_process import TSDB, ServerProcess

PROMPT = r"tsdb:public>"
SLOW = "SELECT count(*) FROM generate_series(1, 100000000000) AS slow;"


@pytest.fixture(scope="module", autouse=True)
def tables(server: ServerProcess) -> None:
    sql(
        server,
        "CREATE TABLE readings (station STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, humidity DOUBLE);"
        "INSERT INTO readings VALUES ('oslo', now() - INTERVAL '2 minutes', 0.25), ('oslo', now(), 0.5)",
    )


@pytest.fixture
def shell(server: ServerProcess, tmp_path: Path) -> Iterator[Terminal]:
    with terminal([*TSDB, "cli", "--url", server.url], environment={"XDG_STATE_HOME": str(tmp_path)}) as started:
        started.expect(PROMPT)
        yield started


def test_statements_take_several_lines_and_stay_in_a_private_history(shell: Terminal, tmp_path: Path) -> None:
    shell.type("SELECT 1 AS one," + ENTER)
    shell.expect(r"\.\.\.\.")
    shell.type("2 AS two;" + ENTER)
    shell.expect(r" one \| two")
    shell.expect(r"\(1 row\)")
    shell.type("SELECT 'x' AS password;" + ENTER)
    shell.expect(r"\(1 row\)")
    shell.type("\\q" + ENTER)
    assert shell.wait() == 0
    history = tmp_path / "tsdb" / "history"
    assert "+SELECT 1 AS one,\n+2 AS two;\n" in history.read_text()
    assert "password" not in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_tab_completes_tables_columns_keywords_and_metrics(shell: Terminal) -> None:
    shell.type("sel" + TAB)
    shell.expect("select ?")
    shell.type(" hum" + TAB)
    shell.expect("humidity")
    shell.type(" FROM rea" + TAB)
    shell.expect("readings")
    shell.type(" ORDER BY 1;" + ENTER)
    shell.expect(r" +0\.25\r?\n +0\.5\r?\n\(2 rows\)")
    shell.expect(PROMPT)
    shell.type("\\promql" + ENTER)
    shell.expect("promql:public>")
    shell.type("readi" + TAB)
    shell.expect("ngs")
    shell.type("{stat" + TAB)
    shell.expect("ion")
    shell.type('="os' + TAB)
    shell.expect('lo"')
    shell.type("}" + ENTER)
    shell.expect(r"oslo")
    shell.expect(r"\(1 row\)")


def test_meta_commands_describe_time_watch_and_draw(shell: Terminal) -> None:
    shell.type("\\d readings" + ENTER)
    shell.expect(r" station +\| String +\| PRI")
    shell.expect(PROMPT)
    shell.type("\\timing" + ENTER)
    shell.expect("timing is on")
    shell.type("SELECT ts, humidity FROM readings;" + ENTER)
    shell.expect(r"Time: [\d.]+ ms")
    shell.type("\\plot" + ENTER)
    shell.expect(r"0\.5 ┤")
    shell.expect("━ humidity")
    shell.type("\\watch 0.05" + ENTER)
    for _ in range(3):
        shell.expect(r"every 0\.05 s: SELECT ts, humidity")
        shell.expect(r"\(2 rows\)")
    shell.type(CTRL_C)
    shell.expect("cancelled")
    shell.expect(PROMPT)


def test_ctrl_c_cancels_the_statement_and_the_server_sees_the_client_leave(
    server: ServerProcess, shell: Terminal
) -> None:
    shell.type(SLOW + ENTER)
    _wait_for_slow(server, 1)
    shell.type(CTRL_C)
    shell.expect("cancelled")
    _wait_for_slow(server, 0)
    shell.type("SELECT 'still here' AS place;" + ENTER)
    shell.expect(r"still here\r?\n")


def test_ctrl_c_twice_or_ctrl_d_leaves(server: ServerProcess, shell: Terminal, tmp_path: Path) -> None:
    shell.type("SELECT half a line" + CTRL_C)
    shell.expect("Ctrl-C again or Ctrl-D leaves")
    shell.expect(PROMPT)
    shell.type(CTRL_C)
    assert shell.wait() == 0
    with terminal([*TSDB, "cli", "--url", server.url], environment={"XDG_STATE_HOME": str(tmp_path)}) as other:
        other.expect(PROMPT)
        other.type(CTRL_D)
        assert other.wait() == 0


def test_errors_are_red_and_the_shell_goes_on(shell: Terminal, server: ServerProcess, tmp_path: Path) -> None:
    shell.type("SELECT * FROM nope;" + ENTER)
    shell.expect(r"ERROR 4001: Failed to plan SQL: Table not found: tsdb\.public\.nope")
    shell.expect(PROMPT)
    assert "\x1b[31mERROR" in shell.raw
    plain = {"XDG_STATE_HOME": str(tmp_path), "NO_COLOR": "1"}
    with terminal([*TSDB, "cli", "--url", server.url], environment=plain) as colourless:
        colourless.expect(PROMPT)
        colourless.type("SELECT * FROM nope;" + ENTER)
        colourless.expect("ERROR 4001")
        colourless.expect(PROMPT)
        assert "\x1b[31m" not in colourless.raw


def test_a_server_that_is_not_there_ends_the_shell_with_3(tmp_path: Path) -> None:
    command = [*TSDB, "cli", "--url", "http://127.0.0.1:1"]
    with terminal(command, environment={"XDG_STATE_HOME": str(tmp_path)}) as shell:
        shell.expect("cannot connect to http://127.0.0.1:1")
        assert shell.wait() == 3


def _wait_for_slow(server: ServerProcess, count: int) -> None:
    query = "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%AS slow%'"
    deadline = time.monotonic() + 60
    while sql(server, query) != [[count + 1]]:  # and this one
        assert time.monotonic() < deadline
        time.sleep(0.05)
