"""Opening and closing regions while the engine runs, and opening the regions of a cluster node at startup."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, TimeoutError
from functools import partial

from tsdb.engine.errors import RegionBusy, RegionNotFound
from tsdb.engine.region.closing import start_close
from tsdb.engine.region.context import EngineContext
from tsdb.engine.region.housekeeping import Housekeeping
from tsdb.engine.region.left import LeftRegions
from tsdb.engine.region.opening import Arrivals, claim_regions
from tsdb.engine.region.quarantine import look_after_start
from tsdb.engine.region.recovery import is_outage
from tsdb.engine.region.region import Region
from tsdb.engine.region.roster import Roster
from tsdb.engine.region.sweep import NO_GRACE, REMOVED_GRACE, start_sweep
from tsdb.engine.region.takeover import STEP_TIMEOUT, bring_rows, bring_rows_at_start
from tsdb.engine.region.worker import Worker
from tsdb.errors import TsdbError
from tsdb.model import RegionId, RegionOpening
from tsdb.store import Purpose, requests_for
from tsdb.telemetry import get_logger
from tsdb.units import Duration

_log = get_logger("tsdb.region")
PROOF_TIMEOUT = Duration.of_seconds(2)


class Moves:
    """Opens and closes the regions of one engine. Thread-safe."""

    def __init__(
        self,
        context: EngineContext,
        roster: Roster,
        housekeeping: Housekeeping,
        worker_of: Callable[[RegionId], Worker],
    ) -> None:
        self._context = context
        self._roster = roster
        self._housekeeping = housekeeping
        self._worker_of = worker_of
        self.left = LeftRegions(context)
        self._doubtful: set[RegionId] = set()
        """Regions that may have lost rows, as far as this process knows: the log is asked before they are opened."""
        self._closings: dict[RegionId, Future[None]] = {}
        self._closing = threading.RLock()
        self._proof: Future[None] | None = None
        self._proving = threading.Lock()

    @requests_for(Purpose.START)
    def open_at_start(self, openings: Sequence[RegionOpening], *, started_ms: int) -> dict[RegionId, TsdbError]:
        """Open the regions that are placed on this node; return why some of them are not open.

        A store that does not answer lets the start fail: rows of a region that is not looked at must not be purged.
        """
        arrivals = claim_regions(self._context, openings, self._worker_of)
        for error in arrivals.refused.values():
            if is_outage(error):
                raise error
        bring_rows_at_start(self._context, arrivals, openings, self.left)
        self._settle(openings, arrivals, started_ms=started_ms)
        return arrivals.refused

    def open(self, openings: Sequence[RegionOpening]) -> dict[RegionId, TsdbError | None]:
        """Open regions that are placed on this node; return for each of them why it is not open, or None."""
        openings = list({each.region_id: each for each in openings}.values())
        try:
            with self._roster.transit([each.region_id for each in openings]):
                wanted = [each for each in openings if not self._has(each)]
                arrivals = self._open(wanted) if wanted else Arrivals()
        except RegionBusy as error:
            return dict.fromkeys([each.region_id for each in openings], error)
        results: dict[RegionId, TsdbError | None] = {}
        for opening in openings:
            results[opening.region_id] = arrivals.refused.get(opening.region_id) or self._why_not(opening.region_id)
        return results

    def close(self, region_id: RegionId, *, flush: bool) -> Future[None]:
        """Let a region go, so that another node can have it; nothing happens if it is not here.

        RegionNotFound then if it was to be flushed: a node that was started meanwhile may have its rows in its log.
        """
        with self._closing:
            closing = self._closings.get(region_id)
            return self._close(region_id, flush=flush) if closing is None else closing

    def _close(self, region_id: RegionId, *, flush: bool) -> Future[None]:
        done: Future[None] = Future()
        if not self._roster.begin_transit(region_id):
            done.set_exception(RegionBusy("the region is being opened or closed", region_id=region_id))
            return done
        region = self._roster.get(region_id)
        if region is None:
            try:
                self._let_go_of_absent(region_id, flush=flush)
                done.set_result(None)
            except TsdbError as error:
                done.set_exception(error)
            finally:
                self._roster.end_transit([region_id])
            return done
        closing = self._closings[region_id] = start_close(
            self._context, region, flush=flush, on_closed=partial(self._forget, region)
        )
        closing.add_done_callback(lambda _: self._end_closing(region_id))
        return closing

    def _let_go_of_absent(self, region_id: RegionId, *, flush: bool) -> None:
        """Let go of a region that is not served; raise why it is not if its rows are wanted in files."""
        if flush:
            self._roster.check_not_quarantined(region_id)
            raise RegionNotFound(region_id=region_id)
        directory = self._roster.directory_of_quarantined(region_id)
        if directory is not None:
            self._roster.end_quarantine(region_id)
            self.left.add(region_id, directory)

    def prove_ownership(self, timeout: Duration = PROOF_TIMEOUT) -> bool:
        """Whether the log of this node was its own at a moment after this call: nobody had taken over its regions.

        False if that cannot be known: another process has the log, the store does not answer in time, or there is only
        a local log. At most one proof is under way.
        """
        node_log = self._context.wal.node_log
        if node_log is None or not self._proving.acquire(timeout=timeout.seconds):
            return False
        try:
            deadline_ns = self._context.clock.monotonic_ns() + timeout
            # One that was begun earlier says nothing about now, but there must not be more and more of them.
            is_over = self._proof is None or self._wait_for_proof(deadline_ns) is not None
            if not is_over:
                return False
            self._proof = node_log.prove_ownership()
            return self._wait_for_proof(deadline_ns) is True
        except TsdbError:
            return False
        finally:
            self._proving.release()

    def _wait_for_proof(self, deadline_ns: int) -> bool | None:
        """Whether the proof under way succeeded; None if that is not known in time."""
        assert self._proof is not None
        try:
            error = self._proof.exception(max(0.0, (deadline_ns - self._context.clock.monotonic_ns()) / 1e9))
        except TimeoutError:
            return None
        return error is None

    def _has(self, opening: RegionOpening) -> bool:
        """Whether a region is open under this epoch; one of an older epoch is closed, because it may have moved since.

        Its rows are flushed, or read back from the log with what others have.
        """
        region = self._roster.get(opening.region_id)
        if region is None:
            return False
        if region.manifest.epoch >= opening.epoch and not region.access.leads_elsewhere:
            return True
        close = partial(start_close, self._context, region, on_closed=partial(self._forget, region))
        try:
            close(flush=True).result(STEP_TIMEOUT.seconds)
        except (TsdbError, TimeoutError) as error:
            _log.warning("a region is opened again without a flush", region=region.id, error=error)
            close(flush=False).result(STEP_TIMEOUT.seconds)
        return False

    def _open(self, openings: Sequence[RegionOpening]) -> Arrivals:
        started_ms = -(-self._context.clock.now_ns() // 1_000_000)
        arrivals = claim_regions(self._context, openings, self._worker_of)
        try:
            bring_rows(self._context, arrivals, self._doubtful)
        except TsdbError as error:
            arrivals.refuse(self._context, list(arrivals.claimed), error)
        except BaseException:
            arrivals.give_up(self._context)
            raise
        self._settle(openings, arrivals, started_ms=started_ms)
        return arrivals

    def _settle(self, openings: Sequence[RegionOpening], arrivals: Arrivals, *, started_ms: int) -> None:
        """Serve what is open, and remember what is not."""
        directories = {each.region_id: each.directory for each in openings}
        self._doubtful |= arrivals.quarantined.keys()
        self._doubtful -= arrivals.claimed.keys()
        for region_id, reason in arrivals.quarantined.items():
            self._roster.quarantine(region_id, directories[region_id], reason)
        for region_id, arrival in arrivals.claimed.items():
            region = arrival.region
            self.left.discard(region_id)
            self._roster.add(region)
            # Queries of the node that had it may still read files that it has removed.
            grace = NO_GRACE if arrival.was_here else REMOVED_GRACE
            sweep = partial(start_sweep, self._context, region, started_ms=started_ms, grace=grace)
            sweep(arrival.objects)
            if not arrival.was_here and region.manifest.state.removed_files:
                self._housekeeping.call_later(REMOVED_GRACE, partial(sweep, []))
            look_after_start(self._context, region)
            _log.info("opened", region=region_id, table=region.table, epoch=region.manifest.epoch)

    def _why_not(self, region_id: RegionId) -> TsdbError | None:
        try:
            self._roster.find(region_id)
        except TsdbError as error:
            return error
        return None

    def _forget(self, region: Region) -> None:
        self._roster.remove(region)
        last = self._context.wal.last_entry(region.id)
        if last is not None and last > region.manifest.state.flushed_entry_id:
            self.left.add(region.id, region.directory)

    def _end_closing(self, region_id: RegionId) -> None:
        with self._closing:
            self._closings.pop(region_id, None)
        self._roster.end_transit([region_id])
