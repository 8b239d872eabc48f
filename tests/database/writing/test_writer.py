"""Writing rows of protocols: tables made and widened on the way, by many at once, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.database.cases import open_case_database, render
from tests.ingest.rows import make_rows
from tsdb.catalog import CatalogOutdated
from tsdb.components._local import LocalDatabase
from tsdb.database import Database, Session, read_all
from tsdb.database.writing.rejections import KEPT_MAX
from tsdb.engine import SchemaOutdated
from tsdb.errors import Status, TsdbError, Unsupported
from tsdb.ingest import IngestRejected, NewTable, Rejection, WriteOutcome
from tsdb.model import Batch, DataType, Kind, RegionId

METRIC = NewTable(time_unit="ms", single_value=True, is_metric=True)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalDatabase]:
    made = open_case_database(tmp_path)
    yield made
    made.close()


@pytest.fixture
def database(local: LocalDatabase) -> Database:
    return local.database


def ask(database: Database, sql: str) -> list[str]:
    """Run a statement and return its rows as case files write them."""
    (output,) = list(database.execute(sql, Session()))
    return render(read_all(output))[1:] if hasattr(output, "schema") else []


def ingest(database: Database, *rows: Any, new_table: NewTable | None = None, **options: Any) -> WriteOutcome:
    return database.ingest(list(rows), Session(), new_table or NewTable(), **options)


def refused(database: Database, *rows: Any, new_table: NewTable | None = None) -> Rejection:
    with pytest.raises(IngestRejected) as caught:
        ingest(database, *rows, new_table=new_table)
    (rejection,) = caught.value.rejections
    return rejection


class RegionsBetween:
    """The regions of a database, with something that happens just before a write."""

    def __init__(self, regions: Any, before: Callable[[RegionId, Batch], None]) -> None:
        self._regions = regions
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._regions, name)

    def write(self, region: RegionId, batch: Batch, **options: Any) -> Future[int]:
        self._before(region, batch)
        written: Future[int] = self._regions.write(region, batch, **options)
        return written


def with_regions(database: Database, before: Callable[[RegionId, Batch], None]) -> Database:
    services = database.services
    return Database(replace(services, regions=RegionsBetween(services.regions, before)))


def together(works: Sequence[Callable[[], object]]) -> list[object]:
    """Do things at the same time."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> object:
        start.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def test_many_who_need_the_same_new_table_and_columns_all_succeed(database: Database) -> None:
    def work(number: int) -> Callable[[], object]:
        zone = {"zone": "z"} if number % 2 else {}
        rows = [{"host": f"h{number}", **zone, "time": number, "v": 1.0, f"f{number % 3}": 1}]
        tags = ("host", *zone)
        return lambda: ingest(database, make_rows("m", rows, tags=tags))

    outcomes = together([work(number) for number in range(12)])
    assert [outcome.rows for outcome in outcomes if isinstance(outcome, WriteOutcome)] == [1] * 12
    assert sum("m" in outcome.created_tables for outcome in outcomes if isinstance(outcome, WriteOutcome)) == 1
    assert ask(database, "SELECT count(*), count(f0), count(f1), count(f2), count(zone) FROM m") == [
        "12 | 4 | 4 | 4 | 6"
    ]


def test_many_who_need_the_same_new_metrics_all_succeed(database: Database) -> None:
    def work(number: int) -> Callable[[], object]:
        tables = [
            make_rows(f"metric{at}", [{"job": f"j{number}", "time": 1, "tsdb_value": 1.0}], tags=("job",), unit="ms")
            for at in range(5)
        ]
        return lambda: ingest(database, *tables, new_table=METRIC)

    together([work(number) for number in range(6)])
    for at in range(5):
        assert ask(database, f"SELECT count(*) FROM metric{at}") == ["6"]


def test_rows_that_come_while_the_table_changes_are_all_there(database: Database) -> None:
    ingest(database, make_rows("m", [{"host": "a", "time": 0, "v": 1.0}]))

    def write(first: int) -> None:
        for at in range(first, first + 40):
            ingest(database, make_rows("m", [{"host": "a", "time": at, "v": 1.0, "w": at}]))

    def change() -> None:
        statements = [f"ADD COLUMN c{number} DOUBLE DEFAULT {number}" for number in range(8)]
        for statement in (*statements, "DROP COLUMN c3"):
            while True:
                with suppress(CatalogOutdated):
                    ask(database, f"ALTER TABLE m {statement}")
                    break

    together([lambda: write(100), lambda: write(200), change])
    assert ask(database, "SELECT count(*), count(w) FROM m") == ["81 | 80"]


