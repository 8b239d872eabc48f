"""Dry runs of lines: every line is told what would become of it, within bounds, and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.database.cases import open_case_database, render
from tests.servers.http.asgi_client import call
from tsdb.clock import ManualClock
from tsdb.components._local import LocalDatabase
from tsdb.database import DatabaseGate, Session, read_all
from tsdb.query import Affected
from tsdb.servers.http import HttpApp, influx_routes
from tsdb.servers.http.ingest import _dry_run
from tsdb.servers.http.ingest._dry_run import LINES_MAX, MALFORMED_MAX
from tsdb.units import Duration

NOW_NS = 1_700_000_000_000_000_000


class World:
    """A database and the routes in front of it."""

    def __init__(self, local: LocalDatabase, app: HttpApp) -> None:
        self.local = local
        self.app = app

    async def post(self, lines: str, query: str = "dry_run=true") -> dict[str, Any]:
        answer = await call(self.app, "POST", f"/v1/influxdb/write?{query}", body=lines.encode())
        assert answer.status in (200, 204), answer.body
        found: dict[str, Any] = answer.json() if answer.status == 200 else {}
        return found

    def ask(self, sql: str) -> list[str]:
        (output,) = list(self.local.database.execute(sql, Session()))
        assert not isinstance(output, Affected)
        return render(read_all(output))[1:]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    local = open_case_database(tmp_path)
    app = HttpApp(body_limit=10_000_000, timeout=Duration(0))
    routes = influx_routes(app, DatabaseGate(local.database), clock=ManualClock(NOW_NS))
    yield World(local, app)
    routes.close()
    local.close()


async def test_every_malformed_line_is_told_with_its_character(world: World) -> None:
    told = await world.post("cpu v=1 1\ncpu v=\n# nothing\ncpu,host v=1 2\ncpu v=2 3\n")
    assert [(each["line"], each["outcome"]) for each in told["lines"]] == [
        *((1, "fits"), (2, "malformed"), (4, "malformed"), (5, "fits"))
    ]
    assert [each["character"] for each in told["lines"] if each["outcome"] == "malformed"] == [7, 9]
    assert (told["rows"], told["created_tables"], len(told["rejections"])) == (0, [], 2)
    assert world.ask("SELECT count(*) FROM information_schema.ingest_rejections") == ["0"]


async def test_a_type_conflict_refuses_the_lines_that_have_it(world: World) -> None:
    await world.post("cpu,host=a v=1 1", query="")
    told = await world.post('cpu,host=a v=2 2\ncpu,host=a v="x" 3\ncpu,host=a v="y" 4\n')
    assert [each["outcome"] for each in told["lines"]] == ["fits", "malformed", "malformed"]
    told = await world.post('cpu,host=a v="x" 3\nmem,host=a v=1 3\ncpu,host=a w=1 4\n')
    assert [each["outcome"] for each in told["lines"]] == ["refused", "fits", "fits"]
    assert "has the type Float64, the request has String" in told["lines"][0]["reason"]
    assert (told["lines"][1]["creates_table"], told["lines"][2]["adds_columns"]) == (True, ["w"])
    assert world.ask("SELECT count(*) FROM cpu") == ["1"]


async def test_a_table_that_takes_no_rows_refuses_all_its_lines(world: World) -> None:
    world.local.database.run("CREATE VIEW seen AS SELECT 1", Session())
    told = await world.post("seen v=1 1\nother v=1 1\nseen v=2 2")
    assert [each["outcome"] for each in told["lines"]] == ["refused", "fits", "refused"]
    assert "is a view" in told["lines"][2]["reason"]


async def test_times_are_those_that_would_be_stored(world: World) -> None:
    world.local.database.run("CREATE TABLE slow (ts TIMESTAMP(0) TIME INDEX, v DOUBLE)", Session())
    told = await world.post("slow v=1 1700000000999\nfast v=1 1700000000999\nfast v=2", "dry_run=1&precision=ms")
    assert [(each["time"], each["is_time_of_arrival"]) for each in told["lines"]] == [
        ("2023-11-14T22:13:20Z", False),
        ("2023-11-14T22:13:20.999000000Z", False),
        ("2023-11-14T22:13:20.000000000Z", True),
    ]
    told = await world.post("fast v=1 1700000000", "dry_run=true&precision=auto")
    assert told["lines"][0]["time"] == "2023-11-14T22:13:20.000000000Z"


async def test_only_the_first_lines_are_described(world: World) -> None:
    told = await world.post("".join(f"t{at % 3} v={at} {at}\n" for at in range(LINES_MAX + 50)))
    assert [each["line"] for each in told["lines"]] == list(range(1, LINES_MAX + 1))
    assert (told["lines_total"], told["rows"], told["unread_from"]) == (LINES_MAX + 50, LINES_MAX + 50, None)


async def test_reading_ends_after_many_malformed_lines(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "".join(f"m v={at} {at}\nm v=\n" for at in range(MALFORMED_MAX + 5))
    told = await world.post(body)
    assert len(told["rejections"]) == MALFORMED_MAX
    assert (told["unread_from"], told["lines_total"]) == (2 * MALFORMED_MAX + 1, 2 * MALFORMED_MAX)
    monkeypatch.setattr(_dry_run, "PARSED_BYTES_MAX", 10)
    told = await world.post(body)
    assert [each["outcome"] for each in told["lines"]] == ["fits", "malformed"]
    assert told["unread_from"] == 3
