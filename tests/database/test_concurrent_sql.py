"""Sessions that want the same thing at once: each gets a defined answer, and none of them is an internal error."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.database.cases import open_case_database
from tests.storage import IN_CLUSTER
from tsdb.database import Affected, Database, Session, read_all
from tsdb.errors import Status, TsdbError

WORKERS = 4
ROUNDS = 12
GONE = {Status.TABLE_NOT_FOUND, Status.REGION_NOT_FOUND, *([Status.REGION_NOT_READY] if IN_CLUSTER else [])}
"""What clients of a table hear that is being dropped; in a cluster, a region has a place for a moment longer."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_case_database(tmp_path)
    yield opened.database
    opened.close()


def run(database: Database, text: str, session: Session | None = None) -> Any:
    """Run one statement: the rows it has, or the number it affected."""
    (output,) = list(database.execute(text, session or Session()))
    return output.rows if isinstance(output, Affected) else read_all(output).to_pylist()


def outcome(database: Database, text: str) -> Status:
    try:
        run(database, text)
    except TsdbError as error:
        return error.status
    return Status.SUCCESS


def together(works: list[Callable[[], Any]]) -> list[Any]:
    """Start all at the same moment and return what they return, in their order."""
    start = threading.Barrier(len(works))

    def held(work: Callable[[], Any]) -> Any:
        start.wait(10)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result(60) for future in [pool.submit(held, work) for work in works]]


def test_of_sessions_that_create_the_same_table_one_wins(database: Database) -> None:
    for number in range(ROUNDS):
        text = f"CREATE TABLE t{number} (ts TIMESTAMP TIME INDEX, v INT)"
        found = Counter(together([lambda text=text: outcome(database, text)] * WORKERS))
        assert found == {Status.SUCCESS: 1, Status.TABLE_ALREADY_EXISTS: WORKERS - 1}
        assert run(database, f"INSERT INTO t{number} VALUES (1, 1)") == 1


def test_if_not_exists_is_true_for_all_who_say_it_at_once(database: Database) -> None:
    for number in range(ROUNDS):
        text = f"CREATE TABLE IF NOT EXISTS t{number} (ts TIMESTAMP TIME INDEX, v INT)"
        assert set(together([lambda text=text: outcome(database, text)] * WORKERS)) == {Status.SUCCESS}


def test_a_table_and_a_view_of_one_name_are_not_both_made(database: Database) -> None:
    for number in range(ROUNDS):
        table = f"CREATE TABLE x{number} (ts TIMESTAMP TIME INDEX)"
        view = f"CREATE VIEW x{number} AS SELECT 1 AS one"
        found = together([lambda text=text: outcome(database, text) for text in (table, view)])
        assert sorted(found) == [Status.SUCCESS, Status.TABLE_ALREADY_EXISTS]


def test_of_sessions_that_drop_the_same_table_one_does(database: Database) -> None:
    for number in range(ROUNDS):
        run(database, f"CREATE TABLE t{number} (ts TIMESTAMP TIME INDEX, v INT)")
        found = Counter(together([lambda n=number: outcome(database, f"DROP TABLE t{n}")] * WORKERS))
        assert found == {Status.SUCCESS: 1, Status.TABLE_NOT_FOUND: WORKERS - 1}


def test_every_column_added_at_once_is_there_or_was_refused(database: Database) -> None:
    run(database, "CREATE TABLE t (ts TIMESTAMP TIME INDEX)")
    texts = [f"ALTER TABLE t ADD COLUMN c{number} INT" for number in range(WORKERS * 3)]
    found = together([lambda text=text: outcome(database, text) for text in texts])
    assert Status.INTERNAL not in found
    columns = {row["Column"] for row in run(database, "DESC t")}
    added = {f"c{number}" for number, status in enumerate(found) if status is Status.SUCCESS}
    assert columns == {"ts", *added}
    assert added
    assert outcome(database, f"INSERT INTO t (ts, {', '.join(sorted(added))}) VALUES (1{', 1' * len(added)})") == 0


def test_an_alter_that_was_overtaken_is_planned_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    run(database, "CREATE TABLE t (ts TIMESTAMP TIME INDEX)")
    catalog = database.services.catalog
    alter = catalog.alter_table
    overtaken = []

    def alter_after_another(*arguments: Any) -> Any:
        if not overtaken:
            overtaken.append(True)
            run(database, "ALTER TABLE t ADD COLUMN other INT")
        return alter(*arguments)

    monkeypatch.setattr(catalog, "alter_table", alter_after_another)
    run(database, "ALTER TABLE t ADD COLUMN mine INT")
    assert [row["Column"] for row in run(database, "DESC t")] == ["ts", "other", "mine"]


def test_the_same_column_added_at_once_is_added_once(database: Database) -> None:
    run(database, "CREATE TABLE t (ts TIMESTAMP TIME INDEX)")
    found = Counter(together([lambda: outcome(database, "ALTER TABLE t ADD COLUMN v INT")] * WORKERS))
    assert found[Status.SUCCESS] == 1
    assert Status.INTERNAL not in found
    assert [row["Column"] for row in run(database, "DESC t")] == ["ts", "v"]


