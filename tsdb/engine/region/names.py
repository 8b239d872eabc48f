"""The names of tables beside the numbers of regions, for the log.

The engine knows regions only. Its owner can set a function that names the table of a region; until then, and for a
region of no table, the log has the number alone.
"""

from __future__ import annotations

from collections.abc import Callable

from tsdb.model import RegionId

UNKNOWN = "?"


class RegionNames:
    """Answers what the table of a region is called: `database.table`."""

    def __init__(self) -> None:
        self.find: Callable[[RegionId], str | None] = lambda region_id: None

    def __call__(self, region_id: RegionId) -> str:
        return self.find(region_id) or UNKNOWN
