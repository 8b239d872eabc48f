"""A server that is killed while tables come and go: after the restart everything that was acknowledged is there.

Two clients talk to the server until it dies. One only inserts into a table that stays. The other creates, fills,
changes, renames and drops tables and views, and keeps a model of them: what an acknowledged statement did is certain,
and of the one statement without an answer either nothing happened or all of it.

`TSDB_SOAK_ROUNDS` gives the number of lives; the data directory lives on from one to the next.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server_process import ServerProcess, running

ROUNDS = int(os.environ.get("TSDB_SOAK_ROUNDS", "3"))
LIFE_SECONDS = (0.3, 1.5)
NEVER = pytest.mark.timeout(60 * ROUNDS)


class Refused(AssertionError):
    """The server answered with an error where there must be none."""


class Client:
    """Runs statements until the server is gone."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=20, trust_env=False)

    def run(self, text: str) -> list[list[Any]]:
        """Run one statement; httpx.TransportError when the server did not answer."""
        response = self._http.post("/v1/sql", data={"sql": text})
        body = response.json()
        if response.status_code != 200:
            raise Refused(f"{text}: {body}")
        (output,) = body["output"]
        return list(output["records"]["rows"]) if "records" in output else []

    def close(self) -> None:
        self._http.close()


@dataclass(frozen=True, slots=True)
class Thing:
    """A table with its rows, or a view."""

    kind: str
    columns: int = 0
    rows: tuple[tuple[int, ...], ...] = ()


@dataclass(slots=True)
class Model:
    """What must be there. `pending` is the world after the statement that has no answer yet."""

    things: dict[str, Thing] = field(default_factory=dict)
    pending: dict[str, Thing] | None = None
    facts: int = 0
    """Rows of the table that stays which were acknowledged."""


def step(client: Client, model: Model, text: str, **changes: Thing | None) -> None:
    """Run a statement that makes, changes or (None) removes things."""
    model.pending = {name: thing for name, thing in {**model.things, **changes}.items() if thing is not None}
    client.run(text)
    model.things, model.pending = model.pending, None


def change_tables(client: Client, model: Model, numbers: itertools.count[int]) -> None:
    """Take tables through their lives until the server dies."""
    for n in numbers:
        table, renamed, view = f"d{n}", f"r{n}", f"v{n}"
        made = Thing("table", columns=2)
        step(client, model, f"CREATE TABLE {table} (ts TIMESTAMP TIME INDEX, a INT)", **{table: made})
        filled = Thing("table", 2, ((1, 10), (2, 20)))
        step(client, model, f"INSERT INTO {table} VALUES (1, 10), (2, 20)", **{table: filled})
        wider = Thing("table", 3, ((1, 10, 7), (2, 20, 7)))
        step(client, model, f"ALTER TABLE {table} ADD COLUMN b INT DEFAULT 7", **{table: wider})
        more = Thing("table", 3, ((1, 10, 7), (2, 20, 7), (3, 30, 8)))
        step(client, model, f"INSERT INTO {table} VALUES (3, 30, 8)", **{table: more})
        step(client, model, f"ALTER TABLE {table} RENAME {renamed}", **{table: None, renamed: more})
        step(client, model, f"CREATE VIEW {view} AS SELECT a FROM {renamed}", **{view: Thing("view")})
        if n % 3:
            step(client, model, f"DROP VIEW {view}", **{view: None})
            step(client, model, f"DROP TABLE {renamed}", **{renamed: None})


def write_facts(client: Client, model: Model) -> None:
    while True:
        first = model.facts
        client.run("INSERT INTO facts VALUES " + ", ".join(f"({n}, {n})" for n in range(first, first + 10)))
        model.facts = first + 10


def run_until_dead(work: Any, *arguments: Any, faults: list[BaseException]) -> threading.Thread:
    def body() -> None:
        try:
            work(*arguments)
        except httpx.TransportError:
            pass
        except BaseException as error:  # noqa: BLE001 - told by the thread that joins
            faults.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    return thread


def live(server: ServerProcess, model: Model, numbers: itertools.count[int], rng: random.Random) -> None:
    """Use the server for a while and kill it at any moment."""
    faults: list[BaseException] = []
    clients = [Client(server.url), Client(server.url)]
    threads = [
        run_until_dead(change_tables, clients[0], model, numbers, faults=faults),
        run_until_dead(write_facts, clients[1], model, faults=faults),
    ]
    time.sleep(rng.uniform(*LIFE_SECONDS))
    server.process.kill()
    for thread in threads:
        thread.join(30)
    for client in clients:
        client.close()
    assert not faults, faults


def check(server: ServerProcess, model: Model) -> None:
    """Compare the server with the model, and make what it has the new model."""
    client = Client(server.url)
    found = {name: kind for name, kind in client.run("SHOW FULL TABLES") if name not in ("numbers", "facts")}
    worlds = [model.things] if model.pending is None else [model.things, model.pending]
    kinds = [{name: "VIEW" if thing.kind == "view" else "BASE TABLE" for name, thing in w.items()} for w in worlds]
    assert found in kinds, (found, kinds)
    seen = {name: read_thing(client, name, kind) for name, kind in found.items()}
    assert seen in worlds, (seen, worlds)
    facts = [row[0] for row in client.run("SELECT n FROM facts ORDER BY n")]
    assert facts == list(range(len(facts)))
    # The batch without an answer is there or not; it is one write, so never in part.
    assert len(facts) in (model.facts, model.facts + 10)
    for name, kind in found.items():
        if kind == "BASE TABLE":
            client.run(f"INSERT INTO {name} (ts, a) VALUES (1, 10)")
    model.things = {name: read_thing(client, name, kind) for name, kind in found.items()}
    model.pending, model.facts = None, len(facts)
    client.close()


def read_thing(client: Client, name: str, kind: str) -> Thing:
    rows = client.run(f"SELECT * FROM {name}")
    if kind == "VIEW":
        return Thing("view")
    columns = len(client.run(f"DESC TABLE {name}"))
    return Thing("table", columns, tuple(sorted((tuple(row) for row in rows), key=repr)))


@NEVER
def test_what_a_killed_server_acknowledged_is_there_after_its_restart(tmp_path: Path) -> None:
    rng, model, numbers = random.Random(11), Model(), itertools.count()
    for number in range(ROUNDS + 1):
        with running("standalone", tmp_path) as server:
            if number == 0:
                client = Client(server.url)
                client.run("CREATE TABLE facts (ts TIMESTAMP TIME INDEX, n INT)")
                client.close()
            else:
                check(server, model)
            if number < ROUNDS:
                live(server, model, numbers, rng)
    assert model.facts > 0
    assert next(numbers) > 1
