"""The log in an object store: see `log.py`. Format: `docs/format/shared-log.md`."""

from tsdb.engine.log.shared.container import StoredFrame
from tsdb.engine.log.shared.journal import NOTES, CatalogNote, Journal, Note, RegionNote, parse_note
from tsdb.engine.log.shared.log import SharedLog
from tsdb.engine.log.shared.marker import check_not_shared
from tsdb.engine.log.shared.opening import open_shared_log
from tsdb.engine.log.shared.past import FIRST, LogHole, LogPlace, PastLog, PastLogs, PastObject
from tsdb.engine.log.shared.reading import replayed
from tsdb.engine.log.shared.settings import Acknowledge, SharedSettings

__all__ = [
    "FIRST",
    "NOTES",
    "Acknowledge",
    "CatalogNote",
    "Journal",
    "LogHole",
    "LogPlace",
    "Note",
    "PastLog",
    "PastLogs",
    "PastObject",
    "RegionNote",
    "SharedLog",
    "SharedSettings",
    "StoredFrame",
    "check_not_shared",
    "open_shared_log",
    "parse_note",
    "replayed",
]
