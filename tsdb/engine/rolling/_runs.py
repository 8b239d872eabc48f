"""Runs of consecutive entries of one region, each in the log of one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tsdb.engine.log.shared import LogPlace


@dataclass(slots=True)
class EntryRun:
    """Consecutive entries of a region in the log of a node, all of which count."""

    node: int
    begin: LogPlace
    """The object that has the first of them."""
    first: int
    last: int
    first_sequence: int
    first_ns: int
    last_ns: int
    """When the last of them was appended."""


class EntryGap(NamedTuple):
    """Entries that are missing, or that two logs have."""

    first: int
    last: int
    before: EntryRun | None
    after: EntryRun | None


def needed_runs(runs: Sequence[EntryRun], floor: int) -> list[EntryRun]:
    """Return the runs with entries above a floor, in the order in which they were written."""
    return sorted((run for run in runs if run.last > floor), key=lambda run: run.first)


def last_entry(runs: Sequence[EntryRun]) -> int:
    return max((run.last for run in runs), default=0)


def find_gap(runs: Sequence[EntryRun], floor: int, needed: int) -> EntryGap | None:
    """Return the first gap between a floor and the last entry that is known of; None if there is none.

    Entries up to `needed` must be there, or be below the floor.
    """
    before: EntryRun | None = None
    end = floor
    for run in needed_runs(runs, floor):
        if run.first > end + 1:
            return EntryGap(end + 1, run.first - 1, before, run)
        if before is not None and run.first <= before.last:
            return EntryGap(run.first, before.last, before, run)
        before, end = run, run.last
    return None if needed <= end else EntryGap(end + 1, needed, before, None)
