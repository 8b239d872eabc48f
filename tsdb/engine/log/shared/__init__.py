"""The log in an object store: see `log.py`. Format: `docs/format/shared-log.md`."""

from tsdb.engine.log.shared.log import SharedLog
from tsdb.engine.log.shared.marker import check_not_shared
from tsdb.engine.log.shared.opening import open_shared_log
from tsdb.engine.log.shared.settings import Acknowledge, SharedSettings

__all__ = ["Acknowledge", "SharedLog", "SharedSettings", "check_not_shared", "open_shared_log"]
