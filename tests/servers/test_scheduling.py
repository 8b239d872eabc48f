"""Queries of all protocols take turns: their order, long ones beside short ones, and too many of them.

The scheduler of these tests has one slot. A gate holds it, as a query would that takes long.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pymysql
import pytest

from tests.engine.lives import wait_until
from tests.servers.grpc.running import running_server as running_grpc
from tests.servers.grpc.test_server import HANDLE, WRITE, sql
from tests.servers.http.asgi_client import Exchange, call
from tests.servers.http.sql_database import ScriptedDatabase, rows
from tests.servers.mysql.served import Served
from tests.servers.mysql.served import serving as serving_mysql
from tests.servers.postgres.running import RunningServer, running_server
from tests.servers.test_scheduler import NEVER, SECONDS, Gate
from tsdb.database import DatabaseGate
from tsdb.servers import QueryScheduler
from tsdb.servers._turns import TurnLimits
from tsdb.servers.http import HttpApp, sql_routes
from tsdb.servers.mysql import MysqlLimits
from tsdb.units import Duration

CONNECTIONS = 64
ROUNDS = 4
pytestmark = pytest.mark.timeout(120)


@contextmanager
def held(scheduler: QueryScheduler, waiting: int = 0) -> Iterator[None]:
    """Have the slot taken, and a number of steps wait for it."""
    lane, gate = scheduler.lane(99), Gate()
    lane.submit(lambda work: work(), gate)
    assert gate.begun.wait(SECONDS)
    for _ in range(waiting):
        lane.submit(lambda work: work(), lambda: None)
    try:
        yield
    finally:
        gate.may_end.set()
        lane.close()


def make_scheduler(slice_seconds: float = NEVER, waiting_max: int = 1000) -> QueryScheduler:
    return QueryScheduler(TurnLimits(1, slice_seconds, waiting_max))


def make_app(database: ScriptedDatabase, scheduler: QueryScheduler, timeout: str = "0s") -> HttpApp:
    app = HttpApp(body_limit=0, timeout=Duration.parse(timeout))
    sql_routes(app, DatabaseGate(database), threads_max=CONNECTIONS, scheduler=scheduler)
    return app


class Asked(ScriptedDatabase):
    """Answers every text, and remembers their order."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def execute(self, text: str, session: Any) -> Iterator[Any]:
        self.texts.append(text)
        yield rows(n=[1])


@contextmanager
def mysql(directory: Path, scheduler: QueryScheduler) -> Iterator[Served]:
    with serving_mysql(directory, limits=MysqlLimits(threads_max=CONNECTIONS), scheduler=scheduler) as served:
        yield served


@contextmanager
def postgres(directory: Path, scheduler: QueryScheduler) -> Iterator[RunningServer]:
    with running_server(directory / "postgres", threads_max=CONNECTIONS, scheduler=scheduler) as served:
        yield served


SERVERS = pytest.mark.parametrize("serving", [mysql, postgres])


def ask(connection: Any, text: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


# The order


async def test_many_http_connections_are_served_in_turn() -> None:
    scheduler, database = make_scheduler(), Asked()
    app = make_app(database, scheduler)

    async def client(number: int) -> None:
        for turn in range(ROUNDS):
            answer = await call(app, "GET", f"/v1/sql?sql={number}.{turn}&format=csv")
            assert (answer.status, answer.body) == (200, b"1\r\n")

    with held(scheduler):
        clients = [asyncio.ensure_future(client(number)) for number in range(CONNECTIONS)]
        await asyncio.to_thread(wait_until, lambda: scheduler.waiting == CONNECTIONS)
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*clients)
    served = dict.fromkeys(range(CONNECTIONS), -1)
    for text in database.texts:
        connection, turn = map(int, text.split("."))
        served[connection] = turn
        assert turn <= min(served.values()) + 2, "a client overtakes another one by more than one turn"


