"""A database on this machine: metadata, regions and queries over one directory, opened and closed together.

    kv ─▶ engine (every region the metadata names) ─▶ catalog (finishes what a crash interrupted) ─▶ queries ─▶ database

The standalone server and the embedded database both use it. The caller holds the lock of the directory.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tsdb.auth import Authenticator
from tsdb.backup import BackupService, DestinationPlaces, LocalSource, check_restored
from tsdb.catalog import Catalog, check_metadata, known_regions, region_names
from tsdb.clock import Clock, SystemClock
from tsdb.components._assembly import AssemblyOptions, assemble
from tsdb.components._build_info import build_info
from tsdb.database import Database, DatabaseOptions, OpenScratch
from tsdb.engine import (
    Engine,
    EngineOptions,
    LogStore,
    SharedSettings,
    Wal,
    WalSettings,
    check_not_shared,
    open_shared_log,
)
from tsdb.errors import InvalidArguments, TsdbError
from tsdb.kv import METADATA_FILE, KvStore, MemoryKv, ObservedKv, SqliteKv
from tsdb.memory import MemoryOwner, MemoryReport
from tsdb.processes.resident import resident_bytes
from tsdb.query import QueryEngineOptions
from tsdb.store import LocalStore, ObjectStore, OverlayStore, Purpose, RoutedStore, file_cache_of, requests_for

COPY_DIRECTORY = "copy"
SPILL_DIRECTORY = "spill"
SCRATCH_DIRECTORY = "restoring"
"""Where `ADMIN restore_table` puts the files of a table for its time."""


@dataclass(frozen=True, slots=True)
class SharedLogOptions:
    """Where the log is shared, and how."""

    store: ObjectStore
    place: str
    settings: SharedSettings


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """The settings of the parts of a local database."""

    engine: EngineOptions = field(default_factory=EngineOptions)
    wal: WalSettings = field(default_factory=WalSettings)
    shared_log: SharedLogOptions | None = None
    """Ship the log to an object store."""
    query: QueryEngineOptions = field(default_factory=QueryEngineOptions)
    database: DatabaseOptions = field(default_factory=DatabaseOptions)
    authenticator: Authenticator = field(default_factory=Authenticator)
    """Who may log in; without users, no login is needed and everything is permitted."""
    backups: DestinationPlaces | None = None
    """Where backups may be made; None for a database without them."""
    scratch: OpenScratch | None = None
    """Where tables of a backup are opened that are restored."""
    has_housekeeping: bool = True
    on_memory: Callable[[MemoryOwner], None] = lambda owner: None
    """Gets the owner of the engine's memory before the log is replayed."""
    memory_report: Callable[[], MemoryReport] | None = None
    """What the server holds; without it, what the parts of the database know of themselves is shown."""
    address: str = "127.0.0.1"
    """How this node is named in the process list and in information_schema."""


class LocalDatabase:
    """An open database and the parts it is made of."""

    def __init__(self, database: Database, engine: Engine, kv: KvStore) -> None:
        self.database = database
        self.engine = engine
        self.flushes_at_close = True
        self._kv = kv

    @property
    def memory_owners(self) -> list[MemoryOwner]:
        return [self.engine.memory, self.database.services.queries, self.database.promql]

    def close(self) -> None:
        """Stop queries, flush, and stop all threads; what is not flushed in time is left to the log."""
        if self.database.services.backups is not None:
            self.database.services.backups.close()
        self.database.slow_queries.close()
        self.database.services.queries.close()
        self.engine.close(flush=self.flushes_at_close)
        self._kv.close()
        file_cache = file_cache_of(self.engine.context.store)
        if file_cache is not None:
            file_cache.close()


