"""The region engine `mito`: durable writes and exact reads of regions.

    Engine.write ─▶ worker ─▶ wal ─▶ memtable ─▶ (flush) ─▶ sst + manifest
    Engine.open_reader ─▶ snapshot ─▶ scan over memtables and data files

`Engine` is the entry point. Behind it, one module per verb works on `Region`: `region_write`, `region_flush`,
`region_scan`, `region_reader`, `region_change`, `region_compact`, `region_trim`, `region_drop`, `recovery`,
`housekeeping`. Other packages import this module, `reading`, `entry`, `errors` and `listing`. Formats on disk are
described in `docs/format/`.
"""

from __future__ import annotations

from tsdb.engine.engine import Engine, region_directory
from tsdb.engine.errors import SchemaOutdated
from tsdb.engine.region.context import EngineOptions
from tsdb.engine.region.region import StrictWindows
from tsdb.engine.region.stat import FileFacts, RegionStat
from tsdb.engine.regions import Regions
from tsdb.engine.wal import WalOptions

__all__ = [
    "Engine",
    "EngineOptions",
    "FileFacts",
    "RegionStat",
    "Regions",
    "SchemaOutdated",
    "StrictWindows",
    "WalOptions",
    "region_directory",
]
