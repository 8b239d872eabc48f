"""The queue of fast workers: first come, first served, whatever the protocol, and nobody waits beyond a deadline.

The workers stand still while the queue fills, so that the machine may do so, too.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.engine.lives import wait_until
from tests.server_process import stop_process
from tests.servers.crowd import (
    BUSY,
    CONNECTIONS,
    CONNECTS,
    Asker,
    HttpAsker,
    Ports,
    Refused,
    connect_http,
    connect_mysql,
    connect_postgres,
    connected,
    serving_crowd,
)
from tests.servers.fast_workers.test_fast_workers import HOSTS, QUERIES, World, opened, serving
from tests.servers.test_crowd import with_timeout
from tests.storage import local_files_only
from tsdb.components import LocalDatabase
from tsdb.engine.lending import Lender
from tsdb.processes.fork_server import Forker
from tsdb.query import _planner
from tsdb.servers import QueryScheduler
from tsdb.servers.fast_workers import FastWorkers, _pool
from tsdb.servers.http._guard import RequestGuard
from tsdb.servers.http.shortcut import QueryShortcut
from tsdb.servers.http.shortcut._exchange import QueryExchange
from tsdb.units import Duration

pytestmark = [pytest.mark.timeout(240), local_files_only]

__all__ = ["opened"]

ROUNDS = 3
AT_ONCE = 2 * _pool.AT_ONCE
"""How many queries the two workers have at a time."""
PROMQL = 'sum(max_over_time(cpu{__field__="v"}[10m]))'


class Queue:
    """The queries that have waited, in the order in which they came, and in which they had their turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.came: dict[str, list[object]] = {"submitted": [], "promql": []}
        self.begun: dict[str, list[object]] = {"submitted": [], "promql": []}
        submit, begin, turn, compute = FastWorkers.submit, FastWorkers._begin, FastWorkers._turn, _pool._compute

        def submit_spied(workers: FastWorkers, key: Any, query: Any, *rest: Any) -> bool:
            if is_waiting := submit(workers, key, query, *rest):
                self.came["submitted"].append(query)
            return is_waiting

        def begin_spied(workers: FastWorkers, key: Any, query: Any, worker: Any) -> None:
            self.begun["submitted"].append(query)
            begin(workers, key, query, worker)

        async def turn_spied(workers: FastWorkers, *rest: Any) -> Any:
            self.came["promql"].append(asyncio.current_task())
            return await turn(workers, *rest)

        async def compute_spied(worker: Any, *rest: Any) -> Any:
            self.begun["promql"].append(asyncio.current_task())
            return await compute(worker, *rest)

        monkeypatch.setattr(FastWorkers, "submit", submit_spied)
        monkeypatch.setattr(FastWorkers, "_begin", begin_spied)
        monkeypatch.setattr(FastWorkers, "_turn", turn_spied)
        monkeypatch.setattr(_pool, "_compute", compute_spied)

    def clear(self) -> None:
        for each in (*self.came.values(), *self.begun.values()):
            each.clear()


@asynccontextmanager
async def crowd(
    opened: LocalDatabase, forker: Forker, *, http_timeout: str = "0s"
) -> AsyncIterator[tuple[World, Ports]]:
    """Serve a database with workers that know all queries."""
    async with (
        serving(opened, forker) as world,
        serving_crowd(opened, QueryScheduler(), http_timeout=http_timeout, workers=world.workers) as ports,
    ):

        def warm_up() -> None:
            with connected(ports, 3) as askers:
                for _ in range(4):
                    for each in askers:
                        ask_all(each, 0)

        await asyncio.to_thread(warm_up)
        yield world, ports


def ask_all(asker: Asker, number: int) -> list[object]:
    """Ask small aggregates in turn, each client another one first; over HTTP also PromQL."""
    found: list[object] = []
    for turn in range(ROUNDS):
        if isinstance(asker, HttpAsker) and (number + turn) % 2:
            found.append(asker.get("/v1/prometheus/api/v1/query", query=PROMQL, time=3600)["data"])
        else:
            found.append(asker.ask(QUERIES[(number + turn) % 3]))
    return found


@asynccontextmanager
async def asking(
    ports: Ports, count: int, *connects: Callable[[Ports], Asker]
) -> AsyncIterator[tuple[list[Asker], ThreadPoolExecutor]]:
    """Open connections, and threads for them. The servers are on this event loop, so it waits for neither."""
    with ExitStack() as stack:
        threads = ThreadPoolExecutor(count)
        askers = await asyncio.to_thread(stack.enter_context, connected(ports, count, *connects))
        try:
            yield askers, threads
        finally:
            await asyncio.to_thread(threads.shutdown)


@asynccontextmanager
async def standing(world: World) -> AsyncIterator[None]:
    """Have the workers stand still."""
    processes = [each.process for each in world.workers._workers]
    for process in processes:
        await asyncio.to_thread(stop_process, process)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


