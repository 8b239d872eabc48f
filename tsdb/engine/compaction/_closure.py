"""What a merge of some files must know about those that are left out: pure.

Rows keep their sequences through a merge, so the newest version of a key wins wherever it lies. Three things still
depend on files that take no part:

- A tombstone hides older rows. It may go only if all files that can have one are among the merged:

      A  put     sequence 10      merging A and C without the tombstone in C would show B's row again,
      B  put     sequence 20      merging all three may forget both
      C  delete  sequence 30

- A row past its time to live hides older versions of itself, which would come back if that time is made longer.
- With `last_non_null`, a merged row has values of several versions under the newest sequence. Lifting a value of A over
  a newer one in B is wrong: no file from between may be left out.

Memtables need no look: all they hold is newer than all files, and files that a flush adds meanwhile are, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tsdb.engine.manifest import FileMeta
from tsdb.model import RegionOptions, TimeRange


def may_drop_tombstones(options: RegionOptions, picked: Sequence[FileMeta], files: Iterable[FileMeta]) -> bool:
    """Whether nothing outside of the picked files is hidden by a tombstone in them."""
    return _hides_nothing(options, [meta for meta in picked if meta.has_tombstones], _others(options, picked, files))


def may_drop_expired(options: RegionOptions, picked: Sequence[FileMeta], files: Iterable[FileMeta]) -> bool:
    """Whether nothing outside of the picked files is hidden by any of their rows."""
    merged = [meta for meta in picked if not options.keeps_all(meta.sequence_min)]
    return _hides_nothing(options, merged, _others(options, picked, files))


def is_closed(options: RegionOptions, picked: Sequence[FileMeta], files: Iterable[FileMeta]) -> bool:
    """Whether no file outside has versions from between those of the picked ones."""
    return not between(options, picked, files)


def between(options: RegionOptions, picked: Sequence[FileMeta], files: Iterable[FileMeta]) -> list[FileMeta]:
    """Return the files outside that may have versions from between those of the picked ones."""
    first = min(meta.sequence_min for meta in picked)
    last = max(meta.sequence_max for meta in picked)
    span = hull(picked)
    return [
        meta
        for meta in _others(options, picked, files)
        if meta.sequence_min <= last and meta.sequence_max >= first and meta.time_range.overlaps(span)
    ]


def hull(files: Collection[FileMeta]) -> TimeRange:
    """Return the range of time that files span together."""
    return TimeRange(min(meta.time_range.start for meta in files), max(meta.time_range.end for meta in files))


def _others(options: RegionOptions, picked: Sequence[FileMeta], files: Iterable[FileMeta]) -> Iterable[FileMeta]:
    """The files outside whose rows can be hidden."""
    inside = {meta.file_id for meta in picked}
    return (meta for meta in files if meta.file_id not in inside and not options.keeps_all(meta.sequence_min))


def _hides_nothing(options: RegionOptions, hiding: Sequence[FileMeta], others: Iterable[FileMeta]) -> bool:
    if not hiding:
        return True
    span, last = hull(hiding), max(meta.sequence_max for meta in hiding)
    near = [meta for meta in others if meta.sequence_min < last and meta.time_range.overlaps(span)]
    return not any(
        meta.sequence_min < each.sequence_max and meta.time_range.overlaps(each.time_range)
        for meta in near
        for each in hiding
    )
