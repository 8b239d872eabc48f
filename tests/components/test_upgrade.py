"""Data directories of earlier versions open with this one: same answers, new writes, and both after a restart."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.data_directories.make import HERE, SECOND, USERS, promql, sql
from tests.server_process import ServerProcess, running

ARCHIVES = sorted(HERE.glob("*.tar.xz"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_directory_of_an_earlier_version_answers_as_it_did(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        # Python before 3.11.4 has no filters.
        packed.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    expected = json.loads((HERE / archive.name.replace(".tar.xz", ".json")).read_text())
    with running("standalone", tmp_path, *USERS) as server:
        assert list(_differences(server, expected)) == []
        _check_logins(server)
        _write(server)
        _check_writes(server)
        assert server.stop() == 0
    with running("standalone", tmp_path, *USERS) as server:
        _check_writes(server)
        _delete_writes(server)
        assert list(_differences(server, expected)) == []


def test_there_is_a_directory_of_an_earlier_version() -> None:
    assert ARCHIVES


def _differences(server: ServerProcess, expected: dict[str, dict[str, Any]]) -> Any:
    for kind, ask in (("sql", sql), ("promql", promql)):
        for text, answer in expected[kind].items():
            if (got := ask(server, text)) != answer:
                yield text, got, answer


def _rows(server: ServerProcess, text: str) -> Any:
    answer = sql(server, text)
    assert "output" in answer, (text, answer)
    output = answer["output"][0]
    return output["records"]["rows"] if "records" in output else output["affectedrows"]


def _check_logins(server: ServerProcess) -> None:
    ann = ("ann", "ann-password")
    assert "output" in sql(server, "SELECT count(*) FROM pumps", ann)
    assert sql(server, "SELECT count(*) FROM pumps", ("ann", "another"))["code"] == 7002
    assert sql(server, "INSERT INTO ticks_s VALUES ('A', 1, 1)", ann)["code"] in (7005, 7006)


_NEW_ROWS = (
    ("pumps", "site, unit_no, zone, ts, flow", f"'new', 1, 'z', {SECOND * 1000}, 1.5"),
    ("ticks_ns", "level, price, ts, px", f"77, 77, {SECOND * 10**9 + 1}, 2.5"),
    ("areas", "area, ts, v", f"'new', {SECOND * 1000}, 9"),
    ("states", "dev, ts, a", f"'new', {SECOND * 1000}, 9"),
    ("load", "host, job, tsdb_timestamp, tsdb_value", f"'new', 'node', {SECOND * 1000}, 3.5"),
    ("temp", "host, room, ts, val", f"'new', 'hall', {SECOND * 1000}, 4.5"),
)
_KEYS = {"pumps": "site", "ticks_ns": "level", "areas": "area", "states": "dev", "load": "host", "temp": "host"}


def _key(table: str) -> str:
    return f"{_KEYS[table]} = {'77' if table == 'ticks_ns' else chr(39) + 'new' + chr(39)}"


def _write(server: ServerProcess) -> None:
    for table, columns, values in _NEW_ROWS:
        assert _rows(server, f"INSERT INTO {table} ({columns}) VALUES ({values})") == 1
    # One table goes through new data files as well: a flush and a compaction with those of the earlier version.
    _rows(server, "ADMIN flush_table('pumps')")
    _rows(server, "ADMIN compact_table('pumps')")


def _check_writes(server: ServerProcess) -> None:
    for table, _, _ in _NEW_ROWS:
        assert _rows(server, f"SELECT count(*) FROM {table} WHERE {_key(table)}") == [[1]], table
    assert _rows(server, "SELECT flow, state, extra FROM pumps WHERE site = 'new'") == [[1.5, "new", 7]]


def _delete_writes(server: ServerProcess) -> None:
    for table, _, _ in _NEW_ROWS:
        assert _rows(server, f"DELETE FROM {table} WHERE {_key(table)}") == 1, table