def test_a_part_that_a_change_has_overtaken_is_written_again_and_no_other(database: Database) -> None:
    ask(
        database,
        "CREATE TABLE m (host STRING PRIMARY KEY, ts TIMESTAMP(9) TIME INDEX, v DOUBLE) "
        "PARTITION ON COLUMNS (host) (host < 'm', host >= 'm') WITH (append_mode = 'true')",
    )
    seen: list[RegionId] = []

    def overtake(region: RegionId, batch: Batch) -> None:
        seen.append(region)
        if len(seen) == 2:
            raise SchemaOutdated(region_id=region, expected=0, current=1)

    rows = make_rows("m", [{"host": host, "time": 1, "v": 1.0} for host in ("a", "z", "b")])
    assert ingest(with_regions(database, overtake), rows).rows == 3
    assert seen[2:] == [seen[1]]
    assert ask(database, "SELECT host FROM m ORDER BY host") == ["a", "b", "z"]


def test_rows_for_a_table_that_is_dropped_meanwhile_make_a_new_one(database: Database) -> None:
    rows = make_rows("m", [{"host": "a", "time": 1, "v": 1.0}])
    ingest(database, make_rows("m", [{"host": "old", "time": 1, "v": 1.0}]))
    dropped: list[RegionId] = []

    def drop(region: RegionId, batch: Batch) -> None:
        if not dropped:
            dropped.append(region)
            ask(database, "DROP TABLE m")

    outcome = ingest(with_regions(database, drop), rows)
    assert (outcome.rows, outcome.created_tables) == (1, ("m",))
    assert ask(database, "SELECT host FROM m") == ["a"]


def test_a_region_that_fails_is_told_and_the_others_have_their_rows(database: Database) -> None:
    ask(
        database,
        "CREATE TABLE m (host STRING PRIMARY KEY, ts TIMESTAMP(9) TIME INDEX, v DOUBLE) "
        "PARTITION ON COLUMNS (host) (host < 'm', host >= 'm')",
    )

    def fail(region: RegionId, batch: Batch) -> None:
        if batch.series.read_tags().column("host")[0].as_py() == "a":
            raise Unsupported("no")

    rows = make_rows("m", [{"host": host, "time": 1, "v": 1.0} for host in ("a", "z")])
    with pytest.raises(Unsupported):
        ingest(with_regions(database, fail), rows)
    assert ask(database, "SELECT host FROM m") == ["z"]


def test_many_metrics_of_a_request_are_one_batch_of_the_physical_region(database: Database) -> None:
    batches: list[Batch] = []
    tables = [
        make_rows(
            f"metric{at}",
            [{"job": "a", "time": 1, "tsdb_value": float(at)}, {"job": "b", "time": 1, "tsdb_value": 0.5}],
            tags=("job",),
            unit="ms",
        )
        for at in range(50)
    ]
    counted = with_regions(database, lambda region, batch: batches.append(batch))
    outcome = ingest(counted, *tables, new_table=METRIC)
    assert (outcome.rows, len(outcome.created_tables)) == (100, 51)
    assert [(batch.rows, len(batch.series)) for batch in batches] == [(100, 100)]
    assert ask(database, "SELECT * FROM metric7 ORDER BY job") == [
        "a | 1970-01-01T00:00:00.001 | 7.0",
        "b | 1970-01-01T00:00:00.001 | 0.5",
    ]


def test_a_metric_may_come_in_pieces_and_with_new_labels(database: Database) -> None:
    pieces = [
        make_rows("cpu", [{"job": "a", "time": 1, "tsdb_value": 1.0}], tags=("job",), unit="ms"),
        make_rows("cpu", [{"job": "a", "time": 2, "tsdb_value": 2.0}], tags=("job",), unit="ms"),
        make_rows("cpu", [{"job": "a", "rack": "r", "time": 3, "tsdb_value": 3.0}], tags=("job", "rack"), unit="ms"),
    ]
    assert ingest(database, *pieces, new_table=METRIC).rows == 3
    assert ask(database, "SELECT rack, tsdb_value FROM cpu ORDER BY tsdb_value") == [
        "NULL | 1.0",
        "NULL | 2.0",
        "r | 3.0",
    ]


def test_a_table_may_come_in_pieces_too(database: Database) -> None:
    pieces = [make_rows("m", [{"host": "a", "time": at, f"f{at}": 1.0}]) for at in range(3)]
    assert ingest(database, *pieces).rows == 3
    assert ask(database, "SELECT count(f0), count(f1), count(f2) FROM m") == ["1 | 1 | 1"]


