"""How long a query may run and what it may take: deadline, cancellation, memory, batch sizes, planning threads."""

from tsdb.query.lifetime._life import Executing, QueryLife
from tsdb.query.lifetime._memory import MemoryWatch
from tsdb.query.lifetime._pace import BatchPace
from tsdb.query.lifetime._planning_threads import Planning, QueriesBusy, Unfinished
from tsdb.query.lifetime._threads import in_thread

__all__ = [
    "BatchPace",
    "Executing",
    "MemoryWatch",
    "Planning",
    "QueriesBusy",
    "QueryLife",
    "Unfinished",
    "in_thread",
]
