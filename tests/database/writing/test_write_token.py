"""Writes that are cancelled from outside of their thread, as gRPC, KILL and PostgreSQL's cancel requests do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.database.cases import open_case_database
from tests.ingest.prometheus_messages import write_request
from tests.servers.http.test_interrupted_writes import Gate
from tsdb.catalog import Catalog
from tsdb.components._local import LocalDatabase
from tsdb.database import Affected, Database, Session, read_all
from tsdb.engine import Engine
from tsdb.errors import Cancelled
from tsdb.ingest import NewTable, TableRows
from tsdb.ingest.influx import parse_lines
from tsdb.ingest.prometheus import NEW_TABLE, RemoteWriteReader, Samples
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


@dataclass(frozen=True)
class Way:
    """A way to write, and what it counts: tables that it creates or changes, rows that it writes or deletes."""

    name: str
    run: Callable[[Database, Session], object]
    tables: int = 0
    rows: int = 0


SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.timestamp("ms")), ("v", pa.float64())])
FRAME = pa.table([["a", "b"], [1, 2], [1.0, 2.0]], schema=SCHEMA)
METRIC = replace(NEW_TABLE, is_metric=True)
reader = RemoteWriteReader(is_strict=True)


def samples(metric: str) -> Samples:
    series = [((("__name__", metric), ("job", job)), ((1000, 0.5),)) for job in ("a", "b")]
    return reader.read(write_request(series).SerializeToString())


def begin_samples(database: Database, session: Session) -> None:
    done = database.begin_samples(samples("known"), session, METRIC)
    assert done is not None, "the series are known: this is the fast path"
    done.result()


def lines(table: str) -> list[TableRows]:
    return parse_lines(f"{table},k=a v=1 1\n{table},k=b v=1 1".encode(), now_ns=1)


WAYS = [
    Way("lines", lambda db, session: db.ingest(lines("t_lines"), session, NewTable()), 0, 2),
    Way("lines into a new table", lambda db, session: db.ingest(lines("new"), session, NewTable()), 1, 2),
    Way("samples", begin_samples, 0, 2),
    Way("samples that wait", lambda db, session: db.ingest_samples(samples("known"), session, METRIC), 0, 2),
    Way("samples of a new metric", lambda db, session: db.ingest_samples(samples("new"), session, METRIC), 1, 2),
    Way("append", lambda db, session: db.append(("t",), FRAME, session), 0, 2),
    Way("frame", lambda db, session: db.write("public", "t", FRAME, session, tags=["k"], time="ts"), 0, 2),
    Way(
        "frame of a new table", lambda db, session: db.write("public", "new", FRAME, session, tags=[], time="ts"), 1, 2
    ),
    Way("table for columns", lambda db, session: db.create_for(("new",), SCHEMA, session, tags=["k"], time="ts"), 1),
    Way("insert", lambda db, session: db.run("INSERT INTO t VALUES ('a', 1, 1), ('b', 2, 1)", session), 0, 2),
    Way("insert select", lambda db, session: db.run("INSERT INTO t SELECT * FROM u", session), 0, 2),
    Way("update", lambda db, session: db.run("UPDATE u SET v = 7", session), 0, 2),
    Way("delete", lambda db, session: db.run("DELETE FROM u", session), 0, 2),
    Way("keys", lambda db, session: db.delete_rows("u", FRAME.select(["k", "ts"]), "ts", session), 0, 2),
    Way("copy", lambda db, session: db.run("COPY t FROM 'rows.csv' WITH (format = 'csv')", session), 0, 2),
    Way("truncate", lambda db, session: db.run("TRUNCATE TABLE u", session)),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    directory = tmp_path_factory.mktemp("ways")
    made = open_case_database(directory)
    database, session = made.database, Session()
    for name in ("t", "u"):
        database.run(f"CREATE TABLE {name} (k STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE)", session)
    database.ingest(lines("t_lines"), session, NewTable())
    database.ingest_samples(samples("known"), session, METRIC)
    (directory / "copy").mkdir(exist_ok=True)
    (directory / "copy" / "rows.csv").write_text("k,ts,v\na,1970-01-01 00:00:01,1.0\nb,1970-01-01 00:00:02,2.0\n")
    yield database
    made.close()


@pytest.fixture
def filled(shared: Database) -> Database:
    """Table `u` has two rows, and there is no table `new`."""
    shared.append(("u",), FRAME, Session())
    shared.run("DROP TABLE IF EXISTS new", Session())
    return shared


def state(database: Database) -> list[list[dict[str, object]]]:
    """All tables and their rows."""
    found = []
    for text in ("SHOW TABLES", *(f"SELECT * FROM {table} ORDER BY k" for table in ("t", "u", "t_lines"))):
        output = database.run(text, Session())
        assert not isinstance(output, Affected)
        found.append(read_all(output).to_pylist())
    return found


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_no_way_to_write_begins_after_a_cancellation(filled: Database, way: Way) -> None:
    before, session = state(filled), Session(token=WriteToken())
    filled.cancel(session)
    with pytest.raises(Cancelled):
        way.run(filled, session)
    assert state(filled) == before
    assert session.token is not None
    assert session.token.describe() == "nothing was written"


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_every_way_to_write_counts_what_it_writes(filled: Database, way: Way) -> None:
    session = Session(token=WriteToken())
    way.run(filled, session)
    assert session.token is not None
    assert session.token.has_begun
    assert (session.token.tables, session.token.tables_planned, session.token.rows) == (
        way.tables,
        way.tables,
        way.rows,
    )
