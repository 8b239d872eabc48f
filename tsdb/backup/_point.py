"""Planning a restore to a point in time: a backup, and what the shared log holds from then on up to a moment.

    backup ─▶ definitions and metadata of the moment ─▶ for each region: files of the backup, entries to replay

Nothing is written here, and nothing of the log is changed: a server may be writing it. What cannot be restored exactly
as it was is refused (`RestoreRefused`), with the reason and what can be done instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tsdb.backup._errors import BackupNotFound, RestoreRefused
from tsdb.backup._format import BackedUpRegion, BackupSummary, MetadataPair
from tsdb.backup._position import LogPosition
from tsdb.backup._repository import LATEST, Repository
from tsdb.catalog import keep_tables, known_regions, region_names
from tsdb.engine import (
    LogHole,
    LogPlace,
    NodeLog,
    PastLog,
    PastRoll,
    PlacedRegion,
    RegionNote,
    ReplayRange,
    UnknownTime,
    define_region,
    roll_forward,
)
from tsdb.errors import InvalidArguments
from tsdb.kv import OPERATIONS_MAX, MemoryKv, PutKey
from tsdb.model import RegionId
from tsdb.store import MemoryStore, ObjectStore, Purpose, RoutedStore, is_routed, requests_for
from tsdb.units import Duration

_NS_PER_MS = 1_000_000
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d|)")
_FLUSH_TIMEOUT = Duration.of_seconds(900)

OpenLog = Callable[[LogPosition], PastLog]


@dataclass(frozen=True, slots=True)
class PointInTime:
    """What a server was at a moment, as far as it is not in the backup."""

    to_ns: int
    metadata: MemoryKv
    directories: dict[RegionId, str]
    """The regions of the moment."""
    regions: dict[RegionId, BackedUpRegion]
    """What is placed of each of them before entries are replayed."""
    ranges: dict[RegionId, ReplayRange]
    log: PastLog
    start: LogPlace

    def roll_forward(self, store: ObjectStore) -> int:
        """Replay what the log has into the regions that are placed; return how many rows that were."""
        directories = {region_id: self.directories[region_id] for region_id in self.ranges}
        if isinstance(store, RoutedStore):
            # An engine cleans up wherever it opens regions: it must not see the storage of the server that runs.
            names = {path[1:].partition("/")[0] for path in directories.values() if is_routed(path)}
            store = RoutedStore(store.default, {name: store.others[name] for name in names})
        try:
            return roll_forward(store, directories, self.log, self.start, self.ranges, timeout=_FLUSH_TIMEOUT)
        except LogHole as hole:
            raise RestoreRefused(
                f"the shared log changed while it was read: {hole}",
                hint="wal.shared.retention was over for it; restore a later backup into another place",
            ) from hole


def choose_backup(repository: Repository, to_ns: int, name: str = LATEST) -> BackupSummary:
    """Return the newest backup that was taken before a moment, or the one of a name."""
    if name != LATEST:
        summary = repository.summary(name)
        _check_before(summary, to_ns)
        return summary
    summaries = repository.summaries()
    if not summaries:
        raise BackupNotFound("there are no backups", place=repository.place, hint="check the path")
    earlier = [each for each in summaries if _captured_ms(each) * _NS_PER_MS <= to_ns]
    rolling = [each for each in earlier if each.log is not None]
    if rolling:
        return rolling[-1]
    if earlier:
        return earlier[-1]
    first = min(summaries, key=_captured_ms)
    raise RestoreRefused(
        f"all backups were taken after {format_time(to_ns)}",
        first=first.name,
        hint=f"the earliest point that can be reached is {format_time(_captured_ms(first) * _NS_PER_MS)}",
    )


@requests_for(Purpose.BACKUP)
def plan_point(
    repository: Repository,
    summary: BackupSummary,
    to_ns: int,
    open_log: OpenLog,
    *,
    now_ns: int,
    tables: Sequence[str] = (),
    is_shipped: bool = False,
) -> PointInTime:
    """Find out what the server of a backup was at a moment; RestoreRefused if that cannot be known exactly.

    `is_shipped` says that the log has all that was acknowledged by now.
    """
    if to_ns > now_ns:
        raise RestoreRefused(f"{format_time(to_ns)} is in the future", now=format_time(now_ns), hint="choose another")
    _check_before(summary, to_ns)
    position = summary.log
    if position is None:
        raise RestoreRefused(
            f"backup {summary.name} cannot be rolled forward: the server did not keep its shared log then",
            hint="set wal.shared.enable = true and wal.shared.retention, and take another backup; without --to-time"
            " the backup is restored as it is",
        )
    repository.check_content(summary)
    backup = {region.region_id: region for region in repository.regions(summary)}
    log, start = open_log(position), LogPlace(position.term, position.number)
    roll = PastRoll(
        to_ns,
        metadata={item.key: item.value for item in repository.content(summary) if isinstance(item, MetadataPair)},
        regions={region_id: _note_of(region) for region_id, region in backup.items()},
    )
    _read(roll, log, start, summary)
    _check_terms(roll, log, position, to_ns)
    if position.acknowledges_locally and not (roll.is_complete or is_shipped or log.is_ended()):
        reached = format_time(max(roll.last_ns + 1, position.captured_ms * _NS_PER_MS))
        raise RestoreRefused(
            f"the shared log reaches only up to {reached}: later rows may have been acknowledged by the local disk",
            hint=f"choose {reached} or an earlier time",
        )
    metadata = _as_kv(roll.metadata)
    chosen = keep_tables(metadata, tables) if tables else None
    return _Planning(roll, metadata, backup, log, start, chosen).plan()


def plan_own_point(
    node_log: NodeLog | None, repository: Repository, name: str, to_ns: int, *, now_ns: int, tables: Sequence[str]
) -> tuple[BackupSummary, PointInTime]:
    """Find out what this server was at a moment, while it runs; RestoreRefused."""
    summary = choose_backup(repository, to_ns, name)

    def open_log(position: LogPosition) -> PastLog:
        if node_log is None or (node_log.place, node_log.node) != (position.place, position.node):
            raise RestoreRefused(
                f"the log of backup {summary.name} is in {position.place}, and is not the one of this server",
                hint="tsdb restore --to-time reads any log",
            )
        return node_log.read_past()

    plan = plan_point(repository, summary, to_ns, open_log, now_ns=now_ns, tables=tables, is_shipped=True)
    return summary, plan


def rolls_until(summary: BackupSummary, open_log: OpenLog) -> int | None:
    """Return up to which time a backup can be rolled forward, in milliseconds; None if it cannot.

    Found by the names of objects: the last one that can be reached is read.
    """
    if summary.log is None:
        return None
    log, start = open_log(summary.log), LogPlace(summary.log.term, summary.log.number)
    last, hole = log.end(start)
    if last < start:
        return None if hole is not None else summary.log.captured_ms
    return max(log.last_ns(last) // _NS_PER_MS, summary.log.captured_ms)


def parse_time(text: str) -> int:
    """Read a moment with a time zone, in nanoseconds since 1970; InvalidArguments."""
    expected = "expected a date, a time and a time zone, such as 2026-11-18T10:00:00Z or 2026-11-18T10:00:00.250+01:00"
    found = _TIME.fullmatch(text.strip())
    try:
        moment = None if found is None else datetime.fromisoformat(f"{found[1]}{found[3]}")
    except ValueError:
        moment = None
    if found is None or moment is None:
        raise InvalidArguments(f"{text!r} is not a time", hint=expected)
    if moment.tzinfo is None:
        raise InvalidArguments(f"{text!r} has no time zone", hint=expected)
    return round(moment.timestamp()) * 1_000_000_000 + int((found[2] or "").ljust(9, "0"))


def format_time(time_ns: int) -> str:
    """Write a moment as `parse_time` reads it, with milliseconds, or with nanoseconds if it has some."""
    seconds, rest_ns = divmod(time_ns, 1_000_000_000)
    fraction = f"{rest_ns // _NS_PER_MS:03}" if rest_ns % _NS_PER_MS == 0 else f"{rest_ns:09}"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction}Z"


def _captured_ms(summary: BackupSummary) -> int:
    return summary.finished_ms if summary.log is None else summary.log.captured_ms


def _check_before(summary: BackupSummary, to_ns: int) -> None:
    captured_ns = _captured_ms(summary) * _NS_PER_MS
    if captured_ns > to_ns:
        raise RestoreRefused(
            f"backup {summary.name} was taken after {format_time(to_ns)}",
            hint=f"the earliest point that can be reached with it is {format_time(captured_ns)}",
        )


def _read(roll: PastRoll, log: PastLog, start: LogPlace, summary: BackupSummary) -> None:
    try:
        roll.read(log, start)
    except LogHole as hole:
        captured_ns = _captured_ms(summary) * _NS_PER_MS
        reached = max(roll.last_ns + 1, captured_ns)
        raise RestoreRefused(
            f"backup {summary.name} cannot be rolled forward to {format_time(roll.before_ns)}: the shared log is not"
            f" complete: {hole}",
            hint=f"with this backup, points from {format_time(captured_ns)} to {format_time(reached)} can be reached;"
            " choose one of these or a later backup, and a longer wal.shared.retention for the future",
        ) from hole
    except UnknownTime as unknown:
        raise RestoreRefused(
            f"{unknown.what} between {format_time(unknown.after_ns)} and {format_time(unknown.before_ns)}, and when"
            " exactly is not known: the server was restarted",
            hint=f"choose a time up to {format_time(unknown.after_ns)}, or from"
            f" {format_time(unknown.before_ns + _NS_PER_MS)} on",
        ) from unknown


def _check_terms(roll: PastRoll, log: PastLog, position: LogPosition, to_ns: int) -> None:
    """Refuse a moment at which the log was not kept, or that the clock of the server had twice."""
    last_read = position.term if roll.last_place is None else roll.last_place.term
    for term in log.terms:
        opening = log.opening(term)
        if term <= position.term or opening is None or opening.opened_ms * _NS_PER_MS >= to_ns:
            continue
        if term > last_read and roll.is_over:
            raise RestoreRefused(
                f"the clock of the server went back before it was started at"
                f" {format_time(opening.opened_ms * _NS_PER_MS)}: {format_time(to_ns)} was twice",
                hint="choose a time before that, or after the first of both",
            )
        if term not in roll.based_terms and (term <= last_read or term == log.terms[-1]):
            raise RestoreRefused(
                f"the server was started at {format_time(opening.opened_ms * _NS_PER_MS)} without"
                " wal.shared.retention: changes of tables since then are not known",
                hint="choose a time before that, or take another backup",
            )


def _as_kv(pairs: dict[str, bytes]) -> MemoryKv:
    kv = MemoryKv()
    puts = [PutKey(key, value) for key, value in pairs.items()]
    for start in range(0, len(puts), OPERATIONS_MAX):
        kv.transact([], puts[start : start + OPERATIONS_MAX])
    return kv


def _note_of(region: BackedUpRegion) -> RegionNote:
    return RegionNote(region.region_id, region.directory, region.table, "in the backup", region.manifest)


@dataclass(frozen=True, slots=True)
class _Planning:
    """Decides for each region what is placed and what is replayed."""

    roll: PastRoll
    metadata: MemoryKv
    backup: dict[RegionId, BackedUpRegion]
    log: PastLog
    start: LogPlace
    chosen: set[RegionId] | None

    def plan(self) -> PointInTime:
        # What is half created or half dropped at the moment is not there: a start undoes or finishes that.
        directories = known_regions(self.metadata, MemoryStore())
        names = region_names(self.metadata)
        wanted = {each: path for each, path in directories.items() if self.chosen is None or each in self.chosen}
        regions: dict[RegionId, BackedUpRegion] = {}
        ranges: dict[RegionId, ReplayRange] = {}
        for region_id, directory in wanted.items():
            table = names.get(region_id, f"region {region_id}")
            placed = self._define(region_id, table)
            self._check_whole(region_id, placed, table)
            regions[region_id] = self._place(region_id, directory, table, placed)
            span = self.roll.spans.get(region_id)
            if span is not None and span.last > placed.floor:
                ranges[region_id] = ReplayRange(span.begin, placed.floor, span.last)
        return PointInTime(self.roll.before_ns, self.metadata, wanted, regions, ranges, self.log, self.start)

    def _define(self, region_id: RegionId, table: str) -> PlacedRegion:
        found = self.backup.get(region_id)
        try:
            placed = define_region(
                None if found is None else found.manifest,
                self.roll.regions.get(region_id),
                self.roll.spans.get(region_id),
            )
        except LookupError:
            raise RestoreRefused(
                f"table {table} is neither in the backup nor described by the log", region_id=region_id
            ) from None
        self._check_repeatable(region_id, table)
        if placed.manifest["options"].get("skip_wal"):
            raise RestoreRefused(
                f"table {table} has skip_wal = true: rows that came after the backup are not in the log",
                hint="restore the other tables with --table, or this one without --to-time",
            )
        return placed

    def _place(self, region_id: RegionId, directory: str, table: str, placed: PlacedRegion) -> BackedUpRegion:
        found = self.backup.get(region_id)
        files = found.files if found is not None and placed.keeps_files else ()
        return BackedUpRegion(region_id, directory, table, placed.manifest, files)

    def _check_repeatable(self, region_id: RegionId, table: str) -> None:
        for mark in self.roll.marks:
            if mark.region_id == region_id:
                raise RestoreRefused(
                    f"{mark.what} in table {table} after the backup and before {format_time(self.roll.before_ns)},"
                    " and that cannot be repeated",
                    hint="choose a time before that or a later backup, or restore the other tables with --table",
                )

    def _check_whole(self, region_id: RegionId, placed: PlacedRegion, table: str) -> None:
        span, floor, missing = self.roll.spans.get(region_id), placed.floor, None
        if placed.needed > max(floor, 0 if span is None else span.last):
            missing = (floor + 1, placed.needed)
        elif span is not None and span.last > floor and span.first > floor + 1:
            missing = (floor + 1, span.first - 1)
        elif span is not None and span.hole is not None and span.hole[1] > floor:
            missing = span.hole
        if missing is not None:
            raise RestoreRefused(
                f"entries {missing[0]} to {missing[1]} of table {table} are neither in the backup nor in the shared log"
                " before that time",
                hint="the clock of the server may have been set back, or the table was damaged when the backup was"
                " taken: choose another time or a later backup",
            )