def test_inserts_go_on_while_columns_come_and_go(database: Database) -> None:
    run(database, "CREATE TABLE t (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v INT)")
    stop = threading.Event()

    def alter() -> list[Status]:
        found = []
        for number in range(ROUNDS):
            found.append(outcome(database, f"ALTER TABLE t ADD COLUMN c{number} INT DEFAULT {number}"))
            if number % 2:
                found.append(outcome(database, f"ALTER TABLE t DROP COLUMN c{number}"))
        stop.set()
        return found

    def write(worker: int) -> tuple[int, Counter[Status]]:
        found: Counter[Status] = Counter()
        number = 0
        while not stop.is_set():
            status = outcome(database, f"INSERT INTO t (k, ts, v) VALUES ('{worker}', {number}, {number})")
            found[status] += 1
            number += status is Status.SUCCESS
        return number, found

    altered, *written = together([alter, *(lambda worker=worker: write(worker) for worker in range(2))])
    assert set(altered) == {Status.SUCCESS}
    for worker, (count, found) in enumerate(written):
        assert set(found) == {Status.SUCCESS}
        assert run(database, f"SELECT count(v) AS n FROM t WHERE k = '{worker}'") == [{"n": count}]
    assert {row["Column"] for row in run(database, "DESC t")} == {
        "k",
        "ts",
        "v",
        *(f"c{n}" for n in range(0, ROUNDS, 2)),
    }


def test_a_reader_of_a_table_that_is_dropped_sees_its_rows_or_that_it_is_gone(database: Database) -> None:
    for _ in range(ROUNDS):
        run(database, "CREATE TABLE t (ts TIMESTAMP TIME INDEX, v INT)")
        run(database, "INSERT INTO t SELECT value, 1 FROM generate_series(1, 20000)")
        run(database, "ADMIN flush_table('t')")

        def read() -> int | Status:
            try:
                return int(run(database, "SELECT sum(v) AS s FROM t")[0]["s"])
            except TsdbError as error:
                return error.status

        *reads, dropped = together([read, read, read, lambda: outcome(database, "DROP TABLE t")])
        assert dropped is Status.SUCCESS
        assert {each for each in reads if each != 20_000} <= GONE, reads


def test_a_writer_of_a_table_that_is_dropped_is_done_or_hears_that_it_is_gone(database: Database) -> None:
    for _ in range(ROUNDS):
        run(database, "CREATE TABLE t (ts TIMESTAMP TIME INDEX, v INT)")
        *written, dropped = together(
            [*[lambda: outcome(database, "INSERT INTO t VALUES (1, 1)")] * 3, lambda: outcome(database, "DROP TABLE t")]
        )
        assert dropped is Status.SUCCESS
        assert set(written) <= {Status.SUCCESS, *GONE}
        assert outcome(database, "SELECT * FROM t") is Status.TABLE_NOT_FOUND


def test_a_rename_moves_the_rows_for_everybody_at_once(database: Database) -> None:
    run(database, "CREATE TABLE a (ts TIMESTAMP TIME INDEX, v INT)")
    names, acknowledged = ("a", "b"), 0
    for number in range(ROUNDS):
        old, new = names[number % 2], names[(number + 1) % 2]
        renamed, *written = together(
            [
                lambda old=old, new=new: outcome(database, f"ALTER TABLE {old} RENAME {new}"),
                lambda old=old, n=number: outcome(database, f"INSERT INTO {old} VALUES ({2 * n}, 1)"),
                lambda new=new, n=number: outcome(database, f"INSERT INTO {new} VALUES ({2 * n + 1}, 1)"),
            ]
        )
        assert renamed is Status.SUCCESS
        assert set(written) <= {Status.SUCCESS, Status.TABLE_NOT_FOUND}
        acknowledged += written.count(Status.SUCCESS)
        assert run(database, f"SELECT count(*) AS n FROM {new}") == [{"n": acknowledged}]


def test_a_killed_statement_ends_with_the_code_of_a_cancellation(database: Database) -> None:
    session = Session()
    (output,) = database.execute("SELECT value FROM generate_series(1, 100000000000)", session)
    assert not isinstance(output, Affected)
    batches = iter(output)
    next(batches)
    (process,) = [row for row in run(database, "SHOW PROCESSLIST") if "series" in row["Query"]]
    assert run(database, f"KILL '{process['Id']}'") == 1
    with pytest.raises(TsdbError) as caught:
        for _ in batches:
            pass
    output.close()
    assert caught.value.status is Status.CANCELLED
    pause = threading.Event()
    for _ in range(3000):  # it stays in the list until the work that was under way has ended
        if not [row for row in run(database, "SHOW PROCESSLIST") if "series" in row["Query"]]:
            return
        pause.wait(0.01)
    raise AssertionError("the statement is still in the process list")


def test_a_cancelled_session_stops_what_it_runs(database: Database) -> None:
    session = Session()
    text = "SELECT sum(value % 7) AS s FROM generate_series(1, 100000000000)"
    started = threading.Event()

    def work() -> Status:
        started.set()
        try:
            run(database, text, session)
        except TsdbError as error:
            return error.status
        return Status.SUCCESS

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        started.wait(10)
        while not running.done():
            database.cancel(session)
    assert running.result() is Status.CANCELLED
