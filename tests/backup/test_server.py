"""Backups of a running server: by the command line, while clients write, and when the server is killed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pymysql
import pytest
from click.testing import CliRunner

from tests.backup.world import opened
from tests.cli.clients import sql, tsdb
from tests.engine.lives import wait_until
from tests.ingest.prometheus_messages import write_request
from tests.server_process import ServerProcess, running
from tests.store.services import BUCKET, S3Server
from tsdb.backup import format_time
from tsdb.cli._commands import _tree
from tsdb.engine.listing import DROPPING
from tsdb.store._crash import EXIT_CODE

CPU = "CREATE TABLE cpu (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY(host))"


class Writers:
    """Threads that write one series each, row after row: the times of a series are 0, 1, 2, …

    Every other one writes over MySQL, into a table of its own; the others send line protocol.
    """

    def __init__(self, server: ServerProcess, count: int) -> None:
        self._server = server
        self._stop = threading.Event()
        self.acknowledged = [0] * count
        """How many rows of each series were acknowledged."""
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def table(number: int) -> str:
        return "load_mysql" if number % 2 else "load_lines"

    def _run(self, number: int) -> None:
        with ExitStack() as stack:
            write = self._over_mysql(number, stack) if number % 2 else self._over_http(number, stack)
            while not self._stop.is_set():
                at = self.acknowledged[number]
                if not write(at):
                    return
                self.acknowledged[number] = at + 1

    def _over_http(self, number: int, stack: ExitStack) -> Callable[[int], bool]:
        client = stack.enter_context(httpx.Client(timeout=60))
        url = f"{self._server.url}/v1/influxdb/write?precision=ms"

        def write(at: int) -> bool:
            line = f"{self.table(number)},series=s{number} v={at} {at}"
            return client.post(url, content=line).status_code == 204

        return write

    def _over_mysql(self, number: int, stack: ExitStack) -> Callable[[int], bool]:
        address: dict[str, Any] = {"host": "127.0.0.1", "port": self._server.port_of("MySQL"), "read_timeout": 60}
        client = stack.enter_context(pymysql.connect(user="me", database="public", autocommit=True, **address))
        cursor = stack.enter_context(client.cursor())

        def write(at: int) -> bool:
            return cursor.execute(f"INSERT INTO {self.table(number)} VALUES ('s{number}', {at}, {at})") == 1

        return write

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)


class Maintenance:
    """A thread that flushes and compacts the tables of the writers, again and again."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._stop = threading.Event()
        self.rounds = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for number in range(2):
                for command in ("flush_table", "compact_table"):
                    sql(self._server, f"ADMIN {command}('{Writers.table(number)}')")
            self.rounds += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)


@pytest.mark.timeout(300)
def test_a_backup_under_load_has_every_row_that_was_acknowledged_before_it(tmp_path: Path) -> None:
    """Two protocols write, and flushes and compactions replace files, before and during the backup."""
    with running("standalone", tmp_path) as server:
        sql(server, "CREATE TABLE load_mysql (series STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)")
        writers = Writers(server, 4)
        try:
            wait_until(lambda: all(writers.acknowledged), seconds=120)
            maintenance = Maintenance(server)
        except BaseException:
            writers.stop()
            raise
        try:
            for number in range(2):
                wanted, rounds = [count + 20 for count in writers.acknowledged], maintenance.rounds + 1
                wait_until(
                    lambda: all(map(int.__ge__, writers.acknowledged, wanted)) and maintenance.rounds >= rounds,  # noqa: B023
                    seconds=120,
                )
                before = list(writers.acknowledged)
                made = tsdb(server, "backup", "--to", "nightly", "--name", f"n{number}")
                assert made.exit_code == 0, made.output
        finally:
            maintenance.stop()
            writers.stop()
        assert server.stop() == 0
    place = tmp_path / "data" / "backup" / "nightly"
    _command("restore", "--from", place, "--data-home", tmp_path / "again")
    with opened(tmp_path / "again") as db:
        for number, count in enumerate(before):
            found = db.sql(f"SELECT count(*), min(v), max(v) FROM {Writers.table(number)} WHERE series = 's{number}'")
            [(rows, first, last)] = found.fetchall()
            assert count <= rows <= writers.acknowledged[number]
            assert (first, last) == (0, rows - 1)


