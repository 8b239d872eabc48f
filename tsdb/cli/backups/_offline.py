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
    LATEST,
    BackupProgress,
    BackupSummary,
    PointInTime,
    Repository,
    RestoreTarget,
    choose_backup,
    format_time,
    parse_time,
    plan_point,
    prune_backups,
    restore_backup,
    rolls_until,
    verify_backup,
)
from tsdb.cli.backups._view import Counts, format_bytes, watching
from tsdb.clock import SystemClock
from tsdb.components.storages import StoringConfig, backup_places, cluster_target, past_logs, restore_target
from tsdb.config import DatanodeConfig
from tsdb.errors import TsdbError
from tsdb.kv.etcd import EtcdKv, EtcdSettings
from tsdb.store import DirectoryLock

_HEADINGS = ("NAME", "TIME (UTC)", "VERSION", "TABLES", "ROWS", "FILES", "SIZE", "COPIED", "ROLLS FORWARD TO (UTC)")


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

    etcd: Callable[[], EtcdSettings]
    """Returns where its metadata is; InvalidArguments if that cannot work."""
    datanodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OfflineRestore:
    """What the command line says."""

    place: str
    name: str = LATEST
    tables: tuple[str, ...] = ()
    to_time: str | None = None
    """Roll the backup forward to it."""
    log_from: str | None = None
    """Where the shared log is; without it, where the backup says."""
    cluster: OfflineCluster | None = None
    """Restore it, instead of a server."""
    is_quiet: bool = False


def run_restore(config: StoringConfig, options: OfflineRestore) -> int:
    """Restore a backup, or some of its tables, to where a server of this configuration has its data, or a cluster."""
    return _run(partial(_restore, config, options))


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
    rows = [_HEADINGS, *(_row(summary, _rolls_until(config, summary)) for summary in summaries)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEADINGS))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _rolls_until(config: StoringConfig, summary: BackupSummary) -> str:
    """Return up to which time a backup can be rolled forward, if the shared log can be read from here."""
    try:
        until_ms = rolls_until(summary, partial(past_logs, config))
    except TsdbError:
        return "?"
    return "-" if until_ms is None else _seconds(until_ms)


def _seconds(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _row(summary: BackupSummary, rolls_until: str) -> tuple[str, ...]:
    return (
        summary.name,
        _seconds(summary.started_ms),
        summary.version,
        str(summary.tables),
        f"{summary.rows:,}",
        str(summary.files),
        format_bytes(summary.size_bytes),
        format_bytes(summary.copied_bytes),
        rolls_until,
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
    print(f"backups kept: {len(found.kept)}; files deleted: {found.files} ({format_bytes(found.size_bytes)})")
    return 0


def _restore(config: StoringConfig, options: OfflineRestore) -> int:
    repository: Repository = backup_places(config).open(options.place, creates=False)
    summary, point = _plan_restore(config, repository, options)
    progress = BackupProgress()
    with _target(config, options.cluster) as target, _watched("restore", progress, is_quiet=options.is_quiet):
        rolled = restore_backup(repository, summary, target, progress, tables=options.tables, point=point)
    print(f"{target.place}: {summary.name}")
    if not options.is_quiet:
        print(f"{progress.files_total} files ({format_bytes(progress.bytes_total)})", file=sys.stderr)
        if point is not None:
            print(f"{rolled:,} rows of the shared log, up to {format_time(point.to_ns)}", file=sys.stderr)
    for each in summary.damaged:
        print(f"damaged, not or not whole in the backup: {each}", file=sys.stderr)
    return 0


def _plan_restore(
    config: StoringConfig, repository: Repository, options: OfflineRestore
) -> tuple[BackupSummary, PointInTime | None]:
    if options.to_time is None:
        return repository.find(options.name), None
    to_ns = parse_time(options.to_time)
    summary = choose_backup(repository, to_ns, options.name)
    open_logs = partial(past_logs, config, elsewhere=options.log_from)
    now_ns = SystemClock().now_ns()
    return summary, plan_point(repository, summary, to_ns, open_logs, now_ns=now_ns, tables=options.tables)


@contextmanager
def _target(config: StoringConfig, cluster: OfflineCluster | None) -> Iterator[RestoreTarget]:
    """Yield where the data goes; nobody else has it meanwhile."""
    if cluster is None:
        with DirectoryLock(Path(config.storage.data_home), key="storage.data_home"):
            yield restore_target(config)
        return
    assert isinstance(config, DatanodeConfig)
    metadata = EtcdKv(cluster.etcd())
    try:
        yield cluster_target(config, metadata, cluster.datanodes)
    finally:
        metadata.close()


def _watched(title: str, progress: BackupProgress, *, is_quiet: bool) -> AbstractContextManager[None]:
    def look() -> Counts:
        return progress.phase, progress.bytes_done, progress.bytes_total

    return watching(title, look, is_quiet=is_quiet)
