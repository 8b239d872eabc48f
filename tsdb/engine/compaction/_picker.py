"""Which files to merge next: a pure decision over what the manifest knows.

    files ─▶ by window of time (of their last row) and kind ─▶ in the order in which they were written ─▶ best range

- The newest window comes first: that is where small files come from, and where queries look.
- Files of one kind have the same types of columns, and are all on the same side of the beginning of append mode.
- A range of neighbours is merged: all files of the window that were written between its first and its last.
  With `last_non_null` that must hold for all files of the region (`_closure.is_closed`), or values would be lifted over
  newer ones.
- The longest range that obeys the policy wins, then the smallest: a compaction that has fallen behind catches up by
  merging more files at a time, not by rewriting rows more often.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from tsdb.engine.compaction._closure import between
from tsdb.engine.compaction._policy import LOAD_MS, QUIET_MS, Policy
from tsdb.engine.manifest import FileMeta
from tsdb.errors import InvalidArguments
from tsdb.model import MergeMode, RegionOptions, TimeRange

SPLIT_WINDOWS_MAX = 1000
"""Into how many windows one file may be cut."""

MANY_FILES = "many files in a window"
QUIET_WINDOW = "a window without new files"
OVERLAP = "overlapping files in an idle region"
SPLIT = "a file across windows"

_TRIES_MAX = 64

Numbers = npt.NDArray[np.int64]
KindOf = Callable[[FileMeta], Hashable]
WeightOf = Callable[[FileMeta], int]


@dataclass(frozen=True, slots=True)
class Pick:
    """Files to rewrite together."""

    files: tuple[FileMeta, ...]
    """Oldest first."""
    spans: tuple[TimeRange, ...] = (TimeRange.ALL,)
    """A file is written for each of these ranges of time that has rows."""
    reason: str = MANY_FILES
    """Why these, in words."""


def plan_compaction(
    files: Sequence[FileMeta],
    options: RegionOptions,
    policy: Policy,
    *,
    kind_of: KindOf,
    weight_of: WeightOf,
    now_ms: int,
    is_idle: bool = False,
    taken: Collection[str] = (),
) -> Pick | None:
    """Choose the files to merge next, None if all is well.

    `files` are all files of the region; those that are `taken` are not chosen. `weight_of` says how much memory a file
    takes while it is merged. With `is_idle` the region is not written to at the moment.
    """
    windows: dict[int, list[FileMeta]] = {}
    for meta in files:
        if meta.file_id not in taken:
            windows.setdefault(meta.time_range.last // policy.window_ticks, []).append(meta)
    newest = max(windows, default=0)
    for window in sorted(windows, reverse=True):
        inside = windows[window]
        is_quiet = window < newest and now_ms - max(meta.created_ms for meta in inside) >= QUIET_MS
        choices = [(policy.quiet(), inside, QUIET_WINDOW) if is_quiet else (policy, inside, MANY_FILES)]
        if is_idle:
            choices.append((policy.idle(), _find_overlapping(inside, options), OVERLAP))
        for chosen, candidates, reason in choices:
            for same in _group_by_kind(candidates, options, kind_of):
                picked = _pick(same, files, options, chosen, weight_of)
                if picked is not None and (
                    is_idle or len(picked) >= chosen.load_files_min or not _is_loaded(inside, chosen, now_ms)
                ):
                    return Pick(picked, reason=reason)
    return None


def _is_loaded(files: Sequence[FileMeta], policy: Policy, now_ms: int) -> bool:
    """Return whether files come to a window so fast that there will soon be more to merge at once."""
    newest = sorted((meta.created_ms for meta in files), reverse=True)[: policy.files_min]
    return len(newest) == policy.files_min and now_ms - newest[-1] < LOAD_MS


def _group_by_kind(files: Sequence[FileMeta], options: RegionOptions, kind_of: KindOf) -> list[list[FileMeta]]:
    kinds: dict[Hashable, list[FileMeta]] = {}
    for meta in files:
        kinds.setdefault((options.keeps_all(meta.sequence_min), kind_of(meta)), []).append(meta)
    return list(kinds.values())


def _find_overlapping(files: Sequence[FileMeta], options: RegionOptions) -> list[FileMeta]:
    """Return the files that may have rows of the same key as another one."""
    ordered = sorted(
        (meta for meta in files if not options.keeps_all(meta.sequence_min)), key=lambda meta: meta.time_range.start
    )
    found: dict[str, FileMeta] = {}
    latest: FileMeta | None = None
    for meta in ordered:
        if latest is not None and meta.time_range.start < latest.time_range.end:
            found |= {latest.file_id: latest, meta.file_id: meta}
        if latest is None or meta.time_range.end > latest.time_range.end:
            latest = meta
    return list(found.values())


def _pick(
    same: Sequence[FileMeta], files: Sequence[FileMeta], options: RegionOptions, policy: Policy, weight_of: WeightOf
) -> tuple[FileMeta, ...] | None:
    """Choose among the files of one window and kind."""
    ordered = sorted(same, key=lambda meta: (meta.sequence_max, meta.sequence_min, meta.file_id))
    lifts = options.merge_mode is MergeMode.LAST_NON_NULL and not options.keeps_all(ordered[0].sequence_min)
    if not lifts:
        # What is too large to be merged with anything need not stand between files that are not.
        ordered = [meta for meta in ordered if meta.size_bytes * policy.growth_min <= policy.output_bytes_max]
    if len(ordered) < policy.files_min:
        return None
    sizes = np.array([max(1, meta.size_bytes) for meta in ordered], dtype=np.int64)
    weights = np.array([weight_of(meta) for meta in ordered], dtype=np.int64)
    for start, length in islice(find_ranges(sizes, weights, policy), _TRIES_MAX):
        picked = tuple(ordered[start : start + length])
        if not lifts or not between(options, picked, files):
            return picked
    return None


def find_ranges(sizes: Numbers, weights: Numbers, policy: Policy) -> Iterator[tuple[int, int]]:
    """Yield the ranges of files that obey a policy as start and length: the longest first, then the smallest."""
    longest = min(len(sizes), policy.fan_in_max)
    largest = [sizes]
    for length in range(2, longest + 1):
        largest.append(np.maximum(largest[-1][:-1], sizes[length - 1 :]))
    size_ends, weight_ends = np.append(0, np.cumsum(sizes)), np.append(0, np.cumsum(weights))
    for length in range(longest, policy.files_min - 1, -1):
        total = size_ends[length:] - size_ends[:-length]
        is_good = (total <= policy.output_bytes_max) & (total >= policy.growth_min * largest[length - 1])
        if length > policy.files_min:
            # Fewer than `files_min` would never come to an end, whatever they weigh.
            is_good &= weight_ends[length:] - weight_ends[:-length] <= policy.memory_bytes_max
        found = np.flatnonzero(is_good)
        for start in found[np.argsort(total[found], kind="stable")]:
            yield int(start), length


def plan_split(files: Sequence[FileMeta], window_ticks: int, span: TimeRange) -> Pick | None:
    """Choose a file that touches a range of time and reaches from one window into the next, to be cut there.

    A file is cut on its own, so that nothing has to be known of others: rows keep their sequences.
    """
    for meta in files:
        first, last = meta.time_range.start // window_ticks, meta.time_range.last // window_ticks
        if first == last or not meta.time_range.overlaps(span):
            continue
        if last - first >= SPLIT_WINDOWS_MAX:
            raise InvalidArguments(
                f"a data file spans {last - first + 1} windows, it can be cut into {SPLIT_WINDOWS_MAX}",
                hint="choose longer windows",
            )
        spans = (TimeRange(at * window_ticks, (at + 1) * window_ticks) for at in range(first, last + 1))
        return Pick((meta,), tuple(spans), SPLIT)
    return None
