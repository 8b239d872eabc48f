"""Many clients of all protocols at once, over sockets: their order, long queries beside short ones, too many of them.

What is counted happens in the server: a machine that stands still holds up what is counted, and changes no count.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.flight as fl
import pytest

from tests.engine.lives import wait_until
from tests.servers.crowd import (
    BUSY,
    CONNECTIONS,
    CONNECTS,
    SECONDS,
    Asker,
    HttpAsker,
    Ports,
    Refused,
    connect_http,
    connected,
    serving_crowd,
)
from tests.servers.grpc.flight.clients import ask as ask_flight
from tests.servers.test_scheduler import NEVER
from tests.servers.test_scheduling import held
from tsdb.components import LocalDatabase, LocalOptions, open_directory
from tsdb.query import Session
from tsdb.servers import QueryScheduler
from tsdb.servers._turns import TurnLimits

pytestmark = pytest.mark.timeout(240)

ROUNDS = 3
HOSTS, MINUTES = 4, 60
WHERE = f"host = 'h1' AND ts < {60_000 * MINUTES}"
MIXED: dict[str, list[tuple[Any, ...]]] = {
    f"SELECT max(v) FROM cpu WHERE {WHERE}": [(1 + (MINUTES - 1) / 8,)],
    f"SELECT v FROM cpu WHERE {WHERE} ORDER BY ts LIMIT 2": [(1.0,), (1.125,)],
    "TQL EVAL (0, 0, '60s') count(cpu) + 0.5": [(HOSTS + 0.5,)],
    "SELECT count(*) FROM cpu a JOIN cpu b ON a.host = b.host AND a.ts = b.ts": [(HOSTS * MINUTES,)],
}
"""A small aggregate, a selection, PromQL and a join, and what they answer."""
FLIGHT_ERRORS = (fl.FlightError, OSError, ValueError)
"""What `pyarrow` makes of a status depends on its version."""
LONG = "TQL EVAL (0, 36000, '1s') " + " + ".join(["quantile_over_time(0.5, cpu[1h])"] * 300)
"""It takes minutes, on the threads of the scheduler."""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[LocalDatabase]:
    opened = open_directory(tmp_path, options=LocalOptions(has_housekeeping=False))
    for text in (
        "CREATE TABLE cpu (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE)",
        "INSERT INTO cpu VALUES "
        + ", ".join(f"({60_000 * m}, 'h{h}', {h + m / 8})" for m in range(MINUTES) for h in range(HOSTS)),
    ):
        list(opened.database.execute(text, Session()))
    yield opened
    opened.close()


class Order:
    """The numbers of steps in the order in which they came, and in which they began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.came = 0
        self.begun: list[int] = []
        self._lock = threading.Lock()
        submit = QueryScheduler.submit

        def spy(scheduler: QueryScheduler, lane: Any, call: Callable[[], Any]) -> Future[Any]:
            with self._lock:
                number, self.came = self.came, self.came + 1

                def begin() -> Any:
                    self.begun.append(number)
                    return call()

                return submit(scheduler, lane, begin)

        monkeypatch.setattr(QueryScheduler, "submit", spy)


