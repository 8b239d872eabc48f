"""How long a query may run and what it may take: deadline, cancellation, memory, batch sizes, planning threads."""

from __future__ import annotations

from tsdb.query.lifetime._life import Checkpoint, QueryLife, before_long_step, executing, run_checked
from tsdb.query.lifetime._memory import MemoryWatch
from tsdb.query.lifetime._pace import BatchPace
from tsdb.query.lifetime._planning_threads import Planning, QueriesBusy, Unfinished
from tsdb.query.lifetime._threads import in_thread

__all__ = [
    "BatchPace",
    "Checkpoint",
    "MemoryWatch",
    "Planning",
    "QueriesBusy",
    "QueryLife",
    "Unfinished",
    "before_long_step",
    "executing",
    "in_thread",
    "run_checked",
]
