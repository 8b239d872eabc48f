"""`/v1/sql` in front of a real database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.servers.http.asgi_client import Answer, call
from tsdb.components._local import LocalOptions, open_directory
from tsdb.database import DatabaseGate
from tsdb.engine import EngineOptions, WalSettings
from tsdb.query import QueryEngine, QueryEngineOptions
from tsdb.servers._inline import InlineLimits, InlinePolicy
from tsdb.servers.http import HttpApp, sql_routes
from tsdb.units import Duration, Size

GONE_SECONDS_MAX = 60.0


@pytest.fixture
def inline() -> InlinePolicy:
    return InlinePolicy()


@pytest.fixture
def app(tmp_path: Path, inline: InlinePolicy) -> Iterator[HttpApp]:
    options = LocalOptions(
        engine=EngineOptions(num_workers=1, max_background_jobs=1),
        wal=WalSettings(ballast_bytes=Size(0)),
        query=QueryEngineOptions(spill_dir=tmp_path / "spill"),
        has_housekeeping=False,
    )
    local = open_directory(tmp_path, options=options)
    made = HttpApp(body_limit=0, timeout=Duration(0))
    routes = sql_routes(made, DatabaseGate(local.database), inline=inline)
    try:
        yield made
    finally:
        routes.close()
        local.close()


async def ask(app: HttpApp, sql: str, parameters: str = "", **headers: str) -> Answer:
    return await call(app, "GET", f"/v1/sql?sql={quote(sql)}&{parameters}", headers=headers)


async def read(app: HttpApp, sql: str) -> Any:
    answer = await ask(app, sql)
    assert answer.status == 200, answer.body
    return [each["records"]["rows"] if "records" in each else each for each in answer.json()["output"]]


async def test_statements_write_and_read(app: HttpApp) -> None:
    create = "CREATE TABLE t (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, v DOUBLE, j JSON)"
    insert = """INSERT INTO t VALUES ('a', 1, 1.5, '{"x": [1, 2]}'), ('b', 2, NULL, NULL)"""
    assert await read(app, f"{create}; {insert}") == [{"affectedrows": 0}, {"affectedrows": 2}]
    assert await read(app, "SELECT * FROM t ORDER BY host") == [[["a", 1, 1.5, {"x": [1, 2]}], ["b", 2, None, None]]]
    answer = await ask(app, "SELECT host, v FROM t ORDER BY host", "format=csvwithnames&limit=1")
    assert answer.body == b"host,v\r\na,1.5\r\n"


async def test_values_of_expressions_have_their_cells(app: HttpApp) -> None:
    sql = "SELECT 1.5::decimal(10, 2), DATE '2020-01-01', X'00ff', [1, 2], INTERVAL '1 day', 'NaN'::double"
    assert await read(app, sql) == [[["1.50", 18262, [0, 255], [1, 2], "1 days", None]]]


async def test_errors_have_their_codes(app: HttpApp) -> None:
    for sql, parameters, code in [
        ("SELECT 1; SELECT * FROM nowhere", "", 4001),
        ("SELECT 'x", "", 2000),
        ("SELECT 1", "db=nowhere", 4004),
    ]:
        answer = await ask(app, sql, parameters)
        assert (answer.status, answer.json()["code"]) == (400, code), answer.body
        assert "output" not in answer.json()


@pytest.mark.timeout(2 * GONE_SECONDS_MAX)
async def test_a_query_whose_time_is_up_runs_no_more(app: HttpApp) -> None:
    endless = "SELECT count(*) FROM generate_series(1, 99000) AS a, generate_series(1, 99000) AS b"
    answer = await ask(app, endless, **{"x-tsdb-timeout": "100ms"})
    assert answer.status == 408
    async with asyncio.timeout(GONE_SECONDS_MAX):
        while [row[2] for row in (await read(app, "SHOW PROCESSLIST"))[0]] != ["SHOW PROCESSLIST"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("sql", "is_planned"),
    [
        ("SELECT host, max(v) FROM brief GROUP BY host ORDER BY host", False),
        ("SELECT v + 1 AS w FROM brief WHERE host = 'a' ORDER BY ts", True),
    ],
)
async def test_a_query_that_is_not_fast_after_all_is_answered_on_a_thread(
    app: HttpApp, inline: InlinePolicy, monkeypatch: pytest.MonkeyPatch, sql: str, is_planned: bool
) -> None:
    inline.limits = InlineLimits(fast_seconds=60.0, soft_deadline_seconds=60.0)
    threads: list[bool] = []
    query = QueryEngine.query

    def noted(engine: QueryEngine, *arguments: Any, **options: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return query(engine, *arguments, **options)

    monkeypatch.setattr(QueryEngine, "query", noted)
    await read(app, "CREATE TABLE brief (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host))")
    await read(app, "INSERT INTO brief VALUES ('a', 1, 1), ('a', 2, 2), ('b', 3, 3)")
    threads.clear()
    answers = [await read(app, sql) for _ in range(4)]
    assert threads == ([False, False, False, True, False] if is_planned else [False, False, False, True])
    # A planner cannot be asked to stop, so nothing that needs one is begun; anything else is given up in time.
    inline.limits = InlineLimits(fast_seconds=60.0, soft_deadline_seconds=-1.0)
    threads.clear()
    answers += [await read(app, sql)]
    assert threads == ([False] if is_planned else [True, False])
    assert all(answer == answers[0] for answer in answers)
    assert await read(app, "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%brief%'") == [[[1]]]
