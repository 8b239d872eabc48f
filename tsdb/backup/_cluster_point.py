"""The state of a cluster at a point in time, from the shared logs of all its datanodes.

Each log is cut by the time at which its own node appended an entry. A region that moved has entries in several logs.
They are numbered across all of them, so a cut that is inconsistent because clocks differ has a gap and is refused.
Metadata changes are notes that the leader had datanodes append. They are applied in the order of their numbers, and a
cut that has a later note without an earlier one is refused as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from tsdb.backup._errors import RestoreRefused
from tsdb.backup._format import BackupSummary
from tsdb.backup._past import as_kv, content_of, exactly_timed, note_of, read_log
from tsdb.backup._planning import KnownPast
from tsdb.backup._position import ClusterPosition, NodePosition
from tsdb.backup._repository import Repository
from tsdb.backup._times import NS_PER_MS, format_time
from tsdb.catalog import keep_tables, schema_versions
from tsdb.engine import FIRST, LogPlace, PastLog, PastLogs, PastRoll, TimedCatalog


def read_cluster(
    repository: Repository,
    summary: BackupSummary,
    position: ClusterPosition,
    logs: PastLogs,
    to_ns: int,
    tables: Sequence[str],
) -> KnownPast:
    """Read the logs of all datanodes; RestoreRefused if what they hold cannot be known exactly."""
    pairs, backup = content_of(repository, summary)
    whole = PastRoll(to_ns, metadata={}, regions={each: note_of(region) for each, region in backup.items()})
    opened: dict[int, PastLog] = {}
    rolls: list[PastRoll] = []
    for node, start, known in _starts(position, logs):
        roll = PastRoll(
            to_ns,
            metadata={},
            regions=whole.regions,
            marks=whole.marks,
            runs=whole.runs,
            catalog=whole.catalog,
            noted_by=whole.noted_by,
            backup_versions=whole.backup_versions,
            node=node,
            is_member=True,
        )
        log = opened[node] = logs.of(node)
        read_log(roll, log, start, summary, captured_ms=position.captured_ms)
        _check_terms(roll, log, known, node)
        rolls.append(roll)
    for roll in rolls:
        with exactly_timed(roll):
            roll.check_base()
    metadata = as_kv(roll_catalog(pairs, position.order, whole.catalog, to_ns))
    chosen = keep_tables(metadata, tables) if tables else None
    return KnownPast(
        to_ns,
        metadata,
        backup,
        whole.regions,
        whole.runs,
        whole.marks,
        opened,
        chosen,
        schema_versions(metadata),
    )


def cluster_rolls_until(position: ClusterPosition, logs: PastLogs) -> int | None:
    """Return up to which time the logs go on without a hole, in milliseconds; None if not at all."""
    until_ms = position.captured_ms
    limit_ms: int | None = None
    for node, start, _ in _starts(position, logs):
        log = logs.of(node)
        last, hole = log.end(start)
        if last < start and hole is not None:
            return None
        reached_ms = position.captured_ms if last < start else log.last_ns(last) // NS_PER_MS
        until_ms = max(until_ms, reached_ms)
        if hole is not None:
            limit_ms = reached_ms if limit_ms is None else min(reached_ms, limit_ms)
    return until_ms if limit_ms is None else max(limit_ms, position.captured_ms)


def roll_catalog(
    pairs: dict[str, bytes], order: tuple[int, int], notes: Sequence[TimedCatalog], to_ns: int
) -> dict[str, bytes]:
    """Return the metadata of a moment, from that of a backup and what was noted since; RestoreRefused.

    A note that a datanode had stored, although it did not say so in time, is there twice.
    """
    later = [each for each in notes if each.note.order > order]
    counted = {each.note.order: each for each in later if each.logged_ns < to_ns}
    last = max(counted, default=order)
    for each in later:
        if each.note.order < last and each.note.order not in counted:
            raise _not_in_order(each, counted[last])
    found, at = dict(pairs), order
    for number in sorted(counted):
        note = counted[number].note
        if not note.is_base and number != (at[0], at[1] + 1):
            raise RestoreRefused(
                f"changes of tables before {format_time(counted[number].logged_ns)} are not in the shared logs",
                hint="choose an earlier time, or a later backup",
            )
        if note.is_base:
            found.clear()
        for key, value in note.metadata.items():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        at = number
    return found


def _starts(position: ClusterPosition, logs: PastLogs) -> list[tuple[int, LogPlace, NodePosition | None]]:
    """Return from where on the log of each node is read; those of nodes that came after the backup from their begin."""
    known = {each.node: each for each in position.nodes}
    found: list[tuple[int, LogPlace, NodePosition | None]] = []
    for node in sorted({*known, *logs.nodes()}):
        at = known.get(node)
        found.append((node, FIRST if at is None else LogPlace(at.term, at.number), at))
    return found


def _check_terms(roll: PastRoll, log: PastLog, known: NodePosition | None, node: int) -> None:
    """Refuse what was written while a datanode did not note changes of its regions, or acknowledged too early."""
    for term in sorted(roll.data_terms | roll.local_terms):
        opening = log.opening(term)
        since = "" if opening is None else f" at {format_time(opening.opened_ms * NS_PER_MS)}"
        is_first = known is not None and term == known.term
        if term in roll.local_terms:
            raise RestoreRefused(
                f'datanode {node} was started{since} with wal.shared.acknowledge = "local": acknowledged'
                " rows may be missing in its shared log",
                hint="choose a time before that, or take another backup",
            )
        if is_first and known is not None and not known.is_kept:
            raise RestoreRefused(
                f"datanode {node} did not answer when the backup was taken, and continued without a restart",
                hint="take another backup, or restore this one without --to-time",
            )
        if not is_first and term not in roll.based_terms:
            raise RestoreRefused(
                f"datanode {node} was started{since} without wal.shared.retention: changes of tables since then are"
                " not known",
                hint="choose a time before that, or take another backup",
            )


def _not_in_order(missing: TimedCatalog, last: TimedCatalog) -> RestoreRefused:
    return RestoreRefused(
        f"by the clocks of the datanodes, a schema change was recorded at {format_time(missing.logged_ns)} on datanode"
        f" {missing.node}, and a later one at {format_time(last.logged_ns)} on datanode {last.node}",
        hint=f"the clocks differ: choose a time up to {format_time(last.logged_ns)}, or from"
        f" {format_time(missing.logged_ns + 1)} on",
    )
