"""Writes that are cancelled from outside of their thread, as gRPC, KILL and PostgreSQL's cancel requests do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.database.cases import open_case_database
from tests.servers.http.test_interrupted_writes import Gate
from tsdb.catalog import Catalog
from tsdb.components._local import LocalDatabase
from tsdb.database import Session
from tsdb.engine import Engine
from tsdb.errors import Cancelled
from tsdb.ingest import NewTable
from tsdb.ingest.influx import parse_lines
from tsdb.query import Channel, WriteToken


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalDatabase]:
    made = open_case_database(tmp_path)
    yield made
    made.close()


def test_a_cancelled_session_makes_no_further_table(local: LocalDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, Catalog, "create_table", free=2)
    session = Session(channel=Channel.GRPC, token=WriteToken())
    rows = parse_lines(b"\n".join(b"t%d v=1 1" % number for number in range(10)), precision="ns", now_ns=1)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(local.database.ingest, rows, session, NewTable())
        assert gate.reached.wait(30)
        local.database.cancel(session)
        gate.is_open.set()
        with pytest.raises(Cancelled):
            writing.result()
    assert gate.calls == 3
    assert session.token is not None
    assert (session.token.tables, session.token.tables_planned, session.token.rows) == (3, 10, 0)


@pytest.mark.parametrize("channel", [Channel.MYSQL, Channel.POSTGRES])
def test_a_killed_insert_tells_how_many_rows_it_wrote(
    local: LocalDatabase, monkeypatch: pytest.MonkeyPatch, channel: Channel
) -> None:
    database, session = local.database, Session(channel=channel)
    database.run("CREATE TABLE s (ts TIMESTAMP TIME INDEX, v BIGINT) WITH (append_mode = 'true')", session)
    gate = Gate(monkeypatch, Engine, "write", free=1)
    insert = "INSERT INTO s SELECT value::timestamp, value FROM generate_series(1, 300000)"
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(database.run, insert, session)
        assert gate.reached.wait(30)
        (process,) = [each for each in database.services.processes.all() if each.session is session]
        assert database.services.processes.kill(process.id) == 1
        gate.is_open.set()
        with pytest.raises(Cancelled, match=r"\d+ rows were written before it was stopped") as stopped:
            writing.result()
    (count,) = [batch.column(0)[0].as_py() for batch in database.run("SELECT count(*) FROM s", session)]
    assert f"{count} rows were written" in str(stopped.value)
    assert 0 < count < 300_000
    assert gate.calls == 2
    assert session.token is None, "the next statement is not affected"


def test_nothing_begins_after_a_cancellation_that_found_nothing() -> None:
    token = WriteToken()
    assert token.cancel() is False
    with pytest.raises(Cancelled):
        token.enter()
    assert token.describe() == "nothing was written"


def test_requests_written_as_one_begin_only_if_all_are_wanted() -> None:
    members = [WriteToken(), WriteToken()]
    members[0].cancel()
    with pytest.raises(Cancelled):
        WriteToken.shared(members).enter()


def test_requests_written_as_one_stop_when_none_is_wanted() -> None:
    members = [WriteToken(), WriteToken()]
    shared = WriteToken.shared(members)
    shared.enter()
    shared.note(rows=3)
    assert members[0].cancel() is True
    shared.enter()
    members[1].cancel()
    with pytest.raises(Cancelled):
        shared.enter()
    assert [each.rows for each in members] == [3, 3]


def test_many_threads_agree_whether_a_step_began() -> None:
    for _ in range(200):
        token, entered = WriteToken(), threading.Event()

        def enter(token: WriteToken = token, entered: threading.Event = entered) -> None:
            try:
                token.enter()
                entered.set()
            except Cancelled:
                pass

        thread = threading.Thread(target=enter)
        thread.start()
        had_begun = token.cancel()
        thread.join()
        assert had_begun == entered.is_set()
