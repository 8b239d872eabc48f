"""Queries of before a restart are asked again before the first client asks."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server_process import ServerProcess, running
from tests.storage import local_files_only
from tsdb.auth import SYSTEM
from tsdb.components import LocalDatabase, open_directory
from tsdb.components._warm_up import (
    ROUNDS,
    STATEMENTS_FILE,
    STATEMENTS_MAX,
    load_statements,
    save_statements,
    warm_up,
)
from tsdb.query import Channel, RecentStatement, Session
from tsdb.query._recent import SHAPES_MAX, TEXT_CHARS_MAX, VARIANTS_MAX
from tsdb.servers._inline import InlineLimits
from tsdb.sql.statements import Dialect

HOSTS = "SELECT host, max(v) AS v FROM cpu WHERE ts >= {} GROUP BY host ORDER BY host"
VECTORS = "SELECT misses FROM information_schema.cache_statistics WHERE name = 'vector'"


def run(local: LocalDatabase, text: str, session: Session | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for output in local.database.execute(text, session or Session(identity=SYSTEM)):
        rows = [] if hasattr(output, "rows") else [row for batch in output for row in batch.to_pylist()]
    return rows


def rehearsal(local: LocalDatabase) -> Callable[[str, Session, float], None]:
    def answer(text: str, session: Session, seconds_max: float) -> None:
        for _ in local.database.services.queries.query(text, session):
            pass

    return answer


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a table in a data file, which nobody has read."""
    local = open_directory(tmp_path)
    run(local, "CREATE TABLE cpu (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)")
    run(local, "INSERT INTO cpu VALUES ('a', 1, 1.0), ('b', 2, 2.0), ('a', 3, 3.0)")
    run(local, "ADMIN flush_table('cpu')")
    local.close()
    return tmp_path


def test_what_was_asked_last_is_decoded_before_it_is_asked_again(home: Path) -> None:
    local = open_directory(home)
    for start in (0, 1, 2):
        run(local, HOSTS.format(start))
    save_statements(local.database.services.queries, home)
    local.close()
    statements = load_statements(home)
    assert statements == [
        RecentStatement(HOSTS.format(start), "public", Dialect.GENERIC, "UTC", is_variant)
        for start, is_variant in ((2, False), (1, True), (0, True))
    ]
    assert stat.S_IMODE((home / STATEMENTS_FILE).stat().st_mode) == 0o600
    local = open_directory(home)
    assert warm_up(rehearsal(local), statements, seconds_max=60) == ROUNDS + 2
    before = run(local, VECTORS)
    assert run(local, HOSTS.format(2)) == [{"host": "a", "v": 3.0}, {"host": "b", "v": 2.0}]
    assert run(local, VECTORS) == before
    local.close()


def test_a_statement_is_asked_as_often_as_it_takes_to_run_inline() -> None:
    assert 1 + InlineLimits().runs_min == ROUNDS


def test_a_statement_is_asked_in_the_session_that_it_came_from(home: Path) -> None:
    local = open_directory(home)
    session = Session(channel=Channel.POSTGRES, time_zone="Asia/Tokyo", identity=SYSTEM)
    for _ in range(2):
        run(local, HOSTS.format(0), session)
    save_statements(local.database.services.queries, home)
    local.close()
    assert load_statements(home) == [RecentStatement(HOSTS.format(0), "public", Dialect.POSTGRESQL, "Asia/Tokyo")]


def test_the_number_and_the_length_of_statements_are_bounded(home: Path) -> None:
    local = open_directory(home)
    for number in range(SHAPES_MAX + 8):
        run(local, f"SELECT host, max(v) AS v{number} FROM cpu GROUP BY host")
    run(local, f"SELECT host, max(v) AS {'v' * TEXT_CHARS_MAX} FROM cpu GROUP BY host")
    found = local.database.services.queries.recent_statements()
    assert [each.text.split()[4] for each in found] == [f"v{number}" for number in range(39, 7, -1)]
    for number in range(VARIANTS_MAX + 8):
        run(local, HOSTS.format(number))
    run(local, HOSTS.format(9))
    found = local.database.services.queries.recent_statements()
    assert not any(each.is_variant for each in found[:SHAPES_MAX])
    assert [each.text for each in (found[0], *found[SHAPES_MAX:])] == [
        HOSTS.format(start) for start in (9, 14, 13, 12, 11, 10, 8, 7)
    ]
    assert SHAPES_MAX * (VARIANTS_MAX + 1) <= STATEMENTS_MAX
    local.close()


def test_statements_that_fail_and_time_that_is_over_are_no_trouble(home: Path) -> None:
    local = open_directory(home)
    gone = RecentStatement("SELECT max(v) FROM gone", "public", Dialect.GENERIC, "UTC")
    known = RecentStatement(HOSTS.format(0), "public", Dialect.GENERIC, "UTC")
    assert warm_up(rehearsal(local), [gone, known], seconds_max=60) == 2 * ROUNDS
    assert warm_up(rehearsal(local), [gone, known], seconds_max=0) == 0
    local.close()


def test_statements_that_there_was_no_time_for_are_kept_for_the_next_start(home: Path) -> None:
    local = open_directory(home)
    run(local, HOSTS.format(0))
    asked = RecentStatement(HOSTS.format(0), "public", Dialect.GENERIC, "UTC")
    unreached = [
        RecentStatement(f"SELECT {number}", "public", Dialect.GENERIC, "UTC") for number in range(STATEMENTS_MAX)
    ]
    save_statements(local.database.services.queries, home, [asked, *unreached])
    local.close()
    assert load_statements(home) == [asked, *unreached[: STATEMENTS_MAX - 1]]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"statements": [{"text": 1}]}', b"\xff"])
def test_a_file_that_cannot_be_read_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / STATEMENTS_FILE).write_bytes(content)
    assert load_statements(tmp_path) == []


def ask(server: ServerProcess, text: str) -> Any:
    answer = httpx.post(f"{server.url}/v1/sql", data={"sql": text}, timeout=60).json()
    return answer["output"][0]["records"]["rows"]


@local_files_only
def test_a_server_is_warm_after_a_restart(home: Path, tmp_path: Path) -> None:
    environment = {"TSDB_STANDALONE__STORAGE__DATA_HOME": str(home)}
    with running("standalone", tmp_path, environment=environment) as server:
        assert ask(server, VECTORS) == [[0]]
        assert ask(server, HOSTS.format(1)) == [["a", 3.0], ["b", 2.0]]
        assert ask(server, VECTORS) != [[0]]
        assert server.stop() == 0
    assert any(is_warm(home, tmp_path) for _ in range(5)), "asking again takes less than a second, usually"


def is_warm(home: Path, tmp_path: Path) -> bool:
    """Start a server, and return whether the first query has found everything decoded."""
    environment = {"TSDB_STANDALONE__STORAGE__DATA_HOME": str(home)}
    with running("standalone", tmp_path, environment=environment) as server:
        before = ask(server, VECTORS)
        assert ask(server, HOSTS.format(1)) == [["a", 3.0], ["b", 2.0]]
        is_same: bool = ask(server, VECTORS) == before
        assert server.stop() == 0
    return is_same