def open_local(
    store: ObjectStore,
    kv: KvStore,
    wal_directory: Path,
    *,
    options: LocalOptions | None = None,
    clock: Clock | None = None,
    on_fatal: Callable[[TsdbError], None] | None = None,
) -> LocalDatabase:
    """Open a database over its parts; on failure nothing stays open but the kv store."""
    options, clock = options or LocalOptions(), clock or SystemClock()
    if not isinstance(store, RoutedStore):
        # A table in a storage that is not known here must not be looked for in the default one.
        store = RoutedStore(store, {})
    with requests_for(Purpose.START):
        regions = known_regions(kv, store)
        check_metadata(regions, store)
    with ExitStack() as undo:
        engine = Engine.open(
            store,
            open_log(wal_directory, options, clock),
            options=options.engine,
            regions=regions,
            clock=clock,
            on_fatal=on_fatal,
            has_housekeeping=options.has_housekeeping,
            names=region_names(kv).get,
            on_memory=options.on_memory,
        )
        undo.callback(engine.close, flush=False)
        journal = engine.journal(kv.scan(""))
        if journal is not None:
            kv = ObservedKv(kv, journal.write_metadata)
        catalog = Catalog(kv, engine, clock)
        engine.name_regions(catalog.name_of_region)
        backups = None
        if options.backups is not None:
            source, version = LocalSource(catalog, engine), build_info().version
            backups = BackupService(source, options.backups, version=version, clock=clock)
        database = assemble(
            catalog,
            engine,
            kv,
            AssemblyOptions(
                options.query,
                options.database,
                options.authenticator,
                memory_report=options.memory_report or partial(_own_memory, engine),
                caches=engine.cache_statistics,
                address=options.address,
                backups=backups,
                scratch=options.scratch,
            ),
            clock,
        )
        undo.pop_all()
    return LocalDatabase(database, engine, kv)


def open_log(directory: Path, options: LocalOptions, clock: Clock) -> LogStore:
    """Open the log of a directory, or the one that is shared."""
    shared = options.shared_log
    if shared is None:
        check_not_shared(directory)
        return Wal.open(directory, options.wal, clock=clock)[0]
    return open_shared_log(
        shared.store,
        directory,
        shared.settings,
        open_local=lambda: Wal.open(directory, options.wal, clock=clock)[0],
        place=shared.place,
        clock=clock,
    )


def open_directory(
    directory: Path,
    *,
    store: ObjectStore | None = None,
    options: LocalOptions | None = None,
    wal_directory: Path | None = None,
    clock: Clock | None = None,
    on_fatal: Callable[[TsdbError], None] | None = None,
) -> LocalDatabase:
    """Open the database of a directory whose lock the caller holds; its data files are there too, or in `store`."""
    check_restored(directory)
    kv = SqliteKv(directory / METADATA_FILE)
    try:
        return open_local(
            store or LocalStore(directory),
            kv,
            wal_directory or directory / "wal",
            options=options,
            clock=clock,
            on_fatal=on_fatal,
        )
    except BaseException:
        kv.close()
        raise


def open_read_only(directory: Path, scratch: Path, *, options: LocalOptions) -> LocalDatabase:
    """Open the database of a directory without changing it; the caller holds a shared lock of the directory.

    What the engine changes when it opens (the end of a torn log, leftovers of a crash, a flush while it replays) is
    changed in `scratch`: the log and the metadata are copied there, and new objects are written there.
    """
    check_restored(directory)
    if not (directory / METADATA_FILE).is_file():
        raise InvalidArguments(f"there is no database in {directory}", hint="open it without read_only to create one")
    for file in directory.glob(f"{METADATA_FILE}*"):
        shutil.copy2(file, scratch / file.name)
    if (directory / "wal").is_dir():
        shutil.copytree(directory / "wal", scratch / "wal", ignore=shutil.ignore_patterns("*ballast*"))
    store = OverlayStore(LocalStore(directory), LocalStore(scratch / "objects"))
    kv = SqliteKv(scratch / METADATA_FILE)
    try:
        local = open_local(store, kv, scratch / "wal", options=replace(options, has_housekeeping=False))
    except BaseException:
        kv.close()
        raise
    local.flushes_at_close = False
    return local


def open_memory(store: ObjectStore, wal_directory: Path, *, options: LocalOptions | None = None) -> LocalDatabase:
    """Open a database whose tables are forgotten at the end; its log still needs a directory."""
    local = open_local(store, MemoryKv(), wal_directory, options=options)
    local.flushes_at_close = False
    return local


def _own_memory(engine: Engine) -> MemoryReport:
    """What the engine knows of itself, where no server keeps the books."""
    return MemoryReport(list(engine.memory.memory_use()), resident_bytes())
