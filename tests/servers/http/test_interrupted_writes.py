"""After a write was answered as interrupted nothing more becomes visible, unless the answer says so.

A gate in the catalog or the engine holds the write at a step; what is visible is counted at the answer and after the
gate has opened and the worker threads are idle again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.database.cases import open_case_database
from tests.engine.lives import wait_until
from tests.servers.http.asgi_client import Answer, Exchange, call
from tests.servers.http.test_influx import rows
from tests.storage import IN_CLUSTER
from tsdb.catalog import Catalog, RemoteCatalog
from tsdb.components._local import LocalDatabase
from tsdb.database import DatabaseGate
from tsdb.engine import Engine
from tsdb.remote import RemoteRegions
from tsdb.servers._scheduler import SchedulerLane
from tsdb.servers.http import HttpApp, influx_routes, opentsdb_routes, sql_routes
from tsdb.servers.http._guard import Interruption
from tsdb.servers.http.ingest._request import INGEST, IngestTuning
from tsdb.units import Duration

TABLES = 20


class Gate:
    """Lets the first `free` calls of a method pass, then holds each until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, *, free: int) -> None:
        self.calls = 0
        self.is_open = threading.Event()
        self.reached = threading.Event()
        if IN_CLUSTER:
            owner = {Catalog: RemoteCatalog, Engine: RemoteRegions}[owner]
        inner: Callable[..., Any] = getattr(owner, method)

        def gated(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls > free:
                self.reached.set()
                assert self.is_open.wait(30)
            return inner(*args, **kwargs)

        monkeypatch.setattr(owner, method, gated)


class Served:
    """An application in front of a database."""

    def __init__(self, path: Path, tuning: IngestTuning = INGEST) -> None:
        self.local: LocalDatabase = open_case_database(path)
        self.app = HttpApp(body_limit=0, timeout=Duration(0))
        self.routes = [
            influx_routes(self.app, DatabaseGate(self.local.database), tuning=tuning),
            opentsdb_routes(self.app, DatabaseGate(self.local.database)),
            sql_routes(self.app, DatabaseGate(self.local.database)),
        ]

    def table_count(self) -> int:
        (found,) = rows(self.local, "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'")
        return int(found)

    def row_count(self, table: str) -> int:
        (found,) = rows(self.local, f"SELECT count(*) FROM {table}")
        return int(found)

    async def quiesce(self) -> None:
        """Wait until no thread works on a write any more."""
        for routes in self.routes:
            threads = routes._pool._threads
            if isinstance(threads, SchedulerLane):
                await asyncio.to_thread(wait_until, lambda lane=threads._lane: not lane.begun and not lane.waiting)
                continue
            executors = [threads]
            if hasattr(routes, "_gathering"):
                executors.append(routes._gathering._pool)
            for threads in executors:
                count = threads._max_workers
                meeting = threading.Barrier(count + 1)
                for _ in range(count):
                    threads.submit(meeting.wait, 30)
                await asyncio.to_thread(meeting.wait, 30)

    def close(self) -> None:
        for routes in self.routes:
            routes.close()
        self.local.close()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    made = Served(tmp_path)
    yield made
    made.close()


@pytest.fixture
async def served_impatiently(tmp_path: Path) -> AsyncIterator[Served]:
    made = Served(tmp_path, IngestTuning(settle_seconds_max=0.1))
    yield made
    made.close()


def lines(count: int = TABLES) -> bytes:
    return b"\n".join(b"t%d v=1 1" % number for number in range(count))


async def write(served: Served, body: bytes, **headers: str) -> Answer:
    return await call(served.app, "POST", "/v1/influxdb/write", headers=headers, body=body)


async def sql(served: Served, text: str, **headers: str) -> Answer:
    return await call(served.app, "GET", f"/v1/sql?sql={quote(text)}", headers=headers)


async def expire(served: Served) -> None:
    """Let the deadline of every request pass now."""
    for guard in tuple(served.app._timeouts._guards):
        guard.interrupt(Interruption.TIMEOUT)
    for _ in range(5):
        await asyncio.sleep(0)


async def open_after(gate: Gate, served: Served) -> None:
    """Open the gate when a write is at it and its deadline has passed."""
    assert await asyncio.to_thread(gate.reached.wait, 30)
    await expire(served)
    gate.is_open.set()


async def test_no_table_is_created_after_the_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, Catalog, "create_table", free=7)
    before = served.table_count()
    answering = asyncio.ensure_future(write(served, lines()))
    await open_after(gate, served)
    answer = await answering
    at_answer = served.table_count() - before
    await served.quiesce()
    assert answer.status == 408
    assert answer.json()["error"].endswith(
        f"8 of {TABLES} tables were created or changed, 0 rows were written before it was stopped"
    )
    assert (at_answer, served.table_count() - before, gate.calls) == (8, 8, 8)


