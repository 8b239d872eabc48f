"""An export that is interrupted, killed or loses its server ends with exactly the rows of one that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.clients import sql, tsdb, tsdb_process
from tests.cli.window_proxy import SECONDS_MAX, WindowProxy, proxy_of
from tests.server_process import ServerProcess
from tsdb.cli.transfer.exports import _windows

ROWS = int(os.environ.get("TSDB_EXPORT_ROWS", "8000"))
FEW = 800
START = 1_700_000_000_000
WINDOWS = 8
KILLED_AFTER = (3,) if ROWS <= 8000 else (2, 1, 2)


@pytest.fixture(scope="module")
def proxy(server: ServerProcess) -> Iterator[WindowProxy]:
    with proxy_of(server) as started:
        yield started


@pytest.fixture(scope="module")
def table(server: ServerProcess) -> str:
    return _table(server, "exported", ROWS)


def _table(server: ServerProcess, name: str, rows: int) -> str:
    """A row for each millisecond; some have no field."""
    columns = "host STRING, ts TIMESTAMP TIME INDEX, n BIGINT, text STRING, PRIMARY KEY (host)"
    sql(server, f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns})")
    for start in range(0, rows, 10_000):
        values = (
            f"('h{n % 7}', {START + n}, {n}, 'row, \"{n}\"')" if n % 100 else f"('h{n % 7}', {START + n}, NULL, NULL)"
            for n in range(start, min(rows, start + 10_000))
        )
        sql(server, f"INSERT INTO {name} VALUES {', '.join(values)}")
    return name


def _window(rows: int) -> tuple[str, str]:
    """Windows of an eighth of the rows."""
    return "--window", f"{rows // WINDOWS}ms"


def _rows(path: Path) -> list[str]:
    """The rows of a file in an order of their own; the head of CSV is one of them, and the schema of Parquet."""
    if path.suffix == ".parquet":
        found = pq.read_table(path)
        return [str(found.schema), *map(str, found.sort_by("ts").to_pylist())]
    return sorted(path.read_text().splitlines())


def _kept(out: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads(out.with_name(f".{out.name}.part.state").read_text())
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("suffix", "number"),
    [("csv", signal.SIGKILL), ("jsonl", signal.SIGTERM), ("lp", signal.SIGINT), ("parquet", signal.SIGKILL)],
)
def test_an_export_that_is_killed_continues_and_has_exactly_the_rows(
    server: ServerProcess, proxy: WindowProxy, table: str, tmp_path: Path, suffix: str, number: signal.Signals
) -> None:
    out, whole = tmp_path / f"x.{suffix}", tmp_path / f"whole.{suffix}"
    options = (table, "-o", out, *_window(ROWS))
    behind = 0
    for windows in KILLED_AFTER:
        proxy.allow(windows, holds=True)
        with tsdb_process(proxy.url, "export", *options) as process:
            assert proxy.in_part.wait(SECONDS_MAX)
            process.send_signal(number)
            _, errors = process.communicate(timeout=SECONDS_MAX)
        if number == signal.SIGKILL:
            assert process.returncode == -number
        else:
            assert (process.returncode, errors.decode().splitlines()[-1]) == (
                130,
                "interrupted; the same command continues the export",
            )
        assert not out.exists()
        kept = _kept(out)
        assert behind < kept["next"] <= START + ROWS
        if number != signal.SIGKILL:
            assert kept["next"] == (behind or START) + windows * (ROWS // WINDOWS)
        behind = kept["next"]
    done = (behind - START) // (ROWS // WINDOWS)
    proxy.allow(None)
    last = tsdb(proxy.url, "export", *options)
    assert last.exit_code == 0, last.stderr
    assert f"continues after {kept['rows']:,} rows" in last.stderr
    assert proxy.windows == WINDOWS - done, "only what was missing was read"
    assert tsdb(server, "export", table, "-o", whole, "--no-resume").exit_code == 0
    assert _rows(out) == _rows(whole)
    assert len(_rows(out)) == {"lp": ROWS - ROWS // 100, "jsonl": ROWS}.get(suffix, ROWS + 1)
    assert {each.name for each in tmp_path.iterdir()} == {out.name, whole.name}


def test_windows_by_the_number_of_rows_continue_too(
    server: ServerProcess, proxy: WindowProxy, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_windows, "ROWS_MIN", ROWS // 10)
    out, whole = tmp_path / "x.csv", tmp_path / "whole.csv"
    bounds = ("--start", "2023-11-14 17:13:20.005", "--time-zone", "America/New_York")
    proxy.allow(4)
    broken = tsdb(proxy.url, "export", table, "-o", out, *bounds)
    assert broken.exit_code == 1
    assert "what was exported is kept; the same command continues the export" in broken.stderr
    proxy.allow(None)
    assert tsdb(proxy.url, "export", table, "-o", out, *bounds).exit_code == 0
    assert 10 - 4 <= proxy.windows <= 20
    assert tsdb(server, "export", table, "-o", whole, "--no-resume", *bounds).exit_code == 0
    assert _rows(out) == _rows(whole)
    assert len(_rows(out)) == ROWS - 5 + 1


@pytest.fixture
def few(server: ServerProcess) -> str:
    return _table(server, "few", FEW)


@pytest.fixture
def interrupted(proxy: WindowProxy, few: str, tmp_path: Path) -> Path:
    """The file of an export that was interrupted after two of eight windows."""
    out = tmp_path / "x.csv"
    proxy.allow(2)
    assert tsdb(proxy.url, "export", few, "-o", out, *_window(FEW)).exit_code == 1
    proxy.allow(None)
    assert _kept(out)["rows"] == FEW // 4
    return out


def test_rows_of_the_meantime_are_exported_if_their_window_is_still_to_be_read(
    server: ServerProcess, proxy: WindowProxy, few: str, interrupted: Path
) -> None:
    before, behind, later = START + 10, START + FEW // 2 + 10, START + FEW
    sql(
        server,
        f"INSERT INTO few VALUES ('new', {before}, 1, 'a'), ('new', {behind}, 2, 'b'), ('new', {later}, 3, 'c');"
        f"DELETE FROM few WHERE ts = {before + 1}; DELETE FROM few WHERE ts = {behind + 1} AND host <> 'new'",
    )
    assert tsdb(proxy.url, "export", few, "-o", interrupted, *_window(FEW)).exit_code == 0
    lines = interrupted.read_text().splitlines()[1:]
    assert [line.rpartition(",")[2] for line in lines if line.startswith('"new"')] == ['"b"']
    assert len(lines) == FEW + 1 - 1
    assert len([line for line in lines if ",11," in line]) == 1, "it was there when its window was read"


def test_what_was_kept_of_another_export_is_refused(
    proxy: WindowProxy, table: str, few: str, interrupted: Path
) -> None:
    before = {each.name: each.read_bytes() for each in interrupted.parent.iterdir()}
    for arguments, message in (
        ((few, "--start", "2020-01-01", "--time-zone", "Asia/Tokyo"),
         "--start none, now 2020-01-01, --time-zone UTC, now Asia/Tokyo"),
        ((few, "--format", "jsonl"), "format csv, now jsonl"),
        ((table,), "table few, now exported"),
    ):  # fmt: skip
        result = tsdb(proxy.url, "export", *arguments, "-o", interrupted)
        assert result.exit_code == 1
        assert message in result.stderr
        assert "--restart" in result.stderr
    assert before == {each.name: each.read_bytes() for each in interrupted.parent.iterdir()}
    assert tsdb(proxy.url, "export", table, "-o", interrupted, "--restart").exit_code == 0
    assert list(interrupted.parent.iterdir()) == [interrupted]
    assert len(interrupted.read_text().splitlines()) == ROWS + 1


def test_another_server_another_table_and_other_columns_are_refused(
    server: ServerProcess, proxy: WindowProxy, few: str, interrupted: Path
) -> None:
    result = tsdb(server, "export", few, "-o", interrupted)
    assert f"server {proxy.url}, now {server.url}" in result.stderr
    sql(server, "ALTER TABLE few ADD COLUMN more DOUBLE")
    result = tsdb(proxy.url, "export", few, "-o", interrupted)
    assert "the columns of the table have changed since the export began" in result.stderr
    _table(server, "few", 10)
    result = tsdb(proxy.url, "export", few, "-o", interrupted)
    assert "table id" in result.stderr
    assert tsdb(proxy.url, "export", few, "-o", interrupted, "--restart").exit_code == 0
    assert len(interrupted.read_text().splitlines()) == 11


def test_a_state_without_its_part_is_worth_nothing_and_a_damaged_one_is_refused(
    proxy: WindowProxy, few: str, interrupted: Path
) -> None:
    part, state = (interrupted.with_name(f".{interrupted.name}.part{end}") for end in ("", ".state"))
    state.write_text("{")
    result = tsdb(proxy.url, "export", few, "-o", interrupted)
    assert "is not the state of an export" in result.stderr
    assert tsdb(proxy.url, "export", few, "-o", interrupted, "--restart").exit_code == 0
    interrupted.unlink()
    proxy.allow(2)
    assert tsdb(proxy.url, "export", few, "-o", interrupted, *_window(FEW)).exit_code == 1
    proxy.allow(None)
    part.unlink()
    result = tsdb(proxy.url, "export", few, "-o", interrupted, *_window(FEW))
    assert result.exit_code == 0
    assert "continues" not in result.stderr
    assert len(interrupted.read_text().splitlines()) == FEW + 1


def test_a_second_export_to_the_same_file_is_refused_while_one_runs(
    server: ServerProcess, proxy: WindowProxy, few: str, tmp_path: Path
) -> None:
    out = tmp_path / "x.csv"
    proxy.allow(0, holds=True)
    with tsdb_process(proxy.url, "export", few, "-o", out, *_window(FEW)) as process:
        assert proxy.in_part.wait(SECONDS_MAX)
        result = tsdb(server, "export", few, "-o", out)
        assert (result.exit_code, f"another export to {out} is running" in result.stderr) == (1, True)
        _interrupt(process, "interrupted; nothing was left behind")
    assert list(tmp_path.iterdir()) == []


def _interrupt(process: subprocess.Popen[bytes], message: str) -> None:
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 130
    assert errors.decode().splitlines()[-1] == message


def test_an_empty_table_is_a_file_without_rows(server: ServerProcess, tmp_path: Path) -> None:
    _table(server, "no_rows", 0)
    for suffix in ("csv", "parquet"):
        assert tsdb(server, "export", "no_rows", "-o", tmp_path / f"x.{suffix}").exit_code == 0
    assert (tmp_path / "x.csv").read_text() == '"host","ts","n","text"\n'
    assert pq.read_table(tmp_path / "x.parquet").schema.names == ["host", "ts", "n", "text"]


def test_options_that_do_not_go_together_are_refused(server: ServerProcess, table: str, tmp_path: Path) -> None:
    for arguments, message in (
        (("-q", "SELECT 1", "--restart"), "an export of a query cannot be continued"),
        ((table, "--window", "1x"), "is not a duration"),
        ((table, "--window", "1ns"), "is shorter than the unit of ts"),
        ((table, "--no-resume", "--window", "1h"), "are for exports to a file that can be continued"),
    ):
        result = tsdb(server, "export", *arguments, "-o", tmp_path / "x.csv")
        assert (result.exit_code, message in result.stderr) == (1, True), result.stderr
    assert list(tmp_path.iterdir()) == []
