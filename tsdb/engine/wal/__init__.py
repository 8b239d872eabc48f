"""The write-ahead log on a local disk, a `LogStore`. Format and rules: `docs/format/wal.md`."""

from tsdb.engine.log.continuity import EntryRange
from tsdb.engine.wal._late import LATE_CRASH_POINTS
from tsdb.engine.wal._options import WalSettings
from tsdb.engine.wal._recover import Recovery, TornTail
from tsdb.engine.wal._replay import Replay
from tsdb.engine.wal._wal import Wal

CRASH_POINTS = (
    "wal.append.before_write",
    "wal.append.after_write",
    "wal.append.before_sync",
    "wal.append.after_sync",
    "wal.rotate.before_create",
    "wal.rotate.after_create",
    "wal.purge.before_delete",
    "wal.purge.after_delete",
    "wal.recover.before_truncate",
    "wal.recover.after_truncate",
    "wal.close.before_marker",
)
"""The places of the log where a test can end the process."""

__all__ = [
    "CRASH_POINTS",
    "LATE_CRASH_POINTS",
    "EntryRange",
    "Recovery",
    "Replay",
    "TornTail",
    "Wal",
    "WalSettings",
]
