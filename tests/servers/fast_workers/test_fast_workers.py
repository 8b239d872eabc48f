"""Fast workers: the same answers as in this process, acknowledged rows are visible, a lost worker costs nothing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from tests.engine.lives import wait_until
from tests.server_process import stop_process
from tests.servers.http.asgi_client import call
from tests.storage import local_files_only
from tests.telemetry.collector import KeptSpans
from tsdb.components import LocalDatabase, open_directory
from tsdb.database import DatabaseGate
from tsdb.errors import Cancelled
from tsdb.processes.fork_server import Forker
from tsdb.query import Records, Session
from tsdb.servers import QueryScheduler
from tsdb.servers.fast_workers import FastWorkerProgram, FastWorkers, _pool, _worker
from tsdb.servers.http import HttpApp, sql_routes
from tsdb.store import CachedStore, FileCache, MemoryStore
from tsdb.telemetry import Tracing, current_span
from tsdb.units import Duration

# Files that are only in a remote store are not lent to workers.
pytestmark = [pytest.mark.timeout(120), local_files_only]

HOSTS, MINUTES = 4, 60
QUERIES = [
    "SELECT date_trunc('minute', ts) AS minute, max(v) AS v FROM cpu WHERE host IN ('h1', 'h3') AND ts >= "
    "TIMESTAMP '1970-01-01 00:10:00' AND ts < TIMESTAMP '1970-01-01 00:40:00' GROUP BY 1 ORDER BY 1",
    "SELECT host, count(*), avg(v), min(n), max(n) FROM cpu GROUP BY host ORDER BY host",
    "SELECT host, last_value(v ORDER BY ts) AS v FROM cpu GROUP BY host ORDER BY host DESC",
    "SELECT sum(n) FROM cpu WHERE n > 100",
    "SELECT max(v) FROM cpu WHERE host = 'nobody'",
]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[LocalDatabase]:
    opened = open_directory(tmp_path)
    run(opened, "CREATE TABLE cpu (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE, n BIGINT)")
    for part in range(3):  # two files and the memtable
        rows = [
            f"({60_000 * minute}, 'h{host}', {host + minute / 8}, {part * minute})"
            for minute in range(part, MINUTES, 2)
            for host in range(HOSTS)
        ]
        run(opened, f"INSERT INTO cpu VALUES {', '.join(rows)}")
        if part < 2:
            run(opened, "ADMIN flush_table('cpu')")
    yield opened
    opened.close()


def run(opened: LocalDatabase, text: str) -> list[Any]:
    found = []
    for output in opened.database.execute(text, Session()):
        found += [output.rows] if hasattr(output, "rows") else [batch.to_pydict() for batch in output]
    return found


def encode_plainly(records: Records) -> Iterator[bytes]:
    for batch in records:
        yield repr(batch.to_pydict()).encode()


def encode_slowly(records: Records) -> Iterator[bytes]:
    threading.Event().wait(0.5)
    yield from encode_plainly(records)


def encode_at_length(records: Records) -> Iterator[bytes]:
    for _ in records:
        yield bytes(3 << 20)


def encode_fatally(records: Records) -> Iterator[bytes]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield b""


class World:
    """Workers over a database."""

    def __init__(self, opened: LocalDatabase, workers: FastWorkers) -> None:
        self.opened = opened
        self.workers = workers

    async def ask(self, text: str, encode: Any = encode_plainly, key: str | None = None) -> bytes | None:
        """Ask the workers, not for the first time."""
        key = key or text
        self.workers._skips.setdefault(key, (0, _pool.SKIPS_FIRST))
        start = partial(next, self.opened.database.execute(text, Session()))
        found = await self.workers.answer(key, start=start, encode=encode)
        return None if found is None else found.body

    def expected(self, text: str) -> bytes:
        return b"".join(repr(batch).encode() for batch in run(self.opened, text))

    async def wait_for_workers(self, count: int = 2) -> None:
        async with asyncio.timeout(60):
            while len(self.workers._workers) < count:
                await self.workers._turn() if not self.workers._workers else None
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(
    opened: LocalDatabase, forker: Forker, *, soft_deadline_seconds: float = 60.0, **options: Any
) -> AsyncIterator[World]:
    program = FastWorkerProgram(soft_deadline_seconds=soft_deadline_seconds)
    workers = FastWorkers(forker, program, 2, **options)
    world = World(opened, workers)
    try:
        await world.wait_for_workers()
        yield world
    finally:
        workers.close()
        await asyncio.to_thread(wait_until, lambda: not workers._workers)


async def test_the_answers_are_the_same(opened: LocalDatabase, forker: Forker) -> None:
    for text in QUERIES:
        run(opened, text)  # only known shapes are answered elsewhere
    async with serving(opened, forker) as world:
        for text in QUERIES * 2:
            answer = await world.ask(text)
            assert answer == world.expected(text), text
        answers = await asyncio.gather(*(world.ask(text) for text in QUERIES * 20))
        assert answers == [world.expected(text) for text in QUERIES] * 20


async def test_while_there_are_workers_the_server_drops_what_only_they_use(
    opened: LocalDatabase, forker: Forker
) -> None:
    text = QUERIES[0]
    run(opened, text)
    run(opened, "ADMIN flush_table('cpu')")
    run(opened, text)
    looks = threading.Semaphore(0)

    def look() -> None:
        opened.engine.memory.drop_unused_columns()
        looks.release()

    def held() -> int:
        return sum(each.bytes for each in opened.engine.memory.memory_use() if each.owner == "vector_cache")

    assert held()
    async with serving(opened, forker, on_look=look, look_seconds=0.01) as world:
        for _ in range(3):
            assert await asyncio.to_thread(looks.acquire, timeout=60)
        assert not held()
        answer = await world.ask(text)
        assert not held()
        assert answer == world.expected(text)


async def test_what_is_acknowledged_is_visible(opened: LocalDatabase, forker: Forker) -> None:
    text = "SELECT count(*) AS c FROM cpu WHERE host = 'new'"
    run(opened, text)
    async with serving(opened, forker) as world:
        for turn in range(1, 60):
            run(opened, f"INSERT INTO cpu VALUES ({turn}, 'new', 1, 1)")
            assert await world.ask(text) == repr({"c": [turn]}).encode()
            if turn % 20 == 0:
                run(opened, "ADMIN flush_table('cpu')")
            if turn == 45:
                run(opened, "ADMIN compact_table('cpu')")
        run(opened, "DELETE FROM cpu WHERE host = 'new' AND ts < 11")
        assert await world.ask(text) == repr({"c": [49]}).encode()
        run(opened, "ALTER TABLE cpu ADD COLUMN w DOUBLE DEFAULT 2.0")
        wide = "SELECT sum(w) AS s FROM cpu WHERE host = 'new'"
        run(opened, wide)
        assert await world.ask(wide) == repr({"s": [98.0]}).encode()
        run(opened, "TRUNCATE TABLE cpu")
        run(opened, text)
        assert await world.ask(text) == repr({"c": [0]}).encode()


async def test_what_a_worker_cannot_do_is_left_to_the_server(opened: LocalDatabase, forker: Forker) -> None:
    text = QUERIES[1]
    run(opened, text)
    async with serving(opened, forker) as world:
        assert await world.ask("SELECT a.host FROM cpu a JOIN cpu b ON a.ts = b.ts LIMIT 1") is None
        assert await world.ask("SELECT * FROM cpu LIMIT 1") is None
        assert await world.ask(text, encode_at_length, "long") is None
        assert await world.ask(text) == world.expected(text)
        # What was declined is not tried again for a while.
        calls = 0
        for _ in range(_pool.SKIPS_FIRST):
            calls += await world.ask(text, key="long") is not None
        assert calls == 0
        assert await world.ask(text, key="long") is not None
        assert not opened.database.services.processes.all(), "nothing stays in the process list"


async def test_what_a_worker_computes_is_a_span_of_the_server(opened: LocalDatabase, forker: Forker) -> None:
    text, kept = QUERIES[0], KeptSpans()
    run(opened, text)
    tracing = Tracing(kept, ratio=1.0)
    async with serving(opened, forker) as world:
        request = tracing.begin("request")
        assert request is not None
        with request:
            assert await world.ask(text) is not None
        assert current_span() is None
    tracing.shutdown(seconds_max=60)
    spans = {each.name: each for each in kept.spans}
    assert spans["fast_worker.compute"].parent_id == request.span_id
    assert spans["fast_worker.compute"].attributes == {"answered": True}
    assert spans["Query"].parent_id == spans["fast_worker.compute"].span_id
    assert spans["Query"].attributes["tsdb.worker"] == "fast"
    assert all(each.end_ns for each in kept.spans)


async def test_what_takes_long_is_left_to_the_server(opened: LocalDatabase, forker: Forker) -> None:
    text = QUERIES[1]
    run(opened, text)
    async with serving(opened, forker, soft_deadline_seconds=0.01) as world:
        assert await world.ask(text, encode_slowly, "slow") is None


async def test_a_query_is_not_tried_the_first_time(opened: LocalDatabase, forker: Forker) -> None:
    async with serving(opened, forker) as world:
        start = partial(pytest.fail, "it was started")
        assert await world.workers.answer("new", start=cast(Any, start), encode=encode_plainly) is None


async def test_a_killed_worker_costs_no_answer(
    opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pool, "RESTART_SECONDS", 0.0)
    text = QUERIES[0]
    run(opened, text)
    async with serving(opened, forker) as world:
        before = {each.process for each in world.workers._workers}
        assert await world.ask(text, encode_fatally, "fatal") is None
        assert await world.ask(text) == world.expected(text), "the other one goes on"
        await world.wait_for_workers()
        for process in {each.process for each in world.workers._workers}:
            os.kill(process, signal.SIGKILL)
        answers = await asyncio.gather(*(world.ask(text, key=str(number)) for number in range(20)))
        assert set(answers) <= {None, world.expected(text)}
        await world.wait_for_workers()
        assert not before & {each.process for each in world.workers._workers}
        assert await world.ask(text) == world.expected(text)


async def test_a_query_that_is_killed_meanwhile(opened: LocalDatabase, forker: Forker) -> None:
    text = QUERIES[0]
    run(opened, text)
    async with serving(opened, forker) as world:
        asked = asyncio.ensure_future(world.ask(text, encode_slowly))
        await asyncio.sleep(0.1)
        (process,) = opened.database.services.processes.all()
        run(opened, f"KILL '{process.id}'")
        with pytest.raises(Cancelled):
            await asked
        assert not opened.database.services.processes.all()
        assert await world.ask(text) == world.expected(text)


async def test_a_worker_that_hangs_is_ended(
    opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_worker, "HANGS_SECONDS", 0.5)
    text = QUERIES[0]
    run(opened, text)
    async with serving(opened, forker) as world:
        for worker in list(world.workers._workers):
            stop_process(worker.process)
        assert await world.ask(text) is None
        assert len(world.workers._workers) == 1


async def test_a_query_that_cannot_travel(
    opened: LocalDatabase, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pool, "RESTART_SECONDS", 0.0)
    text = QUERIES[0]
    run(opened, text)
    async with serving(opened, forker) as world:
        assert await world.ask(text, lambda records: [b""], "local") is None
        await world.wait_for_workers()
        assert await world.ask(text) == world.expected(text)


async def test_queries_have_their_turns_in_order(opened: LocalDatabase, forker: Forker) -> None:
    text = QUERIES[3]
    run(opened, text)
    started: list[int] = []
    async with serving(opened, forker) as world:

        async def ask(number: int) -> None:
            def start() -> Any:
                started.append(number)
                return next(opened.database.execute(text, Session()))

            world.workers._skips[number] = 0, 1
            assert await world.workers.answer(number, start=start, encode=encode_plainly) is not None

        tasks = [asyncio.ensure_future(ask(number)) for number in range(64)]
        await asyncio.sleep(0)
        tasks[40].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [number for number, each in enumerate(done) if each is not None] == [40]
        assert started == [number for number in range(64) if number != 40]
        assert all(worker.at_once == 0 for worker in world.workers._workers)


async def test_idle_workers_end(opened: LocalDatabase, forker: Forker) -> None:
    async with serving(opened, forker, idle_seconds=0.2) as world:
        processes = [each.process for each in world.workers._workers]
        await asyncio.to_thread(wait_until, lambda: not world.workers._workers)
        await asyncio.to_thread(wait_until, lambda: not any(map(_is_running, processes)))
        await world.wait_for_workers()


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def test_damage_that_a_worker_finds_is_known_to_the_server(
    opened: LocalDatabase, forker: Forker, tmp_path: Path
) -> None:
    text = QUERIES[1]
    states = "SELECT state, reason FROM information_schema.ssts_manifest ORDER BY state"
    async with serving(opened, forker) as world:
        before = world.expected(text)
        damaged = _spoil(tmp_path / "data")
        # The server has decoded the file and does not read it again.
        assert await world.ask(text) is None
        await asyncio.to_thread(wait_until, lambda: run(opened, states)[0]["state"] == ["ok", "quarantined"])
        assert world.expected(text) == before
        manifest = "SELECT file_id FROM information_schema.ssts_manifest WHERE state = 'quarantined'"
        assert run(opened, manifest)[0]["file_id"] == [damaged.stem]


async def test_a_damaged_copy_of_the_file_cache_is_not_the_fault_of_the_file(forker: Forker, tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "cache", 1 << 30)
    opened = open_directory(tmp_path, store=CachedStore(MemoryStore(), cache))
    run(opened, "CREATE TABLE cpu (ts TIMESTAMP TIME INDEX, host STRING PRIMARY KEY, v DOUBLE, n BIGINT)")
    rows = [f"({number}, 'h{number % 4}', {number / 7}, {number})" for number in range(1000)]
    run(opened, f"INSERT INTO cpu VALUES {', '.join(rows)}")
    run(opened, "ADMIN flush_table('cpu')")
    async with serving(opened, forker) as world:
        before = world.expected(QUERIES[1])
        damaged = _spoil(tmp_path / "cache")
        assert await world.ask(QUERIES[1]) is None
        await asyncio.to_thread(wait_until, lambda: not damaged.exists())
        assert world.expected(QUERIES[1]) == before
        assert run(opened, "SELECT state FROM information_schema.ssts_manifest") == [{"state": ["ok"]}]
    opened.close()


def _spoil(directory: Path) -> Path:
    """Change the columns of a data file below a directory, and neither its size nor its footer."""
    file = min(directory.glob("**/*.parquet"))
    content = bytearray(file.read_bytes())
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for at in range(4, end, 7):
        content[at] ^= 0xFF
    file.write_bytes(content)
    return file


async def test_http_clients_that_are_not_alone(opened: LocalDatabase, forker: Forker) -> None:
    async with serving(opened, forker) as world:
        app = HttpApp(body_limit=0, timeout=Duration.parse("0s"))
        routes = sql_routes(app, DatabaseGate(opened.database), scheduler=QueryScheduler(), fast_workers=world.workers)
        asked = _worker._ANSWERED._value.get()
        for name in ("tsdb_v1", "influxdb_v1", "csv", "csvwithnames", "json", "table"):
            path = f"/v1/sql?format={name}&sql={QUERIES[1].replace(' ', '%20').replace('*', '%2A')}"
            alone = await call(app, "GET", path)
            for _ in range(3):
                others = await asyncio.gather(*(call(app, "GET", path) for _ in range(8)))
                assert {_timeless(each.body) for each in others} == {_timeless(alone.body)}
                assert {each.status for each in others} == {200}
        assert _worker._ANSWERED._value.get() - asked >= 6, "others ran inline"
        routes.close()


def _timeless(body: bytes) -> bytes:
    return re.sub(rb'"execution_time_ms":\d+', b"", body)
