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

    def refresh(self, region_id: RegionId) -> bool:
        """Wait, no longer than a deadline of its own, for newer routes; return whether the place has changed.

        Called after a datanode said that it does not serve the region, or could not be reached.
        """

    def catch_up(self) -> None:
        """Wait until the metadata here is as new as that of metasrv: a datanode has a newer schema."""
