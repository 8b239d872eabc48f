"""Sends late rows, which this datanode acknowledged only by its local log, to the new owners of its regions.

    late entries of a region ─▶ metasrv: who has the region? ─▶ data plane: `hand_in` there ─▶ metasrv: number of rows
    recovered ─▶ the entries are settled

Every step may be repeated, even after a crash: the owner of a region applies each entry once. Rows that cannot be sent
now are retried; until then their entries stay on the disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tsdb.clock import Clock
from tsdb.engine import LateLog
from tsdb.engine.errors import RegionNotFound
from tsdb.errors import TsdbError
from tsdb.meta.client import MetaClient
from tsdb.model import LateRows, Peer, RegionId
from tsdb.remote import NodeUnavailable, RemoteRegions
from tsdb.telemetry import gauge, get_logger

_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.5, 60.0
_ANSWER_SECONDS_MAX = 120.0
_REFRESH_SECONDS = 0.5

_WAITING = gauge(
    "tsdb_datanode_late_regions", "Regions with late rows that this datanode still has to send to other datanodes."
)
_log = get_logger("tsdb.datanode")


class LateRowsSender:
    """Sends all late rows, on its own thread."""

    def __init__(
        self,
        meta: MetaClient,
        node_id: int,
        late: LateLog,
        lost: Sequence[tuple[RegionId, int]],
        clock: Clock,
        *,
        is_over: Callable[[], bool],
    ) -> None:
        """`lost` are regions, with epochs, that the metadata servers know to have been taken from this node."""
        self._meta = meta
        self._node_id = node_id
        self._late = late
        self._lost: dict[RegionId, list[int]] = {}
        """Takeovers for which this node has all it ever had, be it nothing: that is worth knowing, too."""
        for region_id, epoch in lost:
            self._lost.setdefault(region_id, []).append(epoch)
        self._clock = clock
        self._is_over = is_over
        self._stopped = threading.Event()

    @property
    def has_work(self) -> bool:
        return bool(self._late.regions() or self._lost)

    def start(self) -> None:
        threading.Thread(target=self._run, name="tsdb-late-rows", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        regions = RemoteRegions(_Owners(self._meta), clock=self._clock)
        pause = _PAUSE_SECONDS_MIN
        try:
            while self.has_work and not self._is_over():
                _WAITING.set(len(self._late.regions()))
                is_done = self._hand_in_all(regions)
                _WAITING.set(len(self._late.regions()))
                pause = _PAUSE_SECONDS_MIN if is_done else min(_PAUSE_SECONDS_MAX, 2 * pause)
                if not is_done and self._stopped.wait(pause):
                    return
        finally:
            regions.close()

    def _hand_in_all(self, regions: RemoteRegions) -> bool:
        """Try once what is left; return whether all of it is settled."""
        is_done = True
        for region_id in dict.fromkeys([*map(RegionId, self._late.regions()), *self._lost]):
            if self._is_over() or self._stopped.is_set():
                return False
            try:
                self._hand_in(regions, region_id)
            except (TsdbError, TimeoutError, OSError) as error:
                is_done = False
                _log.warning("late rows of a region could not be sent; retrying", region=region_id, error=error)
        return is_done

    def _hand_in(self, regions: RemoteRegions, region_id: RegionId) -> None:
        if self._meta.owner_of(region_id) is None:
            _log.warning("late rows are discarded: their table was dropped", region=region_id)
            self._settle(region_id)
            return
        rows: dict[int, int] = {}
        for each in self._send(regions, region_id):
            rows[each.epoch] = each.rows
        self._meta.recovered(self._node_id, region_id, rows)
        self._settle(region_id)
        _log.info("late rows of a region were sent", region=region_id, rows=sum(rows.values()))

    def _send(self, regions: RemoteRegions, region_id: RegionId) -> list[LateRows]:
        found: dict[int, LateRows] = {}
        epochs = self._lost.get(region_id, ())
        batches = self._late.read(region_id)
        batch = next(batches, [])
        while True:
            following = next(batches, None)
            is_last = following is None
            sent = regions.hand_in(region_id, self._node_id, batch, is_last=is_last, epochs=epochs if is_last else ())
            found.update((each.epoch, each) for each in sent.result(_ANSWER_SECONDS_MAX))
            if following is None:
                return list(found.values())
            batch = following

    def _settle(self, region_id: RegionId) -> None:
        self._late.settle(region_id)
        self._lost.pop(region_id, None)


class _Owners:
    """The places of regions, as the leading metadata server knows them."""

    def __init__(self, meta: MetaClient) -> None:
        self._meta = meta

    def peer_of(self, region_id: RegionId) -> Peer:
        owner = self._meta.owner_of(region_id)
        if owner is None:
            raise RegionNotFound(region_id=region_id)
        if owner.is_moving:
            raise NodeUnavailable("the region is being moved", address=owner.peer.address)
        return owner.peer

    def peers(self) -> Sequence[Peer]:
        return ()

    def is_placed(self, region_id: RegionId) -> bool:
        """Not known here without a question; each attempt asks it first."""
        return False

    def refresh(self, region_id: RegionId) -> bool:
        threading.Event().wait(_REFRESH_SECONDS)
        return True

    def catch_up(self) -> None:
        """Entries name the version of the schema that they were written under."""
