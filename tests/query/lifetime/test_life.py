"""The life of a query: it ends when it is read, closed, too slow or too large, and lets go of what it held."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.query.harness import BIGINT, MILLIS, STRING, World, cpu, world
from tsdb.clock import ManualClock
from tsdb.engine.region.reader import LocalReader
from tsdb.errors import Cancelled, DeadlineExceeded, Status, TsdbError
from tsdb.query import QueryEngineOptions, Session, read_all
from tsdb.query.errors import execution_error
from tsdb.query.lifetime import QueryLife
from tsdb.query.planning import QueryRecords
from tsdb.query.selection import SelectionRecords
from tsdb.query.series_aggregate import AggregateRecords
from tsdb.units import Duration, Size

ENDLESS = [
    "SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d, numbers e, numbers f",
    """SELECT sum(a.number * b.number) FROM numbers a, numbers b, numbers c, numbers d
       WHERE a.number + b.number > c.number + d.number""",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT sum(i) FROM r",
]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as opened:
        cpu(opened)
        yield opened


FORMS = [
    "SELECT * FROM cpu",
    "SELECT * FROM cpu WHERE n + 0 < 9",
    "SELECT a.n FROM cpu a, cpu b",
    "SELECT max(n) FROM cpu",
]


def life_of(records: Any) -> QueryLife:
    assert isinstance(records, QueryRecords | SelectionRecords | AggregateRecords)
    return records._life


def readers_of(records: Any) -> list[LocalReader]:
    scans = life_of(records).scans if isinstance(records, QueryRecords) else [records._dataset]
    return [region for scan in scans for region in scan.regions.opened]


@pytest.mark.parametrize("text", ENDLESS)
def test_a_query_that_is_closed_from_another_thread_ends_at_once(made: World, text: str) -> None:
    records = made.queries.query(text, Session())
    timer = threading.Timer(0.1, records.close)
    timer.start()
    with pytest.raises(Cancelled):
        list(records)
    assert life_of(records).is_cancelled
    timer.join()


@pytest.mark.parametrize("text", ENDLESS)
def test_a_query_that_is_too_slow_ends_at_its_deadline(made: World, text: str) -> None:
    with pytest.raises(DeadlineExceeded, match="100ms"):
        list(made.queries.query(text, Session(timeout=Duration.parse("100ms"))))


def test_the_default_deadline_holds_when_the_session_has_none(tmp_path: Path) -> None:
    with world(tmp_path, QueryEngineOptions(timeout=Duration.parse("50ms"))) as opened, pytest.raises(DeadlineExceeded):
        list(opened.queries.query(ENDLESS[0], Session()))


@pytest.mark.parametrize("text", ["SELECT * FROM cpu", "SELECT * FROM cpu ORDER BY n"])
def test_a_scan_of_one_table_asks_for_its_deadline(tmp_path: Path, text: str) -> None:
    clock = ManualClock()
    with world(tmp_path, QueryEngineOptions(timeout=Duration.parse("1s")), clock) as opened:
        cpu(opened)
        records = opened.queries.query(text, Session())
        clock.advance(seconds=2)
        with pytest.raises(DeadlineExceeded):
            list(records)
        assert all(reader.is_released for reader in readers_of(records))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM cpu",
        "SELECT * FROM cpu WHERE n + 0 < 9",
        "SELECT a.n FROM cpu a, cpu b",
        "SELECT max(n) FROM cpu",
    ],
)
def test_snapshots_are_released_when_the_rows_are_read(made: World, text: str) -> None:
    records = made.queries.query(text, Session())
    held = readers_of(records)
    assert held
    assert not any(reader.is_released for reader in held)
    read_all(records)
    assert all(reader.is_released for reader in held)
    assert not life_of(records).is_cancelled


@pytest.mark.parametrize("text", ["SELECT * FROM cpu", "SELECT * FROM cpu ORDER BY n", "SELECT a.n FROM cpu a, cpu b"])
def test_closing_early_releases_snapshots_and_ends_the_rows(made: World, text: str) -> None:
    records = made.queries.query(text, Session())
    held = readers_of(records)
    records.close()
    records.close()
    assert all(reader.is_released for reader in held)
    with pytest.raises(Cancelled):
        list(records)


@pytest.mark.parametrize("text", ["SELECT nothing FROM cpu", "SELECT * FROM cpu, nothing"])
def test_a_query_that_cannot_be_planned_holds_nothing(made: World, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[LocalReader] = []
    original = made.engine.open_reader
    monkeypatch.setattr(made.engine, "open_reader", lambda *a, **k: taken.append(original(*a, **k)) or taken[-1])
    with pytest.raises(TsdbError):
        made.queries.query(text, Session())
    assert taken
    assert all(reader.is_released for reader in taken)


class Unreadable(TsdbError):
    """Stands for a damaged file."""

    status = Status.STORAGE_UNAVAILABLE


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM cpu",
        "SELECT * FROM cpu WHERE n + 0 < 9",
        "SELECT a.n FROM cpu a, cpu b",
        "SELECT max(n + 1) FROM cpu",
    ],
)
def test_the_error_of_a_scan_arrives_as_it_was_raised(made: World, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = Unreadable("a file is damaged")

    def fail(*_: Any) -> Iterator[Any]:
        raise error
        yield

    monkeypatch.setattr(LocalReader, "scan", fail)
    with pytest.raises(Unreadable) as caught:
        made.table(text)
    assert caught.value is error


def test_a_region_that_is_not_there_is_told_while_the_query_is_planned(made: World) -> None:
    table = made.create("gone", [("ts", MILLIS), ("v", BIGINT)])
    made.engine.drop(table.region_ids[0]).result(timeout=30)
    with pytest.raises(TsdbError) as caught:
        made.table("SELECT * FROM gone")
    assert caught.value.status is Status.REGION_NOT_FOUND


def test_a_query_that_needs_too_much_memory_is_refused(tmp_path: Path) -> None:
    options = QueryEngineOptions(memory_bytes=Size(1 << 20), spill_dir=tmp_path / "spill")
    with world(tmp_path, options) as opened:
        text = (
            "SELECT count(*) FROM generate_series(1, 1000000) a JOIN generate_series(1, 1000000) b ON a.value = b.value"
        )
        with pytest.raises(TsdbError) as caught:
            opened.table(text)
        assert caught.value.status is Status.RUNTIME_RESOURCES_EXHAUSTED


def test_many_rows_come_in_several_batches(made: World) -> None:
    table = made.create("t", [("host", STRING), ("ts", MILLIS), ("v", BIGINT)], tags=["host"])
    made.put(table, [{"host": "a", "ts": at, "v": at} for at in range(100_000)])
    records = made.queries.query("SELECT v FROM t", Session())
    batches = list(records)
    assert sum(batch.num_rows for batch in batches) == 100_000
    assert len(batches) > 1
    assert made.rows("SELECT count(*) FROM t a JOIN t b ON a.ts = b.ts") == [(100_000,)]
    assert made.rows("SELECT count(*) FROM t, numbers") == [(10_000_000,)]


def test_a_panic_is_an_error_like_any_other(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    records = made.queries.query("SELECT max(n + 1) FROM cpu", Session())

    class Stream:
        def __next__(self) -> Any:
            raise PanicException("index out of bounds")

    records._stream = Stream()  # type: ignore[attr-defined]
    with pytest.raises(TsdbError) as caught:
        list(records)
    assert caught.value.status is Status.UNEXPECTED


@pytest.mark.parametrize("text", ["SELECT host || host FROM cpu", "SELECT a.host FROM cpu a JOIN cpu b ON a.ts = b.ts"])
def test_a_deadline_that_passes_before_the_first_scan_is_one(
    made: World, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def expire(life: QueryLife) -> None:
        raise life.expired()

    monkeypatch.setattr(QueryLife, "check", expire)
    with pytest.raises(DeadlineExceeded):
        made.rows(text)


@pytest.mark.parametrize("text", ["partition not used yet", "inner future panicked during poll"])
def test_a_join_that_panics_because_it_has_no_memory_says_so(text: str) -> None:
    class PanicException(BaseException):
        pass

    assert execution_error(PanicException(text)).status is Status.RUNTIME_RESOURCES_EXHAUSTED