def test_the_physical_table_is_chosen_by_a_hint_and_not_written_to_itself(database: Database) -> None:
    rows = make_rows("cpu", [{"job": "a", "time": 1, "tsdb_value": 1.0}], tags=("job",), unit="ms")
    outcome = ingest(database, rows, new_table=METRIC, hints={"physical_table": "mine", "ttl": "1h"})
    assert outcome.created_tables == ("mine", "cpu")
    (options,) = ask(database, "SELECT create_options FROM information_schema.tables WHERE table_name = 'mine'")
    assert "ttl=1h" in options
    told = refused(database, make_rows("mine", [{"job": "a", "time": 1, "tsdb_value": 1.0}], tags=("job",)))
    assert "physical" in told.reason


def test_the_only_field_of_a_table_takes_the_only_value(database: Database) -> None:
    ask(database, "CREATE TABLE own (at TIMESTAMP(0) TIME INDEX, host STRING PRIMARY KEY, reading DOUBLE)")
    rows = make_rows("own", [{"host": "a", "time": 1999, "tsdb_value": 1}], unit="ms")
    assert ingest(database, rows, new_table=METRIC).added_columns == ()
    assert ask(database, "SELECT * FROM own") == ["1970-01-01T00:00:01 | a | 1.0"]
    # Without that rule, and where there are two fields, it is a new column.
    assert ingest(database, rows).added_columns == (("own", "tsdb_value", "Int64"),)


def test_a_field_that_is_no_number_is_no_metric(database: Database) -> None:
    rows = make_rows("cpu", [{"job": "a", "time": 1, "tsdb_value": "x"}], tags=("job",), unit="ms")
    assert refused(database, rows, new_table=METRIC).kind == "type"
    assert ask(database, "SHOW TABLES") == ["numbers"]


def test_json_columns_are_made_and_filled(database: Database) -> None:
    said = {"body": DataType(Kind.JSON)}
    ingest(database, make_rows("m", [{"host": "a", "time": 1, "body": '{"x":1}'}], types=said))
    ingest(database, make_rows("m", [{"host": "b", "time": 1, "body": '{"x": 2}'}]))
    assert ask(database, "SELECT host, json_get_int(body, 'x') FROM m ORDER BY host") == ["a | 1", "b | 2"]
    told = refused(database, make_rows("m", [{"host": "c", "time": 1, "body": "{"}]))
    assert (told.kind, told.value) == ("type", "{")


def test_times_in_fields_are_brought_to_the_unit_of_their_column(database: Database) -> None:
    ask(database, "CREATE TABLE m (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, ended TIMESTAMP(3))")
    rows = [{"host": "a", "time": 1, "ended": 1_999_999}, {"host": "b", "time": 1, "ended": None}]
    ingest(database, make_rows("m", rows, kinds={"ended": pa.timestamp("ns")}))
    assert ask(database, "SELECT ended FROM m ORDER BY host") == ["1970-01-01T00:00:00.001", "NULL"]
    seconds = make_rows("m", [{"host": "a", "time": 1, "ended": 1 << 60}], kinds={"ended": pa.timestamp("s")})
    assert refused(database, seconds).column == "ended"


def test_narrow_types_are_widened_and_wide_ones_refused(database: Database) -> None:
    ask(database, "CREATE TABLE m (host STRING PRIMARY KEY, ts TIMESTAMP TIME INDEX, i BIGINT, f DOUBLE, s SMALLINT)")
    kinds = {"i": pa.uint32(), "f": pa.float32(), "s": pa.int8()}
    ingest(database, make_rows("m", [{"host": "a", "time": 1, "i": 7, "f": 0.5, "s": -1}], kinds=kinds))
    assert ask(database, "SELECT i, f, s FROM m") == ["7 | 0.5 | -1"]
    for name, kind in (("i", pa.uint64()), ("s", pa.int32()), ("i", pa.float64()), ("f", pa.bool_())):
        value = True if name == "f" else 1
        told = refused(database, make_rows("m", [{"host": "a", "time": 1, name: value}], kinds={name: kind}))
        assert (told.kind, told.column) == ("type", name)


def test_a_field_without_any_value_disturbs_nobody(database: Database) -> None:
    ingest(database, make_rows("m", [{"host": "a", "time": 1, "i": 1}]))
    ingest(database, make_rows("m", [{"host": "b", "time": 1, "i": None}], kinds={"i": pa.float64()}))
    ingest(database, make_rows("m", [{"host": "c", "time": 1, "i": None, "n": None}]))
    assert ask(database, "SELECT host, i, n FROM m ORDER BY host") == [
        "a | 1 | NULL",
        "b | NULL | NULL",
        "c | NULL | NULL",
    ]


