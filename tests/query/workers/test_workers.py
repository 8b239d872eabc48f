"""Worker processes: what they answer, how they end, and who waits for them."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.query.harness import World, world
from tests.query.lifetime.test_planning_threads import FakeStatement, cpu
from tsdb.clock import SystemClock
from tsdb.errors import Cancelled, DeadlineExceeded, TsdbError
from tsdb.processes.fork_server import Forker
from tsdb.query import QueryEngineOptions, Session, read_all
from tsdb.query.errors import OutOfMemory, QueryPanic, TableMissing
from tsdb.query.lifetime import QueriesBusy, QueryLife
from tsdb.query.session import Channel
from tsdb.query.workers import WorkerOptions, Workers
from tsdb.units import Duration, Size

JOIN = "SELECT count(*) AS n FROM cpu a JOIN cpu b ON a.ts = b.ts AND a.host = b.host"
ENDLESS = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a.value * b.value < 0"
MANY_ROWS = "SELECT a.value, b.value AS other FROM generate_series(1, 1000) a, generate_series(1, 1000) b"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server of one worker that may take 256 MiB."""
    directory = tmp_path_factory.mktemp("workers")
    options = QueryEngineOptions(memory_bytes=Size(256 << 20), spill_dir=directory / "spill", workers=1)
    with world(directory, options) as opened:
        cpu(opened)
        yield opened


def pool_of(made: World) -> Workers:
    workers = made.queries._planner._workers
    assert workers is not None
    return workers


def process_of(made: World) -> int:
    """Return the process that answers next."""
    made.rows(JOIN)
    wait_until(lambda: len(pool_of(made).processes) == 1)
    return pool_of(made).processes[0]


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(6000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come to that within a minute")


def is_alive(process: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_a_worker_is_used_again(made: World) -> None:
    expected = made.rows("SELECT count(*) FROM cpu")
    before = process_of(made)
    assert made.rows(JOIN) == expected
    assert pool_of(made).processes == [before]


def test_a_query_at_its_deadline_ends_with_its_worker(made: World) -> None:
    before = process_of(made)
    with pytest.raises(DeadlineExceeded):
        made.queries.query(ENDLESS, Session(timeout=Duration.parse("100ms"))).__iter__().__next__()
    wait_until(lambda: not is_alive(before))
    assert process_of(made) != before


def test_a_kill_ends_a_query_with_its_worker(made: World) -> None:
    before, statement, outcome = process_of(made), FakeStatement(), []

    def run() -> None:
        try:
            list(made.queries.query(ENDLESS, Session(statement=statement)))
        except TsdbError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: pool_of(made)._busy != set())
    statement.kill()
    thread.join(60)
    assert [type(each) for each in outcome] == [Cancelled]
    wait_until(lambda: not is_alive(before))
    assert statement.holds == 0
    assert process_of(made) != before


def test_rows_that_nobody_wants_end_the_worker(made: World) -> None:
    before = process_of(made)
    records = made.queries.query(MANY_ROWS, Session())
    next(iter(records))
    records.close()
    wait_until(lambda: not is_alive(before))


def test_records_that_are_forgotten_end_the_worker(made: World) -> None:
    before = process_of(made)
    batches = iter(made.queries.query(MANY_ROWS, Session()))
    next(batches)
    del batches
    gc.collect()
    wait_until(lambda: not is_alive(before))


def test_a_query_that_takes_too_much_memory_is_ended(made: World) -> None:
    before = process_of(made)
    doubled = "(SELECT repeat('x', 1000) AS v FROM generate_series(1, 100000) s)"
    for _ in range(6):
        doubled = f"(SELECT v || v AS v FROM {doubled} t)"
    with pytest.raises(OutOfMemory, match="more than 256 MiB"):
        made.rows(f"SELECT max(length(v)) FROM {doubled} t")
    wait_until(lambda: not is_alive(before))
    assert made.rows("SELECT count(*) FROM cpu") == made.rows(JOIN)


def test_a_worker_that_is_killed_costs_one_query(made: World) -> None:
    before, outcome = process_of(made), []

    def run() -> None:
        try:
            list(made.queries.query(ENDLESS, Session()))
        except TsdbError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: pool_of(made)._busy != set())
    os.kill(before, signal.SIGKILL)
    thread.join(60)
    assert [type(each) for each in outcome] == [QueryPanic]
    assert process_of(made) != before


def test_an_idle_worker_that_is_killed_is_replaced(made: World) -> None:
    before = process_of(made)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: before not in pool_of(made).processes)
    assert process_of(made) != before


def test_idle_workers_that_have_grown_are_replaced_when_memory_is_short(made: World) -> None:
    grown = process_of(made)
    pool = pool_of(made)
    pool.limit_memory(1.0)
    assert pool.processes == [grown]
    pool.limit_memory(0.0)
    wait_until(lambda: len(pool.processes) == 1 and pool.processes != [grown])
    wait_until(lambda: not is_alive(grown))
    pool.limit_memory(1.0)
    assert made.rows(JOIN) == made.rows("SELECT count(*) FROM cpu")