def test_a_server_that_is_killed_leaves_earlier_backups_whole(tmp_path: Path) -> None:
    # Two files are in the first backup, four in the second one.
    with running("standalone", tmp_path, environment={"TSDB_CRASH_POINT": "backup.after_file:4"}) as server:
        sql(server, CPU)
        sql(server, "INSERT INTO cpu VALUES ('a', 1, 1)")
        assert tsdb(server, "backup", "--to", "nightly", "--name", "first").exit_code == 0
        sql(server, "INSERT INTO cpu VALUES ('b', 2, 2)")
        # It may die before it answers.
        with suppress(httpx.HTTPError):
            httpx.post(f"{server.url}/v1/sql", data={"sql": "ADMIN start_backup('nightly', 'second')"}, timeout=60)
        assert server.process.wait(120) == EXIT_CODE
    place = tmp_path / "data" / "backup" / "nightly"
    assert "second" not in _command("backup", "list", "--from", place)
    assert _command("backup", "verify", "--from", place, "-q").startswith("ok: ")
    with running("standalone", tmp_path) as server:
        assert sql(server, "SELECT host FROM cpu ORDER BY host") == [["a"], ["b"]]
        third = tsdb(server, "backup", "--to", "nightly", "--name", "third")
        assert third.exit_code == 0, third.output
    assert len(list(place.glob("files/*/*"))) == 4
    assert {path.parent.name for path in place.glob("backups/*/*")} == {"first", "third"}
    for name, hosts in {"first": [("a",)], "third": [("a",), ("b",)]}.items():
        _command("restore", "--from", place, "--data-home", tmp_path / name, "--backup", name)
        with opened(tmp_path / name) as db:
            assert db.sql("SELECT host FROM cpu ORDER BY host").fetchall() == hosts


def test_metrics_of_remote_write_come_back_one_by_one_and_go_on(tmp_path: Path) -> None:
    """They share a physical table, and therefore regions and files."""
    up = [{"__name__": "up", "instance": name, "job": "api"} for name in ("a", "b")]
    with running("standalone", tmp_path) as server:
        _remote_write(
            server, [(labels, range(1000, 11_000, 1000)) for labels in (*up, {"__name__": "load", "job": "api"})]
        )
        before = _samples(server, "up[1h]")
        assert {len(values) for values in before.values()} == {10}
        assert tsdb(server, "backup", "--to", "nightly").exit_code == 0
        _remote_write(server, [(labels, [20_000]) for labels in up])
        assert sql(server, "ADMIN restore_table('nightly', 'latest', 'public.up', 'up_before')") == [[20]]
        renamed = {name.replace('"up"', '"up_before"'): values for name, values in before.items()}
        assert _samples(server, "up_before[1h]") == renamed
        assert _samples(server, "up[1h]") != before
        sql(server, "DROP TABLE up")
        assert sql(server, "ADMIN restore_table('nightly', 'latest', 'up')") == [[20]]
        assert _samples(server, "up[1h]") == before
        # What is sent from now on finds the table, also with a label that it did not have.
        _remote_write(server, [(up[0], [30_000]), ({**up[1], "zone": "eu"}, [30_000])])
        found = _samples(server, "up[1h]")
        assert sorted(map(len, found.values())) == [1, 10, 11]
        assert [values for name, values in found.items() if "zone" in name] == [[[30, "30"]]]
        assert {len(values) for values in _samples(server, "load[1h]").values()} == {10}
        assert server.stop() == 0
    place = tmp_path / "data" / "backup" / "nightly"
    _command("restore", "--from", place, "--data-home", tmp_path / "again" / "data", "--table", "public.up")
    with running("standalone", tmp_path / "again") as server:
        assert _samples(server, "up[1h]") == before
        assert _samples(server, "load[1h]") == {}
        _remote_write(server, [(up[0], [40_000]), ({"__name__": "load", "job": "api"}, [40_000])])
        assert sorted(map(len, _samples(server, "up[1h]").values())) == [10, 11]
        assert [len(values) for values in _samples(server, "load[1h]").values()] == [1]


def _remote_write(server: ServerProcess, series: Iterable[tuple[dict[str, str], Iterable[int]]]) -> None:
    """Send samples at so many milliseconds; the value is the second."""
    made = [(sorted(labels.items()), [(at, at / 1000) for at in times]) for labels, times in series]
    packed = pa.compress(write_request(made).SerializeToString(), codec="snappy", asbytes=True)
    answer = httpx.post(f"{server.url}/v1/prometheus/write", content=packed, timeout=60)
    assert answer.status_code == 204, answer.text


