"""Where regions are, as the client of remote regions needs to know it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tsdb.model import Peer, RegionId


class Routes(Protocol):
    """The places of regions, and how they are learned anew. Safe to use from many threads."""

    def peer_of(self, region_id: RegionId) -> Peer:
        """Return the datanode that serves a region; RegionNotFound if there is no such region."""

    def peers(self) -> Sequence[Peer]:
        """Return all datanodes."""

    def is_placed(self, region_id: RegionId) -> bool:
        """Return whether the region exists, even if its datanode does not have it at the moment.

        False if that is not known here: then callers are told what the datanode says.
        """

    def refresh(self, region_id: RegionId) -> bool:
        """Wait, no longer than a deadline of its own, for newer routes; return whether the place has changed.

        While the region is moving, it is waited for the end of that.

        Called after a datanode said that it does not serve the region, or could not be reached.
        """

    def catch_up(self) -> None:
        """Wait until the metadata here is as new as that of metasrv: a datanode has a newer schema."""
