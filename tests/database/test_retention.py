"""The time to live: rows that are past it are in no answer, on no path, from the moment it is set."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tsdb.clock import ManualClock
from tsdb.components._local import LocalDatabase, LocalOptions, open_directory
from tsdb.database import Affected, Channel, DatabaseOptions, Session, read_all
from tsdb.engine import EngineOptions, WalSettings
from tsdb.ingest.prometheus_read import ReadQuery
from tsdb.query import QueryEngineOptions
from tsdb.units import Size

NOW_S = 1_700_000_000
HOUR_MS = 3_600_000
OLD_S, NEW_S = NOW_S - 7200, NOW_S - 1800
"""Two times: an hour and a half before each other, the newer one half an hour ago."""
ALL, NEWER = 5, 2
"""How many rows there are, and how many at the newer time."""
COUNTS = [
    "SELECT count(*) AS n FROM {t}",
    "SELECT count(v) AS n FROM {t}",
    "SELECT count(*) AS n FROM {t} WHERE v >= 0",
    "SELECT count(*) AS n FROM {t} WHERE host = 'a' OR host > 'a'",
    "SELECT count(*) AS n FROM (SELECT * FROM {t})",
    "SELECT sum(n) AS n FROM (SELECT host, count(v) AS n FROM {t} GROUP BY host)",
    "SELECT sum(n) AS n FROM (SELECT date_bin(INTERVAL '1 hour', ts) AS hour, count(v) AS n FROM {t} GROUP BY hour)",
    "SELECT count(*) AS n FROM {t} AS l JOIN {t} AS r ON l.host = r.host AND l.ts = r.ts",
    "SELECT count(*) AS n FROM (SELECT row_number() OVER (PARTITION BY host ORDER BY ts) FROM {t})",
]
"""Each counts the visible rows of a table, by another way."""
OLDEST = [
    "SELECT min(ts) AS t FROM {t}",
    "SELECT ts AS t FROM {t} ORDER BY ts LIMIT 1",
    "SELECT min(t) AS t FROM (SELECT host, min(ts) AS t FROM {t} GROUP BY host)",
    "SELECT min(t) AS t FROM (SELECT host, first_value(ts ORDER BY ts) AS t FROM {t} GROUP BY host)",
    "SELECT min(ts) AS t FROM (SELECT ts, min(v) RANGE '1h' FROM {t} ALIGN '1s' BY (host))",
]
"""Each finds the oldest time that is visible; the last one the slot of an hour that begins after it."""


class World:
    """A database whose time is told."""

    def __init__(self, root: Path, *, workers: int = 0) -> None:
        self.root = root
        self.clock = ManualClock(NOW_S * 1_000_000_000)
        options = LocalOptions(
            engine=EngineOptions(num_workers=1, max_background_jobs=1),
            wal=WalSettings(ballast_bytes=Size(0)),
            query=QueryEngineOptions(spill_dir=root / "spill", workers=workers),
            database=DatabaseOptions(copy_root=root / "copy"),
            has_housekeeping=False,
        )
        self.local: LocalDatabase = open_directory(root, options=options, clock=self.clock)
        self.session = Session(channel=Channel.HTTP)

    def run(self, text: str) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        for output in self.local.database.execute(text, self.session):
            rows = [] if isinstance(output, Affected) else read_all(output).to_pylist()
        return rows

    def count(self, text: str) -> object:
        ((value,),) = [row.values() for row in self.run(text)]
        return value


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.local.close()


def put(world: World, table: str) -> None:
    world.run(
        f"INSERT INTO {table} (host, ts, v) VALUES ('a', {OLD_S}000, 1), ('b', {OLD_S}000, 2), ('c', {OLD_S}000, 3)"
    )
    world.run(f"INSERT INTO {table} (host, ts, v) VALUES ('a', {NEW_S}000, 1), ('b', {NEW_S}000, 2)")


def fill(world: World, table: str, *, is_flushed: bool, options: str = "") -> None:
    """Three old rows and two newer ones."""
    world.run(f"CREATE TABLE {table} (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) {options}")
    put(world, table)
    if is_flushed:
        world.run(f"ADMIN flush_table('{table}')")


def check(world: World, table: str, *, rows: int, oldest_s: int | None) -> None:
    """Compare all ways to read a table with what should be visible."""
    for text in COUNTS:
        assert (world.count(text.format(t=table)) or 0) == rows, text
    for text in OLDEST:
        found = [row["t"] for row in world.run(text.format(t=table))]
        found = [each for each in found if each is not None]
        if oldest_s is None:
            assert not found, text
        else:
            (moment,) = found
            assert isinstance(moment, datetime)
            late_s = moment.replace(tzinfo=UTC).timestamp() - oldest_s
            assert 0 <= late_s <= 0 or ("RANGE" in text and -3600 < late_s <= 0), (text, moment)
    assert len(world.run(f"SELECT * FROM {table}")) == rows
    hosts = {ALL: 3, NEWER: 2, 0: 0}[rows]
    assert len(world.run(f"SELECT DISTINCT host FROM {table}")) == hosts
    assert world.count(f"SELECT count(DISTINCT host) AS n FROM {table}") == hosts
    check_exports(world, table, rows)


def check_exports(world: World, table: str, rows: int) -> None:
    world.run(f"COPY {table} TO '{table}.parquet' WITH (FORMAT = 'parquet')")
    file = world.root / "copy" / f"{table}.parquet"
    assert pq.read_table(file).num_rows == rows
    file.unlink()
    query = ReadQuery(table, 0, NOW_S * 1000, ())
    (found,) = world.local.database.read_remote([query], world.session)
    assert bool(found) == bool(rows)
    found_rows = world.run(f"TQL EVAL ({OLD_S}, {NOW_S}, '1m') count_over_time({table}[1m])")
    assert len(found_rows) == rows


TREE = "WITH ('memtable.type' = 'partition_tree')"


@pytest.mark.parametrize(
    ("workers", "is_flushed", "options"),
    [(0, True, ""), (0, False, ""), (0, False, TREE), (1, False, "")],
    ids=["files", "memory", "compressed", "workers"],
)
def test_a_time_to_live_hides_rows_at_once_on_every_path_and_unset_brings_them_back(
    tmp_path: Path, workers: int, is_flushed: bool, options: str
) -> None:
    world = World(tmp_path, workers=workers)
    fill(world, "t", is_flushed=is_flushed, options=options)
    check(world, "t", rows=ALL, oldest_s=OLD_S)
    world.run("ALTER TABLE t SET 'ttl' = '1h'")
    check(world, "t", rows=NEWER, oldest_s=NEW_S)
    world.clock.advance(seconds=1801)
    check(world, "t", rows=0, oldest_s=None)
    world.run("ALTER TABLE t UNSET 'ttl'")
    check(world, "t", rows=ALL, oldest_s=OLD_S)
    world.local.close()


def rows_of(world: World, table: str) -> object:
    return world.count(f"SELECT count(*) AS n FROM {table}")


def test_tables_without_their_own_follow_the_database(world: World) -> None:
    world.run("CREATE DATABASE d")
    world.session.database = "d"
    fill(world, "follows", is_flushed=True)
    fill(world, "own", is_flushed=True, options="WITH (ttl = '3h')")
    fill(world, "forever", is_flushed=False, options="WITH (ttl = 'forever')")
    world.run("ALTER DATABASE d SET 'ttl' = '1h'")
    check(world, "follows", rows=NEWER, oldest_s=NEW_S)
    check(world, "own", rows=ALL, oldest_s=OLD_S)
    check(world, "forever", rows=ALL, oldest_s=OLD_S)
    world.run("ALTER TABLE own UNSET 'ttl'")
    assert rows_of(world, "own") == NEWER, "what it follows now"
    world.run("ALTER DATABASE d UNSET 'ttl'")
    for table in ("follows", "own", "forever"):
        check(world, table, rows=ALL, oldest_s=OLD_S)


def test_metric_tables_follow_their_physical_table(world: World) -> None:
    world.run("CREATE TABLE phy (ts TIMESTAMP TIME INDEX, v DOUBLE) ENGINE=metric WITH (physical_metric_table = '')")
    world.run(
        "CREATE TABLE up (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) "
        "ENGINE=metric WITH (on_physical_table = 'phy')"
    )
    put(world, "up")
    check(world, "up", rows=ALL, oldest_s=OLD_S)
    world.run("ADMIN flush_table('phy')")
    world.run("ALTER TABLE phy SET 'ttl' = '1h'")
    check(world, "up", rows=NEWER, oldest_s=NEW_S)
    assert rows_of(world, "phy") == NEWER
    world.run("ALTER TABLE phy UNSET 'ttl'")
    check(world, "up", rows=ALL, oldest_s=OLD_S)


@pytest.mark.parametrize(
    ("ttl", "rows"), [("instant", 0), ("1h", NEWER), ("0s", ALL), ("forever", ALL), ("", ALL), ("290years", ALL)]
)
def test_what_values_of_a_time_to_live_mean(world: World, ttl: str, rows: int) -> None:
    fill(world, "t", is_flushed=False)
    world.run(f"ALTER TABLE t SET 'ttl' = '{ttl}'")
    assert rows_of(world, "t") == rows
    world.run("ADMIN flush_table('t')")
    assert rows_of(world, "t") == rows


def test_a_partitioned_table_hides_rows_in_all_regions(world: World) -> None:
    world.run(
        "CREATE TABLE t (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host)) "
        "PARTITION ON COLUMNS (host) (host < 'b', host >= 'b')"
    )
    put(world, "t")
    world.run("ALTER TABLE t SET 'ttl' = '1h'")
    check(world, "t", rows=NEWER, oldest_s=NEW_S)
