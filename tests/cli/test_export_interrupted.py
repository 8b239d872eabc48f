"""An export that is interrupted, killed or loses its server ends with exactly the rows of one that was not."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.clients import sql, tsdb, tsdb_process
from tests.cli.holding_proxy import SECONDS_MAX, HoldingProxy, proxy_of
from tests.cli.terminal import CTRL_C, terminal
from tests.server_process import TSDB, ServerProcess
from tsdb.cli.transfer.exports import _windows

ROWS = int(os.environ.get("TSDB_EXPORT_ROWS", "8000"))
FEW = 800
START = 1_700_000_000_000
WINDOWS = 8
KILLED_AFTER = (3,) if ROWS <= 8000 else (2, 1, 2)

pytestmark = pytest.mark.timeout(max(300, ROWS // 1000))


@pytest.fixture(scope="module")
def proxy(server: ServerProcess) -> Iterator[HoldingProxy]:
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


@pytest.mark.parametrize(
    ("suffix", "number"),
    [("csv", signal.SIGKILL), ("jsonl", signal.SIGTERM), ("parquet", signal.SIGKILL)],
)
def test_an_export_that_is_killed_continues_and_has_exactly_the_rows(
    server: ServerProcess, proxy: HoldingProxy, table: str, tmp_path: Path, suffix: str, number: signal.Signals
) -> None:
    out = tmp_path / f"x.{suffix}"
    options = (table, "-o", out, *_window(ROWS))
    done = 0
    for windows in KILLED_AFTER:
        proxy.allow(windows, holds=True)
        with tsdb_process(proxy.url, "export", *options) as process:
            assert proxy.in_part.wait(SECONDS_MAX)
            second = tsdb(server, "export", table, "-o", out) if number == signal.SIGTERM else None
            process.send_signal(number)
            _, errors = process.communicate(timeout=SECONDS_MAX)
        assert second is None or f"another export to {out} is running" in second.stderr
        assert not out.exists()
        kept = _kept(out)
        if number == signal.SIGKILL:
            assert process.returncode == -number
            assert START < kept["next"] <= START + (done + windows) * ROWS // WINDOWS
        else:
            last_line = errors.decode().splitlines()[-1]
            assert (process.returncode, last_line) == (130, "interrupted; the same command continues the export")
            assert kept["next"] == START + (done + windows) * ROWS // WINDOWS
        done = (kept["next"] - START) * WINDOWS // ROWS
        proxy.drop()
    last = tsdb(proxy.url, "export", *options)
    assert last.exit_code == 0, last.stderr
    assert f"continues after {kept['rows']:,} rows" in last.stderr
    assert proxy.requests == WINDOWS - done, "only what was missing was read"
    _check_exact(server, out, ROWS if suffix == "jsonl" else ROWS + 1)


def _check_exact(server: ServerProcess, out: Path, expected: int) -> None:
    """Compare with an export that was not interrupted."""
    whole = out.with_name(f"whole{out.suffix}")
    assert tsdb(server, "export", "exported", "-o", whole, "--no-resume").exit_code == 0
    assert _rows(out) == _rows(whole)
    assert len(_rows(out)) == expected
    assert {each.name for each in out.parent.iterdir()} == {out.name, whole.name}


def test_a_terminal_shows_rows_rate_and_total_until_ctrl_c_and_again_when_it_continues(
    server: ServerProcess, proxy: HoldingProxy, table: str, tmp_path: Path
) -> None:
    out = tmp_path / "x.lp"
    command = [*TSDB, "export", table, "--url", proxy.url, "-o", str(out), *_window(ROWS)]
    shown = [f"{(ROWS - ROWS // 100) * done // WINDOWS:,}/{ROWS:,} rows, [\\d,]+ rows/s" for done in range(WINDOWS + 1)]
    proxy.allow(2, holds=True)
    with terminal(command, columns=220) as screen:
        screen.expect(shown[2], SECONDS_MAX)
        proxy.allow(2, holds=True)
        screen.expect(shown[4], SECONDS_MAX)
        assert proxy.in_part.wait(SECONDS_MAX)
        screen.type(CTRL_C)
        screen.expect("interrupted; the same command continues the export", SECONDS_MAX)
        assert screen.wait(SECONDS_MAX) == 130
    proxy.drop()
    with terminal(command, columns=220) as screen:
        screen.expect(f"continues after {_kept(out)['rows']:,} rows", SECONDS_MAX)
        screen.expect(shown[WINDOWS], SECONDS_MAX)
        assert screen.wait(SECONDS_MAX) == 0
    _check_exact(server, out, ROWS - ROWS // 100)


def test_windows_by_the_number_of_rows_continue_too(
    server: ServerProcess, proxy: HoldingProxy, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_windows, "ROWS_MIN", ROWS // 5)
    out, whole = tmp_path / "x.csv", tmp_path / "whole.csv"
    bounds = ("--start", "2023-11-14 17:13:20.005", "--time-zone", "America/New_York")
    proxy.allow(3)
    broken = tsdb(proxy.url, "export", table, "-o", out, *bounds)
    assert broken.exit_code == 1
    assert "what was exported is kept; the same command continues the export" in broken.stderr
    proxy.drop()
    assert tsdb(proxy.url, "export", table, "-o", out, *bounds).exit_code == 0
    assert 5 - 3 <= proxy.requests <= 8
    assert tsdb(server, "export", table, "-o", whole, "--no-resume", *bounds).exit_code == 0
    assert _rows(out) == _rows(whole)
    assert len(_rows(out)) == ROWS - 5 + 1


@pytest.fixture
def few(server: ServerProcess) -> str:
    return _table(server, "few", FEW)


@pytest.fixture
def interrupted(proxy: HoldingProxy, few: str, tmp_path: Path) -> Path:
    """The file of an export that was interrupted after two of eight windows."""
    out = tmp_path / "x.csv"
    proxy.allow(2)
    assert tsdb(proxy.url, "export", few, "-o", out, *_window(FEW)).exit_code == 1
    proxy.drop()
    assert _kept(out)["rows"] == FEW // 4
    return out


def test_rows_of_the_meantime_are_exported_if_their_window_is_still_to_be_read(
    server: ServerProcess, proxy: HoldingProxy, few: str, interrupted: Path
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
    proxy: HoldingProxy, table: str, few: str, interrupted: Path
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
    server: ServerProcess, proxy: HoldingProxy, few: str, interrupted: Path
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
    proxy: HoldingProxy, few: str, interrupted: Path
) -> None:
    part, state = (interrupted.with_name(f".{interrupted.name}.part{end}") for end in ("", ".state"))
    state.write_text("{")
    result = tsdb(proxy.url, "export", few, "-o", interrupted)
    assert "is not the state of an export" in result.stderr
    assert tsdb(proxy.url, "export", few, "-o", interrupted, "--restart").exit_code == 0
    interrupted.unlink()
    proxy.allow(2)
    assert tsdb(proxy.url, "export", few, "-o", interrupted, *_window(FEW)).exit_code == 1
    proxy.drop()
    part.unlink()
    result = tsdb(proxy.url, "export", few, "-o", interrupted, *_window(FEW))
    assert result.exit_code == 0
    assert "continues" not in result.stderr
    assert len(interrupted.read_text().splitlines()) == FEW + 1


def test_an_export_that_has_read_nothing_leaves_nothing(proxy: HoldingProxy, few: str, tmp_path: Path) -> None:
    proxy.allow(0)
    result = tsdb(proxy.url, "export", few, "-o", tmp_path / "x.csv", *_window(FEW))
    assert (result.exit_code, "is kept" in result.stderr) == (1, False)
    assert list(tmp_path.iterdir()) == []


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
