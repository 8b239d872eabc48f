"""The log as the engine knows it: `LogStore` and its entries. `wal` is the one on a local disk."""

from tsdb.engine.log.frame import (
    COMPRESS_BYTES_MIN,
    Codec,
    EncodedPayload,
    Frame,
    FrameKind,
    ReplayedFrame,
    decode_payload,
    encode_frame_payload,
    is_intact,
    sealed_payload,
)
from tsdb.engine.log.store import (
    LateLog,
    LogReading,
    LogStatistics,
    LogStore,
    NodeLog,
    PurgeResult,
    SegmentFacts,
)

__all__ = [
    "COMPRESS_BYTES_MIN",
    "Codec",
    "EncodedPayload",
    "Frame",
    "FrameKind",
    "LateLog",
    "LogReading",
    "LogStatistics",
    "LogStore",
    "NodeLog",
    "PurgeResult",
    "ReplayedFrame",
    "SegmentFacts",
    "decode_payload",
    "encode_frame_payload",
    "is_intact",
    "sealed_payload",
]
