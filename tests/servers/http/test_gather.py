"""Small requests that wait together: who shares a group, what becomes of errors, and that rows come out the same."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pyarrow as pa
import pytest

from tests.database.cases import open_case_database, render
from tests.ingest.prometheus_messages import messages
from tests.servers.http.asgi_client import Answer, call
from tsdb.components._local import LocalDatabase
from tsdb.database import Database, DatabaseGate, Session, read_all
from tsdb.engine.errors import SchemaOutdated, StorageFull
from tsdb.query import WriteToken
from tsdb.servers.http import HttpApp, influx_routes, prometheus_remote_routes
from tsdb.servers.http.ingest._gather import BEGUN_MAX, GROUP_BYTES_MAX, GROUP_REQUESTS_MAX, Begun, Gathering
from tsdb.units import Duration

WAIT_SECONDS = 10


class Bench:
    """Work that stops at a gate, so that requests pile up behind it."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.gate = threading.Event()
        self.has_begun = threading.Event()
        self.gathering: Gathering[str, str] = Gathering("test", self._work, threads=1)

    def _work(self, group: Sequence[str]) -> list[str | Exception]:
        self.groups.append(list(group))
        self.has_begun.set()
        assert self.gate.wait(WAIT_SECONDS)
        if "crash" in group:
            raise RuntimeError("crash")
        return [ValueError(item) if item.startswith("bad") else item.upper() for item in group]

    def send(self, item: str, key: str = "k", nbytes: int = 1) -> asyncio.Task[str]:
        return asyncio.ensure_future(self.gathering.run(key, item, nbytes))

    async def begin(self) -> asyncio.Task[str]:
        """Send the first request and wait until it is worked on."""
        first = self.send("first")
        await asyncio.to_thread(self.has_begun.wait, WAIT_SECONDS)
        return first

    async def open_gate(self) -> None:
        await asyncio.sleep(0)  # let what was sent arrive
        self.gate.set()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    made.gate.set()
    made.gathering.close()


async def test_requests_that_wait_are_worked_on_together(bench: Bench) -> None:
    first = await bench.begin()
    others = [bench.send(item) for item in "abc"]
    await bench.open_gate()
    assert await asyncio.gather(first, *others) == ["FIRST", "A", "B", "C"]
    assert bench.groups == [["first"], ["a", "b", "c"]]


async def test_requests_of_another_key_are_no_company(bench: Bench) -> None:
    first = await bench.begin()
    others = [bench.send("a", "x"), bench.send("b", "y"), bench.send("c", "x")]
    await bench.open_gate()
    assert await asyncio.gather(first, *others) == ["FIRST", "A", "B", "C"]
    assert bench.groups == [["first"], ["a", "c"], ["b"]]


