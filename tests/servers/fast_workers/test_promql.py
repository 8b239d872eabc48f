"""PromQL in fast workers: the same answers as in this process, of all kinds of tables, and of what was just written."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest

from tests.servers.fast_workers.test_fast_workers import run, serving
from tests.servers.http.asgi_client import Answer, call
from tests.storage import IN_S3, local_files_only
from tsdb.components import LocalDatabase, open_directory
from tsdb.database import DatabaseGate
from tsdb.engine.lending import Borrower, Lender, SharedRuns
from tsdb.processes.fork_server import Forker
from tsdb.query import Session
from tsdb.query.lifetime import QueryLife
from tsdb.query.promql import PromqlBorrower, QueryTimes, SharedTables, make_lendable
from tsdb.servers import QueryScheduler
from tsdb.servers._prometheus_json import encode_answer
from tsdb.servers.fast_workers import _worker
from tsdb.servers.http import HttpApp, prometheus_api_routes
from tsdb.units import Duration

pytestmark = pytest.mark.timeout(120)

MINUTES = 30
SPAN = QueryTimes(0, 60_000 * MINUTES, 120_000)
NOW = QueryTimes.instant(60_000 * MINUTES)
QUERIES = [
    "requests",
    'rate(requests{host="h1"}[5m])',
    'sum by (zone) (rate(requests{host=~"h[12]"}[10m]))',
    "requests / on (host, zone) limits",
    "topk(2, requests) > 3",
    'quantile_over_time(0.5, requests{zone!="z0"}[7m])',
    "cpu",
    'cpu{__field__="v"} + 1',
    'max_over_time(cpu{__field__="n"}[5m] offset 3m)',
    'sum(requests{__schema__="public"})',
    "absent(nothing)",
    "vector(1) + scalar(sum(limits))",
    "requests and unknown_metric",
    "histogram_quantile(0.9, sum by (le) (requests))",
]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[LocalDatabase]:
    opened = open_directory(tmp_path)
    run(opened, "CREATE TABLE cpu (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE, n BIGINT)")
    run(
        opened, "CREATE TABLE phy (ts TIMESTAMP TIME INDEX, val DOUBLE) ENGINE=metric WITH (physical_metric_table = '')"
    )
    for name in ("requests", "limits"):
        columns = "ts TIMESTAMP TIME INDEX, val DOUBLE, host STRING, zone STRING, PRIMARY KEY (host, zone)"
        run(opened, f"CREATE TABLE {name} ({columns}) ENGINE=metric WITH (on_physical_table = 'phy')")
    for part in range(2):  # a file and the memtable
        for minute in range(part, MINUTES, 2):
            write(opened, minute)
        if part == 0:
            run(opened, "ADMIN flush_table('cpu')")
            run(opened, "ADMIN flush_table('phy')")
    yield opened
    opened.close()


def write(opened: LocalDatabase, minute: int) -> None:
    at = 60_000 * minute
    cpu = [f"({at}, 'h{host}', {host + minute / 7}, {host * minute})" for host in range(3)]
    run(opened, f"INSERT INTO cpu VALUES {', '.join(cpu)}")
    for name, factor in (("requests", 1.5), ("limits", 10)):
        rows = [f"({at}, {factor * host * minute}, 'h{host}', 'z{host % 2}')" for host in range(4)]
        run(opened, f"INSERT INTO {name} (ts, val, host, zone) VALUES {', '.join(rows)}")


@local_files_only
@pytest.mark.parametrize("span", [SPAN, NOW], ids=["range", "instant"])
def test_a_borrower_gives_the_same_answers(opened: LocalDatabase, span: QueryTimes) -> None:
    engine = opened.database.promql
    lender, borrower, tables = (
        Lender(SharedRuns()),
        Borrower.of(meta_bytes=1 << 20, vector_bytes=1 << 20),
        SharedTables(),
    )
    promql, clock = PromqlBorrower(borrower), engine.clock
    for minute in (MINUTES, MINUTES + 1):
        for text in QUERIES:
            query = make_lendable(text, engine.source(Session()), span, tables)
            assert query is not None, text
            lent = query.lend(lender)
            assert lent is not None, text
            parcel = lender.parcel()
            descriptors = [os.dup(each) for each in parcel.descriptors]
            borrower.take(parcel.news, parcel.gone, descriptors)
            found = encode_answer(promql.evaluate(lent, QueryLife(clock, None)), is_range=span is SPAN)
            assert found == encode_answer(engine.run(text, Session(), span), is_range=span is SPAN), text
            query.close()
        write(opened, minute)


def test_a_query_of_no_certain_table_stays_here(opened: LocalDatabase) -> None:
    source = opened.database.promql.source(Session())
    for text in ('{host="h1"}', '{__name__=~"req.*"}', 'requests + on () group_left {zone="z1"}'):
        assert make_lendable(text, source, NOW, SharedTables()) is None, text


@asynccontextmanager
async def asking(opened: LocalDatabase, forker: Forker) -> AsyncIterator[Any]:
    async with serving(opened, forker) as world:
        app = HttpApp(body_limit=0, timeout=Duration.parse("0s"))
        routes = prometheus_api_routes(
            app, DatabaseGate(opened.database), scheduler=QueryScheduler(), fast_workers=world.workers
        )
        try:
            yield partial(_ask, app)
        finally:
            routes.close()


async def _ask(app: HttpApp, text: str, **more: Any) -> Answer:
    parameters = {"query": text, "start": 0, "end": 60 * MINUTES, "step": 60, **more}
    return await call(app, "GET", f"/v1/prometheus/api/v1/query_range?{urlencode(parameters)}")


async def test_http_clients_that_are_not_alone(opened: LocalDatabase, forker: Forker) -> None:
    async with asking(opened, forker) as ask:
        before = _worker._ANSWERED._value.get()
        for text in QUERIES:
            alone = await ask(text)
            assert alone.status == 200, alone.body
            for _ in range(3):
                others = await asyncio.gather(*(ask(text) for _ in range(8)))
                assert {each.body for each in others} == {alone.body}, text
        # A worker reads files only where they are on this machine.
        assert IN_S3 or _worker._ANSWERED._value.get() - before >= len(QUERIES), "others ran here"
        assert not opened.database.services.processes.all()


async def test_what_is_acknowledged_is_visible(opened: LocalDatabase, forker: Forker) -> None:
    async with asking(opened, forker) as ask:
        for minute in range(MINUTES, MINUTES + 10):
            write(opened, minute)
            others = await asyncio.gather(*(ask("count_over_time(requests[1h])", end=60 * minute) for _ in range(4)))
            for each in others:
                result = orjson.loads(each.body)["data"]["result"]
                assert {series["values"][-1][1] for series in result} == {str(minute + 1)}


async def test_errors_are_those_of_the_server(opened: LocalDatabase, forker: Forker) -> None:
    async with asking(opened, forker) as ask:
        for text in ("sum(", "requests + on (zone) limits", 'requests{__database__!="public"}'):
            alone = await ask(text)
            assert alone.status in (400, 422), (text, alone.body)
            for _ in range(3):
                others = await asyncio.gather(*(ask(text) for _ in range(4)))
                assert {(each.status, each.body) for each in others} == {(alone.status, alone.body)}, text
        assert not opened.database.services.processes.all()
