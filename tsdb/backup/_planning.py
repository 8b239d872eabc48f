"""Plans a point-in-time recovery of each region: which files are placed and which entries are replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tsdb.backup._errors import RestoreRefused
from tsdb.backup._format import BackedUpRegion
from tsdb.backup._times import format_time
from tsdb.catalog import known_regions, region_names
from tsdb.engine import (
    EntryGap,
    EntryRun,
    LogHole,
    PastLog,
    PlacedRegion,
    RegionNote,
    ReplayRange,
    define_region,
    find_gap,
    last_entry,
    needed_runs,
    roll_forward,
)
from tsdb.kv import MemoryKv
from tsdb.model import RegionId
from tsdb.store import MemoryStore, ObjectStore, RoutedStore, is_routed
from tsdb.units import Duration

_FLUSH_TIMEOUT = Duration.of_seconds(900)


@dataclass(frozen=True, slots=True)
class PointInTime:
    """What a server or cluster was at a moment, as far as it is not in the backup."""

    to_ns: int
    metadata: MemoryKv
    directories: dict[RegionId, str]
    """The regions of the moment."""
    regions: dict[RegionId, BackedUpRegion]
    """What is placed of each of them before entries are replayed."""
    ranges: dict[RegionId, tuple[ReplayRange, ...]]
    logs: Mapping[int, PastLog]
    """By node."""

    def roll_forward(self, store: ObjectStore) -> int:
        """Replay what the logs have into the regions that are placed; return how many rows that were."""
        directories = {region_id: self.directories[region_id] for region_id in self.ranges}
        if isinstance(store, RoutedStore):
            # An engine cleans up wherever it opens regions: it must not see the storage of the server that runs.
            names = {path[1:].partition("/")[0] for path in directories.values() if is_routed(path)}
            store = RoutedStore(store.default, {name: store.others[name] for name in names})
        try:
            return roll_forward(store, directories, self.logs, self.ranges, timeout=_FLUSH_TIMEOUT)
        except LogHole as hole:
            raise RestoreRefused(
                f"the shared log changed while it was read: {hole}",
                hint="its wal.shared.retention has passed; restore a later backup to another place",
            ) from hole


@dataclass(frozen=True, slots=True)
class KnownPast:
    """What a backup and the logs tell of a moment."""

    to_ns: int
    metadata: MemoryKv
    backup: Mapping[RegionId, BackedUpRegion]
    notes: Mapping[int, RegionNote]
    """The last definition of each region."""
    runs: Mapping[int, list[EntryRun]]
    """The entries of each region that count."""
    marks: list[RegionNote]
    """What happened to regions that cannot be repeated."""
    logs: Mapping[int, PastLog]
    chosen: set[RegionId] | None
    """Without it, all regions."""
    schema_versions: Mapping[RegionId, frozenset[int]] | None = None
    """Which schemas the regions of a cluster may have: definitions and metadata are noted by different clocks."""


def plan_regions(past: KnownPast) -> PointInTime:
    """Decide for each region what is placed and what is replayed; RestoreRefused if that cannot be known exactly."""
    # What is half created or half dropped at the moment is not there: a start undoes or finishes that.
    directories = known_regions(past.metadata, MemoryStore())
    names = region_names(past.metadata)
    wanted = {each: path for each, path in directories.items() if past.chosen is None or each in past.chosen}
    regions: dict[RegionId, BackedUpRegion] = {}
    ranges: dict[RegionId, tuple[ReplayRange, ...]] = {}
    for region_id, directory in wanted.items():
        table = names.get(region_id, f"region {region_id}")
        placed = _define(past, region_id, table)
        _check_repeatable(past, region_id, table)
        _check_schema(past, region_id, placed, table)
        runs = past.runs.get(region_id, [])
        _check_whole(past, runs, placed, table)
        found = past.backup.get(region_id)
        files = found.files if found is not None and placed.keeps_files else ()
        regions[region_id] = BackedUpRegion(region_id, directory, table, placed.manifest, files)
        if last_entry(runs) > placed.floor:
            ranges[region_id] = _ranges(runs, placed.floor)
    return PointInTime(past.to_ns, past.metadata, wanted, regions, ranges, past.logs)


def _ranges(runs: list[EntryRun], floor: int) -> tuple[ReplayRange, ...]:
    return tuple(
        ReplayRange(run.node, run.begin, max(floor, run.first - 1), run.last) for run in needed_runs(runs, floor)
    )


def _define(past: KnownPast, region_id: RegionId, table: str) -> PlacedRegion:
    found = past.backup.get(region_id)
    try:
        placed = define_region(
            None if found is None else found.manifest, past.notes.get(region_id), past.runs.get(region_id, [])
        )
    except LookupError:
        raise RestoreRefused(
            f"table {table} is neither in the backup nor described by the log", region_id=region_id
        ) from None
    if placed.manifest["options"].get("skip_wal"):
        raise RestoreRefused(
            f"table {table} has skip_wal = true: rows written after the backup are not in the log",
            hint="restore the other tables with --table, or this one without --to-time",
        )
    return placed


def _check_repeatable(past: KnownPast, region_id: RegionId, table: str) -> None:
    for mark in past.marks:
        if mark.region_id == region_id:
            raise RestoreRefused(
                f"{mark.what} in table {table} after the backup and before {format_time(past.to_ns)},"
                " which cannot be replayed",
                hint="choose a time before that or a later backup, or restore the other tables with --table",
            )


def _check_schema(past: KnownPast, region_id: RegionId, placed: PlacedRegion, table: str) -> None:
    """Refuse a region that has another schema than its table, because clocks of nodes differ."""
    if past.schema_versions is None:
        return
    allowed, version = past.schema_versions.get(region_id), placed.manifest["schema"]["version"]
    if allowed is not None and version not in allowed:
        raise RestoreRefused(
            f"table {table} was altered close to {format_time(past.to_ns)}, and by the clocks of the datanodes its"
            " definition and its regions do not match at that time",
            hint="choose a time before or after the change, by more than the clocks differ",
        )


def _check_whole(past: KnownPast, runs: list[EntryRun], placed: PlacedRegion, table: str) -> None:
    gap = find_gap(runs, placed.floor, placed.needed)
    if gap is None:
        return
    entries = f"entries {gap.first} to {gap.last} of table {table}"
    if past.schema_versions is not None and gap.after is not None:
        raise _out_of_order(gap, gap.after, entries)
    raise RestoreRefused(
        f"{entries} are neither in the backup nor in the shared log before that time",
        hint="the clock of the server may have been set back, or the table was damaged when the backup was"
        " taken: choose another time or a later backup",
    )


def _out_of_order(gap: EntryGap, after: EntryRun, entries: str) -> RestoreRefused:
    """Say why entries of a cluster do not follow each other."""
    if gap.before is not None and after.first <= gap.before.last:
        return RestoreRefused(
            f"{entries} are in the logs of datanodes {gap.before.node} and {after.node}",
            hint="restore the other tables with --table, or choose a later backup",
        )
    return RestoreRefused(
        f"{entries} are not in the shared logs before that time, although datanode {after.node} wrote later ones at"
        f" {format_time(after.first_ns)} by its clock",
        hint="the clocks of the datanodes differ, or the table was damaged when the backup was taken: choose a time up"
        f" to {format_time(after.first_ns)}, a later one, or a later backup",
    )