async def test_each_request_gets_its_own_error(bench: Bench) -> None:
    first = await bench.begin()
    others = [bench.send(item) for item in ("good", "bad", "fine")]
    await bench.open_gate()
    answers = await asyncio.gather(first, *others, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["FIRST", "GOOD", "bad", "FINE"]
    assert isinstance(answers[2], ValueError)


async def test_work_that_breaks_off_is_told_to_all_and_the_thread_goes_on(bench: Bench) -> None:
    first = await bench.begin()
    others = [bench.send("crash"), bench.send("a")]
    await bench.open_gate()
    answers = await asyncio.gather(first, *others, return_exceptions=True)
    assert answers[0] == "FIRST"
    assert all(isinstance(answer, RuntimeError) for answer in answers[1:])
    assert await bench.send("again") == "AGAIN"


async def test_groups_are_bounded_in_number_and_bytes(bench: Bench) -> None:
    first = await bench.begin()
    many = [bench.send("a", "many") for _ in range(GROUP_REQUESTS_MAX + 3)]
    large = [bench.send("b", "large", GROUP_BYTES_MAX // 2 + 1) for _ in range(2)]
    huge = bench.send("c", "huge", 10 * GROUP_BYTES_MAX)
    await bench.open_gate()
    await asyncio.gather(first, *many, *large, huge)
    sizes = sorted((group[0], len(group)) for group in bench.groups[1:])
    assert sizes == [("a", 3), ("a", GROUP_REQUESTS_MAX), ("b", 1), ("b", 1), ("c", 1)]


async def test_a_request_that_was_given_up_is_left_out(bench: Bench) -> None:
    first = await bench.begin()
    gone, other = bench.send("gone"), bench.send("a")
    await asyncio.sleep(0)
    gone.cancel()
    await bench.open_gate()
    assert await asyncio.gather(first, other) == ["FIRST", "A"]
    assert bench.groups == [["first"], ["a"]]


# In front of a real database.


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalDatabase]:
    made = open_case_database(tmp_path)
    yield made
    made.close()


@pytest.fixture
def app(local: LocalDatabase) -> Iterator[HttpApp]:
    made = HttpApp(body_limit=1_000_000, timeout=Duration(0))
    routes = [
        influx_routes(made, DatabaseGate(local.database)),
        prometheus_remote_routes(made, DatabaseGate(local.database)),
    ]
    yield made
    for each in routes:
        each.close()


def rows(local: LocalDatabase, sql: str) -> list[str]:
    (output,) = list(local.database.execute(sql, Session()))
    assert hasattr(output, "schema")
    return render(read_all(output))[1:]


async def send_all(app: HttpApp, path: str, bodies: Sequence[bytes]) -> list[Answer]:
    return await asyncio.gather(*(call(app, "POST", path, body=body) for body in bodies))


async def test_lines_of_many_requests_at_once_are_all_there(app: HttpApp, local: LocalDatabase) -> None:
    bodies = [f"m,sender={sender} v={sender}i {sender}".encode() for sender in range(100)]
    answers = await send_all(app, "/v1/influxdb/write", bodies)
    assert {answer.status for answer in answers} == {204}
    assert rows(local, "SELECT count(*), sum(v) FROM m") == ["100 | 4950"]


async def test_lines_without_a_time_keep_the_time_of_their_own_request(app: HttpApp, local: LocalDatabase) -> None:
    answers = await send_all(app, "/v1/influxdb/write", [b"m v=1i"] * 50)
    assert {answer.status for answer in answers} == {204}
    assert rows(local, "SELECT count(*) FROM m") == ["50"]


async def test_a_bad_request_is_refused_alone_and_counted_once(app: HttpApp, local: LocalDatabase) -> None:
    assert (await call(app, "POST", "/v1/influxdb/write", body=b"m v=1 1")).status == 204
    bodies = [f"m v={number} {number}".encode() for number in range(2, 30)]
    bodies[7], bodies[11] = b'm v="text" 100', b"m v"
    answers = await send_all(app, "/v1/influxdb/write", bodies)
    assert [at for at, answer in enumerate(answers) if answer.status != 204] == [7, 11]
    assert {answers[at].status for at in (7, 11)} == {400}
    assert "line 1" in answers[7].json()["error"]
    assert rows(local, "SELECT count(*) FROM m") == ["27"]
    assert rows(local, "SELECT count(*) FROM information_schema.ingest_rejections") == ["2"]


async def test_lines_whose_table_changes_while_they_are_sent_are_planned_again(
    app: HttpApp, local: LocalDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await call(app, "POST", "/v1/influxdb/write", body=b"m v=1 1")).status == 204
    errors: list[Exception] = [SchemaOutdated(region_id=1, expected=1, current=2), StorageFull("no space")]

    def refuse(*arguments: object, **options: object) -> Future[int]:
        done: Future[int] = Future()
        done.set_exception(errors[0])
        return done

    monkeypatch.setattr(Database, "begin_ingest", refuse)
    assert (await call(app, "POST", "/v1/influxdb/write", body=b"m v=2 2")).status == 204
    assert rows(local, "SELECT count(*) FROM m") == ["2"]
    del errors[0]
    assert (await call(app, "POST", "/v1/influxdb/write", body=b"m v=3 3")).status >= 500
    assert rows(local, "SELECT count(*) FROM m") == ["2"]


def prometheus_body(number: int, name: str = "m") -> bytes:
    request = messages["WriteRequest"]()
    series = request.timeseries.add()
    if name:
        series.labels.add(name=b"__name__", value=name.encode())
    series.labels.add(name=b"sender", value=str(number).encode())
    series.samples.add(value=number, timestamp=number)
    packed: bytes = pa.compress(request.SerializeToString(), codec="snappy", asbytes=True)
    return packed


async def test_samples_of_many_requests_at_once_are_all_there_but_those_of_a_bad_one(
    app: HttpApp, local: LocalDatabase
) -> None:
    bodies = [prometheus_body(number) for number in range(60)]
    bodies[20], bodies[40] = prometheus_body(20, name=""), b"\xff"
    for _ in range(2):
        answers = await send_all(app, "/v1/prometheus/write", bodies)
        assert [at for at, answer in enumerate(answers) if answer.status != 204] == [20, 40]
    assert rows(local, "SELECT count(*), sum(tsdb_value) FROM m") == [f"58 | {sum(range(60)) - 60}.0"]


class Elsewhere:
    """Work that is only begun here; the test ends it."""

    def __init__(self) -> None:
        self.begun: list[tuple[list[str], Future[None]]] = []
        self.has_begun = threading.Semaphore(0)
        self.gathering: Gathering[str, str] = Gathering("test", self._work, self._recover, threads=1)

    def _work(self, group: Sequence[str]) -> Begun[str]:
        done: Future[None] = Future()
        self.begun.append((list(group), done))
        self.has_begun.release()
        return Begun(done, [item.upper() for item in group])

    def _recover(self, group: Sequence[str], error: Exception) -> list[str | Exception]:
        if "crash" in group:
            raise RuntimeError("crash")
        return [f"{item} after {error}" for item in group]

    def queue(self, item: str) -> asyncio.Task[str]:
        return asyncio.ensure_future(self.gathering.run("k", item, 1))

    async def send(self, item: str) -> asyncio.Task[str]:
        """Send a request and wait until it was begun."""
        sent = self.queue(item)
        assert await asyncio.to_thread(self.has_begun.acquire, timeout=WAIT_SECONDS)
        return sent


async def test_work_that_was_begun_holds_no_thread() -> None:
    elsewhere = Elsewhere()
    sent = [await elsewhere.send(item) for item in "ab"]
    assert [group for group, _ in elsewhere.begun] == [["a"], ["b"]]
    assert not any(each.done() for each in sent)
    for (_, done), each, answer in reversed(list(zip(elsewhere.begun, sent, "AB", strict=True))):
        done.set_result(None)
        assert await asyncio.wait_for(each, WAIT_SECONDS) == answer
    elsewhere.gathering.close()


async def test_the_next_group_starts_when_it_has_as_many_requests_as_are_on_their_way() -> None:
    elsewhere = Elsewhere()
    sent = [await elsewhere.send("a"), await elsewhere.send("b"), elsewhere.queue("c")]
    await asyncio.sleep(0)
    assert len(elsewhere.begun) == 2
    sent.append(await elsewhere.send("d"))
    assert elsewhere.begun[-1][0] == ["c", "d"]
    # What is too small to start beside others starts when they have ended.
    sent.append(elsewhere.queue("e"))
    await asyncio.sleep(0)
    assert len(elsewhere.begun) == 3
    for _, done in list(elsewhere.begun):
        done.set_result(None)
    assert await asyncio.to_thread(elsewhere.has_begun.acquire, timeout=WAIT_SECONDS)
    elsewhere.begun[-1][1].set_result(None)
    assert await asyncio.wait_for(asyncio.gather(*sent), WAIT_SECONDS) == list("ABCDE")
    elsewhere.gathering.close()


async def test_while_many_groups_are_on_their_way_requests_are_collected() -> None:
    elsewhere = Elsewhere()
    sent = [await elsewhere.send("first")]
    for number in range(1, BEGUN_MAX):
        # As many as are on their way: one, two, four and so on.
        sent += [elsewhere.queue(f"{number}") for _ in range(2 ** (number - 1) - 1)]
        sent.append(await elsewhere.send(f"{number}"))
    late = [elsewhere.queue("late") for _ in range(2**BEGUN_MAX)]
    await asyncio.sleep(0)
    assert [len(group) for group, _ in elsewhere.begun] == [1, *(2 ** (number - 1) for number in range(1, BEGUN_MAX))]
    elsewhere.begun[0][1].set_result(None)
    assert await asyncio.to_thread(elsewhere.has_begun.acquire, timeout=WAIT_SECONDS)
    assert elsewhere.begun[-1][0] == ["late"] * len(late)
    for _, done in elsewhere.begun[1:]:
        done.set_result(None)
    await asyncio.wait_for(asyncio.gather(*sent, *late), WAIT_SECONDS)
    elsewhere.gathering.close()


async def test_work_that_ended_badly_is_recovered_on_a_thread_of_the_gathering() -> None:
    elsewhere = Elsewhere()
    good, bad = await elsewhere.send("good"), await elsewhere.send("crash")
    for _, done in elsewhere.begun:
        done.set_exception(ValueError("the table is another"))
    assert await asyncio.wait_for(good, WAIT_SECONDS) == "good after the table is another"
    with pytest.raises(RuntimeError, match="crash"):
        await asyncio.wait_for(bad, WAIT_SECONDS)
    elsewhere.gathering.close()


async def begin_with_token(elsewhere: Elsewhere) -> tuple[asyncio.Task[str], WriteToken]:
    """Send a request whose write has begun."""
    token = WriteToken()
    sent = asyncio.ensure_future(elsewhere.gathering.run("k", "a", 1, token))
    assert await asyncio.to_thread(elsewhere.has_begun.acquire, timeout=WAIT_SECONDS)
    return sent, token


async def test_the_answer_to_a_request_that_is_interrupted_while_it_is_written_is_waited_for() -> None:
    elsewhere = Elsewhere()
    sent, token = await begin_with_token(elsewhere)
    token.enter()
    sent.cancel()
    await asyncio.sleep(0)
    assert not sent.done()
    elsewhere.begun[0][1].set_result(None)
    assert await asyncio.wait_for(sent, WAIT_SECONDS) == "A"
    assert token.is_over
    elsewhere.gathering.close()


async def test_an_answer_on_its_way_when_a_request_is_interrupted_is_the_answer() -> None:
    elsewhere = Elsewhere()
    sent, token = await begin_with_token(elsewhere)
    token.enter()
    # The loop takes the answer before the task hears that it was cancelled, and after that took effect.
    elsewhere.begun[0][1].set_result(None)
    sent.cancel()
    assert await asyncio.wait_for(sent, WAIT_SECONDS) == "A"
    elsewhere.gathering.close()


async def test_an_answer_that_is_there_when_a_request_is_interrupted_is_the_answer() -> None:
    elsewhere = Elsewhere()
    sent, token = await begin_with_token(elsewhere)
    token.enter()
    loop = asyncio.get_running_loop()
    elsewhere.begun[0][1].set_result(None)
    loop.call_soon(sent.cancel)
    assert await asyncio.wait_for(sent, WAIT_SECONDS) == "A"
    elsewhere.gathering.close()


async def test_a_request_that_is_interrupted_before_its_write_begins_ends_at_once_and_its_answer_is_dropped() -> None:
    elsewhere = Elsewhere()
    complaints: list[dict[str, object]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    sent, token = await begin_with_token(elsewhere)
    sent.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sent
    assert token.is_cancelled
    elsewhere.begun[0][1].set_exception(ValueError("too late"))
    assert await elsewhere_answers(elsewhere) == "A"
    del sent
    gc.collect()
    assert complaints == []
    elsewhere.gathering.close()


async def elsewhere_answers(elsewhere: Elsewhere) -> str:
    """Send another request and end it well."""
    again, _ = await begin_with_token(elsewhere)
    elsewhere.begun[-1][1].set_result(None)
    return await asyncio.wait_for(again, WAIT_SECONDS)


async def test_without_a_way_to_recover_the_error_is_the_answer() -> None:
    done: Future[None] = Future()
    gathering: Gathering[str, str] = Gathering("test", lambda group: Begun(done, list(group)), threads=1)
    sent = asyncio.ensure_future(gathering.run("k", "item", 1))
    done.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await asyncio.wait_for(sent, WAIT_SECONDS)
    gathering.close()
