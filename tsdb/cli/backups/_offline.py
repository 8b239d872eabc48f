"""`tsdb backup list | verify | prune` and `tsdb restore`: commands that work on a destination themselves."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tsdb.backup import (
    BackupProgress,
    BackupSummary,
    Repository,
    RestoreTarget,
    prune_backups,
    restore_backup,
    verify_backup,
)
from tsdb.cli.backups._view import Counts, format_bytes, watching
from tsdb.components.storages import StoringConfig, backup_places, cluster_target, restore_target
from tsdb.config import DatanodeConfig
from tsdb.errors import TsdbError
from tsdb.kv.etcd import EtcdKv, EtcdSettings, parse_endpoints
from tsdb.store import DirectoryLock

_HEADINGS = ("NAME", "TIME (UTC)", "VERSION", "TABLES", "ROWS", "FILES", "SIZE", "COPIED")


def run_list(config: StoringConfig, place: str) -> int:
    """Print the backups of a destination, the oldest first."""
    return _run(partial(_list, config, place))


def run_verify(config: StoringConfig, place: str, name: str | None, *, is_quiet: bool) -> int:
    """Read everything that one backup, or all of them, needs; 1 if something is damaged."""
    return _run(partial(_verify, config, place, name, is_quiet=is_quiet))


def run_prune(config: StoringConfig, place: str, *, keep: int) -> int:
    """Delete all but the newest backups."""
    return _run(partial(_prune, config, place, keep=keep))


@dataclass(frozen=True, slots=True)
class OfflineCluster:
    """A cluster that is not running."""

    store_addrs: str
    """Where its etcd is."""
    datanodes: tuple[int, ...]


def run_restore(
    config: StoringConfig,
    place: str,
    name: str,
    *,
    tables: tuple[str, ...] = (),
    cluster: OfflineCluster | None = None,
    is_quiet: bool,
) -> int:
    """Restore a backup, or some of its tables, to where a server of this configuration has its data, or a cluster."""
    return _run(partial(_restore, config, place, name, tables=tables, cluster=cluster, is_quiet=is_quiet))


def _run(command: Callable[[], int]) -> int:
    try:
        return command()
    except TsdbError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"ERROR: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


def _list(config: StoringConfig, place: str) -> int:
    summaries = backup_places(config).open(place, creates=False).summaries()
    rows = [_HEADINGS, *map(_row, summaries)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEADINGS))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _row(summary: BackupSummary) -> tuple[str, ...]:
    moment = datetime.fromtimestamp(summary.started_ms / 1000, UTC)
    return (
        summary.name,
        f"{moment:%Y-%m-%d %H:%M:%S}",
        summary.version,
        str(summary.tables),
        f"{summary.rows:,}",
        str(summary.files),
        format_bytes(summary.size_bytes),
        format_bytes(summary.copied_bytes),
    )


def _verify(config: StoringConfig, place: str, name: str | None, *, is_quiet: bool) -> int:
    repository = backup_places(config).open(place, creates=False)
    summaries = [repository.find(name)] if name is not None else repository.summaries()
    progress = BackupProgress()
    with _watched("verify", progress, is_quiet=is_quiet):
        found = verify_backup(repository, summaries, progress)
    for path, reason in found.damaged:
        print(f"damaged: {path}: {reason}", file=sys.stderr)
    verdict = "damaged" if found.damaged else "ok"
    print(f"{verdict}: {found.backups} backups, {found.files} files, {format_bytes(found.size_bytes)}")
    return 1 if found.damaged else 0


def _prune(config: StoringConfig, place: str, *, keep: int) -> int:
    found = prune_backups(backup_places(config).open(place, creates=False), keep=keep)
    for name in found.deleted:
        print(f"deleted: {name}")
    print(f"{len(found.kept)} backups are kept; {found.files} files ({format_bytes(found.size_bytes)}) deleted")
    return 0


def _restore(
    config: StoringConfig,
    place: str,
    name: str,
    *,
    tables: tuple[str, ...],
    cluster: OfflineCluster | None,
    is_quiet: bool,
) -> int:
    repository: Repository = backup_places(config).open(place, creates=False)
    summary = repository.find(name)
    progress = BackupProgress()
    with _target(config, cluster) as target, _watched("restore", progress, is_quiet=is_quiet):
        restore_backup(repository, summary, target, progress, tables=tables)
    print(f"{target.place}: {summary.name}")
    if not is_quiet:
        print(f"{progress.files_total} files ({format_bytes(progress.bytes_total)})", file=sys.stderr)
    for each in summary.damaged:
        print(f"damaged, not or not whole in the backup: {each}", file=sys.stderr)
    return 0


@contextmanager
def _target(config: StoringConfig, cluster: OfflineCluster | None) -> Iterator[RestoreTarget]:
    """Yield where the data goes; nobody else has it meanwhile."""
    if cluster is None:
        with DirectoryLock(Path(config.storage.data_home), key="storage.data_home"):
            yield restore_target(config)
        return
    assert isinstance(config, DatanodeConfig)
    metadata = EtcdKv(EtcdSettings(parse_endpoints(cluster.store_addrs)))
    try:
        yield cluster_target(config, metadata, cluster.datanodes)
    finally:
        metadata.close()


def _watched(title: str, progress: BackupProgress, *, is_quiet: bool) -> AbstractContextManager[None]:
    def look() -> Counts:
        return progress.phase, progress.bytes_done, progress.bytes_total

    return watching(title, look, is_quiet=is_quiet)
