"""Reading the state at a point in time from a backup and a shared log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tsdb.backup._errors import RestoreRefused
from tsdb.backup._format import BackedUpRegion, BackupSummary, MetadataPair
from tsdb.backup._repository import Repository
from tsdb.backup._times import NS_PER_MS, format_time
from tsdb.engine import LogHole, LogPlace, PastLog, PastRoll, RegionNote, UnknownTime
from tsdb.kv import OPERATIONS_MAX, MemoryKv, PutKey
from tsdb.model import RegionId


def content_of(
    repository: Repository, summary: BackupSummary
) -> tuple[dict[str, bytes], dict[RegionId, BackedUpRegion]]:
    """Return the metadata and the regions of a backup."""
    pairs: dict[str, bytes] = {}
    regions: dict[RegionId, BackedUpRegion] = {}
    for item in repository.content(summary):
        if isinstance(item, MetadataPair):
            pairs[item.key] = item.value
        else:
            regions[item.region_id] = item
    return pairs, regions


def as_kv(pairs: dict[str, bytes]) -> MemoryKv:
    kv = MemoryKv()
    puts = [PutKey(key, value) for key, value in pairs.items()]
    for start in range(0, len(puts), OPERATIONS_MAX):
        kv.transact([], puts[start : start + OPERATIONS_MAX])
    return kv


def note_of(region: BackedUpRegion) -> RegionNote:
    return RegionNote(region.region_id, region.directory, region.table, "in the backup", region.manifest)


def read_log(roll: PastRoll, log: PastLog, start: LogPlace, summary: BackupSummary, *, captured_ms: int) -> None:
    """Read a log from a place on, as far as it matters; RestoreRefused if that cannot be known exactly."""
    try:
        with exactly_timed(roll):
            roll.read(log, start)
    except LogHole as hole:
        captured_ns = captured_ms * NS_PER_MS
        reached = max(roll.last_ns + 1, captured_ns)
        raise RestoreRefused(
            f"backup {summary.name} cannot be rolled forward to {format_time(roll.before_ns)}: the shared log is not"
            f" complete: {hole}",
            hint=f"with this backup, points from {format_time(captured_ns)} to {format_time(reached)} can be reached;"
            " choose one of these or a later backup, and a longer wal.shared.retention for the future",
        ) from hole


@contextmanager
def exactly_timed(roll: PastRoll) -> Iterator[None]:
    """Refuse what may have happened before the moment or later; RestoreRefused."""
    try:
        yield
    except UnknownTime as unknown:
        of = f"datanode {roll.node}" if roll.is_member else "the server"
        raise RestoreRefused(
            f"{unknown.what} between {format_time(unknown.after_ns)} and {format_time(unknown.before_ns)}, at an"
            f" unknown time: {of} was restarted",
            hint=f"choose a time up to {format_time(unknown.after_ns)}, or from"
            f" {format_time(unknown.before_ns + NS_PER_MS)} on",
        ) from unknown
