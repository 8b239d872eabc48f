"""The region engine `mito`: durable writes and exact reads of regions.

    Engine.write ─▶ worker ─▶ log ─▶ memtable ─▶ (flush) ─▶ sst + manifest
    Engine.open_reader ─▶ snapshot ─▶ scan over memtables and data files

`Engine` is the entry point. Its packages, each of which imports only those to its left:

    rows, log, wal, manifest ─▶ sst ─▶ scan ─▶ compaction ─▶ region (one module per verb)

Other packages import this module, `reading`, `entry`, `errors` and `listing`. Formats on disk are described in
`docs/format/`.
"""

from tsdb.engine.engine import Engine, region_directory
from tsdb.engine.errors import SchemaOutdated
from tsdb.engine.log import EncodedPayload, FrameKind, LateLog, LogStore, NodeLog, SegmentFacts
from tsdb.engine.log.shared import (
    FIRST,
    Acknowledge,
    CatalogNote,
    LogHole,
    LogPlace,
    PastLog,
    PastLogs,
    RegionNote,
    SharedSettings,
    check_not_shared,
    open_shared_log,
)
from tsdb.engine.manifest import manifest_directory
from tsdb.engine.region.compaction_history import CompactionRecord, CompactionResult
from tsdb.engine.region.context import EngineOptions
from tsdb.engine.region.pin import PinnedFile, PinnedRegion, files_of_manifest, place_region
from tsdb.engine.region.quarantine import VerifiedFiles
from tsdb.engine.region.stat import FileFacts, RegionStat
from tsdb.engine.region.state import StrictWindows
from tsdb.engine.region.status import JobStatus
from tsdb.engine.regions import Regions
from tsdb.engine.rolling import (
    EntryGap,
    EntryRun,
    PastRoll,
    PlacedRegion,
    ReplayRange,
    TimedCatalog,
    UnknownTime,
    define_region,
    find_gap,
    last_entry,
    needed_runs,
    roll_forward,
)
from tsdb.engine.rows.partition_tree import TreeOptions
from tsdb.engine.scan.snapshot.decoded_labels import DECODED, DECODED_BYTES_MAX, DecodedLabels
from tsdb.engine.wal import Wal, WalSettings

__all__ = [
    "DECODED",
    "DECODED_BYTES_MAX",
    "FIRST",
    "Acknowledge",
    "CatalogNote",
    "CompactionRecord",
    "CompactionResult",
    "DecodedLabels",
    "EncodedPayload",
    "Engine",
    "EngineOptions",
    "EntryGap",
    "EntryRun",
    "FileFacts",
    "FrameKind",
    "JobStatus",
    "LateLog",
    "LogHole",
    "LogPlace",
    "LogStore",
    "NodeLog",
    "PastLog",
    "PastLogs",
    "PastRoll",
    "PinnedFile",
    "PinnedRegion",
    "PlacedRegion",
    "RegionNote",
    "RegionStat",
    "Regions",
    "ReplayRange",
    "SchemaOutdated",
    "SegmentFacts",
    "SharedSettings",
    "StrictWindows",
    "TimedCatalog",
    "TreeOptions",
    "UnknownTime",
    "VerifiedFiles",
    "Wal",
    "WalSettings",
    "check_not_shared",
    "define_region",
    "files_of_manifest",
    "find_gap",
    "last_entry",
    "manifest_directory",
    "needed_runs",
    "open_shared_log",
    "place_region",
    "region_directory",
    "roll_forward",
]
