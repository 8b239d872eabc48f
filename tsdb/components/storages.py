"""The storages of a configuration for commands that run without a server: where backups are, where they are restored.

A storage is opened when it is used: looking at a backup in a directory asks no bucket.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tsdb.backup import DestinationPlaces, LogPosition, RestoreTarget, StoragePlace
from tsdb.components._stores import configured_storages, open_store, open_stores, place_of
from tsdb.config import StandaloneConfig
from tsdb.engine import PastLog
from tsdb.errors import InvalidArguments
from tsdb.kv import METADATA_FILE
from tsdb.store import LocalStore, ObjectStore


def backup_places(config: StandaloneConfig) -> DestinationPlaces:
    """Return where backups may be: any directory, and the storages of the configuration."""
    storages = [
        StoragePlace(name, place_of(name, section), partial(open_store, name, section))
        for name, section in configured_storages(config.storage).items()
    ]
    return DestinationPlaces(Path(config.storage.data_home), storages, allows_directories=True)


def restore_target(config: StandaloneConfig) -> RestoreTarget:
    """Return where a server of this configuration has its data; the caller holds the lock of the data directory."""
    home = Path(config.storage.data_home)
    stores = open_stores(config.storage)
    shared = config.wal.shared
    return RestoreTarget(
        home=home,
        metadata=home / METADATA_FILE,
        store=stores.routed,
        wal_directory=Path(config.wal.dir) if config.wal.dir else home / "wal",
        shared_log=stores.find(shared.storage)[0] if shared.enable is True else None,
    )


def past_log(config: StandaloneConfig, position: LogPosition, place: str | None = None) -> PastLog:
    """Open the shared log of the server that made a backup, to be read; `place` says where it is now, if elsewhere.

    InvalidArguments if it is in no directory and in no storage of the configuration.
    """
    return PastLog(_store_at(config, place or position.place), position.node)


def _store_at(config: StandaloneConfig, place: str) -> ObjectStore:
    storages = configured_storages(config.storage)
    for name, section in storages.items():
        if place.rstrip(":") == name or place.rstrip("/") == place_of(name, section).rstrip("/"):
            return open_store(name, section)
    if "://" not in place and Path(place).is_dir():
        return LocalStore(Path(place).absolute())
    raise InvalidArguments(
        f"the shared log is in {place}, which is no directory here and no storage of the configuration",
        hint="name the configuration file of the server with -c, or where the log is with --log-from",
    )
