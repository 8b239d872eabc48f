"""Range queries evaluated: aggregates over windows that start at regular slots, gaps filled.

A row at time t belongs to every slot s with s <= t < s + range. `run_range` evaluates a statement with range queries in
it; what executes plain SQL for it is a `RangeRunner`, so that nothing here knows where rows come from.
"""

from tsdb.query.range._limits import SlotMemory, Slots
from tsdb.query.range._plan import plan_range
from tsdb.query.range._run import run_range
from tsdb.query.range._runner import TimeIndex
from tsdb.query.range._session_runner import SessionRunner

__all__ = ["SessionRunner", "SlotMemory", "Slots", "TimeIndex", "plan_range", "run_range"]