def _samples(server: ServerProcess, query: str) -> dict[str, list[Any]]:
    """What PromQL finds at the end of the first hour, by the labels of each series."""
    asked = {"query": query, "time": "3600"}
    answer = httpx.get(f"{server.url}/v1/prometheus/api/v1/query", params=asked, timeout=60).json()
    return {json.dumps(each["metric"], sort_keys=True): each["values"] for each in answer["data"]["result"]}


def test_data_log_and_backups_in_buckets(s3_server: S3Server, tmp_path: Path) -> None:
    first, second, cold, cold_again, archive, third = (s3_server.new_root() for _ in range(6))
    file = _configuration(s3_server, tmp_path / "one", root=first, cold=cold, archive=archive)
    with running("standalone", tmp_path / "one", "-c", str(file)) as server:
        sql(server, CPU)
        sql(server, CPU.replace("cpu", "frozen") + " WITH (storage = 'cold')")
        for table in ("cpu", "frozen"):
            sql(server, f"INSERT INTO {table} VALUES ('a', 1, 1)")
        for name in ("n1", "n2"):
            made = tsdb(server, "backup", "--to", f"s3://{BUCKET}/{archive}/nightly", "--name", name)
            assert made.exit_code == 0, made.output
        assert "2 rows in 4 files; 0 files" in made.output
        sql(server, "INSERT INTO cpu VALUES ('later', 1, 1)")
        later = format_time(time.time_ns())
    assert _command("backup", "verify", "--from", "archive:nightly", "-c", file, "-q").startswith(
        "ok: 2 backups, 4 files"
    )
    assert "deleted: n1" in _command("backup", "prune", "--from", "archive:nightly", "-c", file, "--keep", "1")
    other = _configuration(s3_server, tmp_path / "two", root=second, cold=cold_again, archive=archive)
    assert "holds a database" in _command("restore", "--from", "archive:nightly", "-c", file, code=1)
    _command("restore", "--from", "archive:nightly", "-c", other)
    with running("standalone", tmp_path / "two", "-c", str(other)) as server:
        for table in ("cpu", "frozen"):
            assert sql(server, f"SELECT host, v FROM {table}") == [["a", 1.0]]
            sql(server, f"INSERT INTO {table} VALUES ('b', 2, 2)")
            assert sql(server, f"SELECT count(*) FROM {table}") == [[2]]
    assert list(s3_server.store(cold_again).list("data"))
    # The log is in a bucket that is none of the places of the restore.
    again = _configuration(
        s3_server, tmp_path / "three", root=third, cold=s3_server.new_root(), archive=archive, old=first
    )
    assert ":" in _command("backup", "list", "--from", "archive:nightly", "-c", again).split()[-1]
    words = ("restore", "--from", "archive:nightly", "-c", again, "--to-time", later)
    old = s3_server.store(first)
    # A table that the other server is about to drop.
    old.put(f"data/tsdb/public/9999/9999_0000000000/{DROPPING}", b"")
    before = [(each.path, each.modified_ns) for part in ("data", "wal") for each in old.list(part)]
    assert "1 rows of the shared log" in _command(*words, "--log-from", "old")
    assert [(each.path, each.modified_ns) for part in ("data", "wal") for each in old.list(part)] == before


def _configuration(s3: S3Server, directory: Path, *, root: str, **providers: str) -> Path:
    """Write the configuration of a server with data and log in a bucket."""
    directory.mkdir()
    bucket = f'type = "S3"\nbucket = "{BUCKET}"\nendpoint = "{s3.endpoint}"\nregion = "us-east-1"\n'
    bucket += 'access_key_id = "key"\nsecret_access_key = "secret"\n'
    text = f'[storage]\ndata_home = "{directory / "data"}"\nroot = "{root}"\ncache_capacity = 0\n{bucket}'
    for name, path in providers.items():
        text += f'[[storage.providers]]\nname = "{name}"\nroot = "{path}"\n{bucket}'
    text += f'[wal]\ndir = "{directory / "wal"}"\n[wal.shared]\nenable = true\ninterval = "20ms"\n'
    text += 'retention = "1h"\n'
    file = directory / "tsdb.toml"
    file.write_text(text)
    return file


def _command(*words: str | Path, code: int = 0) -> str:
    """Run a command that needs no server; return what it prints."""
    done = CliRunner().invoke(_tree(), list(map(str, words)), prog_name="tsdb")
    assert done.exit_code == code, done.output
    return done.output
