"""A database whose shared log is kept, and what it is restored to at points in time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.backup.world import repository_at, target_at
from tests.engine.lives import wait_until
from tsdb.auth import Authenticator
from tsdb.backup import DestinationPlaces, choose_backup, plan_point, restore_backup
from tsdb.clock import Clock
from tsdb.components import LocalDatabase, LocalOptions, ScratchDatabases, open_directory
from tsdb.components._local import SharedLogOptions
from tsdb.database import Affected, Channel, DatabaseOptions, Session, read_all
from tsdb.engine import Acknowledge, EngineOptions, PastLogs, SharedSettings, WalSettings
from tsdb.engine.log.shared import SharedLog
from tsdb.engine.log.shared.shipper import Shipper
from tsdb.query import QueryEngineOptions
from tsdb.store import DirectoryLock, MemoryStore, ObjectStore
from tsdb.units import Duration, Size

BEGIN_NS = 1_700_000_000_000_000_000
STEP_NS = 1_000_000
FAST = SharedSettings(
    interval=Duration.of_seconds(0.001),
    retry_min=Duration.of_seconds(0.001),
    retention=Duration.of_seconds(86_400),
)


class TickingClock:
    """Each look at the time of day is a millisecond later than the last."""

    def __init__(self) -> None:
        self._now_ns = BEGIN_NS
        self._monotonic_ns = 0
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        with self._lock:
            self._now_ns += STEP_NS
            return self._now_ns

    def monotonic_ns(self) -> int:
        with self._lock:
            self._monotonic_ns += STEP_NS
            return self._monotonic_ns

    def advance(self, *, seconds: float) -> None:
        with self._lock:
            self._now_ns += round(seconds * 1e9)

    def go_back(self, *, seconds: float) -> None:
        self.advance(seconds=-seconds)


def open_quietly(
    home: Path, clock: Clock, log: ObjectStore | None = None, settings: SharedSettings = FAST
) -> LocalDatabase:
    """Open a database that does nothing by itself; with `log`, its log is shared."""
    home.mkdir(parents=True, exist_ok=True)
    shared = None if log is None else SharedLogOptions(log, "the log", settings)
    options = LocalOptions(
        engine=EngineOptions(num_workers=1, max_background_jobs=1),
        wal=WalSettings(ballast_bytes=Size(0)),
        shared_log=shared,
        query=QueryEngineOptions(spill_dir=home / "spill", workers=0),
        database=DatabaseOptions(copy_root=home / "copy"),
        authenticator=Authenticator(),
        backups=DestinationPlaces(home, [], allows_directories=True),
        scratch=ScratchDatabases(home / "restoring").open,
        has_housekeeping=False,
    )
    return open_directory(home, options=options, clock=clock)


class PointWorld:
    """A database that is started again and again over one log."""

    def __init__(self, root: Path, *, settings: SharedSettings = FAST, log: ObjectStore | None = None) -> None:
        self.root = root
        self.clock = TickingClock()
        self.log = MemoryStore() if log is None else log
        self.settings = settings
        self.session = Session(channel=Channel.HTTP)
        self.local: LocalDatabase | None = None
        self._restored = 0
        self.start()

    def start(self) -> None:
        self.local = open_quietly(self.root / "home", self.clock, self.log, self.settings)

    def stop(self, *, crash: bool = False) -> None:
        local, self.local = self.local, None
        if local is not None:
            local.flushes_at_close = not crash
            local.close()

    def run(self, text: str) -> list[tuple[object, ...]]:
        assert self.local is not None
        return run(self.local, text, self.session)

    def purge(self) -> None:
        assert self.local is not None
        self.local.engine.context.wal.purge()

    @property
    def shipper(self) -> Shipper:
        assert self.local is not None
        log = self.local.engine.context.wal
        assert isinstance(log, SharedLog)
        return log.shipper

    def wait_until_shipped(self) -> None:
        shipper = self.shipper
        wait_until(lambda: not shipper.unshipped_entries, seconds=60)

    def back_up(self) -> str:
        [(answer,)] = self.run(f"ADMIN backup('{self.root / 'backups'}')")
        assert answer
        # Nothing that is done from here on can be in it.
        self.clock.advance(seconds=0.01)
        return repository_at(self.root / "backups").find().name

    def now(self) -> int:
        """A moment between what was done before and what comes."""
        return self.clock.now_ns()

    def past_logs(self, place: str) -> PastLogs:
        return PastLogs(self.log)

    def restore(self, to_ns: int, name: str = "latest", tables: Sequence[str] = ()) -> LocalDatabase:
        """Restore to a point in time, and open what there is then."""
        self._restored += 1
        home = self.root / f"restored-{self._restored}"
        repository = repository_at(self.root / "backups")
        summary = choose_backup(repository, to_ns, name)
        point = plan_point(repository, summary, to_ns, self.past_logs, now_ns=self.clock.now_ns(), tables=tables)
        with DirectoryLock(home, key="the path"):
            restore_backup(repository, summary, target_at(home), tables=tables, point=point)
        return open_quietly(home, self.clock)


def run(local: LocalDatabase, text: str, session: Session | None = None) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for output in local.database.execute(text, session or Session(channel=Channel.HTTP)):
        rows = [] if isinstance(output, Affected) else [tuple(row.values()) for row in read_all(output).to_pylist()]
    return rows


LOCALLY = replace(FAST, acknowledge=Acknowledge.LOCAL)

Tables = dict[str, tuple[tuple[str, ...], dict[tuple[str, int], float]]]
"""The columns and rows of each table."""


class Model:
    """Does things at random to a database, and knows what is in it."""

    def __init__(self, world: PointWorld, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.tables: Tables = {}
        self.created = 0

    def copy(self) -> Tables:
        return {name: (columns, dict(rows)) for name, (columns, rows) in self.tables.items()}

    def step(self) -> None:
        if not self.tables:
            self.create()
            return
        table = self.random.choice(sorted(self.tables))
        steps: dict[Callable[[str], None], int] = {
            self.insert: 40,
            self.delete: 10,
            self.flush: 12,
            self.alter: 6,
            self.drop_column: 4,
            self.truncate: 4,
            self.rename: 4,
            self.drop: 2,
            self.create: 4,
            self.restart: 4,
        }
        [step] = self.random.choices(list(steps), weights=list(steps.values()))
        step(table)

    def create(self, _: str = "") -> None:
        self.created += 1
        name = f"t{self.created}"
        self.world.run(f"CREATE TABLE {name} (host STRING, ts TIMESTAMP TIME INDEX, v DOUBLE, PRIMARY KEY (host))")
        self.tables[name] = (("host", "ts", "v"), {})

    def insert(self, table: str) -> None:
        rows = {
            (self.random.choice("abc"), self.random.randrange(8)): float(self.random.randrange(100)) for _ in range(3)
        }
        values = ", ".join(f"('{host}', {ts}, {v})" for (host, ts), v in rows.items())
        self.world.run(f"INSERT INTO {table} (host, ts, v) VALUES {values}")
        self.tables[table][1].update(rows)

    def delete(self, table: str) -> None:
        host, ts = self.random.choice("abc"), self.random.randrange(8)
        self.world.run(f"DELETE FROM {table} WHERE host = '{host}' AND ts = {ts}")
        self.tables[table][1].pop((host, ts), None)

    def flush(self, table: str) -> None:
        self.world.run(f"ADMIN flush_table('{table}')")
        self.world.purge()

    def alter(self, table: str) -> None:
        columns, rows = self.tables[table]
        self.created += 1
        name = f"c{self.created}"
        self.world.run(f"ALTER TABLE {table} ADD COLUMN {name} DOUBLE")
        self.tables[table] = ((*columns, name), rows)

    def drop_column(self, table: str) -> None:
        columns, rows = self.tables[table]
        if len(columns) > 3:
            self.world.run(f"ALTER TABLE {table} DROP COLUMN {columns[-1]}")
            self.tables[table] = (columns[:-1], rows)

    def rename(self, table: str) -> None:
        self.created += 1
        self.world.run(f"ALTER TABLE {table} RENAME t{self.created}")
        self.tables[f"t{self.created}"] = self.tables.pop(table)

    def truncate(self, table: str) -> None:
        self.world.run(f"TRUNCATE TABLE {table}")
        self.tables[table][1].clear()

    def drop(self, table: str) -> None:
        self.world.run(f"DROP TABLE {table}")
        del self.tables[table]

    def restart(self, _: str) -> None:
        self.world.stop(crash=self.random.random() < 0.5)
        self.world.start()


def tables_of(local: LocalDatabase) -> Tables:
    """Read everything back."""
    found: Tables = {}
    for (name,) in run(local, "SHOW TABLES"):
        if name == "numbers":
            continue
        columns = tuple(str(row[0]) for row in run(local, f"DESC TABLE {name}"))
        rows = run(local, f"SELECT host, CAST(ts AS BIGINT), v FROM {name}")
        found[str(name)] = (columns, {(str(host), int(str(ts))): float(str(v)) for host, ts, v in rows})
    return found
