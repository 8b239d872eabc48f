"""Whether a datanode may answer reads: no other node can have acknowledged rows that it does not see.

Metasrv assigns a region to another node only after the lease of the previous one has expired, so reads under a lease
are current. Without a lease, because metasrv cannot be reached, the node proves that it still owns its log: a node that
takes over regions seals that log first. One proof, an object in the store, serves all reads that began before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tsdb.remote import NodeUnavailable
from tsdb.telemetry import counter
from tsdb.units import Duration

WAIT_MAX = Duration.of_seconds(10)
"""How long a read may wait for a proof."""

_PROOFS = counter(
    "tsdb_datanode_ownership_proofs_total", "Proofs of ownership with which reads continued without a lease."
)


class ReadPermit:
    """Asked after a snapshot was taken, by any thread."""

    def __init__(self, has_lease: Callable[[], bool], prove: Callable[[], bool], address: str) -> None:
        self._has_lease = has_lease
        self._prove = prove
        self._address = address
        self._changed = threading.Condition()
        self._is_proving = False
        self._begun = 0
        """How many proofs were begun."""
        self._proved = 0
        """The last of them that succeeded."""
        self._ended = 0

    def check(self) -> None:
        """Return if what was read is current; NodeUnavailable if that cannot be known."""
        if self._has_lease():
            return
        with self._changed:
            wanted = self._begun + 1
            while self._proved < wanted:
                if self._ended >= wanted:
                    raise NodeUnavailable("it cannot prove that it still owns its regions", address=self._address)
                if not self._is_proving:
                    self._make_proof()
                elif not self._changed.wait(WAIT_MAX.seconds):
                    raise NodeUnavailable("proving the ownership of regions takes long", address=self._address)

    def _make_proof(self) -> None:
        """Prove, on this thread, for all who wait."""
        self._is_proving = True
        self._begun += 1
        number = self._begun
        is_proved = False
        self._changed.release()
        try:
            is_proved = self._prove()
        finally:
            self._changed.acquire()
            self._is_proving = False
            self._ended = number
            if is_proved:
                self._proved = number
                _PROOFS.inc()
            self._changed.notify_all()
