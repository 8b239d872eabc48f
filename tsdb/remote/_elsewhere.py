"""Regions that are not where they were: what datanodes say then, and what callers are told.

A region that moves is closed on one datanode before it is open on the other. Each of them says that it has no such
region, or that it takes no writes. To a client that would mean that its request is wrong, and agents drop rows that are
refused so. As long as the metadata has a place for the region, the request is right and can be repeated.
"""

from __future__ import annotations

from tsdb.engine.errors import ManifestFenced, RegionNotFound, RegionReadOnly
from tsdb.errors import Status
from tsdb.model import RegionId
from tsdb.remote._errors import NodeUnavailable, RemoteError
from tsdb.remote._routes import Routes

ELSEWHERE = (NodeUnavailable, RegionNotFound, RegionReadOnly, ManifestFenced)
"""What a datanode says, or its silence, when a region may be on another one: nothing was done."""


class RegionNotOpen(RemoteError):
    """A region is open on no datanode at this moment: nothing was done."""

    status = Status.REGION_NOT_READY

    def __init__(self, *, region_id: int) -> None:
        super().__init__(
            "the region is not open on its datanode: it is being moved or opened",
            region_id=region_id,
            hint="try again in a moment",
        )


def explain(error: Exception, routes: Routes, region_id: RegionId) -> Exception:
    """What a caller is told of the last answer of a datanode about a region."""
    is_away = isinstance(error, RegionNotFound) or (isinstance(error, RegionReadOnly) and error.leads_elsewhere)
    if not is_away or not routes.is_placed(region_id):
        return error
    found = RegionNotOpen(region_id=region_id)
    found.__cause__ = error
    return found
