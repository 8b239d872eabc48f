"""Reads of a datanode without a lease need a proof that was begun after they were."""

from __future__ import annotations

import threading
import time

import pytest

from tsdb.components._read_permit import ReadPermit
from tsdb.remote import NodeUnavailable


def test_a_lease_needs_no_proof() -> None:
    ReadPermit(lambda: True, lambda: pytest.fail("a proof was made"), "a:1").check()


def test_a_proof_lets_a_read_pass_and_a_failure_does_not() -> None:
    outcomes = [True, False]
    permit = ReadPermit(lambda: False, lambda: outcomes.pop(0), "a:1")
    permit.check()
    with pytest.raises(NodeUnavailable, match="still owns"):
        permit.check()


def test_reads_that_come_during_a_proof_share_the_next_one() -> None:
    begun, go = threading.Event(), threading.Event()
    proofs: list[int] = []

    def prove() -> bool:
        proofs.append(1)
        if len(proofs) == 1:
            begun.set()
            assert go.wait(60)
        return True

    permit = ReadPermit(lambda: False, prove, "a:1")
    threads = [threading.Thread(target=permit.check)]
    threads[0].start()
    assert begun.wait(60)
    arrived = threading.Barrier(6)

    def late() -> None:
        arrived.wait(60)
        permit.check()

    threads += [threading.Thread(target=late) for _ in range(5)]
    for thread in threads[1:]:
        thread.start()
    arrived.wait(60)
    while len(permit._changed._waiters) < 5:  # type: ignore[attr-defined]
        time.sleep(0.01)
    go.set()
    for thread in threads:
        thread.join(60)
    assert len(proofs) == 2