def test_workers_are_started_without_their_fork_server(made: World) -> None:
    before = process_of(made)
    fork_server = pool_of(made).forker.server
    assert fork_server is not None
    fork_server.kill()
    wait_until(lambda: before not in pool_of(made).processes)
    assert process_of(made) != before


def test_errors_are_those_of_the_query(made: World) -> None:
    with pytest.raises(TableMissing, match=r"did you mean cpu\?"):
        made.rows("SELECT * FROM cpuu a JOIN cpu b ON a.ts = b.ts")
    with pytest.raises(TsdbError, match="nothing"):
        made.rows("SELECT a.nothing FROM cpu a JOIN cpu b ON a.ts = b.ts")
    before = process_of(made)
    with pytest.raises(TsdbError, match=r"[Dd]ivi"):
        made.rows("SELECT a.n / (b.n - b.n) FROM cpu a JOIN cpu b ON a.ts = b.ts")
    assert process_of(made) == before, "an error costs no worker"


def test_functions_about_the_server_ask_the_server(made: World) -> None:
    session = Session(channel=Channel.POSTGRES)
    rows = made.rows("SELECT quote_ident('A b'), current_setting('timezone') FROM cpu a, cpu b LIMIT 1", session)
    assert rows == [('"A b"', "UTC")]


def test_who_comes_first_is_answered_first(made: World) -> None:
    process_of(made)
    blocker = made.queries.query(MANY_ROWS, Session())
    order: list[int] = []
    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=lambda number=number: (made.rows(JOIN), order.append(number))))
        threads[-1].start()
        wait_until(lambda number=number: len(pool_of(made)._waiting) == number + 1)
    blocker.close()
    for thread in threads:
        thread.join(60)
    assert order == sorted(order)


def test_a_queue_that_is_full_is_busy(tmp_path: Path) -> None:
    workers = Workers(1, WorkerOptions(Size(256 << 20), tmp_path / "spill", 1), waiting_max=0)
    try:
        wait_until(lambda: len(workers.processes) == 1)
        workers.take(QueryLife(SystemClock(), None))
        with pytest.raises(QueriesBusy, match="waiting for a worker"):
            workers.take(QueryLife(SystemClock(), None))
    finally:
        workers.close()


def test_a_wait_for_a_worker_ends_at_the_deadline(made: World) -> None:
    process_of(made)
    blocker = made.queries.query(MANY_ROWS, Session())
    with pytest.raises(DeadlineExceeded):
        made.queries.query(JOIN, Session(timeout=Duration.parse("50ms")))
    assert not [each for each in pool_of(made)._waiting if not each.cancelled()]
    blocker.close()


def test_a_client_that_takes_no_rows_does_not_hold_up_others(made: World) -> None:
    process_of(made)
    batches = iter(made.queries.query(MANY_ROWS, Session()))
    next(batches)
    assert made.rows(JOIN)
    assert sum(batch.num_rows for batch in batches) > 0
    wait_until(lambda: len(pool_of(made).processes) == 1)


def test_nothing_is_left_when_the_server_ends(tmp_path: Path) -> None:
    options = QueryEngineOptions(memory_bytes=Size(1 << 30), spill_dir=tmp_path / "spill", workers=2)
    with world(tmp_path, options) as opened:
        cpu(opened)
        opened.rows(JOIN)
        wait_until(lambda: len(pool_of(opened).processes) == 2)
        processes = pool_of(opened).processes
        running = opened.queries.query(MANY_ROWS, Session())
    del running
    wait_until(lambda: not any(is_alive(each) for each in processes))
    assert list((tmp_path / "spill").glob("workers/*")) == []


@pytest.mark.parametrize("has_fork_server", [False, True])
def test_a_worker_that_starts_while_the_server_ends_leaves_nothing(tmp_path: Path, has_fork_server: bool) -> None:
    workers = Workers(1, WorkerOptions(Size(256 << 20), tmp_path / "spill", 1))
    if has_fork_server:
        wait_until(lambda: len(workers.processes) == 1)
        killed = workers.processes[0]
        os.kill(killed, signal.SIGKILL)
        # The next one is about to start, unless it was so quick that it is there.
        wait_until(lambda: workers._starting == 1 or killed not in workers.processes)
    workers.close()
    wait_until(lambda: not workers._starting and not (tmp_path / "spill").exists())


def test_the_deadline_of_a_query_is_not_that_of_the_next(made: World) -> None:
    process_of(made)
    pool_of(made)._idle[0].control.settimeout(0.0)
    rows = pa.table({"n": range(300_000)})
    text = "SELECT count(*) AS c FROM given a JOIN given b ON a.n = b.n"
    assert read_all(made.queries.query(text, Session(), tables={"given": rows})).to_pylist() == [{"c": 300_000}]


def test_a_server_that_ends_while_workers_start_logs_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    forker = Forker([WorkerOptions.__module__])
    forker.close()
    workers = Workers(1, WorkerOptions(Size(256 << 20), tmp_path / "spill", 1), forker=forker)
    wait_until(lambda: not workers._starting)
    workers.close()
    assert caplog.text == ""
