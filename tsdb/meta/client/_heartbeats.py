"""Heartbeats of a node, on a thread of their own, and the lease that they keep.

The lease counts from the moment a heartbeat was *sent*, by the node's own clock, so that the node gives up before the
leader does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tsdb.clock import Clock
from tsdb.errors import TsdbError
from tsdb.meta._nodes import HEARTBEAT, NodeDescription
from tsdb.meta.client._client import MetaClient, NodeReport
from tsdb.meta.errors import NodeSuperseded
from tsdb.model import RegionId, RegionOpening
from tsdb.telemetry import counter, get_logger
from tsdb.units import Duration

_FAILED = counter("tsdb_meta_heartbeats_failed_total", "Heartbeats that no metasrv answered.")
_STOP_SECONDS_MAX = 5.0
_log = get_logger("tsdb.meta")


class Heartbeats:
    """Says every few seconds that a node is alive."""

    def __init__(
        self,
        client: MetaClient,
        node: NodeDescription,
        clock: Clock,
        *,
        report: Callable[[], NodeReport],
        on_close: Callable[[Sequence[RegionId]], None] | None = None,
        on_missing: Callable[[Sequence[RegionOpening]], None] | None = None,
        on_unknown: Callable[[], None] | None = None,
        on_superseded: Callable[[NodeSuperseded], None] | None = None,
        interval: Duration = HEARTBEAT,
    ) -> None:
        """`report` and the others are called on the thread of the heartbeats: `on_close` with regions that are placed
        elsewhere, `on_missing` with those that are placed here, each time the report asked for them, `on_unknown` when
        the node has to register, `on_superseded` when another process has its id."""
        self._client = client
        self._node = node
        self._clock = clock
        self._report = report
        self._on_close = on_close
        self._on_missing = on_missing
        self._on_unknown = on_unknown
        self._on_superseded = on_superseded
        self._interval = interval
        self._lease_end_ns = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_STOP_SECONDS_MAX)

    def has_lease(self) -> bool:
        """Whether the leader takes this node for alive, as far as the node can know by itself."""
        return self._clock.monotonic_ns() < self._lease_end_ns

    def lease_from(self, sent_ns: int, lease: Duration) -> None:
        """Take note of a lease, counted from when it was asked for; one from the registration counts too."""
        self._lease_end_ns = max(self._lease_end_ns, sent_ns + lease)

    def beat(self) -> bool:
        """Send one heartbeat; return whether it was answered."""
        report = self._report()
        sent_ns = self._clock.monotonic_ns()
        try:
            reply = self._client.heartbeat(self._node, report, sent_ns=sent_ns)
        except NodeSuperseded as error:
            if self._on_superseded is not None:
                self._on_superseded(error)
            return False
        except TsdbError as error:
            _FAILED.inc()
            _log.warning("a heartbeat was not answered", error=error)
            return False
        if not reply.is_registered:
            if self._on_unknown is not None:
                self._on_unknown()
            return False
        # Before the lease counts: others may have acknowledged rows of these regions.
        if reply.close and self._on_close is not None:
            self._on_close(reply.close)
        self.lease_from(sent_ns, reply.lease)
        if report.asks_for_missing and self._on_missing is not None:
            self._on_missing(reply.missing)
        return True

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.beat()
            except Exception:  # noqa: BLE001 - whatever a callback raises, the node stays alive
                _log.exception("a heartbeat failed unexpectedly")
            self._stopped.wait(self._interval.seconds)
