"""Queries that are repeated over HTTP: the same answers as by the usual way, to the byte, and the same care."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.auth.clients import basic
from tests.servers.fast_workers.site import Answer, alone, one_client, site, until
from tests.servers.fast_workers.test_fast_workers import QUERIES, opened, run
from tests.storage import local_files_only
from tsdb.auth import open_authenticator
from tsdb.components import LocalDatabase, LocalOptions, open_directory
from tsdb.database._repeated import RepeatedQuery
from tsdb.engine.lending import Lender
from tsdb.processes.fork_server import Forker
from tsdb.query.series_aggregate import NeedsPlanner
from tsdb.servers._inline import SoftDeadlineExceeded
from tsdb.servers.fast_workers import _pool
from tsdb.servers.http.shortcut._exchange import QueryExchange
from tsdb.servers.http.sql import _repeated

pytestmark = [pytest.mark.timeout(120), local_files_only]

__all__ = ["opened"]

TOKYO = ("X-Tsdb-Timezone: Asia/Tokyo",)


def get(text: str, *headers: str, **parameters: str) -> bytes:
    lines = [f"GET /v1/sql?{urlencode({**parameters, 'sql': text})} HTTP/1.1", "Host: here", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def post(text: str, *headers: str, **parameters: str) -> bytes:
    body = urlencode({**parameters, "sql": text})
    form = "Content-Type: application/x-www-form-urlencoded"
    lines = ["POST /v1/sql HTTP/1.1", "Host: here", form, f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", body]).encode()


@pytest.mark.parametrize("form", [get, post])
async def test_answers_are_the_same_to_the_byte(
    form: Callable[..., bytes], opened: LocalDatabase, forker: Forker
) -> None:
    async with site(opened, forker) as here:
        for text in QUERIES:
            for headers, parameters in (
                ((), {}),
                (TOKYO, {"format": "csvWithNames"}),
                (("X-Tsdb-Db-Name: public",), {"format": "table"}),
                ((), {"db": "public", "format": "influxdb_v1"}),
            ):
                if headers == TOKYO and "date_trunc" in text:
                    continue  # local minutes are for the planner
                request = form(text, *headers, **parameters)
                usual = await here.clients[0].ask(form(text, "X-Tsdb-Timeout: 1h", *headers, **parameters))
                assert usual.status == 200
                assert (await here.shortly(request)).timeless == usual.timeless
        await until(lambda: not opened.database.services.processes.all())


async def test_other_literals_have_other_answers(opened: LocalDatabase, forker: Forker) -> None:
    async with site(opened, forker) as here:
        texts = [f"SELECT count(*), max(v) FROM cpu WHERE host = 'h{host}'" for host in range(4)]
        found = [(await here.shortly(get(text))).timeless for text in texts]
        assert len({str(each) for each in found}) == 4


async def test_what_is_acknowledged_is_visible(opened: LocalDatabase, forker: Forker) -> None:
    request = get("SELECT count(*) AS c FROM cpu WHERE host = 'new'", format="csv")
    async with site(opened, forker) as here:
        assert (await here.shortly(request)).body == b"0\r\n"
        for turn in range(1, 40):
            run(opened, f"INSERT INTO cpu VALUES ({turn}, 'new', 1, 1)")
            assert [each.body for each in await here.both(request)] == [b"%d\r\n" % turn] * 2
            if turn % 15 == 0:
                run(opened, "ADMIN flush_table('cpu')")
            if turn == 35:
                run(opened, "ADMIN compact_table('cpu')")
        run(opened, "DELETE FROM cpu WHERE host = 'new' AND ts < 11")
        assert [each.body for each in await here.both(request)] == [b"29\r\n"] * 2
        assert len(here.statuses) > 40
        run(opened, "ALTER TABLE cpu DROP COLUMN n")
        assert [each.body for each in await here.both(request)] == [b"29\r\n"] * 2
        run(opened, "DROP TABLE cpu")
        assert {each.status for each in await here.both(request)} == {400}
        run(opened, "CREATE TABLE cpu (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE)")
        assert [each.body for each in await here.both(request)] == [b"0\r\n"] * 2


async def test_what_is_unusual_is_left_to_the_application(opened: LocalDatabase, forker: Forker) -> None:
    text = QUERIES[1]
    async with site(opened, forker) as here:
        known = await here.shortly(get(text))
        unusual: Sequence[tuple[bytes, int]] = (
            (get(text, "X-Tsdb-Timeout: 20s"), 200),
            (get(text, limit="1"), 200),
            (get(text + ";" + text), 200),
            (get(text, db="nowhere"), 400),
            (get(text, format="nothing"), 400),
            (get("SELECT nothing FROM cpu"), 400),
            (post(text).replace(b"x-www-form-urlencoded", b"json"), 415),
            (get(text).replace(b"GET /v1/sql?", b"GET /v1/sqlx?"), 404),
            (get(text).replace(b"GET", b"PUT"), 405),
        )
        for request, status in unusual:
            before = len(here.statuses)
            for _ in range(3):
                assert {each.status for each in await here.both(request)} == {status}, request
            assert len(here.statuses) == before, request
        assert (await here.shortly(get(text))).timeless == known.timeless
        malformed = await here.connect()
        malformed.writer.write(get(text).replace(b"Host: here", b"Host"))
        assert b"400" in await malformed.reader.readline()


async def test_requests_that_come_together_or_in_pieces(opened: LocalDatabase, forker: Forker) -> None:
    async with site(opened, forker) as here:
        wanted = [(await here.shortly(get(text))).timeless for text in QUERIES]
        busy, client = here.clients

        async def ask_beside() -> None:
            while True:
                await busy.ask(get(QUERIES[0]))

        beside = asyncio.ensure_future(ask_beside())
        client.writer.write(b"".join(get(text) for text in QUERIES * 3))
        assert [(await client.answer()).timeless for _ in QUERIES * 3] == wanted * 3
        for text, answer in zip(QUERIES, wanted, strict=True):
            for piece in re.findall(rb"(?s).{1,40}", post(text)):
                client.writer.write(piece)
                await client.writer.drain()
                await asyncio.sleep(0)
            assert (await client.answer()).timeless == answer
        beside.cancel()


async def test_codings_that_the_client_accepts(opened: LocalDatabase, forker: Forker) -> None:
    request = get("SELECT date_trunc('minute', ts) AS minute, max(v), min(v), avg(v) FROM cpu GROUP BY 1 ORDER BY 1")
    async with site(opened, forker) as here:
        plain = await here.shortly(request)
        packed = await here.shortly(request.replace(b"\r\n\r\n", b"\r\nAccept-Encoding: gzip\r\n\r\n"))
        assert b"content-encoding: gzip" in packed.headers
        assert packed.timeless[2] == plain.timeless[2]


async def test_a_client_that_leaves_and_a_worker_that_is_killed(opened: LocalDatabase, forker: Forker) -> None:
    async with site(opened, forker) as here:
        wanted = await here.shortly(get(QUERIES[1]))
        for _ in range(20):
            gone = await here.connect()
            gone.writer.write(get(QUERIES[1]))
            gone.writer.transport.abort()
        for worker in list(here.shortcut._workers._workers):
            worker.kill()
        for _ in range(5):
            assert {str(each.timeless) for each in await here.both(get(QUERIES[1]))} == {str(wanted.timeless)}
        assert (await here.shortly(get(QUERIES[1]))).timeless == wanted.timeless
        await until(lambda: not opened.database.services.processes.all())


async def test_clients_that_leave_do_not_keep_others_from_the_workers(opened: LocalDatabase, forker: Forker) -> None:
    async with site(opened, forker) as here:
        await here.shortly(get(QUERIES[1]))
        workers = here.shortcut._workers
        turns = [await workers._turn() for _ in range(2 * _pool.AT_ONCE)]  # all others wait
        for _ in range(20):
            gone = await here.connect()
            gone.writer.write(get(QUERIES[1]))
            await until(lambda: here.shortcut.in_flight > 0)
            gone.writer.transport.abort()
        await until(lambda: all(client.writer.transport.is_closing() for client in here.clients[2:]))
        await asyncio.sleep(0.1)
        for worker in turns:
            assert worker is not None
            workers._give_back(worker)
        await until(lambda: not here.shortcut.in_flight)
        assert all(skips == _pool.SKIPS_FIRST for _, skips in workers._skips.values())


async def test_a_query_that_is_killed(opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(opened, forker) as here:
        await here.shortly(get(QUERIES[1]))
        lend = QueryExchange.lend

        def lend_and_be_killed(exchange: QueryExchange, lender: Lender) -> Any:
            found = lend(exchange, lender)
            for process in opened.database.services.processes.all():
                process.cancel()
            return found

        monkeypatch.setattr(QueryExchange, "lend", lend_and_be_killed)
        answers = await here.both(get(QUERIES[1]))
        assert {each.status for each in answers} == {504}
        assert all(b"cancelled" in each.body for each in answers)
        await until(lambda: not opened.database.services.processes.all())


async def test_a_server_that_stops_answers_first(opened: LocalDatabase, forker: Forker) -> None:
    async with site(opened, forker) as here:
        await here.shortly(get(QUERIES[1]))
        answers = [asyncio.ensure_future(client.ask(get(QUERIES[1]))) for client in here.clients]
        await asyncio.sleep(0.01)
        await here.server.stop(10)
        for answer in await asyncio.gather(*answers, return_exceptions=True):
            is_late = isinstance(answer, asyncio.IncompleteReadError | ConnectionError)
            assert is_late or (isinstance(answer, Answer) and answer.status == 200)


async def test_who_asks_is_found_out_each_time(opened: LocalDatabase, forker: Forker, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("reader:ro=secret\nwriter:wo=secret\n")
    authenticator = open_authenticator(f"watch_file_user_provider:{users}")
    opened.close()
    guarded = open_directory(tmp_path, options=LocalOptions(authenticator=authenticator))

    def ask(user: str, password: str) -> bytes:
        return get(QUERIES[1], f"Authorization: {basic(user, password)}")

    async with site(guarded, forker, authenticator) as here:
        assert (await here.shortly(ask("reader", "secret"))).status == 200
        before = len(here.statuses)
        for request, status in ((get(QUERIES[1]), 401), (ask("reader", "wrong"), 401), (ask("writer", "secret"), 403)):
            assert {each.status for each in await here.both(request)} == {status}
        assert len(here.statuses) == before
        users.write_text("writer:wo=secret\n")
        async with asyncio.timeout(60):
            while {each.status for each in await here.both(ask("reader", "secret"))} != {401}:
                pass
    guarded.close()


async def test_requests_are_counted(opened: LocalDatabase, forker: Forker) -> None:
    async with site(opened, forker) as here:
        await here.shortly(get(QUERIES[1]))
        meter, statuses = here.shortcut._targets[b"GET", b"/v1/sql"].meter, len(here.statuses)
        before = meter.by_code.get(200, 0)
        await here.shortly(get(QUERIES[1]))
        assert meter.by_code[200] - before == len(here.statuses) - statuses == 2


# A client that is alone


async def test_a_client_that_is_alone_gets_the_same_answers(opened: LocalDatabase, forker: Forker) -> None:
    async with one_client(opened, forker) as here:
        for text in QUERIES:
            for request in (get(text), post(text, format="csvWithNames")):
                usual = await here.clients[0].ask(request.replace(b"\r\nHost", b"\r\nX-Tsdb-Timeout: 1h\r\nHost", 1))
                assert (await alone(here, request)).timeless == usual.timeless
        await until(lambda: not opened.database.services.processes.all())


async def test_a_client_that_is_alone_sees_what_it_has_written(opened: LocalDatabase, forker: Forker) -> None:
    request = get("SELECT count(*) AS c FROM cpu WHERE host = 'new'", format="csv")
    async with one_client(opened, forker) as here:
        assert (await alone(here, request)).body == b"0\r\n"
        for turn in range(1, 12):
            run(opened, f"INSERT INTO cpu VALUES ({turn}, 'new', 1, 1)")
            assert (await here.clients[0].ask(request)).body == b"%d\r\n" % turn
            if turn % 5 == 0:
                run(opened, "ADMIN flush_table('cpu')")
        run(opened, "DROP TABLE cpu")
        assert (await here.clients[0].ask(request)).status == 400


@pytest.mark.parametrize("error", [NeedsPlanner("too much"), SoftDeadlineExceeded(), ValueError("what is this")])
async def test_what_cannot_be_computed_inline_is_left_to_the_application(
    opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(_: object) -> None:
        raise error

    async with one_client(opened, forker) as here:
        wanted = await alone(here, get(QUERIES[1]))
        monkeypatch.setattr(RepeatedQuery, "start", fail)
        before = len(here.statuses)
        for _ in range(3):
            assert (await here.clients[0].ask(get(QUERIES[1]))).timeless == wanted.timeless
        assert len(here.statuses) == before
        await until(lambda: not opened.database.services.processes.all())


async def test_a_large_answer_is_streamed(
    opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_client(opened, forker) as here:
        wanted = await alone(here, get(QUERIES[1]))
        monkeypatch.setattr(_repeated, "ANSWER_BYTES_MAX", len(wanted.body) // 2)
        before = len(here.statuses)
        assert (await here.clients[0].ask(get(QUERIES[1]))).timeless == wanted.timeless
        assert len(here.statuses) == before
