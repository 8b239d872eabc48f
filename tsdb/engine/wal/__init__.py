"""The write-ahead log. Format and rules: `docs/format/wal.md`."""

from tsdb.engine.wal._continuity import Corruption, EntryRange
from tsdb.engine.wal._frame import (
    COMPRESS_BYTES_MIN,
    EncodedPayload,
    Frame,
    FrameKind,
    ReplayedFrame,
    encode_frame_payload,
    sealed_payload,
)
from tsdb.engine.wal._options import WalSettings, WalStatistics
from tsdb.engine.wal._purge import PurgeResult, SegmentFacts
from tsdb.engine.wal._recover import Recovery, TornTail
from tsdb.engine.wal._replay import Floor, Replay
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
    "COMPRESS_BYTES_MIN",
    "CRASH_POINTS",
    "Corruption",
    "EncodedPayload",
    "EntryRange",
    "Floor",
    "Frame",
    "FrameKind",
    "PurgeResult",
    "Recovery",
    "Replay",
    "ReplayedFrame",
    "SegmentFacts",
    "TornTail",
    "Wal",
    "WalSettings",
    "WalStatistics",
    "encode_frame_payload",
    "sealed_payload",
]
