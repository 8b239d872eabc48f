"""What a datanode serves: its regions, and what metasrv asks of the node itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from tsdb.engine import EncodedPayload, FrameKind, Regions
from tsdb.errors import TsdbError, Unsupported
from tsdb.model import LateEntry, LateRows, RegionId, RegionOpening
from tsdb.units import Duration


class ServedRegions(Regions, Protocol):
    """Regions that also take rows as they were encoded elsewhere."""

    def write_encoded(
        self,
        region_id: RegionId,
        payload: EncodedPayload,
        kind: FrameKind,
        *,
        rows: int,
        schema_version: int,
        timeout: Duration | None = None,
    ) -> Future[int]: ...

    def hand_in(
        self, region_id: RegionId, node: int, entries: Sequence[LateEntry], *, is_last: bool, epochs: Sequence[int] = ()
    ) -> Future[list[LateRows]]: ...


def _not_here(*_: object, **__: object) -> None:
    raise Unsupported("this process does not open and close regions by request")


def _is_current() -> None:
    """No other node has the regions."""


@dataclass(frozen=True, slots=True)
class NodeVerbs:
    """What metasrv asks of a datanode."""

    open_regions: Callable[[Sequence[RegionOpening]], Mapping[RegionId, TsdbError | None]] = _not_here  # type: ignore[assignment]
    """Open regions; says of each why it could not be opened."""
    close_region: Callable[[RegionId, bool], None] = _not_here
    """Let go of a region, after a flush or without one; returns when that is done."""
    region_ids: Callable[[], Sequence[RegionId]] = _not_here  # type: ignore[assignment]
    """The regions that are open here."""
    takeovers: Callable[[Sequence[RegionId]], Mapping[RegionId, Sequence[tuple[int, int]]]] = _not_here  # type: ignore[assignment]
    """Of each region, the epochs of its takeovers and the last entries that could be read."""
    backup: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = _not_here  # type: ignore[assignment]
    """A step of a backup of the cluster, and what it needs."""
    check_read: Callable[[], None] = _is_current
    """Called after a snapshot was taken: raises if another node may have newer rows of its region."""
