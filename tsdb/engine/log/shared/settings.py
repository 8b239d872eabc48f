"""Settings of the shared log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tsdb.units import Duration, Size


class Acknowledge(StrEnum):
    """When a write is acknowledged."""

    STORE = "store"
    """When the object store has it. There is no local log."""
    LOCAL = "local"
    """When the local log has it; it is shipped later."""


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """The settings of section `[wal.shared]`, and bounds that have no key."""

    acknowledge: Acknowledge = Acknowledge.STORE
    interval: Duration = Duration.of_seconds(0.1)
    """While objects are on their way, the next one is sent this long after the last."""
    max_batch: Size = Size(8 << 20)
    """An object that has grown to this is sent at once."""
    in_flight: int = 4
    """Objects that are sent at a time."""
    retention: Duration = Duration.of_seconds(0)
    """Objects that no region needs are kept for this long after they were stored."""
    node: int = 0
    """The node whose log it is; a standalone server is node 0."""
    burst: int = 10
    """Objects that may be sent without waiting for the interval, when none is on its way; one comes back with each
    interval, so the number of requests is bounded however many writers there are."""
    buffer_bytes_max: Size = Size(64 << 20)
    """Callers of `append` wait while more than this is not shipped."""
    append_timeout: Duration = Duration.of_seconds(30)
    """How long they wait."""
    close_timeout: Duration = Duration.of_seconds(30)
    """How long `seal` waits until everything is shipped."""
    retry_min: Duration = Duration.of_seconds(0.1)
    """How long to wait before an object is sent again whose fate is unknown; each time twice as long."""
    retry_max: Duration = Duration.of_seconds(5)
    purge_interval: Duration = Duration.of_seconds(600)
    purge_threshold: Size = Size(4 << 30)
    """Above this total, `purge` names the regions that keep the oldest objects alive."""
    read_batch_size: int = 128
    """At most this many entries in a batch of `read`."""
    read_parallelism: int = 16
    """Objects that are read at a time when the log is opened."""
    read_bytes_max: Size = Size(64 << 20)
    """Objects that were read to be verified are kept for the replay up to this."""
