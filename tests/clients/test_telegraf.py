"""Telegraf reads points from a file and writes them with each of its outputs that the server has a protocol for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.clients.programs import WAIT_SECONDS_MAX, ask, find_driver, run_program, snippet
from tests.server_process import ServerProcess

MILLISECOND = 1_700_000_000_123
NANOSECOND = MILLISECOND * 1_000_000 + 456_789
NUMBERS = """\
{name},host=a,zone=x_y usage=0.5,jobs=3i {time}
{name},host=b usage=0.25,jobs=4i {time}
{name},host=b usage=0.75,jobs=5i {later}
"""
"""Two points of the same time and one of a second later."""
ALL_TYPES = """\
{name},host=a,zone=x\\ y usage=0.5,jobs=3i,ok=true,state="up \\"now\\"" {time}
{name},host=b usage=0.25,jobs=4i,ok=false,state="" {time}
{name},host=b usage=0.75,jobs=5i,ok=false,state="down" {later}
"""
AGENT = """\
[agent]
  omit_hostname = true
  precision = "1ns"
  skip_processors_after_aggregators = true
[[inputs.file]]
  files = ["{path}"]
  data_format = "influx"
"""


def _run(directory: Path, output: str, points: str) -> str:
    """Have Telegraf write points once; returns its log."""
    lines, config = directory / "points.txt", directory / "telegraf.conf"
    lines.write_text(points)
    config.write_text(AGENT.format(path=lines) + output)
    telegraf = str(find_driver("telegraf"))
    options = ("--strict-env-handling", "--once", "--config", str(config))
    return run_program("sh", "-c", '"$0" "$@" 2>&1', telegraf, *options)


def _write(directory: Path, output: str, points: str, name: str) -> None:
    log = _run(directory, output, points.format(name=name, time=NANOSECOND, later=NANOSECOND + 1_000_000_000))
    assert " E! " not in log, log
    assert " W! " not in log, log


def _rows(server: ServerProcess, text: str) -> list[list[Any]]:
    rows = ask(server, text)
    assert rows is not None, text
    return rows


def _check_numbers(server: ServerProcess, name: str, first: int, missing: int | None = None) -> None:
    """Check the tables of one field each, whose first points have this time; Telegraf may not send one of them."""
    for field, values in (("usage", [0.5, 0.25, 0.75]), ("jobs", [3.0, 4.0, 5.0])):
        rows = [
            ["a", "x_y", values[0], first],
            ["b", None, values[1], first],
            ["b", None, values[2], first + 1_000],
        ]
        text = f"SELECT host, zone, tsdb_value, tsdb_timestamp FROM {name}_{field} ORDER BY host, tsdb_timestamp"
        expected = [row for place, row in enumerate(rows) if place != missing]
        deadline = time.monotonic() + WAIT_SECONDS_MAX  # telnet does not acknowledge
        while (found := ask(server, text)) != expected:
            assert time.monotonic() < deadline, found
            time.sleep(0.1)


@pytest.mark.parametrize("path", ["/v1/influxdb", ""])
@pytest.mark.parametrize("output", ["influxdb", "influxdb_v2"])
def test_lines_arrive_with_all_types_and_nanoseconds(
    server: ServerProcess, tmp_path: Path, output: str, path: str
) -> None:
    text = snippet(f"outputs.{output}", server)
    assert "/v1/influxdb" in text
    name = f"{output}_{'ours' if path else 'root'}"
    _write(tmp_path, text.replace("/v1/influxdb", path), ALL_TYPES, name)
    text = f"SELECT host, zone, usage, jobs, ok, state, tsdb_timestamp FROM {name} ORDER BY host, tsdb_timestamp"
    assert _rows(server, text) == [
        ["a", "x y", 0.5, 3, True, 'up "now"', NANOSECOND],
        ["b", None, 0.25, 4, False, "", NANOSECOND],
        ["b", None, 0.75, 5, False, "down", NANOSECOND + 1_000_000_000],
    ]


def test_without_the_option_to_skip_it_a_database_that_is_not_created_is_a_warning(
    server: ServerProcess, tmp_path: Path
) -> None:
    text = snippet("outputs.influxdb", server)
    assert "skip_database_creation = true" in text
    log = _run(tmp_path, text.replace("skip_database_creation = true", ""), "uncreated v=1 1")
    assert "creation failed" in log
    assert " E! " not in log, log
    assert _rows(server, "SELECT v FROM uncreated") == [[1.0]]


@pytest.mark.parametrize("heading", ["outputs.opentsdb", "outputs.opentsdb over HTTP"])
def test_opentsdb_points_arrive_in_one_table_per_field(server: ServerProcess, tmp_path: Path, heading: str) -> None:
    name = heading.replace(".", "_").replace(" ", "_").lower()
    _write(tmp_path, snippet(heading, server), NUMBERS, name)
    _check_numbers(server, name, MILLISECOND // 1_000 * 1_000)


@pytest.mark.parametrize("path", ["/v1/prometheus/write", "/api/v1/write"])
def test_remote_write_arrives_in_one_table_per_field(server: ServerProcess, tmp_path: Path, path: str) -> None:
    text = snippet("outputs.http", server)
    assert "/v1/prometheus/write" in text
    name = "remote_" + path.strip("/").replace("/", "_")
    _write(tmp_path, text.replace("/v1/prometheus/write", path), NUMBERS, name)
    # Of the points of a series that it writes at once, Telegraf sends only the last one.
    _check_numbers(server, name, MILLISECOND, missing=1)


def test_opentelemetry_arrives_in_one_table_per_field(server: ServerProcess, tmp_path: Path) -> None:
    _write(tmp_path, snippet("outputs.opentelemetry", server), NUMBERS, "otel")
    _check_numbers(server, "otel", MILLISECOND)


@pytest.mark.parametrize("has_key", [False, True])
def test_the_postgresql_output_creates_tables_and_adds_columns(
    server: ServerProcess, tmp_path: Path, has_key: bool
) -> None:
    output = snippet("outputs.postgresql with a primary key" if has_key else "outputs.postgresql", server)
    name = f"postgresql_{'keyed' if has_key else 'plain'}"
    more = f"{name},host=b,rack=r usage=1,total=18446744073709551615u {NANOSECOND + 2_000_000_000}\n{name}_2 v=1 1\n"
    _write(tmp_path, output, ALL_TYPES, name)
    _write(tmp_path, output, ALL_TYPES + more, name)
    first, unit = (NANOSECOND // 1_000, 1_000_000) if has_key else (MILLISECOND, 1_000)
    rows = [
        ["a", "x y", 0.5, 3, True, 'up "now"', first, None, None],
        ["b", None, 0.25, 4, False, "", first, None, None],
        ["b", None, 0.75, 5, False, "down", first + unit, None, None],
    ]
    last = ["b", None, 1.0, None, None, None, first + 2 * unit, "r", "18446744073709551615.0000000000"]
    columns = 'host, zone, usage, jobs, ok, state, "time", rack, total'
    found = _rows(server, f'SELECT {columns} FROM {name} ORDER BY host, "time"')
    assert found == [row for row in rows for _ in range(1 if has_key else 2)] + [last]
    assert _rows(server, f"SELECT v FROM {name}_2") == [[1.0]]
    text = (
        f"SELECT column_name FROM information_schema.key_column_usage WHERE table_name = '{name}' ORDER BY column_name"
    )
    keys = [row[0] for row in _rows(server, text) if row[0] != "time"]
    assert keys == (["host", "rack", "zone"] if has_key else [])