def test_tags_follow_the_rules_of_their_columns(database: Database) -> None:
    ask(
        database,
        "CREATE TABLE m (host STRING NOT NULL, zone STRING DEFAULT 'here', n BIGINT, ts TIMESTAMP TIME INDEX, "
        "v DOUBLE, PRIMARY KEY (host, zone, n))",
    )
    ingest(database, make_rows("m", [{"host": "a", "time": 1, "v": 1.0}]))
    assert ask(database, "SELECT host, zone, n FROM m") == ["a | here | NULL"]
    told = refused(database, make_rows("m", [{"zone": "z", "time": 1, "v": 1.0}], tags=("zone",)))
    assert (told.kind, told.column) == ("null", "host")
    rows = [{"host": "a", "time": 1, "v": 1.0}, {"host": None, "time": 1, "v": 1.0}]
    told = refused(database, make_rows("m", rows))
    assert (told.kind, told.place, told.rows) == ("null", 2, 1)
    told = refused(database, make_rows("m", [{"host": "a", "n": "7", "time": 1}], tags=("host", "n")))
    assert (told.kind, told.value) == ("type", "7")


def test_a_rejection_counts_its_rows_and_names_the_first(database: Database) -> None:
    ingest(database, make_rows("m", [{"host": "a", "time": 1, "i": 1}]))
    rows = [{"host": "a", "time": at, "i": value} for at, value in enumerate([None, 1.5, None, 2.5])]
    told = refused(database, make_rows("m", rows))
    assert (told.place, told.value, told.rows) == (2, "1.5", 2)
    assert told.reason.startswith("row 2: column i of table m has the type Int64, the request has Float64 (value 1.5);")


def test_times_that_the_table_cannot_hold_are_refused(database: Database) -> None:
    rows = [{"host": "a", "time": 1, "v": 1.0}, {"host": "a", "time": 10**18, "v": 1.0}]
    told = refused(database, make_rows("m", rows, unit="s"))
    assert (told.kind, told.place, told.value) == ("time", 2, str(10**18))
    assert ask(database, "SHOW TABLES") == ["numbers"]


def test_what_only_describes_and_what_is_missing_cannot_be_written_to(database: Database) -> None:
    for name, status in (("information_schema", Status.UNSUPPORTED), ("nowhere", Status.DATABASE_NOT_FOUND)):
        with pytest.raises(TsdbError) as caught:
            ingest(database, make_rows("m", [{"host": "a", "time": 1, "v": 1.0}], database=name))
        assert caught.value.status is status


def test_a_database_chooses_how_its_new_tables_merge(database: Database) -> None:
    ask(database, "CREATE DATABASE d WITH (append_mode = 'true')")
    new_table = NewTable(options={"merge_mode": "last_non_null"})
    rows = make_rows("m", [{"host": "a", "time": 1, "v": 1.0}, {"host": "a", "time": 1, "v": 1.0}], database="d")
    ingest(database, rows, new_table=new_table)
    assert ask(database, "SELECT count(*) FROM d.m") == ["2"]
    hinted = make_rows("n", [{"host": "a", "time": 1, "v": 1.0}, {"host": "a", "time": 1, "v": 1.0}], database="d")
    ingest(database, hinted, new_table=new_table, hints={"merge_mode": "last_row"})
    assert ask(database, "SELECT count(*) FROM d.n") == ["1"]


def test_only_the_last_rejections_are_kept(database: Database) -> None:
    told = [Rejection("m", f"reason {number}", place=number) for number in range(KEPT_MAX + 5)]
    database.reject(told, Session(), protocol="influxdb")
    found = ask(database, "SELECT min(place), count(*) FROM information_schema.ingest_rejections")
    assert found == [f"5 | {KEPT_MAX}"]


def test_a_dry_run_of_metrics_tells_all_that_would_be_made(database: Database) -> None:
    rows = make_rows("cpu", [{"job": "a", "time": 1, "tsdb_value": 1.0}], tags=("job",), unit="ms")
    outcome = ingest(database, rows, new_table=METRIC, dry_run=True)
    assert (outcome.rows, outcome.created_tables) == (1, ("tsdb_physical_table", "cpu"))
    assert ask(database, "SHOW TABLES") == ["numbers"]


def test_a_table_that_shows_a_file_is_read_only(database: Database, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir(exist_ok=True)
    (tmp_path / "copy" / "seen.csv").write_text("host,ts,v\na,2020-01-01T00:00:00,1.5\n")
    ask(
        database,
        "CREATE EXTERNAL TABLE seen (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE) "
        "WITH (location = 'seen.csv', format = 'csv')",
    )
    rows = [make_rows(name, [{"host": "a", "time": 1, "v": 1.0}]) for name in ("fresh", "seen")]
    assert "read-only" in refused(database, *rows).reason
    assert ask(database, "SHOW TABLES LIKE 'fresh'") == []


def test_nothing_is_nothing(database: Database) -> None:
    assert ingest(database) == WriteOutcome(0)
    assert ingest(database, make_rows("m", [])) == WriteOutcome(0)
