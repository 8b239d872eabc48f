"""`/v1/sql`: parameters, headers, errors; streams, clients that leave and timeouts against a running server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import pyarrow as pa
import pytest

from tests.servers.http.asgi_client import Answer, Exchange, call
from tests.servers.http.sql_database import Affected, MadeRecords, ScriptedDatabase, rows
from tsdb.database import DatabaseGate
from tsdb.errors import DeadlineExceeded, InvalidSyntax
from tsdb.query import Channel
from tsdb.servers._inline import InlineLimits, InlinePolicy
from tsdb.servers.http import HttpApp, HttpServer, sql_routes
from tsdb.servers.http.sql._formats import CHUNK_BYTES
from tsdb.units import Duration

FORM = "application/x-www-form-urlencoded"
pytestmark = pytest.mark.timeout(20)


def make_app(database: ScriptedDatabase, **options: Any) -> HttpApp:
    app = HttpApp(body_limit=0, timeout=Duration(0))
    sql_routes(app, DatabaseGate(database), **options)
    return app


async def get(database: ScriptedDatabase, query: str, headers: dict[str, str] | None = None, **options: Any) -> Answer:
    return await call(make_app(database, **options), "GET", f"/v1/sql?{query}", headers=headers)


async def post(database: ScriptedDatabase, query: str, form: str, content_type: str | None = FORM) -> Answer:
    headers = {} if content_type is None else {"content-type": content_type}
    return await call(make_app(database), "POST", f"/v1/sql?{query}", headers=headers, body=form.encode())


def one() -> ScriptedDatabase:
    return ScriptedDatabase({"q": [lambda: rows(n=[1, 2])], "r": [lambda: rows(n=[3])]})


# Parameters


@pytest.mark.parametrize("query", ["", "format=csv", "db=nowhere"])
async def test_a_request_without_sql_is_refused(query: str) -> None:
    for answer in (await get(one(), query), await post(one(), query, "")):
        assert answer.status == 400
        assert answer.json()["error"] == "sql parameter is required."
        assert answer.json()["code"] == 1004
        assert answer.headers["x-tsdb-err-code"] == answer.headers["x-greptime-err-code"] == "1004"


@pytest.mark.parametrize("content_type", [FORM, f"{FORM}; charset=utf-8", FORM.upper(), None])
async def test_parameters_come_from_the_form_and_the_query_wins(content_type: str | None) -> None:
    answer = await post(one(), "", "sql=q&format=csv", content_type)
    assert (answer.status, answer.body) == (200, b"1\r\n2\r\n")
    answer = await post(one(), "sql=r&format=csv", "sql=q&format=json", content_type)
    assert (answer.status, answer.body) == (200, b"3\r\n")


async def test_limit_and_compression_count_in_the_query_only() -> None:
    answer = await post(one(), "", "sql=q&format=csv&limit=1")
    assert answer.body == b"1\r\n2\r\n"
    answer = await post(one(), "limit=1", "sql=q&format=csv")
    assert answer.body == b"1\r\n"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "multipart/form-data; boundary=x", ""])
async def test_a_body_that_is_no_form_is_415(content_type: str) -> None:
    database = one()
    answer = await post(database, "sql=q", "{}", content_type)
    assert answer.status == 415
    assert answer.headers["content-type"].startswith("text/plain")
    assert FORM in answer.body.decode()
    assert not database.sessions


@pytest.mark.parametrize("limit", ["x", "-1", "1.5", "", "%D9%A3", "9" * 40])
async def test_a_limit_that_is_no_number_of_rows_is_refused(limit: str) -> None:
    answer = await get(one(), f"sql=q&limit={limit}")
    assert (answer.status, answer.json()["code"]) == (400, 1004)
    assert answer.json()["error"].startswith("the parameter limit must be a number of rows")


@pytest.mark.parametrize(
    ("query", "headers", "database"),
    [
        ("", {}, "public"),
        ("db=metrics", {}, "metrics"),
        ("db=tsdb-metrics", {}, "metrics"),
        ("db=greptime-metrics", {}, "metrics"),
        ("db=my-db", {}, "my-db"),
        ("db=", {"x-tsdb-db-name": "metrics"}, "metrics"),
        ("", {"x-tsdb-db-name": "metrics"}, "metrics"),
        ("", {"x-greptime-db-name": "greptime-metrics"}, "metrics"),
        ("", {"x-tsdb-db-name": "metrics", "x-greptime-db-name": "my-db"}, "metrics"),
        ("", {"x-tsdb-db-name": "not-there"}, "not-there"),
        ("db=my-db", {"x-tsdb-db-name": "metrics"}, "my-db"),
    ],
)
async def test_the_database_is_that_of_the_parameter_or_of_the_header(
    query: str, headers: dict[str, str], database: str
) -> None:
    scripted = one()
    assert (await get(scripted, f"sql=q&{query}", headers)).status == 200
    assert scripted.sessions[0].database == database
    assert scripted.sessions[0].channel is Channel.HTTP
    assert scripted.sessions[0].client == "127.0.0.1"


@pytest.mark.parametrize("wanted", ["nowhere", "my-other", "tsdb-nowhere", "other-metrics"])
async def test_a_parameter_that_names_no_database_is_refused_before_the_text_is_read(wanted: str) -> None:
    for answer in (
        await get(one(), f"sql=%27never%20ends&db={wanted}"),
        await post(one(), "", f"sql=%27never%20ends&db={wanted}"),
    ):
        assert (answer.status, answer.json()["code"]) == (400, 4004)
        assert answer.json()["error"] == f"Database not found: {wanted}"


@pytest.mark.parametrize(
    ("headers", "zone"),
    [
        ({}, "Europe/Berlin"),
        ({"x-tsdb-timezone": "asia/shanghai"}, "Asia/Shanghai"),
        ({"x-greptime-timezone": "+8:00"}, "+08:00"),
        ({"x-tsdb-timezone": "Middle/Earth"}, "Europe/Berlin"),
    ],
)
async def test_the_time_zone_is_that_of_the_header_if_there_is_such_a_zone(headers: dict[str, str], zone: str) -> None:
    database = one()
    assert (await get(database, "sql=q", headers, default_timezone="Europe/Berlin")).status == 200
    assert database.sessions[0].time_zone == zone
    assert (await get(database, "sql=q")).status == 200
    assert database.sessions[1].time_zone == "UTC"


async def test_every_request_has_its_own_session() -> None:
    database = one()
    app = make_app(database)
    for _ in range(2):
        await call(app, "GET", "/v1/sql?sql=q")
    assert database.sessions[0].connection_id != database.sessions[1].connection_id


async def test_other_methods_are_405() -> None:
    answer = await call(make_app(one()), "PUT", "/v1/sql?sql=q")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")


# Errors


async def test_an_error_of_a_later_statement_replaces_the_whole_answer() -> None:
    database = ScriptedDatabase({"q": [Affected(1), rows(n=[1]), InvalidSyntax("no such thing"), Affected(1)]})
    for name in ("tsdb_v1", "influxdb_v1"):
        answer = await get(database, f"sql=q&format={name}")
        assert answer.status == 400
        assert set(answer.json()) == {"code", "error", "execution_time_ms"}
        assert (answer.json()["code"], answer.json()["error"]) == (2000, "no such thing")
    assert database.has_finished


async def test_an_error_among_the_first_rows_has_its_status() -> None:
    records = MadeRecords(pa.record_batch({"n": [1]}), 3, DeadlineExceeded("too slow"))
    answer = await get(ScriptedDatabase({"q": [records]}), "sql=q&format=csv")
    assert (answer.status, answer.json()["code"]) == (504, 1008)
    assert records.closed.is_set()


async def test_an_unexpected_error_tells_nothing() -> None:
    answer = await get(ScriptedDatabase({"q": [ValueError("secret")]}), "sql=q")
    assert answer.status == 500
    assert b"secret" not in answer.body


# Parsing and formatting


async def test_statements_are_parsed_and_formatted() -> None:
    app = make_app(one())
    answer = await call(app, "GET", "/v1/sql/format?sql=select%20%201%20--x")
    assert answer.json() == {"formatted": "SELECT 1;"}
    form = {"content-type": FORM}
    answer = await call(app, "POST", "/v1/sql/parse", headers=form, body=b"sql=drop+table+t%3B+select+1")
    assert [each["type"] for each in answer.json()] == ["DropTable", "Query"]
    for path in ("/v1/sql/parse", "/v1/sql/format"):
        assert (await call(app, "GET", path)).json()["error"] == "sql parameter is required."
        assert (await call(app, "GET", f"{path}?sql=%27never")).json()["code"] == 2000
        assert (await call(app, "POST", path, headers={"content-type": "text/sql"}, body=b"select 1")).status == 415


# Streams


def big_batch() -> pa.RecordBatch:
    return pa.record_batch({"n": np.arange(10_000), "s": pa.array(["some text"] * 10_000)})


class WatchedExchange(Exchange):
    """Notes after every message how large it is and how many rows have been made."""

    def __init__(self, app: HttpApp, target: str, records: MadeRecords) -> None:
        self.sizes: list[int] = []
        self.made: list[int] = []
        self._records = records
        super().__init__(app, "GET", target, {})

    async def _send(self, message: Any) -> None:
        await super()._send(message)
        self.sizes.append(len(message.get("body", b"")))
        self.made.append(self._records.made)


async def test_a_million_rows_are_sent_in_chunks_and_made_no_faster_than_they_are_sent() -> None:
    records = MadeRecords(big_batch(), 100)
    exchange = WatchedExchange(make_app(ScriptedDatabase({"q": [records]})), "/v1/sql?sql=q", records)
    await exchange.task
    assert exchange.answer.is_complete
    found = exchange.answer.json()["output"][0]["records"]
    assert len(found["rows"]) == found["total_rows"] == 1_000_000
    assert found["rows"][10_000] == [0, "some text"]
    assert records.closed.is_set()
    assert max(exchange.sizes) < 2 * CHUNK_BYTES
    batches_per_chunk = CHUNK_BYTES // (len(exchange.answer.body) // 100) + 1
    sent = [sum(size > 0 for size in exchange.sizes[:number]) for number in range(len(exchange.sizes))]
    ahead = [made - chunks * batches_per_chunk for made, chunks in zip(exchange.made, sent, strict=True)]
    assert max(ahead) <= 2 * batches_per_chunk + 1, "one chunk is made while another is sent, and one batch read"


@asynccontextmanager
async def serving(database: ScriptedDatabase, *, threads_max: int = 4) -> AsyncIterator[str]:
    app = HttpApp(body_limit=0, timeout=Duration(0))
    routes = sql_routes(app, DatabaseGate(database), threads_max=threads_max)
    server = HttpServer(app, host="127.0.0.1", port=0)
    await server.start()
    try:
        yield f"http://{server.address}/v1/sql"
    finally:
        await server.stop(1)
        routes.close()


async def wait_for(event: threading.Event) -> None:
    assert await asyncio.get_running_loop().run_in_executor(None, event.wait, 5)


async def test_a_client_reads_a_large_answer() -> None:
    database = ScriptedDatabase({"q": [lambda: MadeRecords(big_batch(), 30)]})
    async with serving(database) as url, httpx.AsyncClient(timeout=10, trust_env=False) as client:
        answer = await client.get(url, params={"sql": "q", "format": "csv"})
        assert answer.text.count("\r\n") == 300_000
        answer = await client.get(url, params={"sql": "q", "format": "arrow", "compression": "zstd"})
        assert pa.ipc.open_stream(answer.content).read_all().num_rows == 300_000
        answer = await client.post(url, data={"sql": "q"})
        assert answer.json()["output"][0]["records"]["total_rows"] == 300_000
        assert answer.headers["x-tsdb-format"] == "tsdb_v1"
        assert (await client.head(url, params={"sql": "q"})).status_code == 200
    assert len(database.cancelled) == 1, "only the answer that nobody read was stopped"


async def test_an_error_in_the_middle_of_a_large_answer_cuts_it() -> None:
    records = MadeRecords(big_batch(), 30, DeadlineExceeded("too slow"))
    async with (
        serving(ScriptedDatabase({"q": [records]})) as url,
        httpx.AsyncClient(timeout=10, trust_env=False) as client,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(url, params={"sql": "q"})
    assert records.closed.is_set()


async def test_a_client_that_leaves_while_it_waits_stops_the_query() -> None:
    database = ScriptedDatabase()
    database.answers["q"] = [database.block]
    async with serving(database) as url, httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get(url, params={"sql": "q"}, timeout=0.2)
        await wait_for(database.stopped)
        assert database.cancelled[0] is database.sessions[0]


async def test_a_client_that_leaves_while_it_reads_stops_the_query() -> None:
    records = MadeRecords(big_batch(), 1_000_000)
    database = ScriptedDatabase({"q": [records]})
    async with serving(database) as url, httpx.AsyncClient(timeout=10, trust_env=False) as client:
        async with client.stream("GET", url, params={"sql": "q"}) as answer:
            async for _ in answer.aiter_bytes(1000):
                break
        await wait_for(records.closed)
        assert database.cancelled[0] is database.sessions[0]
    assert records.made < 1000


async def test_a_query_whose_time_is_up_is_stopped_and_answered_with_408() -> None:
    database = ScriptedDatabase()
    database.answers["q"] = [database.block]
    async with serving(database) as url, httpx.AsyncClient(timeout=10, trust_env=False) as client:
        answer = await client.get(url, params={"sql": "q"}, headers={"x-tsdb-timeout": "50ms"})
        assert (answer.status_code, answer.json()["code"]) == (408, 1008)
        assert database.stopped.is_set()


async def test_a_query_that_waits_for_a_thread_can_be_given_up() -> None:
    database = ScriptedDatabase({"q": [rows(n=[1])]})
    database.answers["slow"] = [database.block]
    async with serving(database, threads_max=1) as url, httpx.AsyncClient(timeout=10, trust_env=False) as client:
        slow = asyncio.create_task(client.get(url, params={"sql": "slow"}))
        await wait_for(database.begun)
        cancelled = await client.get(url, params={"sql": "q"}, headers={"x-tsdb-timeout": "50ms"})
        assert cancelled.status_code == 408
        assert len(database.sessions) == 1, "the statement never began"
        database.stopped.set()
        assert (await slow).status_code == 504
        assert (await client.get(url, params={"sql": "q"})).status_code == 200


async def test_a_cancellation_is_repeated_until_the_query_has_ended() -> None:
    class DeafDatabase(ScriptedDatabase):
        def cancel(self, session: Any) -> None:
            self.cancelled.append(session)
            if len(self.cancelled) == 3:
                self.stopped.set()

    database = DeafDatabase()
    database.answers["q"] = [database.block]
    async with serving(database) as url, httpx.AsyncClient(timeout=10, trust_env=False) as client:
        answer = await client.get(url, params={"sql": "q"}, headers={"x-tsdb-timeout": "50ms"})
        assert answer.status_code == 408
        await wait_for(database.stopped)


# Inline execution

PATIENT = partial(InlinePolicy, InlineLimits(fast_seconds=60.0, soft_deadline_seconds=60.0))


@pytest.mark.parametrize(
    ("text", "is_here"),
    [
        ("SELECT a FROM t WHERE n = {}", True),
        ("select a from t where n = {};", True),
        ("INSERT INTO t VALUES ({})", False),
        ("SELECT {}; DROP TABLE t", False),
    ],
)
async def test_a_fast_query_is_answered_on_the_event_loop(text: str, is_here: bool) -> None:
    threads = []

    def answer() -> Any:
        threads.append(threading.current_thread())
        return rows(n=[1])

    database = ScriptedDatabase({text.format(number): [answer] for number in range(5)})
    app = make_app(database, inline=PATIENT())
    for number in range(5):
        found = await call(app, "GET", f"/v1/sql?{urlencode({'sql': text.format(number)})}")
        assert found.json()["output"][0]["records"]["rows"] == [[1]]
    main = threading.current_thread()
    assert [thread is main for thread in threads] == [False, False, False, is_here, is_here]


async def test_a_query_that_is_expected_to_be_fast_may_fail_or_be_large() -> None:
    text = "SELECT a FROM t"
    database = ScriptedDatabase({text: [lambda: rows(n=[1])]})
    app = make_app(database, inline=PATIENT())

    async def ask() -> Answer:
        return await call(app, "GET", f"/v1/sql?{urlencode({'sql': text, 'format': 'csv'})}")

    for _ in range(3):
        assert (await ask()).body == b"1\r\n"
    database.answers[text] = [InvalidSyntax("no")]
    assert (await ask()).status == 400
    wide = "x" * (CHUNK_BYTES // 4)
    database.answers[text] = [lambda: rows(n=[wide] * 50)]
    assert (await ask()).body == f"{wide}\r\n".encode() * 50