async def test_64_connections_have_their_turns_in_the_order_of_their_arrival(
    opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(monkeypatch)
    async with crowd(opened, forker) as (world, ports):
        async with asking(ports, CONNECTIONS) as (askers, threads):
            queue.clear()
            async with standing(world):
                asked = [threads.submit(ask_all, asker, number) for number, asker in enumerate(askers)]
                await asyncio.to_thread(wait_until, lambda: world.workers.waiting == CONNECTIONS - AT_ONCE)
            found = [await asyncio.wrap_future(each) for each in asked]
        assert all(queue.came.values())
        assert queue.begun == queue.came
        assert sum(map(len, queue.came.values())) > CONNECTIONS * (ROUNDS - 1), "nearly all were answered by workers"
        assert len({str(each) for each in found[2::6]}) == 1, "the same connections get the same answers"


@asynccontextmanager
async def busy(world: World, ports: Ports) -> AsyncIterator[None]:
    """Have workers stand still with as many queries as they take, and one more wait."""
    count, skips = AT_ONCE + 1, world.workers._skips
    skips.update(dict.fromkeys(skips, (0, _pool.SKIPS_FIRST)))  # a slow machine may have declined one
    async with asking(ports, count, connect_mysql) as (askers, threads):
        async with standing(world):
            asked = [threads.submit(each.ask, QUERIES[1]) for each in askers]
            await asyncio.to_thread(wait_until, lambda: world.workers.waiting == 1)
            yield
        for each in asked:
            assert len(await asyncio.wrap_future(each)) == HOSTS


def ask_by_turns(*askers: Asker) -> None:
    """None of the clients is alone, and their queries are known."""
    for _ in range(4):
        for each in askers:
            each.ask(QUERIES[1])


def ask_too_long(asker: Asker) -> Refused:
    with pytest.raises(Refused) as told:
        asker.ask(QUERIES[1])
    return told.value


async def test_who_would_wait_until_the_deadline_is_told_at_once(opened: LocalDatabase, forker: Forker) -> None:
    """Clients have the timeout of the server, or one of their own."""
    async with crowd(opened, forker, http_timeout="600s") as (world, ports):
        askers: list[tuple[object, Any]] = [(503, connect_http(ports))]
        askers += [(BUSY[each], await asyncio.to_thread(with_timeout, ports, each, 600)) for each in CONNECTS]
        await asyncio.to_thread(ask_by_turns, *(each for _, each in askers))
        async with busy(world, ports):
            world.workers.note_turn(1e6)
            for code, each in askers:
                told = await asyncio.to_thread(ask_too_long, each)
                assert (told.code, "would have to wait until its deadline" in told.message) == (code, True)
                assert told.retry_after == ("1" if isinstance(each, HttpAsker) else None)
        for _, each in askers:
            assert len(await asyncio.to_thread(each.ask, QUERIES[1])) == HOSTS, "its connection goes on"
            each.connection.close()
        assert not opened.database.services.processes.all()


async def test_who_has_waited_until_the_deadline_is_told_then(
    opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_planner, "PATIENCE", Duration(0))
    async with crowd(opened, forker, http_timeout="600s") as (world, ports):
        assert isinstance(ports.app.shortcut, QueryShortcut)
        other, again = connect_http(ports), connect_http(ports)
        await asyncio.to_thread(ask_by_turns, other, again)
        hasty: list[tuple[object, Any]] = [(408, again)]
        for code, connect in ((1317, connect_mysql), ("57014", connect_postgres)):
            hasty.append((code, await asyncio.to_thread(with_timeout, ports, connect, 0.2)))
        async with busy(world, ports):
            ports.app.shortcut.seconds_max = 0.2
            for code, each in hasty:
                assert (await asyncio.to_thread(ask_too_long, each)).code == code
            ports.app.shortcut.seconds_max = None
        await asyncio.to_thread(wait_until, lambda: not (world.workers.waiting or ports.app.in_flight))
        assert not opened.database.services.processes.all()
        assert len(await asyncio.to_thread(again.ask, QUERIES[1])) == HOSTS, "its connection goes on"
        for _, each in (*hasty, (200, other)):
            each.connection.close()


async def test_what_a_worker_declines_has_the_time_that_is_left(
    opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has waited for a worker for as long as it may: the application does not begin to wait once more."""
    async with crowd(opened, forker, http_timeout="600s") as (_, ports):
        patient, other = connect_http(ports), connect_http(ports)
        await asyncio.to_thread(ask_by_turns, patient, other)
        seconds: list[float | None] = []

        def lend_nothing(exchange: QueryExchange, lender: Lender) -> None:
            exchange.started -= 500

        def guard(guard: RequestGuard, timeout_seconds: float) -> None:
            seconds.append(timeout_seconds)

        monkeypatch.setattr(QueryExchange, "lend", lend_nothing)
        monkeypatch.setattr(RequestGuard, "start_clock", guard)
        assert len(await asyncio.to_thread(patient.ask, QUERIES[1])) == HOSTS
        assert len(seconds) == 1
        assert 0 < (seconds[0] or 0) <= 100
        for each in (patient, other):
            each.connection.close()
