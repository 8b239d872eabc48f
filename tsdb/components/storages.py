"""The storages of a configuration for commands that run without a server: where backups are, where they are restored.

A storage is opened when it is used: looking at a backup in a directory asks no bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tsdb.backup import DestinationPlaces, RestoreRefused, RestoreTarget, StoragePlace
from tsdb.backup.cluster import ClusterMetadata
from tsdb.components._stores import configured_storages, open_store, open_stores, place_of
from tsdb.config import DatanodeConfig, FileStorage, StandaloneConfig
from tsdb.engine import PastLogs
from tsdb.errors import InvalidArguments
from tsdb.kv import METADATA_FILE, CoordinationStore
from tsdb.meta.election import LEADER
from tsdb.store import LocalStore, ObjectStore

StoringConfig: TypeAlias = StandaloneConfig | DatanodeConfig
"""The configuration of a process that has data files."""


def backup_places(config: StoringConfig) -> DestinationPlaces:
    """Return where backups may be: any directory, and the storages of the configuration."""
    storages = [
        StoragePlace(name, place_of(name, section), partial(open_store, name, section))
        for name, section in configured_storages(config.storage).items()
    ]
    return DestinationPlaces(Path(config.storage.data_home), storages, allows_directories=True)


def restore_target(config: StoringConfig) -> RestoreTarget:
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


def past_logs(config: StoringConfig, place: str, *, elsewhere: str | None = None) -> PastLogs:
    """Open the shared logs that a backup goes on with, to be read; `elsewhere` says where they are now, if not there.

    InvalidArguments if that is no directory and no storage of the configuration.
    """
    return PastLogs(_store_at(config, elsewhere or place))


def _store_at(config: StoringConfig, place: str) -> ObjectStore:
    storages = configured_storages(config.storage)
    for name, section in storages.items():
        if place.rstrip(":") == name or place.rstrip("/") == place_of(name, section).rstrip("/"):
            return open_store(name, section)
    if "://" not in place and Path(place).is_dir():
        return LocalStore(Path(place).absolute())
    raise InvalidArguments(
        f"the shared log is in {place}, which is neither a local directory nor a configured storage",
        hint="name the configuration file of the server with -c, or where the log is with --log-from",
    )


def cluster_target(config: DatanodeConfig, metadata: CoordinationStore, nodes: Sequence[int]) -> RestoreTarget:
    """Return where a cluster has its data, whose datanodes have this configuration and `nodes` as their ids."""
    if isinstance(config.storage, FileStorage):
        raise RestoreRefused(
            "these datanodes store their data in local directories",
            data_home=config.storage.data_home,
            hint="a cluster is restored into a bucket: name the configuration file of a datanode with -c",
        )
    target = restore_target(config)
    return replace(target, cluster=ClusterMetadata(metadata, nodes, leader_key=LEADER))
