"""`tsdb demo`: the data is the same for the same times, and the queries that it prints work."""

from __future__ import annotations

import re
import shlex
import time

from tests.cli.clients import sql, tsdb
from tests.cli.terminal import CTRL_C, terminal
from tests.server_process import TSDB, ServerProcess

COUNTS = (
    "SELECT (SELECT count(*) FROM host_metrics), (SELECT count(*) FROM app_logs),"
    " (SELECT count(*) FROM http_requests_total), (SELECT sum(usage_user) FROM host_metrics)"
)


def test_the_printed_queries_have_results(server: ServerProcess) -> None:
    result = tsdb(server, "demo", "--hours", "1", "--hosts", "3", "-d", "tour")
    assert result.exit_code == 0, result.stderr
    commands = re.findall(r"^tsdb (cli .*)$", result.stdout, flags=re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        words = shlex.split(command)
        assert words[1:3] == ["--url", server.url]
        shown = tsdb(server, "cli", *words[3:])
        assert shown.exit_code == 0, shown.stderr
        assert not shown.stdout.endswith("(0 rows)\n"), command


def test_it_can_be_run_twice_and_is_the_same_by_its_seed(server: ServerProcess) -> None:
    until = str(int(time.time()) - 60)
    options = ("--hours", "0.5", "--hosts", "2", "--until", until, "-q")
    assert tsdb(server, "demo", *options, "-d", "twice").exit_code == 0
    before = sql(server, COUNTS, "twice")
    assert before[0][0] == 2 * 181
    assert tsdb(server, "demo", *options, "-d", "twice").exit_code == 0
    assert sql(server, COUNTS, "twice") == before
    assert tsdb(server, "demo", *options, "-d", "seeded", "--seed", "2").exit_code == 0
    assert sql(server, COUNTS, "seeded")[0][3] != before[0][3]
    assert sql(server, COUNTS, "seeded")[0][0] == before[0][0]


def test_counters_only_grow(server: ServerProcess) -> None:
    noon = str(int(time.time()) // 86_400 * 86_400 - 43_200)
    assert tsdb(server, "demo", "--hours", "2", "--hosts", "2", "--until", noon, "-d", "noon", "-q").exit_code == 0
    falls = (
        "SELECT count(*) FROM (SELECT tsdb_value - lag(tsdb_value) OVER (PARTITION BY instance, method, code"
        " ORDER BY tsdb_timestamp) AS grown FROM http_requests_total) WHERE grown < 0"
    )
    assert sql(server, falls, "noon") == [[0]]


def test_follow_goes_on_until_it_is_stopped_and_a_terminal_shows_a_bar(server: ServerProcess) -> None:
    until = int(time.time()) - 60  # what happened since then is written at once
    command = [*TSDB, "demo", "--url", server.url, "--hours", "0.1", "--hosts", "1", "-d", "live", "--follow"]
    with terminal([*command, "--until", str(until)]) as shown:
        shown.expect("demo data into live")
        shown.expect("━━━")
        shown.expect("Ctrl-C ends")
        deadline = time.monotonic() + 60
        while sql(server, "SELECT max(ts) FROM host_metrics", "live")[0][0] <= until * 1000:  # type: ignore[operator]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        shown.type(CTRL_C)
        assert shown.wait() == 0
