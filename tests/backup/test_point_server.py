"""A server whose disk is lost while clients write: what `tsdb restore --to-time` brings back."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from pathlib import Path

import httpx
from click.testing import CliRunner

from tests.backup.world import opened
from tests.cli.clients import sql, tsdb
from tests.engine.lives import wait_until
from tests.server_process import running
from tsdb.backup import format_time
from tsdb.cli._commands import _tree

SHARED = "TSDB_STANDALONE__WAL__SHARED__"


class Writers:
    """Threads that write rows, and know for each when it was begun and when it was acknowledged."""

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self._stop = threading.Event()
        self.rows: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._stop.is_set():
                count = len(self.rows[number])
                line = f"load,series=s{number} v={count} {count}"
                begun = time.time_ns()
                answer = client.post(f"{self._url}/v1/influxdb/write?precision=ms", content=line)
                if answer.status_code != 204:
                    return
                self.rows[number].append((begun, time.time_ns()))

    def wait_for_more(self) -> None:
        wanted = [len(each) + 5 for each in self.rows]
        wait_until(lambda: all(len(each) >= least for each, least in zip(self.rows, wanted, strict=True)), seconds=120)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)


def test_a_lost_server_is_restored_to_a_moment_under_load(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    configuration = tmp_path / "tsdb.toml"
    configuration.write_text(f'[[storage.providers]]\nname = "vault"\ntype = "File"\ndata_home = "{vault}"\n')
    environment = {
        f"{SHARED}ENABLE": "true",
        f"{SHARED}STORAGE": "vault",
        f"{SHARED}RETENTION": "1h",
        f"{SHARED}INTERVAL": "20ms",
    }
    with running("standalone", tmp_path, "-c", str(configuration), environment=environment) as server:
        writers = Writers(server.url, 3)
        try:
            writers.wait_for_more()
            made = tsdb(server, "backup", "--to", "vault:nightly", "--name", "n1")
            assert made.exit_code == 0, made.output
            writers.wait_for_more()
            sql(server, "ADMIN flush_table('load')")
            sql(server, "CREATE TABLE before (ts TIMESTAMP TIME INDEX)")
            writers.wait_for_more()
            to_ns = time.time_ns()
            writers.wait_for_more()
            sql(server, "CREATE TABLE after (ts TIMESTAMP TIME INDEX)")
            sql(server, "TRUNCATE TABLE load")
            assert sql(server, "SELECT count(*) FROM information_schema.wal_segments WHERE state = 'held'") == [[0]]
        finally:
            writers.stop()
        server.stop(signal.SIGKILL)
    shutil.rmtree(tmp_path / "data")
    listed = _command("backup", "list", "--from", vault / "nightly")
    assert "ROLLS FORWARD TO" in listed.splitlines()[0]
    assert listed.splitlines()[1].split()[-2] >= format_time(to_ns).split("T")[0]
    restored = tmp_path / "restored"
    done = _command("restore", "--from", vault / "nightly", "--data-home", restored, "--to-time", format_time(to_ns))
    assert f"up to {format_time(to_ns)}" in done
    with opened(restored) as db:
        assert db.sql("SHOW TABLES LIKE 'before'").fetchall()
        assert not db.sql("SHOW TABLES LIKE 'after'").fetchall()
        for number, rows in enumerate(writers.rows):
            found = db.sql(f"SELECT v FROM load WHERE series = 's{number}' ORDER BY v").fetchall()
            # Without holes, with all that were acknowledged before, and none that was begun later.
            assert [each for (each,) in found] == list(range(len(found)))
            assert len(found) >= sum(acknowledged < to_ns for _, acknowledged in rows)
            assert len(found) <= sum(begun < to_ns for begun, _ in rows)
    wrong = _command(
        "restore",
        "--from",
        vault / "nightly",
        "--data-home",
        tmp_path / "x",
        "--to-time",
        "2026-01-01T00:00:00",
        code=1,
    )
    assert "has no time zone" in wrong
    assert not (tmp_path / "x").exists()


def _command(*words: str | Path, code: int = 0) -> str:
    """Run a command that needs no server; return what it prints."""
    done = CliRunner().invoke(_tree(), list(map(str, words)), prog_name="tsdb")
    assert done.exit_code == code, done.output
    return done.output
