"""`tsdb backup` against a running server: what it prints, and where a server makes no backups."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
from click.testing import CliRunner

from tests.cli.clients import sql, tsdb
from tests.engine.lives import wait_until
from tests.server_process import ServerProcess
from tsdb.cli._commands import _tree


def _home(server: ServerProcess) -> Path:
    return server.output_file.parent / "data"


def _offline(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(_tree(), list(map(str, words)), prog_name="tsdb")
    return done.exit_code, done.output


def test_a_backup_is_made_listed_verified_and_pruned(server: ServerProcess) -> None:
    sql(server, "CREATE TABLE backed_up (ts TIMESTAMP TIME INDEX, v DOUBLE)")
    sql(server, "INSERT INTO backed_up VALUES (1, 1)")
    place = _home(server) / "backup" / "cli"
    for name in ("one", "two"):
        made = tsdb(server, "backup", "--to", "cli", "--name", name)
        assert made.exit_code == 0, made.output
        assert f"{place}: {name}" in made.output
    assert " 0 files (0 B) copied" in made.output
    code, text = _offline("backup", "list", "--from", place)
    assert (code, [line.split()[0] for line in text.splitlines()]) == (0, ["NAME", "one", "two"])
    assert _offline("backup", "verify", "--from", place, "--backup", "latest", "-q")[1].startswith("ok: 1 backups")
    assert "deleted: one" in _offline("backup", "prune", "--from", place, "--keep", "1")[1]
    next(place.glob("files/*/*.data")).write_bytes(b"")
    code, text = _offline("backup", "verify", "--from", place)
    assert code == 1
    assert "it has 0 bytes" in text
    assert 'tsdb_backups_total{result="done"}' in server.get("/metrics").text


def test_a_server_writes_to_no_other_places(server: ServerProcess, tmp_path: Path) -> None:
    for place in (tmp_path / "x", "../x", "cold:x", "s3://bucket/x", "default:../../x", f"{_home(server)}/data/x"):
        refused = tsdb(server, "backup", "--to", place)
        assert refused.exit_code == 1, place
        assert "ERROR: 1004" in refused.output
    assert not (tmp_path / "x").exists()
    assert tsdb(server, "backup", "--to", "default:named").exit_code == 0
    assert (_home(server) / "backup" / "named" / "backups").is_dir()


def test_wrong_usage_is_told(server: ServerProcess, tmp_path: Path) -> None:
    assert tsdb(server, "backup").exit_code == 2
    assert tsdb("http://127.0.0.1:1", "backup", "--to", "x").exit_code == 3
    assert _offline("backup", "list", "--from", tmp_path / "nowhere")[0] == 1
    assert _offline("backup", "prune", "--from", tmp_path, "--keep", "0")[0] == 2
    assert _offline("restore", "--from", tmp_path, "--store-ca-file", "ca.pem")[0] == 2
    assert _offline("restore", "--from", tmp_path, "--data-home", tmp_path / "new") == (
        1,
        f"ERROR: there are no backups (place: {tmp_path}); check the path\n",
    )
    assert not (tmp_path / "new").exists()


def test_a_backup_is_watched_by_its_id(server: ServerProcess) -> None:
    [[job]] = sql(server, "ADMIN start_backup('watched')")

    def look() -> dict[str, object]:
        [[answer]] = sql(server, f"ADMIN backup_state('{job}')")
        found: dict[str, object] = json.loads(str(answer))
        return found

    wait_until(lambda: look()["state"] != "running", seconds=60)
    state = look()
    assert state["state"] == "done"
    assert state["place"] == str(_home(server) / "backup" / "watched")
    [[answer]] = sql(server, f"ADMIN cancel_backup('{job}')")
    assert json.loads(str(answer))["state"] == "done"
    unknown = httpx.post(f"{server.url}/v1/sql", data={"sql": "ADMIN backup_state('nobody')"}, timeout=60)
    assert "there is no backup with the id 'nobody'" in unknown.text
