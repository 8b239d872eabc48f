"""Rolling copies of regions forward: what the past of shared logs holds, up to a moment.

    read each log once: definitions, and the entries of each region ─▶ place the regions ─▶ replay entries ─▶ flush

An entry counts if it was appended before the moment. Each has the time at which it was appended, which is between the
begin of its write and its acknowledgement. So what was acknowledged before the moment counts, and what was begun at the
moment or later does not. Entries that were shipped after a restart have no time: it is known only that they were
appended after the last one before the restart, and before the restart. A moment between these is refused.

A region of a cluster may have been on several nodes, one after the other. Its entries are numbered over all of them:
each log has runs of them, which follow each other without holes.

`PastRoll` and `define_region` decide and write nothing; `roll_forward` replays with an engine of its own without a log.
"""

from tsdb.engine.rolling._define import PlacedRegion, define_region
from tsdb.engine.rolling._past import PastRoll, TimedCatalog, UnknownTime
from tsdb.engine.rolling._replay import ReplayRange, roll_forward
from tsdb.engine.rolling._runs import EntryGap, EntryRun, find_gap, last_entry, needed_runs

__all__ = [
    "EntryGap",
    "EntryRun",
    "PastRoll",
    "PlacedRegion",
    "ReplayRange",
    "TimedCatalog",
    "UnknownTime",
    "define_region",
    "find_gap",
    "last_entry",
    "needed_runs",
    "roll_forward",
]
