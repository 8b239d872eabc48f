"""`tsdb cli` without a terminal: `-e`, scripts, formats, exit codes."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.clients import sql, tsdb, tsdb_process
from tests.server_process import ServerProcess

TABLE = """
CREATE TABLE kinds (host STRING PRIMARY KEY, ts TIMESTAMP(9) TIME INDEX, f DOUBLE, i INT, b BOOLEAN, d DATE,
  n DECIMAL(10, 2), bytes BINARY, j JSON, s STRING);
INSERT INTO kinds VALUES
  ('日本', 1700000000123456789, 'NaN'::double, 1, true, '2024-02-29', '12.5', X'00ff', '{"a": [1, 2]}', ''),
  ('it''s', 1700000000000000000, 1024.0, NULL, NULL, NULL, NULL, NULL, NULL, 'a"b,c
d');
"""


@pytest.fixture(scope="module", autouse=True)
def kinds(server: ServerProcess) -> None:
    assert tsdb(server, "cli", stdin=TABLE).exit_code == 0


def test_statements_of_an_option_run_and_print_tables(server: ServerProcess) -> None:
    result = tsdb(server, "cli", "-e", "SELECT 1 AS one; SELECT 'x;y' AS two; -- ;")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == " one\n-----\n   1\n(1 row)\n two\n-----\n x;y\n(1 row)\n"


def test_values_of_all_kinds_are_shown_in_columns(server: ServerProcess) -> None:
    result = tsdb(server, "cli", "-e", "SELECT * FROM kinds ORDER BY host")
    head, _, its, wide, count = result.stdout.splitlines()
    assert [cell.strip() for cell in its.split("|")] == [
        "it's", "2023-11-14 22:13:20.000000000", "1024.0", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", 'a"b,c\\nd'
    ]  # fmt: skip
    assert [cell.strip() for cell in wide.split("|")] == [
        "日本", "2023-11-14 22:13:20.123456789", "NaN", "1", "true", "2024-02-29", "12.50", "0x00ff", '{"a":[1,2]}', ""
    ]  # fmt: skip
    assert count == "(2 rows)"
    assert its.index("|") == head.index("|") == wide.index("|") + 2, "each wide character takes two columns"


def test_times_are_shown_and_read_in_the_zone_of_the_session(server: ServerProcess) -> None:
    texts = ("-e", "SELECT ts FROM kinds WHERE ts < '2023-11-15 07:13:20.1'", "--time-zone", "Asia/Tokyo")
    assert "2023-11-15 07:13:20.000000000" in tsdb(server, "cli", *texts).stdout
    lines = tsdb(server, "cli", "--format", "json", *texts).stdout
    assert json.loads(lines) == {"ts": "2023-11-15T07:13:20.000000000+09:00"}
    script = "SET time_zone = 'America/New_York'; SELECT ts FROM kinds WHERE ts < '2023-11-14 17:13:20.1';"
    assert "2023-11-14 17:13:20.000000000" in tsdb(server, "cli", stdin=script).stdout


def test_nested_values_are_json(server: ServerProcess) -> None:
    query = "SELECT make_array(1, 2) AS a, struct('x', NULL) AS s, map(['k'], [1.5]) AS m"
    result = tsdb(server, "cli", "--format", "vertical", "-e", query)
    assert 'a | [1,2]\ns | {"c0":"x","c1":null}\nm | {"k":1.5}\n' in result.stdout


def test_csv_tells_null_from_an_empty_string(server: ServerProcess) -> None:
    text = tsdb(server, "cli", "--format", "csv", "-e", "SELECT host, i, s, f FROM kinds ORDER BY host").stdout
    assert text == '"host","i","s","f"\n"it\'s",,"a""b,c\nd",1024\n"日本",1,"",nan\n'
    assert list(csv.reader(io.StringIO(text)))[1] == ["it's", "", 'a"b,c\nd', "1024"]


def test_json_has_one_object_per_line(server: ServerProcess) -> None:
    text = tsdb(server, "cli", "--format", "json", "-e", "SELECT * FROM kinds ORDER BY host").stdout
    second = json.loads(text.splitlines()[1])
    assert second["ts"] == "2023-11-14T22:13:20.123456789Z"
    assert second["j"] == {"a": [1, 2]}
    assert second["f"] is None
    assert second["bytes"] == "0x00ff"


def test_arrow_is_a_stream_that_others_read(server: ServerProcess) -> None:
    result = tsdb(server, "cli", "--format", "arrow", "-e", "SELECT ts, f FROM kinds ORDER BY host")
    table = pa.ipc.open_stream(result.stdout_bytes).read_all()
    assert table.schema.field("ts").type == pa.timestamp("ns")
    assert table.column("ts").cast(pa.int64()).to_pylist() == [1700000000000000000, 1700000000123456789]


def test_a_large_result_is_printed_in_pages_with_little_memory(server: ServerProcess) -> None:
    query = "SELECT value, repeat('x', 1000) AS text FROM generate_series(1, 100000) AS t(value)"
    code = (
        "import pathlib, sys; from tsdb.cli import main\n"
        f"sys.argv = ['tsdb', 'cli', '--url', {server.url!r}, '-e', {query!r}]\n"
        # What getrusage says may be of the process that started this one.
        "try: main()\nfinally: print(pathlib.Path('/proc/self/status').read_text(), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("(100000 rows)\n")
    assert len(result.stdout) > 100_000_000
    peak = re.search(r"VmHWM:\s+(\d+) kB", result.stderr)
    assert peak is not None
    assert int(peak[1]) < 400_000


def test_an_error_stops_the_script_and_has_code_file_and_line(server: ServerProcess) -> None:
    script = "SELECT 1;\n\nSELECT *\nFROM nope;\nSELECT 2;"
    result = tsdb(server, "cli", stdin=script)
    assert result.exit_code == 1
    assert result.stderr == (
        "ERROR 4001: Failed to plan SQL: Table not found: tsdb.public.nope (file: stdin, line: 3)\n"
    )
    assert "Int64(1)" in result.stdout
    assert "Int64(2)" not in result.stdout
    goes_on = tsdb(server, "cli", "--keep-going", stdin=script)
    assert goes_on.exit_code == 1
    assert "Int64(2)" in goes_on.stdout


def test_use_lasts_for_the_later_statements(server: ServerProcess) -> None:
    script = "CREATE DATABASE other; USE other; CREATE TABLE here (ts TIMESTAMP TIME INDEX); SHOW TABLES;"
    assert " here\n" in tsdb(server, "cli", stdin=script).stdout
    assert ["here"] in sql(server, "SHOW TABLES", "other")
    missing = tsdb(server, "cli", "-e", "USE nowhere; SELECT 1")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert missing.stderr.startswith("ERROR 4004: ")


def test_meta_commands_work_in_scripts(server: ServerProcess, tmp_path: Path) -> None:
    inner, out = tmp_path / "inner.sql", tmp_path / "out.csv"
    inner.write_text("SELECT 'from inside' AS place;\n")
    shown = "\\d kinds\n\\dt kin%\n\\l\n\\x\nSELECT 7 AS seven;\n\\x off\n"
    script = f"{shown}\\i {inner}\n\\format csv\n\\o {out}\nSELECT 8 AS eight"
    result = tsdb(server, "cli", stdin=script)
    assert result.exit_code == 0, result.stderr
    for text in ("TimestampNanosecond", " kinds | BASE TABLE", " public\n", "seven | 7\n", " from inside\n"):
        assert text in result.stdout
    assert out.read_text() == '"eight"\n8\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("\\tmiing", "there is no command \\tmiing; did you mean \\timing?"),
        ("\\format xml", "the format is one of table, vertical, csv, json, arrow; received 'xml'"),
        ("\\i /nowhere/x.sql", "/nowhere/x.sql cannot be read: No such file or directory"),
        ("\\watch soon", "expected a number of seconds above 0, received 'soon'"),
        ("\\plot SELECT 1", "the result has no timestamp column for the x axis; select the time column too"),
        ("\\range yesterday", "expected a duration such as 1h or 30s, received 'yesterday'"),
    ],
)
def test_a_wrong_meta_command_is_explained(server: ServerProcess, line: str, message: str) -> None:
    result = tsdb(server, "cli", "-e", line)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_script_that_includes_itself_ends(server: ServerProcess, tmp_path: Path) -> None:
    script = tmp_path / "loop.sql"
    script.write_text(f"\\i {script}\n")
    result = tsdb(server, "cli", "-e", f"\\i {script}")
    assert result.exit_code == 1
    assert "include each other more than 16 deep" in result.stderr


def test_watch_runs_the_last_statement_again(server: ServerProcess) -> None:
    result = tsdb(server, "cli", stdin="SELECT 5 AS five;\n\\watch 0.01 3\n")
    assert result.stdout.count("\n five\n") == 3


def test_promql_is_evaluated_now_or_over_a_range(server: ServerProcess) -> None:
    result = tsdb(server, "cli", "--promql", "--format", "json", "-e", "vector(1.5)\n\\range 1m 20s\nvector(2)")
    values = [json.loads(line)["tsdb_value"] for line in result.stdout.splitlines()]
    assert values == [1.5, 2.0, 2.0, 2.0, 2.0]


def test_a_chart_has_axes_and_a_legend_and_no_colours_outside_a_terminal(server: ServerProcess) -> None:
    query = (
        "SELECT arrow_cast(value * 1000, 'Timestamp(Millisecond, None)') AS ts, value % 2 AS odd, 10 - value AS falling"
        " FROM generate_series(0, 9) AS t(value)"
    )
    text = tsdb(server, "cli", "-e", f"\\plot {query}").stdout
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0].startswith("10 ┤⠉")
    assert lines[-2].split() == ["1970-01-01", "00:00:00.000", "1970-01-01", "00:00:09.000"]
    assert lines[-1] == "━ odd   ━ falling"


def test_exit_codes_say_what_went_wrong(server: ServerProcess) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        refused = tsdb(nobody, "cli", "-e", "SELECT 1")
    assert refused.exit_code == 3
    assert "Connection refused; is the server running? see --url" in refused.stderr
    assert tsdb("ftp://x", "cli", "-e", "SELECT 1").exit_code == 2
    assert tsdb(server, "cli", "--timeout", "soon", "-e", "SELECT 1").exit_code == 2
    assert tsdb(server, "cli", "--time-zone", "Mars/Base", "-e", "SELECT 1").exit_code == 1


def test_a_timeout_ends_a_statement(server: ServerProcess) -> None:
    slow = "SELECT count(*) FROM generate_series(1, 100000000000) AS slow"
    result = tsdb(server, "cli", "--timeout", "300ms", "-e", slow)
    assert result.exit_code == 1
    assert result.stderr.startswith("ERROR")


def test_a_closed_pipe_ends_quietly_and_cancels(server: ServerProcess) -> None:
    endless = "SELECT a.value, b.value FROM generate_series(1, 100000) a(value), generate_series(1, 100000) b(value)"
    with tsdb_process(server, "cli", "--format", "csv", "-e", endless) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'"value","value"\n'
        process.stdout.close()
        assert process.wait(60) == 128 + signal.SIGPIPE
        assert process.stderr.read() == b""
    _wait_until_idle(server)


def test_an_interrupt_cancels_the_statement_on_the_server(server: ServerProcess) -> None:
    slow = "SELECT count(*) FROM generate_series(1, 100000000000) AS slow"
    with tsdb_process(server, "cli", "-e", slow) as process:
        _wait_for(lambda: _running(server) > 0)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 128 + signal.SIGINT
    _wait_until_idle(server)


def test_an_answer_that_breaks_off_is_an_error() -> None:
    def serve(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client, client.makefile("rb") as request:
            headers = list(iter(request.readline, b"\r\n"))
            length = next(int(line[15:]) for line in headers if line.lower().startswith(b"content-length:"))
            request.read(length)  # closing with unread bytes would reset the connection
            client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\xff\xff\xff\xff\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        result = tsdb(f"http://127.0.0.1:{listener.getsockname()[1]}", "cli", "-e", "SELECT 1")
        thread.join(10)
    assert result.exit_code == 1
    assert "the server closed the connection before the end of the response" in result.stderr


def _running(server: ServerProcess) -> int:
    query = "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%generate_series%'"
    return int(str(sql(server, query)[0][0])) - 1  # without this one


def _wait_until_idle(server: ServerProcess) -> None:
    _wait_for(lambda: _running(server) == 0)


def _wait_for(is_true: object, seconds: float = 60) -> None:
    assert callable(is_true)
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