async def test_a_step_that_does_not_end_in_time_makes_the_outcome_unknown(
    served_impatiently: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = served_impatiently
    gate = Gate(monkeypatch, Catalog, "create_table", free=3)
    before = served.table_count()
    answering = asyncio.ensure_future(write(served, lines()))
    assert await asyncio.to_thread(gate.reached.wait, 30)
    await expire(served)
    answer = await answering
    assert answer.status == 408
    assert f"outcome unknown: 3 of {TABLES} tables were created or changed" in answer.json()["error"]
    gate.is_open.set()
    await served.quiesce()
    assert served.table_count() - before == gate.calls == 4, "only the step under way"


async def test_a_write_that_ends_while_its_answer_waits_is_a_success(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, Engine, "write", free=0)
    answering = asyncio.ensure_future(write(served, b"one v=1 1"))
    await open_after(gate, served)
    assert (await answering).status == 204
    assert served.row_count("one") == 1


async def test_a_write_that_waits_for_a_thread_is_never_begun(
    served_impatiently: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = served_impatiently
    gate = Gate(monkeypatch, Catalog, "create_table", free=0)
    target = "/v1/influxdb/write?precision=s"
    first = asyncio.ensure_future(call(served.app, "POST", target, body=b"first v=1 1"))
    assert await asyncio.to_thread(gate.reached.wait, 30)
    second = asyncio.ensure_future(write(served, b"second v=1 1"))
    await asyncio.sleep(0.1)
    await expire(served)
    answer = await second
    assert answer.status == 408
    assert answer.json()["error"].endswith("; nothing was written")
    assert "outcome unknown" in (await first).json()["error"]
    gate.is_open.set()
    await served.quiesce()
    tables = rows(served.local, "SHOW TABLES")
    assert ("first" in tables, "second" in tables) == (True, False)


async def test_a_client_that_goes_away_stops_its_write(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, Catalog, "create_table", free=2)
    before, body = served.table_count(), lines()
    exchange = Exchange(served.app, "POST", "/v1/influxdb/write", {"content-length": str(len(body))})
    exchange.feed(body)
    await asyncio.to_thread(gate.reached.wait, 30)
    exchange.leave()
    (guard,) = served.app._timeouts._guards
    while guard.reason is None:  # noqa: ASYNC110 - the patrol sets no event
        await asyncio.sleep(0.01)
    for _ in range(5):
        await asyncio.sleep(0)
    gate.is_open.set()
    await exchange.finish()
    await served.quiesce()
    assert served.table_count() - before == gate.calls == 3


async def test_rows_of_insert_select_stop_with_the_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    create = "CREATE TABLE s (ts TIMESTAMP TIME INDEX, v BIGINT) WITH (append_mode = 'true')"
    assert (await sql(served, create)).status == 200
    insert = "INSERT INTO s SELECT value::timestamp, value FROM generate_series(1, 400000)"
    gate = Gate(monkeypatch, Engine, "write", free=2)
    answering = asyncio.ensure_future(sql(served, insert))
    await open_after(gate, served)
    answer = await answering
    at_answer = served.row_count("s")
    await served.quiesce()
    assert answer.status == 408
    assert f"{at_answer} rows were written before it was stopped" in answer.json()["error"]
    assert 0 < served.row_count("s") == at_answer < 400_000
    assert gate.calls == 3


async def test_points_of_opentsdb_stop_with_the_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, Catalog, "create_table", free=4)
    before = served.table_count()
    points = ",".join(
        f'{{"metric":"m{number}","timestamp":1,"value":1,"tags":{{"a":"b"}}}}' for number in range(TABLES)
    )
    answering = asyncio.ensure_future(call(served.app, "POST", "/v1/opentsdb/api/put", body=f"[{points}]".encode()))
    await open_after(gate, served)
    answer = await answering
    at_answer = served.table_count() - before
    await served.quiesce()
    assert answer.status == 408
    assert at_answer == served.table_count() - before == gate.calls == 5


async def test_a_query_that_is_interrupted_has_no_outcome_to_tell(served: Served) -> None:
    endless = "SELECT count(*) FROM generate_series(1, 99000) AS a, generate_series(1, 99000) AS b"
    answering = asyncio.ensure_future(sql(served, endless))
    await asyncio.sleep(0.1)
    await expire(served)
    answer = await answering
    assert answer.status == 408
    assert "written" not in answer.json()["error"]
