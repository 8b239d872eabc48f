"""Waiting to be elected."""

from __future__ import annotations

import time
from collections.abc import Callable

from tsdb.kv import Election, KvLease, Leadership


def campaign(
    election: Election, seconds_max: float, on_lost: Callable[[KvLease], None] | None = None
) -> Leadership | None:
    """Try until this candidate leads; None if that does not happen in time."""
    deadline = time.monotonic() + seconds_max
    while True:
        elected = election.attempt(on_lost)
        if elected is not None or time.monotonic() > deadline:
            return elected
        time.sleep(0.01)
