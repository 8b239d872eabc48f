"""Compaction: rewriting data files into fewer, larger ones without changing what is read.

    plan (pure, over what the manifest knows of files) ─▶ write (no policy, bounded memory) ─▶ one edit of the manifest

Which files are merged is decided in `_picker`, what may be left out while they are in `_closure`, how long windows of
time are in `_policy`. Running it on a region is `tsdb/engine/region/compact.py`.
"""

from tsdb.engine.compaction._closure import is_closed, may_drop_expired, may_drop_tombstones
from tsdb.engine.compaction._picker import Pick, plan_compaction, plan_split
from tsdb.engine.compaction._policy import FAN_IN_MAX, OUTPUT_BYTES_MAX, Policy, choose_window, policy_of
from tsdb.engine.compaction._write import CompactionTask, estimate_input_bytes, estimate_task_bytes, write_files

__all__ = [
    "FAN_IN_MAX",
    "OUTPUT_BYTES_MAX",
    "CompactionTask",
    "Pick",
    "Policy",
    "choose_window",
    "estimate_input_bytes",
    "estimate_task_bytes",
    "is_closed",
    "may_drop_expired",
    "may_drop_tombstones",
    "plan_compaction",
    "plan_split",
    "policy_of",
    "write_files",
]