def ask_all(asker: Asker, number: int) -> None:
    """Ask the mixed queries in turn, each client another one first."""
    texts = list(MIXED)
    for turn in range(ROUNDS):
        text = texts[(number // len(CONNECTS) + turn) % len(texts)]
        answer = [row[-len(MIXED[text][0]) :] for row in asker.ask(text)]
        assert answer == MIXED[text], text


async def test_64_connections_with_mixed_queries_are_served_in_the_order_of_their_arrival(
    opened: LocalDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = QueryScheduler(TurnLimits(1, NEVER))
    order = Order(monkeypatch)

    def drive(ports: Ports) -> None:
        with connected(ports, CONNECTIONS) as askers, ThreadPoolExecutor(CONNECTIONS) as threads:
            with held(scheduler):
                asking = [threads.submit(ask_all, asker, number) for number, asker in enumerate(askers)]
                wait_until(lambda: scheduler.waiting == CONNECTIONS)
                assert len(order.begun) <= order.came - CONNECTIONS, "all connections wait at the same time"
            for each in asking:
                each.result(SECONDS)
        assert len(order.begun) >= CONNECTIONS * ROUNDS

    async with serving_crowd(opened, scheduler) as ports:
        await asyncio.to_thread(drive, ports)
    assert order.begun == list(range(order.came))


@pytest.mark.parametrize("connect", CONNECTS)
async def test_short_queries_of_all_protocols_overtake_a_long_one(
    opened: LocalDatabase, connect: Callable[[Ports], Asker], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = QueryScheduler(TurnLimits(1, 0.001))
    processes = opened.database.services.processes
    pauses: Counter[str] = Counter()
    wait_to_go_on = QueryScheduler._wait_to_go_on

    def spy(scheduler: QueryScheduler, step: Any, check: Callable[[], None]) -> None:
        pauses[threading.current_thread().name] += step.is_long
        wait_to_go_on(scheduler, step, check)

    monkeypatch.setattr(QueryScheduler, "_wait_to_go_on", spy)

    def long_ones() -> list[Any]:
        return [each for each in processes.all() if "quantile_over_time" in each.text]

    def drive(ports: Ports) -> None:
        with (
            connected(ports, 1, connect) as (late,),
            connected(ports, CONNECTIONS - 1) as askers,
            ThreadPoolExecutor(CONNECTIONS) as threads,
        ):
            long = threads.submit(late.ask, LONG)
            wait_until(lambda: bool(long_ones()))
            asking = [threads.submit(ask_all, asker, number) for number, asker in enumerate(askers)]
            for each in asking:
                each.result(SECONDS)
            (running,) = long_ones()
            assert not long.done()
            processes.kill(running.id)
            with pytest.raises(Refused, match="cancelled"):
                long.result(SECONDS)

    async with serving_crowd(opened, scheduler) as ports:
        await asyncio.to_thread(drive, ports)
    assert sum(pauses.values()) > 0, "the long query has stepped back"


async def test_a_full_queue_refuses_who_comes_too_late_and_nobody_else(opened: LocalDatabase) -> None:
    places = 16
    scheduler = QueryScheduler(TurnLimits(1, NEVER, places))
    text, answer = next(iter(MIXED.items()))

    def ask(asker: Asker) -> object:
        try:
            return asker.ask(text)
        except Refused as error:
            is_told = "queries are waiting for their turn" in error.message
            is_told &= error.retry_after == ("1" if isinstance(asker, HttpAsker) else None)
            return error.code if is_told else error

    def drive(ports: Ports) -> None:
        with connected(ports, CONNECTIONS) as askers, ThreadPoolExecutor(CONNECTIONS) as threads:
            with held(scheduler):
                asked = [threads.submit(ask, asker) for asker in askers]
                wait_until(lambda: sum(each.done() for each in asked) == CONNECTIONS - places)
                assert scheduler.waiting == places
                codes = {each.result() for each in asked if each.done()}
                assert codes == set(BUSY.values())
            found = [each.result(SECONDS) for each in asked]
            assert found.count(answer) == places
            assert [ask(asker) for asker in askers] == [answer] * CONNECTIONS

    async with serving_crowd(opened, scheduler) as ports:
        await asyncio.to_thread(drive, ports)


# Deadlines


def with_timeout(ports: Ports, connect: Callable[[Ports], Asker], seconds: float) -> Asker:
    """Open a connection whose queries have so much time."""
    if connect is connect_http:
        return HttpAsker(ports.http, {"x-tsdb-timeout": f"{round(seconds * 1000)}ms"})
    asker = connect(ports)
    for name in ("max_execution_time", "statement_timeout"):
        with suppress(Refused):
            asker.ask(f"SET {name} = {round(seconds * 1000)}")
    return asker


@pytest.mark.parametrize("connect", CONNECTS)
async def test_who_would_wait_until_the_deadline_is_told_at_once(
    opened: LocalDatabase, connect: Callable[[Ports], Asker]
) -> None:
    scheduler = QueryScheduler(TurnLimits(1, NEVER))
    text, answer = next(iter(MIXED.items()))

    def drive(ports: Ports) -> None:
        asker: Any = with_timeout(ports, connect, 600)
        scheduler.note_step(1e6)
        with held(scheduler, waiting=50), pytest.raises(Refused, match="would have to wait until its deadline") as told:
            asker.ask(text)
        assert told.value.code == BUSY[connect]
        wait_until(lambda: not scheduler.waiting)
        assert asker.ask(text) == answer
        asker.connection.close()

    async with serving_crowd(opened, scheduler) as ports:
        await asyncio.to_thread(drive, ports)


@pytest.mark.parametrize(("connect", "code"), list(zip(CONNECTS, (408, 1317, "57014"), strict=True)))
async def test_who_has_waited_until_the_deadline_is_told_then(
    opened: LocalDatabase, connect: Callable[[Ports], Asker], code: object
) -> None:
    scheduler = QueryScheduler(TurnLimits(1, NEVER))
    text, answer = next(iter(MIXED.items()))

    def drive(ports: Ports) -> None:
        asker: Any = with_timeout(ports, connect, 0.2)
        with held(scheduler), pytest.raises(Refused) as told:
            asker.ask(text)
        assert told.value.code == code
        patient: Any = connect(ports)
        assert patient.ask(text) == answer
        for each in (asker, patient):
            each.connection.close()

    async with serving_crowd(opened, scheduler) as ports:
        await asyncio.to_thread(drive, ports)


async def test_calls_of_flight_have_deadlines_too(opened: LocalDatabase) -> None:
    scheduler = QueryScheduler(TurnLimits(1, NEVER))
    text, answer = next(iter(MIXED.items()))

    def drive(ports: Ports) -> None:
        options = fl.FlightCallOptions(timeout=600)
        with fl.connect(f"grpc://127.0.0.1:{ports.grpc}") as client:
            assert [tuple(row.values()) for row in ask_flight(client, text, options).to_pylist()] == answer
            ticket = fl.Ticket(b'{"database": "public", "sql_query": "SELECT count(*) FROM cpu"}')
            scheduler.note_step(1e6)
            with held(scheduler, waiting=50):
                for call in (
                    lambda: ask_flight(client, text, options),
                    lambda: client.do_get(ticket, options).read_all(),
                ):
                    with pytest.raises(FLIGHT_ERRORS, match="would have to wait until its deadline"):
                        call()
            wait_until(lambda: not scheduler.waiting)
            assert client.do_get(ticket, options).read_all().num_rows == 1

    async with serving_crowd(opened, scheduler) as ports:
        await asyncio.to_thread(drive, ports)