@SERVERS
def test_statements_of_connections_begin_in_the_order_of_their_arrival(
    tmp_path: Path, serving: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, begun = make_scheduler(), []
    with serving(tmp_path, scheduler) as served, ThreadPoolExecutor(8) as threads, ExitStack() as stack:
        connections = [stack.enter_context(served.connect()) for _ in range(8)]
        enter = served.database.services.processes.enter

        def spy(session: Any, text: str) -> Any:
            begun.append(text)
            return enter(session, text)

        monkeypatch.setattr(served.database.services.processes, "enter", spy)
        with held(scheduler):
            answers = []
            for number, connection in enumerate(connections):
                answers.append(threads.submit(ask, connection, f"SELECT {number}"))
                wait_until(lambda number=number: scheduler.waiting == number + 1)  # type: ignore[misc]
        assert [answer.result(SECONDS) for answer in answers] == [[(number,)] for number in range(8)]
    assert begun == [f"SELECT {number}" for number in range(8)]


# Long queries


async def test_a_long_query_does_not_hold_up_short_ones_over_http() -> None:
    scheduler = make_scheduler(slice_seconds=0.001)
    app = make_app(Asked(), scheduler)
    with held(scheduler):
        for _ in range(20):
            assert (await call(app, "GET", "/v1/sql?sql=short")).status == 200


@SERVERS
def test_a_long_query_does_not_hold_up_short_ones(tmp_path: Path, serving: Callable[..., Any]) -> None:
    scheduler = make_scheduler(slice_seconds=0.001)
    with serving(tmp_path, scheduler) as served, held(scheduler), served.connect() as connection:
        for number in range(20):
            assert ask(connection, f"SELECT {number}") == [(number,)]


@SERVERS
def test_rows_are_written_and_read_while_a_long_query_runs(tmp_path: Path, serving: Callable[..., Any]) -> None:
    scheduler = make_scheduler(slice_seconds=0.001)
    with serving(tmp_path, scheduler) as served, held(scheduler), served.connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (ts TIMESTAMP(3) TIME INDEX, v BIGINT)")
            for number in range(10):
                cursor.execute(f"INSERT INTO t VALUES ({number}, {number})")
        assert ask(connection, "SELECT count(*) FROM t") == [(10,)]


# Too many


async def test_a_full_queue_answers_503_at_once_over_http() -> None:
    scheduler, database = make_scheduler(waiting_max=2), Asked()
    app = make_app(database, scheduler)
    with held(scheduler, waiting=2):
        answer = await call(app, "GET", "/v1/sql?sql=late")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"] == "2 queries are waiting for their turn; try again later"
    assert not database.texts
    assert (await call(app, "GET", "/v1/sql?sql=later")).status == 200


async def test_a_request_whose_turn_comes_after_its_timeout_is_refused_at_once() -> None:
    scheduler, database = make_scheduler(), Asked()
    app = make_app(database, scheduler, timeout="1s")
    scheduler.note_step(1000.0)
    with held(scheduler, waiting=50):
        answer = await call(app, "GET", "/v1/sql?sql=late")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        answer = await call(app, "GET", "/v1/sql?sql=late", headers={"x-tsdb-timeout": "10ms"})
        assert answer.status == 503
    assert not database.texts


async def test_a_request_whose_client_leaves_while_it_waits_never_runs() -> None:
    scheduler, database = make_scheduler(), Asked()
    app = make_app(database, scheduler)
    with held(scheduler):
        exchange = Exchange(app, "GET", "/v1/sql?sql=left", {})
        exchange.feed(b"")
        await asyncio.to_thread(wait_until, lambda: scheduler.waiting == 1)
        exchange.leave()
        await exchange.finish()
    assert (await call(app, "GET", "/v1/sql?sql=next")).status == 200
    assert database.texts == ["next"]


async def test_clients_that_leave_do_not_fill_the_queue() -> None:
    scheduler, database = make_scheduler(waiting_max=3), Asked()
    app = make_app(database, scheduler)
    with held(scheduler):
        for number in range(10):
            exchange = Exchange(app, "GET", f"/v1/sql?sql={number}", {})
            exchange.feed(b"")
            for _ in range(3):
                await asyncio.sleep(0)
            exchange.leave()
            await exchange.finish()
        last = asyncio.ensure_future(call(app, "GET", "/v1/sql?sql=last"))
        await asyncio.sleep(0.01)
        assert not last.done(), "it was refused"
    assert (await last).status == 200
    assert database.texts == ["last"]


def test_a_full_queue_is_told_to_mysql_clients_and_the_connection_goes_on(tmp_path: Path) -> None:
    scheduler = make_scheduler(waiting_max=1)
    with mysql(tmp_path, scheduler) as served, served.connect() as connection:
        with held(scheduler, waiting=1):
            for _ in range(2):
                with pytest.raises(pymysql.err.MySQLError, match="1 queries are waiting for their turn") as refused:
                    ask(connection, "SELECT 1")
                assert refused.value.args[0] == 1041
        wait_until(lambda: not scheduler.waiting)
        assert ask(connection, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("parameters", [None, (1,)], ids=["simple", "extended"])
def test_a_full_queue_is_told_to_postgresql_clients_and_the_connection_goes_on(
    tmp_path: Path, parameters: tuple[int, ...] | None
) -> None:
    text = "SELECT 1" if parameters is None else "SELECT %s::bigint"
    scheduler = make_scheduler(waiting_max=1)
    with postgres(tmp_path, scheduler) as served, served.connect() as connection:
        with held(scheduler, waiting=1):
            for _ in range(2):
                with pytest.raises(psycopg.Error, match="1 queries are waiting for their turn") as refused:
                    connection.execute(text, parameters)
                assert refused.value.sqlstate == "53000"
        wait_until(lambda: not scheduler.waiting)
        assert connection.execute(text, parameters).fetchall() == [(1,)]


def test_writes_over_grpc_do_not_wait_for_queries_and_a_full_queue_is_told(tmp_path: Path) -> None:
    scheduler = make_scheduler(waiting_max=1)
    with running_grpc(tmp_path / "grpc", scheduler=scheduler) as served, held(scheduler, waiting=1):
        served.call(HANDLE, WRITE)
        with pytest.raises(grpc.RpcError) as refused:
            served.call(HANDLE, sql("CREATE DATABASE other").SerializeToString())
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_the_bound_of_a_protocol_holds_beside_that_of_the_scheduler(tmp_path: Path) -> None:
    """Two slots are free, the protocol may use one of them."""
    scheduler, running, lock = QueryScheduler(TurnLimits(2, 0.001)), [0, 0], threading.Lock()
    with serving_mysql(tmp_path, limits=MysqlLimits(threads_max=1), scheduler=scheduler) as served:
        run = served.database.services.queries.query

        def count(*arguments: Any, **options: Any) -> Any:
            with lock:
                running[0] += 1
                running[1] = max(running)
            try:
                return run(*arguments, **options)
            finally:
                with lock:
                    running[0] -= 1

        served.database.services.queries.query = count  # type: ignore[method-assign]
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(served.fetch, ["SELECT 1"] * 12)) == [((1,),)] * 12
    assert running == [0, 1]
