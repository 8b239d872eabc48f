"""Planning a point-in-time recovery: a backup, and the entries of shared logs from then on up to a time.

    backup ─▶ definitions and metadata at that time ─▶ for each region: files of the backup, entries to replay

Nothing is written here, and the log is not changed: a server may be writing it. If the exact state cannot be restored,
it is refused (`RestoreRefused`), with the reason and an alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tsdb.backup._cluster_point import cluster_rolls_until, read_cluster
from tsdb.backup._errors import BackupNotFound, RestoreRefused
from tsdb.backup._format import BackupSummary
from tsdb.backup._past import as_kv, content_of, exactly_timed, note_of, read_log
from tsdb.backup._planning import KnownPast, PointInTime, plan_regions
from tsdb.backup._position import ClusterPosition, LogPosition
from tsdb.backup._repository import LATEST, Repository
from tsdb.backup._times import NS_PER_MS, format_time
from tsdb.catalog import keep_tables
from tsdb.engine import LogPlace, NodeLog, PastLog, PastLogs, PastRoll
from tsdb.store import Purpose, requests_for

OpenLogs = Callable[[str], PastLogs]
"""Open the store of shared logs that is in a place."""


def choose_backup(repository: Repository, to_ns: int, name: str = LATEST) -> BackupSummary:
    """Return the newest backup that was taken before a moment, or the one of a name."""
    if name != LATEST:
        summary = repository.summary(name)
        _check_before(summary, to_ns)
        return summary
    summaries = repository.summaries()
    if not summaries:
        raise BackupNotFound("there are no backups", place=repository.place, hint="check the path")
    earlier = [each for each in summaries if _captured_ms(each) * NS_PER_MS <= to_ns]
    rolling = [each for each in earlier if each.position is not None]
    if rolling:
        return rolling[-1]
    if earlier:
        return earlier[-1]
    first = min(summaries, key=_captured_ms)
    raise RestoreRefused(
        f"all backups were taken after {format_time(to_ns)}",
        first=first.name,
        hint=f"the earliest point that can be reached is {format_time(_captured_ms(first) * NS_PER_MS)}",
    )


@requests_for(Purpose.BACKUP)
def plan_point(
    repository: Repository,
    summary: BackupSummary,
    to_ns: int,
    open_logs: OpenLogs,
    *,
    now_ns: int,
    tables: Sequence[str] = (),
    is_shipped: bool = False,
) -> PointInTime:
    """Find out what the server or cluster of a backup was at a moment; RestoreRefused if that cannot be known exactly.

    `is_shipped` says that the log has all that was acknowledged by now.
    """
    if to_ns > now_ns:
        raise RestoreRefused(f"{format_time(to_ns)} is in the future", now=format_time(now_ns), hint="choose another")
    _check_before(summary, to_ns)
    position = summary.position
    if position is None:
        raise RestoreRefused(
            f"backup {summary.name} cannot be rolled forward: the server did not keep its shared log then",
            hint="set wal.shared.enable = true and wal.shared.retention, on all datanodes of a cluster together with"
            ' acknowledge = "store", and take another backup; without --to-time the backup is restored as it is',
        )
    repository.check_content(summary)
    if isinstance(position, ClusterPosition):
        past = read_cluster(repository, summary, position, open_logs(position.place), to_ns, tables)
    else:
        past = _read_server(repository, summary, position, open_logs(position.place), to_ns, tables, is_shipped)
    return plan_regions(past)


def plan_own_point(
    node_log: NodeLog | None, repository: Repository, name: str, to_ns: int, *, now_ns: int, tables: Sequence[str]
) -> tuple[BackupSummary, PointInTime]:
    """Find out what this server was at a moment, while it runs; RestoreRefused."""
    summary = choose_backup(repository, to_ns, name)

    def open_logs(place: str) -> PastLogs:
        is_own = not isinstance(summary.log, LogPosition) or (
            node_log is not None and node_log.node == summary.log.node
        )
        if node_log is None or node_log.place != place or not is_own:
            raise RestoreRefused(
                f"the log of backup {summary.name} is in {place}, which is not the log of this server",
                hint="tsdb restore --to-time reads any log",
            )
        return node_log.read_past()

    plan = plan_point(repository, summary, to_ns, open_logs, now_ns=now_ns, tables=tables, is_shipped=True)
    return summary, plan


def rolls_until(summary: BackupSummary, open_logs: OpenLogs) -> int | None:
    """Return up to which time a backup can be rolled forward, in milliseconds; None if it cannot.

    Found by the names of objects: the last one that can be reached is read.
    """
    position = summary.position
    if position is None:
        return None
    logs = open_logs(position.place)
    if isinstance(position, ClusterPosition):
        return cluster_rolls_until(position, logs)
    log, start = logs.of(position.node), LogPlace(position.term, position.number)
    last, hole = log.end(start)
    if last < start:
        return None if hole is not None else position.captured_ms
    return max(log.last_ns(last) // NS_PER_MS, position.captured_ms)


def _captured_ms(summary: BackupSummary) -> int:
    return summary.finished_ms if summary.position is None else summary.position.captured_ms


def _check_before(summary: BackupSummary, to_ns: int) -> None:
    captured_ns = _captured_ms(summary) * NS_PER_MS
    if captured_ns > to_ns:
        raise RestoreRefused(
            f"backup {summary.name} was taken after {format_time(to_ns)}",
            hint=f"the earliest point that can be reached with it is {format_time(captured_ns)}",
        )


def _read_server(
    repository: Repository,
    summary: BackupSummary,
    position: LogPosition,
    logs: PastLogs,
    to_ns: int,
    tables: Sequence[str],
    is_shipped: bool,
) -> KnownPast:
    """Read the log of a standalone server."""
    pairs, backup = content_of(repository, summary)
    log, start = logs.of(position.node), LogPlace(position.term, position.number)
    roll = PastRoll(
        to_ns, metadata=pairs, regions={each: note_of(region) for each, region in backup.items()}, node=position.node
    )
    read_log(roll, log, start, summary, captured_ms=position.captured_ms)
    with exactly_timed(roll):
        roll.check_base()
    _check_terms(roll, log, position, to_ns)
    if position.acknowledges_locally and not (roll.is_complete or is_shipped or log.is_ended()):
        reached = format_time(max(roll.last_ns + 1, position.captured_ms * NS_PER_MS))
        raise RestoreRefused(
            f"the shared log reaches only up to {reached}: later rows may have been acknowledged by the local disk",
            hint=f"choose {reached} or an earlier time",
        )
    metadata = as_kv(roll.metadata)
    chosen = keep_tables(metadata, tables) if tables else None
    return KnownPast(to_ns, metadata, backup, roll.regions, roll.runs, roll.marks, {position.node: log}, chosen)


def _check_terms(roll: PastRoll, log: PastLog, position: LogPosition, to_ns: int) -> None:
    """Refuse a moment at which the log was not kept, or that the clock of the server had twice."""
    last_read = position.term if roll.last_place is None else roll.last_place.term
    for term in log.terms:
        opening = log.opening(term)
        if term <= position.term or opening is None or opening.opened_ms * NS_PER_MS >= to_ns:
            continue
        if term > last_read and roll.is_over:
            raise RestoreRefused(
                f"the clock of the server went back before it was started at"
                f" {format_time(opening.opened_ms * NS_PER_MS)}: {format_time(to_ns)} occurred twice",
                hint="choose a time before that, or after the first of both",
            )
        if term not in roll.based_terms and (term <= last_read or term == log.terms[-1]):
            raise RestoreRefused(
                f"the server was started at {format_time(opening.opened_ms * NS_PER_MS)} without"
                " wal.shared.retention: schema changes since then are unknown",
                hint="choose a time before that, or take another backup",
            )
