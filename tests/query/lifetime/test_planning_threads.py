"""Planning that takes long: who waits for it can stop waiting, and what goes on is counted and shown."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext

from tests.query.harness import World, cpu, world
from tsdb.clock import SystemClock
from tsdb.errors import Cancelled, DeadlineExceeded, InvalidSyntax
from tsdb.model import ViewInfo
from tsdb.query import QueryEngineOptions, Session
from tsdb.query.errors import OutOfMemory
from tsdb.query.lifetime import BatchPace, MemoryWatch, Planning, QueriesBusy, QueryLife, Unfinished
from tsdb.query.lifetime import _memory as memory
from tsdb.query.lifetime._planning_threads import UNFINISHED_MAX
from tsdb.query.planning._records import QueryRecords, Waiter
from tsdb.query.session import Channel
from tsdb.units import Duration, Size

LARGE = (
    "WITH a AS (SELECT n FROM cpu), b AS (SELECT * FROM a UNION ALL SELECT * FROM a) "
    f"SELECT {', '.join(f'n AS c{number}' for number in range(1100))} FROM b"
)


class FakeStatement:
    """A statement that notes what holds it."""

    def __init__(self) -> None:
        self.holds = 0
        self.stops: list[Callable[[], None]] = []

    def on_cancel(self, stop: Callable[[], None]) -> None:
        self.stops.append(stop)

    def hold(self) -> Callable[[], None]:
        self.holds += 1
        return self.release

    def release(self) -> None:
        self.holds -= 1

    def kill(self) -> None:
        for stop in self.stops:
            stop()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as opened:
        cpu(opened)
        yield opened


def slow_planning(made: World, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Let planning wait for an event; returns those that say that it has begun and that it may go on."""
    begun, may_end = threading.Event(), threading.Event()
    plans = made.queries._planner._plans
    original = plans.plan

    def plan(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        return original(*arguments, **options)

    monkeypatch.setattr(plans, "plan", plan)
    return begun, may_end


def test_a_deadline_ends_a_query_that_is_being_planned(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _, may_end = slow_planning(made, monkeypatch)
    statement = FakeStatement()
    with pytest.raises(DeadlineExceeded):
        made.queries.query(LARGE, Session(timeout=Duration.parse("50ms"), statement=statement))
    assert (made.queries._planner.unfinished.count, statement.holds) == (1, 1)
    may_end.set()
    wait_until(lambda: made.queries._planner.unfinished.count == 0)
    assert statement.holds == 0


def test_a_kill_ends_a_query_that_is_being_planned(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = slow_planning(made, monkeypatch)
    statement, outcome = FakeStatement(), []

    def run() -> None:
        try:
            made.queries.query(LARGE, Session(statement=statement))
        except Cancelled as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(60)
    statement.kill()
    thread.join(60)
    assert len(outcome) == 1
    assert statement.holds == 1
    may_end.set()
    wait_until(lambda: statement.holds == 0)


def test_no_large_query_begins_while_too_many_are_unfinished(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _, may_end = slow_planning(made, monkeypatch)
    for _ in range(UNFINISHED_MAX):
        with pytest.raises(DeadlineExceeded):
            made.queries.query(LARGE, Session(timeout=Duration.parse("20ms")))
    with pytest.raises(QueriesBusy):
        made.queries.query(LARGE, Session())
    assert made.queries.query("SELECT n FROM cpu", Session()), "what needs no planner is answered"
    may_end.set()
    wait_until(lambda: made.queries._planner.unfinished.count == 0)
    assert sum(batch.num_rows for batch in made.queries.query(LARGE, Session()))


def test_an_error_of_planning_is_that_of_the_query(made: World) -> None:
    text = LARGE.replace("FROM b", "FROM nothing")
    with pytest.raises(Exception, match="nothing"):
        made.queries.query(text, Session())
    assert made.queries._planner.unfinished.count == 0


def test_what_is_planned_after_it_was_given_up_is_discarded() -> None:
    unfinished = Unfinished()
    planning = Planning(unfinished)
    may_end, discarded = threading.Event(), []
    life = QueryLife(SystemClock(), Duration.parse("10ms"))
    with pytest.raises(DeadlineExceeded):
        planning.run(life, lambda: may_end.wait(60) and "planned", discarded.append)
    may_end.set()
    wait_until(lambda: discarded == ["planned"])
    planning.close()


def test_a_cross_join_that_was_given_up_ends_and_leaves_the_list() -> None:
    """In a process of its own: joins that other tests have given up keep the threads of this one busy."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.query.lifetime.given_up_join"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_work_that_was_given_up_is_seen_to_end_although_nothing_else_calls_the_engine() -> None:
    waiter, unfinished = Waiter(), Unfinished()
    context, series = SessionContext(), "generate_series(1, 1000)"
    text = f"SELECT count(*) FROM {series} a, {series} b, {series} c, {series} d"
    streams = [context.sql(text).execute_stream() for _ in range(40)]
    for stream in streams:  # which are kept: the end of one is a call
        rows = QueryRecords(stream, pa.schema([]), QueryLife(SystemClock(), None), waiter, unfinished)
        poll_until(lambda rows=rows: rows._work._future is not None)  # type: ignore[misc]
        rows.close()
        poll_until(lambda: unfinished.count == 0)
    waiter.close()


@pytest.mark.parametrize("levels", [12, 30])
def test_views_over_views_are_bounded_and_planned_once_each(made: World, levels: int) -> None:
    views = {"v0": "SELECT n FROM cpu"}
    for number in range(1, levels + 1):
        views[f"v{number}"] = f"SELECT x.n FROM v{number - 1} x JOIN v{number - 1} y ON x.n = y.n WHERE x.n > 0"
    for name, query in views.items():
        create_view(made, name, query)
    with pytest.raises(InvalidSyntax, match="tables and subqueries"):
        made.queries.query(f"SELECT * FROM v{levels} WHERE n > 1", Session())


def test_a_chain_of_views_is_looked_at_once_per_view(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    create_view(made, "v0", "SELECT n, ts FROM cpu")
    for number in range(1, 13):
        create_view(made, f"v{number}", f"SELECT n, ts FROM v{number - 1} WHERE n > 0")
    planner, seen = made.queries._planner._preparer, []
    original = planner._prepare_view_text
    monkeypatch.setattr(planner, "_prepare_view_text", lambda *a: seen.append(a[0].name) or original(*a))
    list(made.queries.query("SELECT n FROM v12 WHERE n > 0", Session()))
    assert sorted(seen) == sorted(set(seen))


def test_a_query_is_failed_when_the_memory_of_the_process_grows_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    resident = [1000]
    monkeypatch.setattr(memory, "resident_bytes", lambda: resident[0])
    unfinished = Unfinished()
    watch = MemoryWatch(100, unfinished)
    first, second = (QueryLife(SystemClock(), None) for _ in range(2))
    watch.watch(first)
    resident[0] = 1080
    watch.watch(second)
    resident[0] = 1150
    wait_until(lambda: first.is_cancelled)
    assert isinstance(first.failure, OutOfMemory)
    assert not second.is_cancelled
    end = unfinished.add(first)
    with pytest.raises(QueriesBusy):
        watch.check()
    end()
    watch.check()
    first.end()
    second.end()


def test_a_cross_join_of_series_has_batches_that_are_worth_their_overhead(tmp_path: Path) -> None:
    """However slow the machine is: the join makes a batch for each row of one side and each batch of the other."""
    with world(tmp_path) as opened:
        text = (
            "EXPLAIN ANALYZE SELECT sum(a.value * b.value) FROM generate_series(1, 1024) a, generate_series(1, 1024) b"
        )
        shown = str(opened.rows(text))
        found = re.search(r"CrossJoinExec.*? input_batches=(\d+)", shown)
        assert found is not None, shown
        assert int(found[1]) <= 4


def test_large_values_are_refused_before_they_are_made(tmp_path: Path) -> None:
    with world(tmp_path, QueryEngineOptions(memory_bytes=Size(1 << 30), spill_dir=tmp_path / "spill")) as opened:
        for text in (
            "SELECT length(repeat('xxxxxxxxxx', value * 1000000)) FROM generate_series(1, 100)",
            "SELECT length(lpad('x', value * 10000000)) FROM generate_series(1, 100)",
            "SELECT array_length(array_repeat('x', value * 10000000)) FROM generate_series(1, 100)",
        ):
            with pytest.raises(Exception, match="more than 64 MiB"):
                list(opened.queries.query(text, Session()))
        (header,) = opened.queries.query("SELECT lpad('x', value + 1) FROM generate_series(1, 2) t", Session()).schema
        assert "bounded" not in header.name
        assert opened.rows("SELECT repeat('ab', value - 1) FROM generate_series(0, 3) t") == [
            ("",),
            ("",),
            ("ab",),
            ("abab",),
        ]


@pytest.mark.parametrize(
    "text",
    [
        "generate_series(1, 5)",
        "generate_series(5)",
        "generate_series(5, 1, -2)",
        "generate_series(-3, 3, 2)",
        "range(1, 5)",
        "range(5, 1)",
        "range(-5)",
        "generate_series(1, NULL)",
        "generate_series(1 + 1, 5)",
        "range(TIMESTAMP '2024-01-01', TIMESTAMP '2024-03-01', INTERVAL '1 month')",
        "generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day')",
        "generate_series(9223372036854775800, 9223372036854775807)",
    ],
)
def test_series_are_those_of_the_query_engine(made: World, text: str) -> None:
    expected = SessionContext().sql(f"SELECT * FROM {text}").to_pydict()["value"]
    assert made.table(f"SELECT value FROM {text}").column(0).to_pylist() == expected
    assert made.rows(f"SELECT count(*) FROM {text} t") == [(len(expected),)]


@pytest.mark.parametrize(
    "text", ["generate_series(1, 2, 0)", "generate_series('a', 2)", "generate_series()", "range(1.5, 3)"]
)
def test_series_that_cannot_be_are_refused(made: World, text: str) -> None:
    with pytest.raises(Exception, match=r"zero|INTEGER|arguments"):
        made.table(f"SELECT value FROM {text}")


def test_batches_shrink_when_they_take_long_and_grow_when_they_do_not() -> None:
    now = [0.0]
    pace, sizes = BatchPace(512, 4096, least_rows=256, seconds=lambda: now[0]), []
    for seconds in (0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.02):
        sizes.append(pace.next_rows())
        now[0] += seconds
    assert sizes == [512, 1024, 2048, 4096, 1024, 256, 256, 256]


def create_view(made: World, name: str, query: str) -> None:
    made.catalog.views_by_name[("public", name)] = ViewInfo(1, "public", name, "", query)


def wait_until(condition: Callable[[], bool]) -> None:
    poll_until(lambda: condition() or gc.collect(1) < 0)


def poll_until(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(9000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not come to that within a minute and a half")


@pytest.mark.parametrize("channel", [Channel.HTTP, Channel.MYSQL, Channel.POSTGRES])
def test_calls_in_calls_are_parsed_once_each(made: World, channel: Channel) -> None:
    text = "n"
    for _ in range(40):
        text = f"coalesce(n, {text})"
    rows = made.rows(f"SELECT {text} AS n FROM cpu ORDER BY n LIMIT 1", Session(channel=channel))
    assert rows == made.rows("SELECT n FROM cpu ORDER BY n LIMIT 1")
