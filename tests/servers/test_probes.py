"""Small questions that every release must answer, to a running server, each at the port where people ask it.

Those of the ingestion protocols are in `http/test_acceptance.py`, of the gRPC client in `grpc/test_clients.py`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import asyncpg
import httpx
import pymysql
import pytest

from tests.server_process import ServerProcess, running

USERS = "static_user_provider:cmd:u=p,r:ro=p"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("probes")) as started:
        yield started


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running("standalone", tmp_path_factory.mktemp("guarded"), "--user-provider", USERS) as started:
        yield started


def _port(server: ServerProcess, protocol: str) -> int:
    found = re.search(rf"^  {protocol} +\S+:(\d+)$", server.output, flags=re.MULTILINE)
    assert found is not None, server.output
    return int(found[1])


def _sql(server: ServerProcess, **parameters: str) -> httpx.Response:
    return httpx.get(f"{server.url}/v1/sql", params=parameters, timeout=30)


def test_a_request_without_a_statement_and_one_to_a_database_that_is_not_there(server: ServerProcess) -> None:
    answer = _sql(server)
    assert answer.status_code == 400
    assert (answer.json()["code"], answer.json()["error"]) == (1004, "sql parameter is required.")
    answer = _sql(server, db="nope", sql="select 1")
    assert (answer.status_code, answer.json()["code"]) == (400, 4004)


def test_of_several_statements_none_is_answered_when_one_fails(server: ServerProcess) -> None:
    answer = _sql(server, sql="select 1; select * from nope")
    assert (answer.status_code, answer.json()["code"]) == (400, 4001)
    assert "output" not in answer.json()


def test_mysql_clients_see_times_in_their_zone(server: ServerProcess) -> None:
    with (
        pymysql.connect(host="127.0.0.1", port=_port(server, "MySQL"), user="me", database="public") as connection,
        connection.cursor() as cursor,
    ):
        assert cursor.execute("SELECT @@version_comment") == 1
        cursor.execute("CREATE TABLE zoned (ts TIMESTAMP TIME INDEX)")
        cursor.execute("INSERT INTO zoned VALUES (1667446797450)")
        cursor.execute("SET time_zone='+08:00'")
        cursor.execute("SELECT ts FROM zoned")
        assert str(cursor.fetchall()[0][0]) == "2022-11-03 11:39:57.450000"


def test_asyncpg_binds_values_and_returns_connections_to_its_pool(server: ServerProcess) -> None:
    async def ask() -> list[Any]:
        port = _port(server, "Postgres")
        options = {"user": "me", "database": "public", "min_size": 1, "max_size": 1}
        async with asyncpg.create_pool(host="127.0.0.1", port=port, **options) as pool:
            await pool.execute("CREATE TABLE bound (i BIGINT, ts TIMESTAMP TIME INDEX)")
            await pool.execute("INSERT INTO bound VALUES ($1, $2)", 6, datetime(2024, 1, 2, 3, 4, 5))
            rows = [await pool.fetch("select i, ts from bound where i=$1", 6) for _ in range(3)]
        return [tuple(row) for each in rows for row in each]

    assert asyncio.run(ask()) == [(6, datetime(2024, 1, 2, 3, 4, 5))] * 3


@pytest.mark.parametrize(
    ("login", "statement", "outcome"),
    [
        (None, "select 1", (401, 7003)),
        (("u", "wrong"), "select 1", (401, 7002)),
        (("u", "p"), "select 1", (200, 0)),
        (("r", "p"), "select 1", (200, 0)),
        (("r", "p"), "create table t (ts timestamp time index)", (403, 7006)),
    ],
)
def test_users_are_told_from_others(
    guarded: ServerProcess, login: tuple[str, str] | None, statement: str, outcome: tuple[int, int]
) -> None:
    answer = httpx.post(f"{guarded.url}/v1/sql", data={"sql": statement}, auth=login, timeout=30)
    assert (answer.status_code, answer.json().get("code", 0)) == outcome
    assert guarded.get("/health").status_code == 200
