"""PromQL that is repeated over HTTP: the same answers as by the usual way, to the byte, and the same errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.auth.clients import basic
from tests.servers.fast_workers.site import Answer, Site, alone, one_client, site, until
from tests.servers.fast_workers.test_fast_workers import run
from tests.servers.fast_workers.test_promql import MINUTES, QUERIES, opened, write
from tests.storage import local_files_only
from tsdb.auth import open_authenticator
from tsdb.components import LocalDatabase, LocalOptions, open_directory
from tsdb.engine.lending import Lender
from tsdb.processes.fork_server import Forker
from tsdb.servers.fast_workers._worker import OnAnswer
from tsdb.servers.http.shortcut._exchange import QueryExchange

pytestmark = [pytest.mark.timeout(120), local_files_only]

__all__ = ["opened"]

TEXT = 'sum by (zone) (rate(requests{host=~"h[12]"}[10m]))'
TOO_MANY = "label_replace(requests, 'host', 'one', 'host', '.*')"
"""Series that are the same after it: an error that only the evaluation finds."""


def ask(text: str, *headers: str, path: str = "query_range", method: str = "GET", **parameters: str) -> bytes:
    times = {"start": "0", "end": str(60 * MINUTES), "step": "2m"} if path == "query_range" else {"time": "1200"}
    encoded = urlencode({"query": text, **times, **parameters})
    line = f"{method} /v1/prometheus/api/v1/{path}"
    if method == "GET":
        return "\r\n".join([f"{line}?{encoded} HTTP/1.1", "Host: here", *headers, "", ""]).encode()
    form = "Content-Type: application/x-www-form-urlencoded"
    lines = [f"{line} HTTP/1.1", "Host: here", form, f"Content-Length: {len(encoded)}", *headers]
    return "\r\n".join([*lines, "", encoded]).encode()


async def usually(here: Site, make: Callable[..., bytes]) -> Answer:
    """Ask the application."""
    return await here.clients[0].ask(make("X-Tsdb-Timeout: 1h"))


@pytest.mark.parametrize("path", ["query", "query_range"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_answers_are_the_same_to_the_byte(opened: LocalDatabase, forker: Forker, path: str, method: str) -> None:
    async with site(opened, forker) as here:
        for text in QUERIES:

            def make(*headers: str, text: str = text) -> bytes:
                return ask(text, *headers, path=path, method=method)

            usual = await usually(here, make)
            assert usual.status == 200
            assert (await here.shortly(make())).timeless == usual.timeless, text
        await until(lambda: not opened.database.services.processes.all())


async def test_what_is_acknowledged_is_visible(opened: LocalDatabase, forker: Forker) -> None:
    request = ask("count_over_time(requests{host='h0'}[1h])", path="query", time=str(60 * MINUTES + 1200))
    async with site(opened, forker) as here:
        await here.shortly(request)
        seen = set()
        for minute in range(MINUTES, MINUTES + 12):
            write(opened, minute)
            answers = await here.both(request)
            assert len({each.body for each in answers}) == 1
            seen.add(answers[0].body)
            if minute == MINUTES + 5:
                run(opened, "ADMIN flush_table('phy')")
        assert len(seen) == 12


async def test_the_database_of_a_client_is_its_own(opened: LocalDatabase, forker: Forker) -> None:
    run(opened, "CREATE DATABASE other")
    async with site(opened, forker) as here:
        public = await here.shortly(ask(TEXT))
        for other in (ask(TEXT, db="other"), ask(TEXT, "X-Tsdb-Db-Name: other")):
            usual = {each.status for each in await here.both(other)}
            assert usual == {200}
            assert (await here.clients[0].ask(other)).body != public.body
        assert (await here.shortly(ask(TEXT))).timeless == public.timeless


async def test_what_is_unusual_is_left_to_the_application(opened: LocalDatabase, forker: Forker) -> None:
    async with site(opened, forker) as here:
        known = await here.shortly(ask(TEXT))
        for request, status in (
            (ask(TEXT, stats="all"), 200),
            (ask(TEXT, limit="1"), 200),
            (ask(TEXT, timeout="20s"), 200),
            (ask(TEXT, lookback="1m"), 200),
            (ask(TEXT, "X-Tsdb-Timeout: 20s"), 200),
            (ask(TEXT, step="0"), 400),
            (ask(TEXT, start="yesterday"), 400),
            (ask(TEXT, end=""), 400),
            (ask(TEXT, start="9999"), 400),
            (ask("", path="query"), 400),
            (ask(TEXT).replace(b"query_range?", b"query_rang?"), 404),
            (ask(TEXT).replace(b"GET", b"PUT"), 405),
        ):
            before = len(here.statuses)
            for _ in range(3):
                assert {each.status for each in await here.both(request)} == {status}, request
            assert len(here.statuses) == before, request
        assert (await here.shortly(ask(TEXT))).timeless == known.timeless


@pytest.mark.parametrize(("text", "status"), [("sum(", 400), (TOO_MANY, 422), ("{host='h1'}", 200)])
async def test_errors_are_the_same_and_counted_once(
    opened: LocalDatabase, forker: Forker, text: str, status: int
) -> None:
    async with site(opened, forker) as here:
        usual = await usually(here, lambda *headers: ask(text, *headers))
        assert usual.status == status
        for _ in range(40):
            for each in await here.both(ask(text)):
                assert each.timeless[::2] == usual.timeless[::2]
        await until(lambda: not opened.database.services.processes.all())


async def test_a_query_that_is_killed(opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(opened, forker) as here:
        await here.shortly(ask(TEXT))
        lend = QueryExchange.lend

        def lend_and_be_killed(exchange: QueryExchange, lender: Lender) -> Any:
            found = lend(exchange, lender)
            for process in opened.database.services.processes.all():
                process.cancel()
            return found

        monkeypatch.setattr(QueryExchange, "lend", lend_and_be_killed)
        answers = await here.both(ask(TEXT))
        assert {each.status for each in answers} == {499}
        assert all(b'"canceled"' in each.body for each in answers)
        await until(lambda: not opened.database.services.processes.all())


async def test_a_worker_that_is_killed_costs_nothing_but_time(opened: LocalDatabase, forker: Forker) -> None:
    async with site(opened, forker) as here:
        wanted = await here.shortly(ask(TEXT))
        for worker in list(here.shortcut._workers._workers):
            worker.kill()
        for _ in range(5):
            assert {str(each.timeless) for each in await here.both(ask(TEXT))} == {str(wanted.timeless)}
        assert (await here.shortly(ask(TEXT))).timeless == wanted.timeless
        await until(lambda: not opened.database.services.processes.all())


async def test_a_query_whose_time_is_up(opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(opened, forker) as here:
        await here.shortly(ask(TEXT))
        here.shortcut.seconds_max = 0.001
        asked: list[OnAnswer] = []
        for worker in here.shortcut._workers._workers:
            monkeypatch.setattr(worker, "ask", lambda lent, encode, on_answer: asked.append(on_answer))
        answers = await here.both(ask(TEXT))
        assert {each.status for each in answers} == {503}
        assert all(b'"errorType":"timeout"' in each.body for each in answers)
        assert len(asked) == 2
        for on_answer in asked:
            on_answer(None)


async def test_who_asks_is_found_out_each_time(opened: LocalDatabase, forker: Forker, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("reader:ro=secret\nwriter:wo=secret\n")
    authenticator = open_authenticator(f"watch_file_user_provider:{users}")
    opened.close()
    guarded = open_directory(tmp_path, options=LocalOptions(authenticator=authenticator))
    async with site(guarded, forker, authenticator) as here:
        reader, writer = (f"Authorization: {basic(user, 'secret')}" for user in ("reader", "writer"))
        assert (await here.shortly(ask(TEXT, reader))).status == 200
        refused = await usually(here, lambda *headers: ask(TEXT, writer, *headers))
        for _ in range(20):
            assert {each.status for each in await here.both(ask(TEXT))} == {401}
            for each in await here.both(ask(TEXT, writer)):
                assert (each.status, each.body) == (403, refused.body)
    guarded.close()


# A client that is alone


async def test_a_client_that_is_alone_gets_the_same_answers(opened: LocalDatabase, forker: Forker) -> None:
    async with one_client(opened, forker) as here:
        for text in QUERIES:
            for path in ("query", "query_range"):

                def make(*headers: str, text: str = text, path: str = path) -> bytes:
                    return ask(text, *headers, path=path)

                usual = await usually(here, make)
                assert (await alone(here, make())).timeless == usual.timeless
        await until(lambda: not opened.database.services.processes.all())


async def test_a_client_that_is_alone_gets_the_same_errors(opened: LocalDatabase, forker: Forker) -> None:
    async with one_client(opened, forker) as here:
        usual = await usually(here, lambda *headers: ask(TOO_MANY, *headers))
        assert usual.status == 422
        for _ in range(10):
            assert (await here.clients[0].ask(ask(TOO_MANY))).timeless[::2] == usual.timeless[::2]
        await until(lambda: not opened.database.services.processes.all())
